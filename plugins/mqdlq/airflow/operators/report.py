"""The task report: what ledger and lake hold of a run in, its report out, whatever went before."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException

from mqdlq import home
from mqdlq.airflow.assets import tell
from mqdlq.airflow.hooks.ledger import open_ledger
from mqdlq.airflow.metrics import emit
from mqdlq.airflow.operators.base import Stage, progress, utc_now
from mqdlq.errors import MqDlqError
from mqdlq.handlers import load_handler
from mqdlq.ledger import Ledger, Run, oldest_that_stays

if TYPE_CHECKING:
    from mqdlq.stages.report import ReportFiles

log = logging.getLogger(__name__)

report_text = logging.getLogger("mqdlq.stages.report")
"""The report as text, then the path of its page; `mqdlq run` ends with them."""


class Report(Stage):
    """Write the report of a run, and fail if the run did: it is the run's last task.

    Reads ledger and lake and touches no MQ; at last it removes snapshots that the handler does not
    keep (`keep_snapshots`, `keep_snapshots_for`). Needs trigger rule `all_done`, so that a run that
    failed is reported too; a run that sense found to be without work skips it.

    Emits metrics, and calls the handler's notifiers for what a person should know.

    Run twice, it writes the report again over the first one, and tells nobody twice.
    """

    def _tell_people(self, run: Run, files: ReportFiles, context: Context, ledger: Ledger) -> None:
        from mqdlq.airflow.notifying import notify  # noqa: PLC0415 (the same)
        from mqdlq.stages import alerts  # noqa: PLC0415 (only where a run has ended)

        handler, now = load_handler(self.handler), utc_now()
        facts = alerts.Facts(
            run, files.short, files.failed, files.adds_up, oldest_left=files.oldest_left
        )
        before = alerts.told_before(run.run_id, ledger)
        found = alerts.alerts_of(facts, handler.alerts, ledger=ledger, now=now)
        news = [alert for alert in found if alert.event not in before]
        told = notify(handler, news, context, run.run_id)
        # What did not reach everybody is news to the next run, too.
        untold = {alert.event for alert in news} - set(told)
        holds = alerts.standing(facts, handler.alerts, ledger=ledger, now=now)
        lasting = [event for event in holds if event not in untold]
        alerts.record(run.run_id, told, lasting, ledger, now)

    def _tell_of_no_run(
        self, run_id: str, files: ReportFiles, context: Context, ledger: Ledger
    ) -> None:
        from mqdlq.airflow.notifying import notify  # noqa: PLC0415 (the same)
        from mqdlq.stages import alerts  # noqa: PLC0415 (only where a run has failed)

        handler, now = load_handler(self.handler), utc_now()
        if not ledger.refusal(run_id):  # it waited, and the wait has failed
            ledger.record_refusal(run_id, handler.name, files.why, now)
        before = alerts.told_before(run_id, ledger)
        found = alerts.of_no_run(handler.name, run_id, files.short, ledger)
        told = notify(handler, (a for a in found if a.event not in before), context, run_id)
        alerts.record(run_id, told, ["failed"] if not before else [], ledger, now)

    def execute(self, context: Context) -> dict[str, str]:
        """Write the report; returns where it stands."""
        from mqdlq.stages.report import write_report  # noqa: PLC0415 (templates: not at parse time)

        dag_run_id = context["dag_run"].run_id
        states = context["ti"].get_task_states(
            dag_id=self.dag_id,
            task_ids=sorted(self.get_flat_relative_ids(upstream=True)),
            run_ids=[dag_run_id],
        )[dag_run_id]
        run_id = self.run_id(context)
        with open_ledger() as ledger:
            run = ledger.run(run_id)
            is_refused = run is None or states.get("snapshot") == "failed"
            since = run.started_at if run is not None else None
            files = write_report(
                run_id,
                ledger=ledger,
                lake_root=home.lake(),
                stages=states,
                clock=utc_now,
                error=ledger.refusal(run_id, since) if is_refused else "",
            )
            if run is not None:
                oldest = oldest_that_stays(run, files.oldest_left, ledger)
                files = replace(files, oldest_left=oldest)
                self._tell_people(run, files, context, ledger)
                emit(run, ledger, utc_now(), files.reasons, oldest)
            elif files.failed:
                self._tell_of_no_run(run_id, files, context, ledger)
            self._prune(ledger, run_id)
        report_text.info("%s", files.text)
        report_text.info("HTML report: %s", files.html_path)
        if files.failed:
            raise AirflowFailException(files.why)
        places = {"html": str(files.html_path), "json": str(files.json_path)}
        tell(context, self.handler, "report", run_id=run_id, **places)
        return places

    def _prune(self, ledger: Ledger, run_id: str) -> None:
        """Remove snapshots of the run's queue that are beyond what the handler keeps."""
        from mqdlq.stages.snapshot import prune_snapshots  # noqa: PLC0415 (Arrow: not at parse time)

        try:
            handler, run = load_handler(self.handler), ledger.run(run_id)
            if run is None or not (handler.keep_snapshots or handler.keep_snapshots_for):
                return
            pruned = prune_snapshots(
                home.lake(),
                ledger=ledger,
                now=utc_now(),
                keep=handler.keep_snapshots,
                keep_for=handler.keep_snapshots_for,
                queue=(run.queue_manager, run.queue),
            )
        except (MqDlqError, OSError) as error:
            log.warning("snapshots could not be pruned: %s", error)  # no reason to fail the run
            return
        if pruned.removed:
            progress.info("%d snapshots pruned", len(pruned.removed))
