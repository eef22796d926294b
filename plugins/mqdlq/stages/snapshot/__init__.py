"""The second stage: take a snapshot of a run's queue by browsing it; no message is removed."""

from __future__ import annotations

from mqdlq.stages.snapshot.snapshot_options import PayloadKey, SnapshotOptions
from mqdlq.stages.snapshot.snapshot_retention import (
    PruneResult,
    find_reasons_to_keep,
    prune_for_handler,
    prune_snapshots,
)
from mqdlq.stages.snapshot.taking import take_snapshot

__all__ = [
    "PayloadKey",
    "PruneResult",
    "SnapshotOptions",
    "find_reasons_to_keep",
    "prune_for_handler",
    "prune_snapshots",
    "take_snapshot",
]
