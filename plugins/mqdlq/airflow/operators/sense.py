"""The task sense: a DAG run's params in, a recorded run whose queue holds messages out."""

from __future__ import annotations

import math
import time
from datetime import datetime, timedelta
from pathlib import PurePath
from typing import Any

from airflow.sdk import Context, TaskInstanceState
from airflow.sdk.exceptions import AirflowFailException, DownstreamTasksSkipped

from mqdlq.airflow.hooks.ledger import open_ledger
from mqdlq.airflow.operators.base import (
    APPROVE,
    BACKFILL,
    DEFER_FROM_S,
    REPORT,
    Stage,
    in_the_foreground,
    progress,
    utc_now,
)
from mqdlq.airflow.operators.options import started_by
from mqdlq.airflow.params import fault, named_messages, wait_seconds
from mqdlq.airflow.pools import shared_without_a_pool
from mqdlq.airflow.triggers.answer import AnswerTrigger
from mqdlq.airflow.triggers.depth import RULES_CHANGED, DepthTrigger
from mqdlq.airflow.triggers.retry import RetryTrigger
from mqdlq.constants import TRANSIENT
from mqdlq.errors import HandlerError, MqDlqError, QueueManagerError
from mqdlq.handlers import Handler, load_handler
from mqdlq.ledger import Ledger, Look, Run, broken_off, open_question, record_look
from mqdlq.stages import sense
from mqdlq.stages.run_options import RunOptions

