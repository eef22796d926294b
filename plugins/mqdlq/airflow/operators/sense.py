"""The task sense: record the run, and wait until its queue has work."""

from __future__ import annotations

import time
from dataclasses import asdict
from datetime import datetime
from functools import partial
from typing import Any

from airflow.sdk import Context, TaskInstanceState
from airflow.sdk.exceptions import AirflowFailException

from mqdlq import directories
from mqdlq.airflow.hooks.ledger import open_ledger
from mqdlq.airflow.metrics import emit_depth
from mqdlq.airflow.operators.base import (
    APPROVE,
    DEFER_FROM_S,
    Stage,
    in_the_foreground,
    progress,
    utc_now,
)
from mqdlq.airflow.operators.options import options_of
from mqdlq.airflow.pools import shared_without_a_pool
from mqdlq.airflow.triggers.depth import RULES_CHANGED, DepthTrigger
from mqdlq.airflow.triggers.queue_manager_availability import AnswerTrigger
from mqdlq.airflow.triggers.retry import RetryTrigger
from mqdlq.errors import MqDlqError
from mqdlq.stages.sense.inspect_queue import SenseResources, inspect_queue
from mqdlq.stages.sense.waiting import (
    FAILURE_DELAY,
    Decision,
    EarlierWait,
    Fail,
    Pause,
    Skip,
    WaitForMessages,
    WaitForQueueManager,
    delay_failure,
)

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
            self._look(context, EarlierWait())
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
        self._look(context, EarlierWait())

    def look_again(self, context: Context, event: dict[str, Any]) -> None:
        """Look again after a wait for the queue manager, which ends at the event's time."""
        until = datetime.fromisoformat(event["until"])
        self._look(context, EarlierWait(event=event.get("waited"), patience=until))

    def resume(self, context: Context, event: dict[str, Any]) -> None:
        """Look again after the wait, with the current rules; continue to wait if it is early.

        Another run may have taken the messages that the trigger saw.
        """
        if event["why"] == RULES_CHANGED:
            progress.info("the rules have changed while this run waited; the run reads them again")
        self._look(context, EarlierWait(event=event))

    def _look(self, context: Context, waited: EarlierWait) -> None:
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
                    waited,
                )
            )

    def _take(self, step: Decision) -> None:
        """Defer, skip or fail; any other step ends this task."""
        match step:
            case Skip():
                self.skip_what_follows()
            case Fail(error):
                raise AirflowFailException(str(error)) from error
            case WaitForMessages():
                trigger = DepthTrigger(wait=asdict(step), poll_s=POLL_S, directory=self.directory)
                self.defer(trigger=trigger, method_name="resume")
            case WaitForQueueManager():
                answer = AnswerTrigger(wait=asdict(step), poll_s=POLL_S)
                self.defer(trigger=answer, method_name="look_again")
            case Pause(until):
                self.defer(trigger=RetryTrigger(until, {}), method_name="look_once_more")
