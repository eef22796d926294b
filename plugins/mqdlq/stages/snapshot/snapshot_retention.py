"""Prune snapshots that exceed the limits of their number or age."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from mqdlq.errors import MqDlqError
from mqdlq.handlers import Handler
from mqdlq.lake import Snapshot, finished_snapshots, remove_snapshot
from mqdlq.ledger import Ledger, Run

NEWEST_OF_QUEUE: Final = "it is the newest of its queue"
USED_BY_BACKFILL: Final = "a backfill may still evaluate it"
BACKFILL_USE: Final = timedelta(days=1)
"""How long a merged snapshot is kept for its backfill: the ledger does not record every one."""


@dataclass(frozen=True, slots=True)
class PruneResult:
    """The removed snapshots, and the snapshots kept beyond the limits, each with its reason."""

    removed: tuple[Snapshot, ...]
    kept: tuple[tuple[Snapshot, str], ...]


def prune_snapshots(
    lake_root: str,
    *,
    ledger: Ledger,
    now: datetime,
    keep: int | None = None,
    keep_for: timedelta | None = None,
    queue: tuple[str, str] | None = None,
    is_dry_run: bool = False,
) -> PruneResult:
    """Remove the snapshots of each queue beyond the `keep` newest or older than `keep_for`.

    With both limits, a snapshot that exceeds either is removed; without limits, none is. These
    snapshots always stay: the newest of a queue, those to which compact rows of a kept snapshot
    refer, and those of a run that has not settled its account or is under a legal hold. `queue`
    (queue manager, queue) restricts the pruning to one queue; with `is_dry_run` nothing is removed.
    The ledger records the pruned snapshots. Merged snapshots of backfills are counted separately:
    they neither push out others nor count as the newest of a queue, and they stay for a day. Raises
    LakeError for an invalid manifest.
    """
    found = finished_snapshots(lake_root)
    beyond = [
        one for one in _find_beyond_limits(found, now, keep, keep_for) if queue in {None, one.queue}
    ]
    reasons = find_reasons_to_keep(found, ledger, now, {one.manifest.snapshot_id for one in beyond})
    removed = [one for one in beyond if one.manifest.snapshot_id not in reasons]
    if not is_dry_run and removed:
        ledger.snapshots.record_pruned([one.manifest.snapshot_id for one in removed], now)
        for one in removed:
            remove_snapshot(lake_root, one)
    kept = [(one, reasons[one.manifest.snapshot_id]) for one in beyond if one not in removed]
    return PruneResult(tuple(removed), tuple(kept))


def prune_for_handler(
    run: Run,
    handler: Handler,
    lake_root: str,
    *,
    ledger: Ledger,
    now: datetime,
    log: logging.Logger,
) -> None:
    """Remove snapshots of a run's queue beyond its handler's limits; never fails the run."""
    if not (handler.keep_snapshots or handler.keep_snapshots_for):
        return
    try:
        pruned = prune_snapshots(
            lake_root,
            ledger=ledger,
            now=now,
            keep=handler.keep_snapshots,
            keep_for=handler.keep_snapshots_for,
            queue=(run.queue_manager, run.queue),
        )
    except (MqDlqError, OSError) as error:
        log.warning("snapshots could not be pruned: %s [MQDLQ-435]", getattr(error, "text", error))
        return
    if pruned.removed:
        log.info("%d snapshots pruned", len(pruned.removed))


def find_reasons_to_keep(
    found: Sequence[Snapshot],
    ledger: Ledger,
    now: datetime,
    beyond: frozenset[str] | set[str] = frozenset(),
) -> Mapping[str, str]:
    """Return by id the reasons why snapshots must not be removed.

    `beyond` are the ids of snapshots beyond the limits. A snapshot to which only these refer may be
    removed with them.
    """
    held = ledger.holds.snapshots()
    kept = {key: f"legal hold {hold} covers its run" for key, hold in held.items()}
    reasons = ledger.snapshots.not_settled()
    kept |= {key: f"run {run} has not settled its account" for key, run in reasons.items()}
    seen: set[tuple[str, str]] = set()
    for one in found:  # the newest of each queue first
        if one.manifest.put_together_from:
            if now - one.manifest.taken_at < BACKFILL_USE:
                kept.setdefault(one.manifest.snapshot_id, USED_BY_BACKFILL)
        elif one.queue not in seen:
            seen.add(one.queue)
            kept.setdefault(one.manifest.snapshot_id, NEWEST_OF_QUEUE)
    for one in found:
        identifier = one.manifest.snapshot_id
        if identifier not in beyond or identifier in kept:
            for referred in one.manifest.refers_to:
                kept.setdefault(referred, f"compact rows of {identifier} refer to it")
    return kept


def _find_beyond_limits(
    found: Sequence[Snapshot], now: datetime, keep: int | None, keep_for: timedelta | None
) -> list[Snapshot]:
    ranks: Counter[tuple[tuple[str, str], bool]] = Counter()
    beyond = []
    for one in found:
        kind = (one.queue, bool(one.manifest.put_together_from))
        ranks[kind] += 1
        too_many = keep is not None and ranks[kind] > keep
        too_old = keep_for is not None and now - one.manifest.taken_at > keep_for
        if too_many or too_old:
            beyond.append(one)
    return beyond