BREATH = timedelta(minutes=1)
"""How long a run with schedule @continuous takes to fail: Airflow starts the next one at once."""

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
        """Record the run; defer where there is nothing on the queue yet and WAIT allows it."""
        try:
            self._sense_or_wait(context)
        except MqDlqError as error:
            if not load_handler(self.handler).is_continuous or in_the_foreground():
                raise
            progress.warning("%s; looking once more in %s, then the run fails", error, BREATH)
            self.defer(trigger=RetryTrigger(utc_now() + BREATH, {}), method_name="look_once_more")

    def look_once_more(self, context: Context, event: dict[str, Any]) -> None:
        """Look by what files and queue are by now; what is still wrong fails the run."""
        del event
        self._sense_or_wait(context)

    def look_again(self, context: Context, event: dict[str, Any]) -> None:
        """Look anew, after a wait for the queue manager that ends for good at the event's time."""
        until = datetime.fromisoformat(event["until"])
        self._sense_or_wait(context, patience=until, waited=event.get("waited"))

    def resume(self, context: Context, event: dict[str, Any]) -> None:
        """Look once more after the wait, by the rules as they are by now; wait on if it is early.

        What the trigger saw may be gone by now, taken by another run.
        """
        if event["why"] == RULES_CHANGED:
            progress.info("%s while this run waited: they are read anew", RULES_CHANGED)
        self._sense_or_wait(context, waited=event)

    def _sense_or_wait(
        self,
        context: Context,
        *,
        patience: datetime | None = None,
        waited: dict[str, Any] | None = None,
    ) -> None:
        handler = load_handler(self.handler)
        options = self._options(context, handler)
        try:
            self._sense(context, handler, options, waited)
        except QueueManagerError as error:
            if error.reason not in TRANSIENT:
                raise
            now = utc_now()
            until = patience or now + sense.patience(handler, options)
            if until <= now and patience is not None:
                # It has waited as long as it may; further attempts would wait as long again.
                raise AirflowFailException(str(error)) from error
            if until <= now:
                raise
            left = (until - now).total_seconds()
            progress.warning("%s; waiting for it until %s UTC", error, f"{until:%Y-%m-%d %H:%M:%S}")
            if left < DEFER_FROM_S:
                time.sleep(left)
                self._sense(context, handler, options, waited)
                return
            trigger = AnswerTrigger(
                conn_id=handler.connection,
                queue_manager=sense.queue_manager_of(handler, options),
                until=until,
                waited=waited,
                poll_s=POLL_S,
            )
            self.defer(trigger=trigger, method_name="look_again")

    def _sense(
        self,
        context: Context,
        handler: Handler,
        options: RunOptions,
        waited: dict[str, Any] | None,
    ) -> None:
        settings, window = self.settings(), self.window(context)
        with open_ledger() as ledger:
            run = sense.prepare_run(
                self.run_id(context),
                handler,
                settings,
                ledger=ledger,
                clock=utc_now,
                options=options,
            )
            if window is not None:
                self._sense_snapshots(run, window, ledger)
                return
            for warning in () if waited else shared_without_a_pool(handler, run):
                progress.warning("%s", warning)
            watch = self._watch(context, run, handler, ledger)
            depth = sense.depth(run, settings)
            why = watch.news(depth, utc_now())
            if not why and sense.is_unfinished(run, ledger):
                why = "an earlier execution was interrupted: its account is to be settled"
            if not why and context["params"].get("full_snapshot"):
                why = "a full snapshot is asked for"
            until = _end_of_wait(run, handler, waited)
            left = (until - utc_now()).total_seconds() if until else math.inf
            if not why and 0 < left < DEFER_FROM_S:
                progress.info("%s; looking again in %.0f s", _seen(run, depth), left)
                time.sleep(left)
                depth = sense.depth(run, settings)
                why = watch.news(depth, utc_now())
            elif not why and left > 0:
                progress.info("%s; waiting %s", _seen(run, depth), _on(until))
                # The rules of a run that has begun hold to its end; given ones are in no file.
                is_fixed = bool(options.action) or ledger.run(run.run_id) is not None
                trigger = DepthTrigger(
                    conn_id=handler.connection,
                    queue_manager=run.queue_manager,
                    queue=run.queue,
                    known=watch.known,
                    handler=handler.name,
                    rules=options.rules,
                    rules_digest="" if is_fixed else run.rules_digest,
                    due_at=watch.due_at,
                    due_why=watch.due_why,
                    until=until,
                    poll_s=POLL_S,
                )
                self.defer(trigger=trigger, method_name="resume")
            if why and handler.is_continuous and not in_the_foreground():
                self._take_breath(run, ledger)
            self._conclude(run, depth, why, ledger)

    def _watch(self, context: Context, run: Run, handler: Handler, ledger: Ledger) -> sense.Watch:
        """Return what is news: nothing that a run before has asked a person about, who may answer.

        Another run would ask the same again, and the next one, until no more may be under way.
        """
        asked = open_question(ledger, run) if run.run_type not in sense.ASKED_FOR else None
        if asked is not None and not in_the_foreground():
            states = context["ti"].get_task_states(
                dag_id=self.dag_id, task_ids=[APPROVE], run_ids=[asked.dag_run_id]
            )
            if states.get(asked.dag_run_id, {}).get(APPROVE) == TaskInstanceState.AWAITING_INPUT:
                progress.info(
                    "%s waits for an approval of what it would do with %d messages",
                    asked.dag_run_id,
                    asked.messages,
                )
                return sense.Watch(asked.messages)
        return sense.watch_for(run, ledger, handler.rescan_interval)

    def _take_breath(self, run: Run, ledger: Ledger) -> None:
        """Have a run that has failed after its first task followed by none at once, too."""
        failed = broken_off(ledger, run.handler, run.run_id)
        moment = failed + BREATH if failed else utc_now()
        left = (moment - utc_now()).total_seconds()
        if left > 0:
            progress.warning(
                "the run before has left no account of the queue; going on in %.0f s", left
            )
        if left >= DEFER_FROM_S:
            self.defer(trigger=RetryTrigger(moment, {}), method_name="look_once_more")
        time.sleep(max(0.0, left))

    def _options(self, context: Context, handler: Handler) -> RunOptions:
        asked, dag_run = context["params"], context["dag_run"]
        if wrong := fault(dag_run.conf or {}):
            raise HandlerError(wrong)
        if asked["apply"] and dag_run.run_type.value != BACKFILL:
            raise HandlerError(
                f"apply is for backfills, and this is a {dag_run.run_type.value} run: leave it out"
            )
        # A backfill that is not told to apply evaluates only.
        only_evaluates = self.window(context) is not None and not asked["apply"]
        return RunOptions(
            input_q=asked["input_q"],
            input_q_mgr=asked["input_q_mgr"],
            rules=asked["rules"],
            dry_run=asked["dry_run"] or handler.dry_run or only_evaluates,
            message_keys=named_messages(asked["message_keys"]),
            action=asked["action"],
            wait_s=wait_seconds(asked["wait"]),
            dag_run_id=dag_run.run_id,
            run_type=dag_run.run_type.value,
            started_by=started_by(context),
        )

    def _sense_snapshots(self, run: Run, window: sense.Window, ledger: Ledger) -> None:
        """Find the snapshots of a backfill's interval; the queue is not looked at."""
        taken = sense.snapshots_of(run, window, ledger)
        place = f"{run.queue} of {run.queue_manager}"
        if not taken:
            why = f"No snapshot of {place} was taken from {window}: nothing to evaluate."
            self._skip(run, 0, why, ledger)
        sense.begin_run(run, ledger)
        record_look(ledger, run.run_id, Look(len(taken), True, "a backfill", utc_now()))
        progress.info("%d snapshots of %s from %s", len(taken), place, window)

    def _skip(self, run: Run, depth: int, why: str, ledger: Ledger) -> None:
        """Skip all tasks after this one but the report, which says why."""
        sense.begin_run(run, ledger)
        record_look(ledger, run.run_id, Look(depth, False, why, utc_now()))
        progress.info("%s", why or f"{_seen(run, depth)}: nothing to do, the rest is skipped")
        after = self.get_flat_relative_ids(upstream=False)
        raise DownstreamTasksSkipped(tasks=sorted(after - {REPORT}))

    def _conclude(self, run: Run, depth: int, why: str, ledger: Ledger) -> None:
        if not why:
            self._skip(run, depth, "", ledger)
        sense.begin_run(run, ledger)
        record_look(ledger, run.run_id, Look(depth, True, why, utc_now()))
        rules = PurePath(run.rules_source).name
        progress.info("%s on %s of %s; rules: %s", why, run.queue, run.queue_manager, rules)


def _end_of_wait(run: Run, handler: Handler, waited: dict[str, Any] | None) -> datetime | None:
    """Return when a run waits no more, None for never: what it was before is what it remains."""
    if run.wait_s == 0:
        return utc_now()
    if waited is not None:
        return datetime.fromisoformat(waited["until"]) if waited["until"] else None
    if run.wait_s is None:
        return handler.next_start(utc_now())
    return utc_now() + timedelta(seconds=run.wait_s)


def _on(until: datetime | None) -> str:
    return f"until {until:%Y-%m-%d %H:%M:%S} UTC" if until else "on"


def _seen(run: Run, depth: int) -> str:
    number = f"{depth} settled messages" if depth else "no messages"
    return f"{number} on {run.queue} of {run.queue_manager}"
