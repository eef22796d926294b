"""A backfill: the snapshots of a window of time under today's rules."""

from __future__ import annotations

from mqdlq.stages.backfill.differences import Difference, differences, report_differences
from mqdlq.stages.backfill.together import put_together, snapshot_of_window, still_kept

__all__ = [
    "Difference",
    "differences",
    "put_together",
    "report_differences",
    "snapshot_of_window",
    "still_kept",
]
