"""The tasks of a handler's run, in their order."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import BaseHook, Context, Param, TaskInstanceState
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import AirflowFailException, AirflowRuntimeError
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import TriggerDagRun
from airflow.sdk.execution_time.hitl import HITLUser

from mqdlq import directories
from mqdlq.airflow.hooks.connections import open_ledger
from mqdlq.airflow.links import LINKS, airflow_address
from mqdlq.airflow.listeners import XCOM_KEY
from mqdlq.airflow.metrics import emit, emit_approvals, emit_depth, emit_start_failure
from mqdlq.airflow.notifications import notify
from mqdlq.airflow.operators.base import (
    APPROVE,
    DEFER_FROM_S,
    FAILURE,
    Stage,
    in_the_foreground,
    options_of,
    progress,
    result_of,
    tell,
    utc_now,
)
from mqdlq.airflow.pools import shared_without_a_pool
from mqdlq.airflow.triggers.waiting import RULES_CHANGED, AnswerTrigger, DepthTrigger, RetryTrigger
from mqdlq.controls.settings import read_controls
from mqdlq.errors import MqDlqError, QueueManagerError
from mqdlq.failures import Failure
from mqdlq.handlers.owners import read_owners
from mqdlq.ledger import Ledger
from mqdlq.ledger.tables import Look, Run
from mqdlq.model import Verdict
from mqdlq.reading import alerts
from mqdlq.reading.inbox import notifications_of_owners
from mqdlq.reading.page_paths import Paths
from mqdlq.stages import sense as sensing
from mqdlq.stages.sense import follower_of, must_be_followed, select_queue_manager
from mqdlq.words import outcomes_in_words

if TYPE_CHECKING:
    from mqdlq.reading.report.files import ReportFiles
    from mqdlq.stages.approve import PlanReview
    from mqdlq.stages.execute import Execution, PassResult


POLL_S = 10  # not less than DEFER_FROM_S, or a message could resume the task too soon


class Sense(Stage):
    """Freeze the rules, record the run, and find out by MQINQ whether there is work.

    Gets no message, and opens the queue for inquiry only. There is work if the depth differs from
    the depth after the last run, if a retry or a rescan is due, if the rules have changed, or if
    the run asks for a full snapshot. Settled messages are not work. Messages of a plan that waits
    for approval are not work for a scheduled run. With WAIT(NO) the task looks once; otherwise it
    waits deferred for the given seconds, or with WAIT(YES) until the next scheduled start.
    Without work it skips all later tasks except the report, and the DAG run succeeds.

    If the queue manager cannot be reached, the task waits for as long as WAIT says, with WAIT(YES)
    for the handler's `max_run_time`; then it fails. With WAIT(NO) it fails at once. With schedule
    @continuous it looks once more a minute after an error before it fails, and a run after a failed
    run starts its work at least a minute after the failed run started its work.

    The rules are read for good when the wait ends; if they change meanwhile, the task reads them
    again and waits until the same time. The run of a backfill looks for the snapshots of its
    interval instead. A repeated task finds the recorded run with its rules, and looks again.
    """

    def execute(self, context: Context) -> None:
        """Look for the first time; a continuous run that cannot begin looks twice."""
        try:
            self._look(context)
        except MqDlqError as error:
            if in_the_foreground():
                raise
            pause = sensing.delay_failure(error, self.configuration(), utc_now())
            progress.warning(
                "%s; the run looks once more in %s, then it fails [MQDLQ-133]",
                error.text,
                sensing.FAILURE_DELAY,
            )
            self._take(pause)

    def look_once_more(self, context: Context, event: dict[str, Any]) -> None:
        del event
        self._look(context)

    def look_again(self, context: Context, event: dict[str, Any]) -> None:
        """Look again after a wait for the queue manager, which ends at the event's time."""
        until = datetime.fromisoformat(event["until"])
        self._look(context, event.get("waited"), until)

    def resume(self, context: Context, event: dict[str, Any]) -> None:
        """Look again after the wait, with the current rules; continue to wait if it is early.

        Another run may have taken the messages that the trigger saw.
        """
        if event["why"] == RULES_CHANGED:
            progress.info("the rules have changed while this run waited; the run reads them again")
        self._look(context, event)

    def _look(
        self,
        context: Context,
        event: dict[str, Any] | None = None,
        patience: datetime | None = None,
    ) -> None:
        handler = self.configuration()

        def awaits_approval(dag_run_id: str) -> bool:
            states = context["ti"].get_task_states(
                dag_id=self.dag_id, task_ids=[APPROVE], run_ids=[dag_run_id]
            )
            found = states.get(dag_run_id, {}).get(APPROVE)
            return bool(found == TaskInstanceState.AWAITING_INPUT)

        with open_ledger() as ledger:
            self._take(
                sensing.inspect_queue(
                    sensing.SenseResources(
                        handler=handler,
                        options=options_of(context, handler),
                        window=self.window(context),
                        settings=self.settings(),
                        run_id=self.run_id(context),
                        ledger=ledger,
                        lake_root=directories.lake(),
                        clock=utc_now,
                        sleep=time.sleep,
                        log=progress,
                        min_deferred_wait_s=DEFER_FROM_S,
                        awaits_approval=awaits_approval,
                        warnings=partial(shared_without_a_pool, handler),
                        report_depth=emit_depth,
                        full_snapshot=bool(context["params"].get("full_snapshot")),
                        is_watched=in_the_foreground(),
                    ),
                    event,
                    patience,
                )
            )

    def _take(self, step: sensing.Decision) -> None:
        match step:
            case Look(is_work=False):
                self.skip_what_follows()
            case QueueManagerError():
                raise AirflowFailException(str(step)) from step
            case sensing.WaitForMessages():
                trigger = DepthTrigger(wait=asdict(step), poll_s=POLL_S, directory=self.directory)
                self.defer(trigger=trigger, method_name="resume")
            case sensing.WaitForQueueManager():
                answer = AnswerTrigger(wait=asdict(step), poll_s=POLL_S)
                self.defer(trigger=answer, method_name="look_again")
            case datetime():
                self.defer(trigger=RetryTrigger(step, {}), method_name="look_once_more")


