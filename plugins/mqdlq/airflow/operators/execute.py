"""The task execute: make one attempt for each due message of an accepted plan."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from mqdlq import directories
from mqdlq.airflow.operators.base import Stage, Work, progress, utc_now

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
