"""The task report: write the report of a run, also after a failure of an earlier task."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import Context

from mqdlq import directories
from mqdlq.airflow.assets import tell
from mqdlq.airflow.hooks.ledger import open_ledger
from mqdlq.airflow.links import LINKS, airflow_address
from mqdlq.airflow.listeners.run_notes import XCOM_KEY
from mqdlq.airflow.metrics import emit, emit_start_failure
from mqdlq.airflow.operators.base import Stage, progress, utc_now
from mqdlq.ledger import Ledger, Run

if TYPE_CHECKING:
    from mqdlq.stages.report import ReportFiles

report_text = logging.getLogger("mqdlq.stages.report")
"""The report as text, then the path of its page; `mqdlq run` ends with them."""


class Report(Stage):
    """Write the report of a run, and fail if the run did: it is the run's last task.

    With `attention: fail` in the handler it also fails if messages need attention. The words of the
    run's note are in an XCom; the plugin's listener writes the note when the run ends.

    Reads ledger and lake and touches no MQ; at last it removes snapshots that the handler does not
    keep (`keep_snapshots`, `keep_snapshots_for`). Needs trigger rule `all_done`, so that a run that
    failed is reported too; a run that sense found to be without work skips it.

    Emits metrics, and calls the handler's notifiers for what a person should know.

    Run twice, it writes the report again over the first one, and tells nobody twice.
    """

    operator_extra_links = LINKS
    reported_run_id = ""
    """The run's id in the ledger, for the links; "" before the task runs."""

    def execute(self, context: Context) -> dict[str, str]:
        """Write the report; returns where it stands."""
        from mqdlq.airflow.notifications import notify  # noqa: PLC0415 (only where a run has ended)
        from mqdlq.stages import alerts  # noqa: PLC0415 (the same)
        from mqdlq.stages.report import write_report  # noqa: PLC0415 (templates: not at parse time)

        dag_run_id = context["dag_run"].run_id
        states = context["ti"].get_task_states(
            dag_id=self.dag_id,
            task_ids=sorted(self.get_flat_relative_ids(upstream=True)),
            run_ids=[dag_run_id],
        )[dag_run_id]
        run_id = self.reported_run_id = self.run_id(context)
        with open_ledger() as ledger:
            run = ledger.runs.get(run_id)
            is_refused = run is None or states.get("snapshot") == "failed"
            since = run.started_at if run is not None else None
            files = write_report(
                run_id,
                ledger=ledger,
                lake_root=directories.lake(),
                stages=states,
                clock=utc_now,
                airflow=airflow_address(),
                error=ledger.runs.refusal(run_id, since) if is_refused else "",
            )
            if run is not None:
                self._conclude(run, files, context, ledger)
            elif files.failed:
                handler = self.configuration()
                send = partial(notify, handler, context=context, run_id=run_id)
                refusal = alerts.Refusal(handler.name, run_id, files.why, files.short)
                alerts.send_start_failure(refusal, send, ledger=ledger, now=utc_now())
                emit_start_failure(handler.name)
        report_text.info("%s", files.text)
        report_text.info("HTML report: %s", files.html_path)
        context["ti"].xcom_push(key=XCOM_KEY, value=dict(files.note))
        if why := self.failure_of(files):
            raise AirflowFailException(why)
        places = {"html": str(files.html_path), "json": str(files.json_path)}
        verdict = str(files.verdict)
        tell(context, self.handler, "report", run_id=run_id, verdict=verdict, **places)
        return places

    def failure_of(self, files: ReportFiles) -> str:
        """Return why this task fails after its report, "" if it succeeds."""
        from mqdlq.stages.report import Verdict  # noqa: PLC0415 (templates: not at parse time)

        if files.failed:
            return files.why
        needs_attention = files.verdict is Verdict.ATTENTION
        fails = needs_attention and self.configuration().attention == "fail"
        return files.headline if fails else ""

    def _conclude(self, run: Run, files: ReportFiles, context: Context, ledger: Ledger) -> None:
        """Tell people and metrics of a run, and remove the snapshots that it has outdated."""
        from mqdlq.airflow.notifications import notify  # noqa: PLC0415 (only where a run has ended)
        from mqdlq.stages import alerts  # noqa: PLC0415 (the same)
        from mqdlq.stages.snapshot import prune_for_handler  # noqa: PLC0415 (imports Arrow, which DAG parsing must not)

        handler, now = self.configuration(), utc_now()
        send = partial(notify, handler, context=context, run_id=run.run_id)
        oldest = ledger.accounts.oldest_that_stays(run, files.oldest_left)
        facts = alerts.Facts(
            run,
            files.short,
            files.failed,
            files.adds_up,
            oldest,
            files.expiring,
            files.breakers,
            files.expires_anew,
        )
        alerts.send(facts, handler.alerts, send, ledger=ledger, now=now)
        emit(facts, files, handler, ledger=ledger, now=now)
        prune_for_handler(run, handler, directories.lake(), ledger=ledger, now=now, log=progress)
