"""The task report: write the report of a run, also after a failure of an earlier task."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException, AirflowRuntimeError
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import TriggerDagRun

from mqdlq import directories
from mqdlq.airflow.hooks.connections import open_ledger
from mqdlq.airflow.links import LINKS, airflow_address
from mqdlq.airflow.listeners import XCOM_KEY
from mqdlq.airflow.metrics import emit, emit_start_failure
from mqdlq.airflow.notifications import notify
from mqdlq.airflow.operators.base import FAILURE, Stage, in_the_foreground, progress, tell, utc_now
from mqdlq.errors import MqDlqError
from mqdlq.failures import Failure
from mqdlq.ledger import Ledger
from mqdlq.ledger.tables import Run
from mqdlq.model import Verdict
from mqdlq.reading import alerts
from mqdlq.stages.sense.start_run import follower_of, must_be_followed

if TYPE_CHECKING:
    from mqdlq.reading.report.files import ReportFiles


report_text = logging.getLogger("mqdlq.reading.report")
"""The report as text, then the path of its page; `mqdlq run` ends with them."""


class Report(Stage):
    """Write the report of a run, and fail if the run did: it is the run's last task.

    With `attention: fail` in the handler it also fails if messages need attention. The words of the
    run's note are in an XCom; the plugin's listener writes the note when the run ends.

    Reads ledger and lake and touches no MQ; at last it removes snapshots that the handler does not
    keep (`keep_snapshots`, `keep_snapshots_for`). If WAIT continues after a run that acted, it
    starts the run that waits for further messages. Needs trigger rule `all_done`, so that a run
    that failed is reported too; a run that sense found to be without work skips it.

    Emits metrics, and calls the handler's notifiers for what a person should know.

    Where ledger, lake or reports cannot be used, it says what Airflow knows: why each task failed,
    itself among them. That goes to the log, the run's note and, at its last attempt, the notifiers.

    Run twice, it writes the report again over the first one, starts no second run, and tells nobody
    twice, unless the ledger cannot be used.
    """

    operator_extra_links = LINKS
    reported_run_id = ""
    """The run's id in the ledger, for the links; "" before the task runs."""

    def execute(self, context: Context) -> dict[str, str]:
        """Write the report; returns where it stands."""
        states = self._states(context)
        failures = self._failures(context, states)
        try:
            files = self._write(context, states, failures)
        except Exception as error:
            self._say_what_is_known(context, states, failures, error)
            raise
        report_text.info("%s", files.text)
        report_text.info("HTML report: %s", files.html_path)
        context["ti"].xcom_push(key=XCOM_KEY, value=dict(files.note))
        # The report of a failed run stands, also if the same fault prevents pruning.
        with suppress(MqDlqError, OSError) if files.failed else nullcontext():
            self._prune()
        if why := self.failure_of(files):
            raise AirflowFailException(why)
        places = {"html": str(files.html_path), "json": str(files.json_path)}
        run_id, verdict = self.reported_run_id, str(files.verdict)
        tell(context, self.handler, "report", run_id=run_id, verdict=verdict, **places)
        return places

    def _write(
        self, context: Context, states: Mapping[str, str], failures: Sequence[Failure]
    ) -> ReportFiles:
        from mqdlq.reading.report.files import write_report  # noqa: PLC0415 (templates: not at parse time)

        run_id = self.reported_run_id = self.run_id(context)
        with open_ledger() as ledger:
            run = ledger.runs.get(run_id)
            files = write_report(
                run_id,
                ledger=ledger,
                lake_root=directories.lake_location(),
                stages=states,
                clock=utc_now,
                airflow=airflow_address(),
                failures=failures,
            )
            if run is not None:
                self._conclude(run, files, context, ledger)
                follows, handler = bool(context["params"].get("follows")), self.configuration()
                if not files.failed and must_be_followed(
                    run, handler, follows=follows, ledger=ledger, now=utc_now()
                ):
                    start_follower(context)
            elif files.failed:
                handler = self.configuration()
                send = partial(notify, handler, context=context, run_id=run_id)
                of = (handler.name, run_id, files.short)
                alerts.send_start_failure(*of, send, ledger=ledger, now=utc_now())
                emit_start_failure(handler.name)
        return files

    def _states(self, context: Context) -> dict[str, str]:
        dag_run_id = context["dag_run"].run_id
        states: dict[str, dict[str, str]] = context["ti"].get_task_states(
            dag_id=self.dag_id,
            task_ids=sorted(self.get_flat_relative_ids(upstream=True)),
            run_ids=[dag_run_id],
        )
        return states[dag_run_id]

    def _failures(self, context: Context, states: Mapping[str, str]) -> list[Failure]:
        failed = [task for task, state in states.items() if state == "failed"]
        words = [context["ti"].xcom_pull(task_ids=task, key=FAILURE) for task in failed]
        return [Failure(**word) for word in words if word is not None]

    def _say_what_is_known(
        self,
        context: Context,
        states: Mapping[str, str],
        failures: Sequence[Failure],
        error: Exception,
    ) -> None:
        """Tell people why tasks failed, and why there is no report."""
        from mqdlq.reading.report.files import describe_unreported  # noqa: PLC0415 (templates: not at parse time)

        text, note = describe_unreported(states, [*failures, self.describe_failure(error)])
        report_text.info("%s", text)
        context["ti"].xcom_push(key=XCOM_KEY, value=dict(note))
        ti = context["ti"]
        policy: Any = self.retry_policy
        if policy is None or policy.reason_to_fail(error, ti.try_number, ti.max_tries):
            alert = alerts.unreported_alert(self.handler, text)
            notify(self.configuration(), [alert], context, self.reported_run_id)

    def failure_of(self, files: ReportFiles) -> str:
        """Return why this task fails after its report, "" if it succeeds."""
        if files.failed:
            return files.why
        needs_attention = files.verdict is Verdict.ATTENTION
        fails = needs_attention and self.configuration().attention == "fail"
        return files.headline if fails else ""

    def _prune(self) -> None:
        """Remove the snapshots that the run has outdated, after people know of the run."""
        from mqdlq.stages.retention import prune_for_handler  # noqa: PLC0415 (imports Arrow, which DAG parsing must not)

        with open_ledger() as ledger:
            if (run := ledger.runs.get(self.reported_run_id)) is not None:
                handler, now, root = self.configuration(), utc_now(), directories.lake()
                prune_for_handler(run, handler, root, ledger=ledger, now=now, log=progress)

    def _conclude(self, run: Run, files: ReportFiles, context: Context, ledger: Ledger) -> None:
        handler, now = self.configuration(), utc_now()
        send = partial(notify, handler, context=context, run_id=run.run_id)
        oldest = ledger.accounts.oldest_that_stays(run, files.oldest_left)
        files = replace(files, oldest_left=oldest)
        alerts.send(run, files, handler.alerts, send, ledger=ledger, now=now)
        emit(run, files, handler, ledger=ledger, now=now)


KEPT: Final = ("rules", "input_q", "input_q_mgr", "wait", "why")
"""The parameters that a follower has from the run that it follows."""

following = logging.getLogger("mqdlq.following")
"""The parameters of the next run as JSON; `mqdlq run` starts it."""


def start_follower(context: Context) -> None:
    """Start the run that follows this DAG run; a second call starts nothing.

    In the foreground nobody would run it: `mqdlq run` does. If Airflow refuses, the messages wait
    for the next run of the schedule.
    """
    dag_run = context["dag_run"]
    conf = {key: value for key, value in (dag_run.conf or {}).items() if key in KEPT}
    conf["follows"] = dag_run.run_id
    if in_the_foreground():
        following.info("%s", json.dumps(conf))
        return
    run_id = follower_of(dag_run.run_id)
    asked = TriggerDagRun(dag_id=dag_run.dag_id, run_id=run_id, conf=conf)
    try:
        task_runner.SUPERVISOR_COMMS.send(asked)
    except AirflowRuntimeError as error:
        progress.warning(
            "%s, which would wait for messages, did not start: %s [MQDLQ-192]", run_id, error
        )
    else:
        progress.info("%s waits for messages that arrive after this run", run_id)
