"""A backfill's interval, and the snapshots that runs took within it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from mqdlq.ledger import Ledger, Run, TakenSnapshot


@dataclass(frozen=True, slots=True)
class BackfillWindow:
    """The interval of a backfill's run: from `start` up to but not including `end`, both aware."""

    start: datetime
    end: datetime

    def __str__(self) -> str:
        return f"{self.start:%Y-%m-%d %H:%M:%S} to {self.end:%Y-%m-%d %H:%M:%S} UTC"


def find_snapshots_in_window(
    run: Run, window: BackfillWindow, ledger: Ledger
) -> list[TakenSnapshot]:
    """Return the snapshots that runs took of a run's queue within a window, oldest first."""
    return ledger.snapshots.taken_between(run.queue_manager, run.queue, window.start, window.end)