class Snapshot(Stage):
    """Browse the queue once and write down in the lake what is on it.

    Opens the queue for browse only: every message stays where it is, and no BackoutCount moves.
    Run twice, it finds the snapshot this run has taken; what a crash leaves behind has no
    manifest and does not count. Where all messages are settled by earlier runs, their outcomes are
    carried over and every task but the report is skipped, unless an execution has to settle a unit
    of work that was interrupted.
    """

    def execute(self, context: Context) -> dict[str, str | int]:
        """Take the snapshot; say where it stands, and where its plan is to stand."""
        # imports Arrow, which DAG parsing must not.
        from mqdlq.stages.backfill import merge_window  # noqa: PLC0415
        from mqdlq.stages.snapshot.capture import SnapshotOptions, read_current_key  # noqa: PLC0415
        from mqdlq.stages.snapshot.taking import locate_snapshot, snapshot_queue  # noqa: PLC0415

        handler, params, window = self.configuration(), context["params"], self.window(context)
        key = None
        if conn_id := handler.payload_key:
            with_key = BaseHook.get_connection(conn_id)
            key = read_current_key(conn_id, with_key.password, with_key.extra_dejson)
        with self.execution(context) as execution:
            if window is not None:
                manifest = merge_window(execution, window, apply=params["apply"])
            else:
                rescan = params.get("full_snapshot", False)
                options = SnapshotOptions.from_handler(handler, rescan=rescan, key=key)
                manifest = snapshot_queue(execution, options)
        if manifest is None:
            self.skip_what_follows()
        if window is None:
            facts = {"snapshot_id": manifest.snapshot_id, "messages": manifest.messages}
            tell(context, self.handler, "snapshot", **facts)
        return locate_snapshot(manifest, directories.lake())


