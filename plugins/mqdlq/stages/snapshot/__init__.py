"""The second stage: a run's queue in, a snapshot of what is on it out; nothing is removed."""

from __future__ import annotations

from mqdlq.stages.snapshot.snapshot_options import PayloadKey, SnapshotOptions
from mqdlq.stages.snapshot.snapshot_retention import Pruned, prune_after, prune_snapshots, why_kept
from mqdlq.stages.snapshot.taking import take_snapshot

__all__ = [
    "PayloadKey",
    "Pruned",
    "SnapshotOptions",
    "prune_after",
    "prune_snapshots",
    "take_snapshot",
    "why_kept",
]
