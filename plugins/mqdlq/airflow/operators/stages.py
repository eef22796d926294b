"""The tasks of a handler's run, in their order; `operators.report` has the last one."""

from __future__ import annotations

import time
from dataclasses import asdict
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseHook, Context, TaskInstanceState
from airflow.sdk.exceptions import AirflowFailException, TaskAwaitingInput
from airflow.sdk.execution_time.hitl import HITLUser, upsert_hitl_detail

from mqdlq import directories
from mqdlq.airflow.hooks.connections import open_ledger
from mqdlq.airflow.links import airflow_address
from mqdlq.airflow.metrics import emit_approvals, emit_depth
from mqdlq.airflow.notifications import notify
from mqdlq.airflow.operators.base import (
    APPROVE,
    DEFER_FROM_S,
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
from mqdlq.errors import MqDlqError, QueueManagerError
from mqdlq.ledger.tables import Look
from mqdlq.reading.alerts import build_approval_alert
from mqdlq.reading.page_paths import Paths
from mqdlq.stages.sense.inspect_queue import (
    FAILURE_DELAY,
    Decision,
    SenseResources,
    WaitForMessages,
    WaitForQueueManager,
    delay_failure,
    inspect_queue,
)
from mqdlq.words import outcomes_in_words

if TYPE_CHECKING:
    from mqdlq.ledger import Ledger
    from mqdlq.ledger.tables import Run
    from mqdlq.stages.approve import PlanReview
    from mqdlq.stages.execute import Execution, PassResult
    from mqdlq.stages.snapshot.capture import PayloadKey


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

    A run reads the rules for good when it stops waiting. If the rules change during the wait, the
    task reads them again and waits until the same time.

    The run of a backfill looks for the snapshots of its interval instead.

    A repeated task finds the recorded run with its rules, and looks again.
    """

    def execute(self, context: Context) -> None:
        """Look for the first time; a continuous run that cannot begin looks twice."""
        try:
            self._look(context)
        except MqDlqError as error:
            if in_the_foreground():
                raise
            pause = delay_failure(error, self.configuration(), utc_now())
            progress.warning(
                "%s; the run looks once more in %s, then it fails [MQDLQ-133]",
                error.text,
                FAILURE_DELAY,
            )
            self._take(pause)

    def look_once_more(self, context: Context, event: dict[str, Any]) -> None:
        """Look again at files and queue; a remaining fault fails the run."""
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
                inspect_queue(
                    SenseResources(
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

    def _take(self, step: Decision) -> None:
        match step:
            case Look(is_work=False):
                self.skip_what_follows()
            case QueueManagerError():
                raise AirflowFailException(str(step)) from step
            case WaitForMessages():
                trigger = DepthTrigger(wait=asdict(step), poll_s=POLL_S, directory=self.directory)
                self.defer(trigger=trigger, method_name="resume")
            case WaitForQueueManager():
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
        from mqdlq.stages.snapshot.capture import SnapshotOptions  # noqa: PLC0415
        from mqdlq.stages.snapshot.taking import locate_snapshot, snapshot_queue  # noqa: PLC0415

        handler, params = self.configuration(), context["params"]
        key = _payload_key(handler.payload_key) if handler.payload_key else None
        window = self.window(context)
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


def _payload_key(conn_id: str) -> PayloadKey:
    from mqdlq.stages.snapshot.capture import read_current_key  # noqa: PLC0415 (imports Arrow, which DAG parsing must not)

    connection = BaseHook.get_connection(conn_id)
    return read_current_key(conn_id, connection.password, connection.extra_dejson)


APPROVED: Final = "Approve"
REJECTED: Final = "Reject"
COMMENT: Final = "comment"
"""The field of the answer that has the person's comment."""
COMMENT_FORM: Final = {
    COMMENT: {
        "value": None,
        "description": "The reason for the answer, or the number of a ticket. The audit has it.",
        "schema": {"type": ["null", "string"], "title": "Comment", "maxLength": 1000},
    }
}


class Approve(Stage):
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
    execution is skipped.

    Run twice, it finds the plan this run has accepted, and the answer if there is one; nobody is
    notified of the same question twice.
    """

    def execute(self, context: Context) -> str:
        """Accept the plan, or ask; returns the plan's id."""
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

    def resume(self, context: Context, event: dict[str, Any]) -> str:
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
        upsert_hitl_detail(
            ti_id=context["ti"].id,
            options=[APPROVED, REJECTED],
            subject=f"May {self.handler} act on {run.queue} of {run.queue_manager}?",
            body=write_review_page(
                run,
                accepted.plan,
                accepted.coverage,
                asked,
                ReviewSettings(
                    within, handler.keep_archive_for, Paths(airflow_address()), utc_now()
                ),
                ledger=ledger,
                lake_root=directories.lake(),
            ),
            defaults=[REJECTED],
            params=COMMENT_FORM,
            assigned_users=[HITLUser(id=one, name=one) for one in handler.approvers],
        )
        if not store.get(f"notified-{run.run_id}"):
            notify(handler, [build_approval_alert(run, asked)], context, run.run_id)
            store.set(f"notified-{run.run_id}", value=True)
        who = " or ".join(handler.approvers) or "a person"
        progress.info("waiting for %s to approve or reject this in Airflow within %s", who, within)
        raise TaskAwaitingInput(method_name="resume", timeout=within)


class Execute(Stage):
    """Settle open attempts of earlier executions, then make the first pass over the queue.

    Moves messages under units of work, each with its marker, and the ledger is written before and
    after: a message is neither lost nor moved twice, whatever ends this task and when.

    A repeated task finds the finished work in the ledger and in the markers, and does the rest.
    Two tasks cannot run at once: the state queue is open exclusively.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Make the pass; return the number of pending messages and the time of the next pass."""
        from mqdlq.stages.execute import make_pass  # noqa: PLC0415 (imports Arrow, which DAG parsing must not)

        with self.execution(context) as execution:
            return left_by(make_pass(execution))


def left_by(result: PassResult) -> dict[str, Any]:
    moment = result.next_pass_at
    return {"pending": result.pending, "next_pass_at": moment.isoformat() if moment else None}


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
        """Start from the result of the first pass."""
        return self._passes(context, result_of(context["ti"], "execute"))

    def resume(self, context: Context, event: dict[str, Any]) -> dict[str, int]:
        """Continue from the state that the trigger carried."""
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
        # imports Arrow, which DAG parsing must not.
        from mqdlq.stages.execute.passes import find_reason_not_to_wait  # noqa: PLC0415

        moment = _due_at(left)
        if moment is None:
            return False
        handler, pending = self.configuration(), left["pending"]
        if why := find_reason_not_to_wait(
            execution.run, handler, execution.ledger, pending, moment
        ):
            progress.info("%s", why)
            return False
        seconds = max(0.0, (moment - utc_now()).total_seconds())
        if seconds:
            progress.info("%d messages wait for the pass at %s", pending, f"{moment:%H:%M:%S}")
        if seconds >= DEFER_FROM_S:
            self.defer(trigger=RetryTrigger(moment, left), method_name="resume")
        time.sleep(seconds)
        return True


def _due_at(left: dict[str, Any]) -> datetime | None:
    """Return when the next pass is due by the state that the trigger carries, None if none is."""
    moment = left["next_pass_at"]
    return datetime.fromisoformat(moment) if moment else None