APPROVED: Final = "Approve"
REJECTED: Final = "Reject"
COMMENT: Final = "comment"
"""The field of the answer that has the person's comment."""
COMMENT_FORM: Final = {
    COMMENT: Param(
        None,
        description="The reason for the answer, or the number of a ticket. The audit has it.",
        type=["null", "string"],
        title="Comment",
        maxLength=1000,
    )
}


class Approve(Stage, HITLOperator):
    """Check the plan against its hash, record it, and have a person approve it if guards say so.

    A guard that is on and sees something puts the task into Airflow's state `awaiting_input`, where
    it takes neither a worker nor the triggerer: a person approves or rejects in Airflow, one of the
    handler's `approvers` if it names any, and silence for its `approval: timeout` rejects.
    Question, answer, who and when go to the ledger; the execution carries out exactly the plan
    whose hash was approved. After a rejection the run continues without acting, and reports that
    for every message. In ``airflow dags test`` nobody can answer, so nobody is asked; a plan that
    needs a second person is rejected there. An approval by a person who must not give it is
    recorded in the audit, and the question stays open. Touches the ledger and the lake, not MQ.

    In a backfill without `apply` it reports what today's rules would do otherwise, and the
    execution is skipped. Run twice, it finds the plan this run has accepted, and the answer if
    there is one; nobody is notified of the same question twice.
    """

    template_fields = ()  # the question has texts of messages, which are no templates

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            subject="",  # the plan of the run gives the question; see _ask
            options=[APPROVED, REJECTED],
            defaults=[REJECTED],
            **kwargs,
        )

    def execute(self, context: Context) -> str:
        # imports Arrow, which DAG parsing must not.
        from mqdlq.stages import approve  # noqa: PLC0415
        from mqdlq.stages.backfill import report_differences  # noqa: PLC0415

        window, handler = self.window(context), self.configuration()
        with self.execution(context) as work:
            made = result_of(context["ti"], "snapshot")
            if window is not None and not context["params"]["apply"]:
                approve.require_plan(made["plan"])
                report_differences(work, window, made["snapshot"], made["plan"])
                self.skip_what_follows()
            given: Any = context["task_state_store"].get(f"answer-{work.run.run_id}")
            accepted = approve.review_plan(
                work,
                made["plan_id"],
                handler.approval,
                answer=given,
                is_watched=in_the_foreground(),
            )
            emit_approvals(
                work.run, handler.approval.timeout, work.ledger, utc_now(), accepted.questions
            )
            if accepted.questions:
                self._ask(context, work.run, accepted, work.ledger)
        plan = accepted.plan
        tell(context, self.handler, "plan", plan_id=plan.plan_id, plan_hash=plan.plan_hash)
        return plan.plan_id

    def execute_complete(self, context: Context, event: dict[str, Any]) -> str:
        """Continue with a person's answer, or with the lack of one.

        Airflow hands the answer over once. It is kept first: where the ledger or the lake cannot
        be reached at this moment, the task's next attempt finds it and asks nobody again.
        """
        from mqdlq.stages.approve import record_answer  # noqa: PLC0415 (imports Arrow, which DAG parsing must not)

        person = event.get("responded_by_user") or {}
        answer = record_answer(
            is_approved=event["chosen_options"] == [APPROVED],
            names=[str(person.get(key) or "") for key in ("name", "id")],
            at=utc_now(),
            why=str((event.get("params_input") or {}).get(COMMENT) or "").strip(),
        )
        context["task_state_store"].set(f"answer-{self.run_id(context)}", answer)
        return self.execute(context)

    def _ask(self, context: Context, run: Run, accepted: PlanReview, ledger: Ledger) -> None:
        from mqdlq.reading.report.markdown import ReviewSettings, write_review_page  # noqa: PLC0415 (the same)

        handler = self.configuration()
        asked = [text for _, text in accepted.questions]
        within, store = handler.approval.timeout, context["task_state_store"]
        self.subject = f"May {self.handler} act on {run.queue} of {run.queue_manager}?"
        self.body = write_review_page(
            run,
            accepted.plan,
            accepted.coverage,
            asked,
            ReviewSettings(within, handler.keep_archive_for, Paths(airflow_address()), utc_now()),
            ledger=ledger,
            lake_root=directories.lake(),
        )
        self.assigned_users = [HITLUser(id=one, name=one) for one in handler.approvers]
        self.response_timeout = within
        self.params = ParamsDict(COMMENT_FORM)  # tasks have no parameters: DAGs are copied
        if not store.get(f"notified-{run.run_id}"):
            notify(handler, [alerts.build_approval_alert(run, asked)], context, run.run_id)
            store.set(f"notified-{run.run_id}", value=True)
        who = " or ".join(handler.approvers) or "a person"
        progress.info("waiting for %s to approve or reject this in Airflow within %s", who, within)
        HITLOperator.execute(self, context)


