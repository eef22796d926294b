"""Decide whether a run waits for its next pass or leaves its pending messages on the queue."""

from __future__ import annotations

from datetime import datetime, timedelta

from mqdlq.handlers import Handler
from mqdlq.ledger import Ledger, Run


def find_reason_not_to_wait(
    run: Run, handler: Handler, ledger: Ledger, pending: int, next_pass_at: datetime
) -> str:
    """Return the reason why a run with `pending` messages makes no further pass, or ""."""
    if handler.is_continuous:
        return f"{pending} messages are left to the pass of the next run"
    snapshot = ledger.snapshots.of_run(run.run_id)
    # The limit counts from the snapshot: a run may have waited long for its first message.
    began = snapshot.taken_at if snapshot else run.started_at
    is_late = next_pass_at > began + timedelta(seconds=run.max_run_time_s)
    return "max_run_time ends before the next pass" if is_late else ""
