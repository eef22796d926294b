"""The task sense: a DAG run's params in, a recorded run whose queue holds messages out."""

from __future__ import annotations

import time
from dataclasses import asdict
from datetime import datetime
from functools import partial
from typing import Any

from airflow.sdk import Context, TaskInstanceState
from airflow.sdk.exceptions import AirflowFailException

from mqdlq.airflow.hooks.ledger import open_ledger
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
from mqdlq.handlers import load_handler
from mqdlq.stages.sense.inspect_queue import Sensing, look
from mqdlq.stages.sense.waiting import (
    BREATH,
    Fail,
    Pause,
    Skip,
    Step,
    Waited,
    WaitForMessages,
    WaitForQueueManager,
    before_failing,
)

POLL_S = 10  # not less than DEFER_FROM_S, or a message could resume the task too soon


class Sense(Stage):
    """Freeze the rules, record the run, and find out by MQINQ whether there is work.

    Takes no message and opens the queue for inquiry only. Work is a depth other than the last run
    left, a retry or a rescan that is due, rules that have changed; settled messages are none, but
    a full snapshot that is asked for is, of an empty queue, too. What another run waits to have
    approved is none to a scheduled one. With WAIT(NO) it looks once; else
    it looks, and waits deferred: so many seconds, or with WAIT(YES) until the next scheduled start.
    Without work it skips all tasks after it but the report, which says so, and the DAG run
    succeeds.

    While the queue manager cannot be reached it waits in the same way, for as long as WAIT says and
    with WAIT(YES) for the handler's `max_run_time`; then, or at once with WAIT(NO), it fails. With
    schedule @continuous whatever is wrong is looked at once more a minute later, before it fails,
    and a run after one that broke off begins its work no sooner than a minute after that one did.

    A run begins, and what it reads holds to its end, when it stops waiting: rules that change
    meanwhile are read anew, and the wait goes on with them to the time that it had.

    The run of a backfill looks for the snapshots of its interval instead.

    Run twice, it finds the run as recorded, with the rules read the first time, and looks again.
    """

    def execute(self, context: Context) -> None:
        """Look for the first time; a continuous run that cannot begin looks twice."""
        try:
            self._look(context, Waited())
        except MqDlqError as error:
            if in_the_foreground():
                raise
            pause = before_failing(error, load_handler(self.handler), utc_now())
            progress.warning(
                "%s; the run looks once more in %s, then it fails [MQDLQ-133]", error.text, BREATH
            )
            self._take(pause)

    def look_once_more(self, context: Context, event: dict[str, Any]) -> None:
        """Look by what files and queue are by now; what is still wrong fails the run."""
        del event
        self._look(context, Waited())

    def look_again(self, context: Context, event: dict[str, Any]) -> None:
        """Look anew, after a wait for the queue manager that ends for good at the event's time."""
        until = datetime.fromisoformat(event["until"])
        self._look(context, Waited(event=event.get("waited"), patience=until))

    def resume(self, context: Context, event: dict[str, Any]) -> None:
        """Look once more after the wait, by the rules as they are by now; wait on if it is early.

        What the trigger saw may be gone by now, taken by another run.
        """
        if event["why"] == RULES_CHANGED:
            progress.info("%s while this run waited: they are read anew", RULES_CHANGED)
        self._look(context, Waited(event=event))

    def _look(self, context: Context, waited: Waited) -> None:
        handler = load_handler(self.handler)

        def awaits_approval(dag_run_id: str) -> bool:
            states = context["ti"].get_task_states(
                dag_id=self.dag_id, task_ids=[APPROVE], run_ids=[dag_run_id]
            )
            found = states.get(dag_run_id, {}).get(APPROVE)
            return bool(found == TaskInstanceState.AWAITING_INPUT)

        with open_ledger() as ledger:
            self._take(
                look(
                    Sensing(
                        handler=handler,
                        options=options_of(context, handler),
                        window=self.window(context),
                        settings=self.settings(),
                        run_id=self.run_id(context),
                        ledger=ledger,
                        clock=utc_now,
                        sleep=time.sleep,
                        log=progress,
                        defer_from_s=DEFER_FROM_S,
                        awaits_approval=awaits_approval,
                        warnings=partial(shared_without_a_pool, handler),
                        full_snapshot=bool(context["params"].get("full_snapshot")),
                        is_watched=in_the_foreground(),
                    ),
                    waited,
                )
            )

    def _take(self, step: Step) -> None:
        """Defer, skip or fail; a step that is none of these is the end of this task."""
        match step:
            case Skip():
                self.skip_what_follows()
            case Fail(error):
                raise AirflowFailException(str(error)) from error
            case WaitForMessages():
                trigger = DepthTrigger(wait=asdict(step), poll_s=POLL_S)
                self.defer(trigger=trigger, method_name="resume")
            case WaitForQueueManager():
                answer = AnswerTrigger(wait=asdict(step), poll_s=POLL_S)
                self.defer(trigger=answer, method_name="look_again")
            case Pause(until):
                self.defer(trigger=RetryTrigger(until, {}), method_name="look_once_more")