class Execute(Stage):
    """Settle open attempts of earlier executions, then make the first pass over the queue.

    Moves messages under units of work, each with its marker, and the ledger is written before and
    after: a message is neither lost nor moved twice, whatever ends this task and when.

    A repeated task finds the finished work in the ledger and in the markers, and does the rest.
    Two tasks cannot run at once: the state queue is open exclusively.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Make the pass; return how many messages are pending, and when the next pass is due."""
        from mqdlq.stages.execute import make_pass  # noqa: PLC0415 (imports Arrow, which DAG parsing must not)

        with self.execution(context) as execution:
            return left_by(make_pass(execution))


def left_by(result: PassResult) -> dict[str, Any]:
    moment = result.next_pass_at
    return {
        "pending": result.pending,
        "next_pass_at": moment.isoformat() if moment else None,
        "awaited": [list(one) for one in result.awaited],
    }


class Retry(Stage):
    """Make a pass every RETRYINT over the messages still pending, then settle the run's account.

    Between passes it is deferred and holds no worker slot. It ends when no message is pending, or
    when the next pass would come after the handler's `max_run_time`; pending messages then stay on
    the queue. A run of a handler with schedule @continuous does not wait, because new messages must
    not wait for its retries: the next run makes the next pass, over pending and new messages, and
    continues to count their attempts.

    Passes and settling are safe to repeat, as Execute is. A repeated task makes its own pass
    RETRYINT after the previous pass; the ledger knows which messages are due.
    """

    def execute(self, context: Context) -> dict[str, int]:
        return self._passes(context, result_of(context["ti"], "execute"))

    def resume(self, context: Context, event: dict[str, Any]) -> dict[str, int]:
        return self._passes(context, event)

    def _passes(self, context: Context, left: dict[str, Any]) -> dict[str, int]:
        # imports Arrow, which DAG parsing must not.
        from mqdlq.stages.execute import make_pass, settle  # noqa: PLC0415

        with self.execution(context) as execution:
            while left["pending"] and self._wait(execution, left):
                left = left_by(make_pass(execution))
            outcomes = settle(execution, _due_at(left))
        progress.info("settled: %s", outcomes_in_words(outcomes))
        return {str(outcome): number for outcome, number in outcomes.items()}

    def _wait(self, execution: Execution, left: dict[str, Any]) -> bool:
        """Wait for the next pass, in place or deferred; return whether it follows."""
        from mqdlq.stages.execute.passes import find_reason_not_to_wait  # noqa: PLC0415 (Arrow)

        moment, pending, run = _due_at(left), left["pending"], execution.run
        if moment is None:
            return False
        found = find_reason_not_to_wait(
            run, self.configuration(), execution.ledger, pending, moment
        )
        if found:
            progress.info("%s", found)
            return False
        seconds = max(0.0, (moment - utc_now()).total_seconds())
        if seconds:
            progress.info("%d messages wait for the pass at %s", pending, f"{moment:%H:%M:%S}")
        if seconds >= DEFER_FROM_S:
            watch: dict[str, Any] | None = None
            held = read_controls(run.controls).hold_until_fixed
            if held is not None and (awaited := left.get("awaited")):
                conn_id, until = self.configuration().connection, run.limit_at.isoformat()
                watch = {"conn_id": conn_id, "queue_manager": run.queue_manager}
                watch |= {"destinations": awaited, "until": until}
                watch["pause_s"] = held.look_every.total_seconds()
            trigger = RetryTrigger(moment, left, run.run_id, watch)
            self.defer(trigger=trigger, method_name="resume")
        time.sleep(seconds)
        return True


