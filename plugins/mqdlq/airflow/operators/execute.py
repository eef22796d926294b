"""The task execute: make one attempt for each due message of an accepted plan."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from mqdlq import directories
from mqdlq.airflow.operators.base import DEFER_FROM_S, Stage, Work, progress, result_of, utc_now
from mqdlq.airflow.triggers.retry import RetryTrigger

if TYPE_CHECKING:
    from mqdlq.stages.execute import Execution, PassResult


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

        with self.work(context) as work:
            return left_by(make_pass(execution_of(work)))


def execution_of(work: Work) -> Execution:
    """Return what a pass works with."""
    from mqdlq.stages.execute import Execution  # noqa: PLC0415 (imports Arrow, which DAG parsing must not)

    return Execution(
        run=work.run,
        settings=work.settings,
        ledger=work.ledger,
        lake_root=directories.lake(),
        clock=utc_now,
        sleep=time.sleep,
        log=progress,
    )


def left_by(result: PassResult) -> dict[str, Any]:
    """Return a pass's result as the plain values that travel between tasks and triggers."""
    moment = result.next_pass_at
    return {"pending": result.pending, "next_pass_at": moment.isoformat() if moment else None}


# The task retry: make further passes, then give every message of the run an outcome.


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
        from mqdlq.words import outcomes_in_words  # noqa: PLC0415

        with self.work(context) as work:
            while left["pending"] and self._wait(work, left):
                left = left_by(make_pass(execution_of(work)))
            outcomes = settle(execution_of(work), _due_at(left))
        progress.info("settled: %s", outcomes_in_words(outcomes))
        return {str(outcome): number for outcome, number in outcomes.items()}

    def _wait(self, work: Work, left: dict[str, Any]) -> bool:
        """Wait for the next pass, in place or deferred; return whether it follows."""
        # imports Arrow, which DAG parsing must not.
        from mqdlq.stages.execute.passes import find_reason_not_to_wait  # noqa: PLC0415

        moment = _due_at(left)
        if moment is None:
            return False
        handler, pending = self.configuration(), left["pending"]
        if why := find_reason_not_to_wait(work.run, handler, work.ledger, pending, moment):
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