def _due_at(left: dict[str, Any]) -> datetime | None:
    moment = left["next_pass_at"]
    return datetime.fromisoformat(moment) if moment else None


report_text = logging.getLogger("mqdlq.reading.report")
"""The report as text, then the path of its page; `mqdlq run` ends with them."""


class Report(Stage):
    """Write the report of a run, and fail if the run did: it is the run's last task.

    With `attention: fail` in the handler it also fails if messages need attention. The words of the
    run's note are in an XCom; the plugin's listener writes the note when the run ends.

    Reads ledger and lake and touches no MQ; at last it removes snapshots that the handler does not
    keep (`keep_snapshots`, `keep_snapshots_for`). If WAIT continues after a run that acted, it
    starts the run that waits for further messages. Needs trigger rule `all_done`, so that a run
    that failed is reported too; a run that sense found to be without work skips it. Emits metrics,
    and calls the handler's notifiers for what a person should know.

    Where ledger, lake or reports cannot be used, it says what Airflow knows: why each task failed,
    itself among them. That goes to the log, the run's note and, at its last attempt, the notifiers.

    Run twice, it writes the report again over the first one, starts no second run, and tells nobody
    twice, unless the ledger cannot be used.
    """

    operator_extra_links = LINKS
    reported_run_id = ""
    """The run's id in the ledger, for the links; "" before the task runs."""

    def execute(self, context: Context) -> dict[str, str]:
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
            if run is not None:
                self.diagnose(run, ledger)
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

    def diagnose(self, run: Run, ledger: Ledger) -> None:
        """Diagnose the largest causes that need attention, if the handler says so.

        On an error the report does without. Run twice, it asks again.
        """
        from mqdlq.stages.diagnosing import diagnose_run  # noqa: PLC0415 (Arrow: not at parse time)

        if not self.configuration().diagnose:
            return
        settings = select_queue_manager(self.settings(), run.queue_manager)
        try:
            diagnose_run(run, settings, ledger, utc_now)
        except MqDlqError as error:
            progress.warning("the causes are not diagnosed: %s", error)

    def _states(self, context: Context) -> dict[str, str]:
        dag_run_id = context["dag_run"].run_id
        earlier = sorted(self.get_flat_relative_ids(upstream=True))
        states: dict[str, dict[str, str]] = context["ti"].get_task_states(
            dag_id=self.dag_id, task_ids=earlier, run_ids=[dag_run_id]
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
        is_fault = files.verdict is Verdict.ATTENTION and self.configuration().attention == "fail"
        return files.headline if is_fault else ""

    def _prune(self) -> None:
        """Remove the snapshots that the run has outdated, after people know of the run."""
        from mqdlq.stages.retention import prune_for_handler  # noqa: PLC0415 (imports Arrow, which DAG parsing must not)

        with open_ledger() as ledger:
            if (run := ledger.runs.get(self.reported_run_id)) is not None:
                handler, now, root = self.configuration(), utc_now(), directories.lake()
                prune_for_handler(run, handler, root, ledger=ledger, now=now, log=progress)

    def _conclude(self, run: Run, files: ReportFiles, context: Context, ledger: Ledger) -> None:
        handler, now = self.configuration(), utc_now()
        to = notifications_of_owners(run, ledger, read_owners(handler.directory))
        everyone = handler.alerts.model_copy(update={"notify": (*handler.alerts.notify, *to)})
        to_all = handler.model_copy(update={"alerts": everyone})
        send = partial(notify, to_all, context=context, run_id=run.run_id)
        files = replace(
            files, oldest_left=ledger.accounts.oldest_that_stays(run, files.oldest_left)
        )
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
