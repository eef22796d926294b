"""Which snapshots are kept and which go: lake, ledger and two limits in, what was removed out."""

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

NEWEST: Final = "it is the newest of its queue"
IN_USE: Final = "a backfill may still evaluate it"
USE: Final = timedelta(days=1)
"""How long what a backfill has put together may be needed: the ledger knows not of every one."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """What a pruning removed; and what it would have, but for the reason given."""

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
    only_say: bool = False,
) -> Pruned:
    """Remove the snapshots of each queue beyond the `keep` newest or older than `keep_for`.

    With both limits a snapshot goes that exceeds either; without any, none does. Never removed are
    the newest of a queue, those that compact rows of a kept one refer to, and those of a run that
    has not settled its account. `queue` (queue manager, queue) names the only one to look at;
    with `only_say` nothing is removed. The ledger knows from then on what was pruned, and so is
    not lost. What backfills have put together is counted by itself: it neither pushes out what
    was taken nor is the newest of a queue, and none goes within a day. Raises LakeError for a
    manifest that is none.
    """
    found = finished_snapshots(lake_root)
    beyond = [one for one in _beyond(found, now, keep, keep_for) if queue in {None, one.queue}]
    reasons = why_kept(found, ledger, now, {one.manifest.snapshot_id for one in beyond})
    removed = [one for one in beyond if one.manifest.snapshot_id not in reasons]
    if not only_say and removed:
        ledger.snapshots.record_pruned([one.manifest.snapshot_id for one in removed], now)
        for one in removed:
            remove_snapshot(lake_root, one)
    kept = [(one, reasons[one.manifest.snapshot_id]) for one in beyond if one not in removed]
    return Pruned(tuple(removed), tuple(kept))


def prune_after(
    run: Run,
    handler: Handler,
    lake_root: str,
    *,
    ledger: Ledger,
    now: datetime,
    log: logging.Logger,
) -> None:
    """Remove snapshots of a run's queue that its handler does not keep; never fails the run."""
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


def why_kept(
    found: Sequence[Snapshot],
    ledger: Ledger,
    now: datetime,
    beyond: frozenset[str] | set[str] = frozenset(),
) -> Mapping[str, str]:
    """Return by id why snapshots must not be removed.

    What only snapshots refer to that go themselves, those `beyond` the limits, may go with them.
    """
    reasons = ledger.snapshots.not_settled()
    kept = {key: f"run {run} has not settled its account" for key, run in reasons.items()}
    seen: set[tuple[str, str]] = set()
    for one in found:  # the newest of each queue first
        if one.manifest.put_together_from:
            if now - one.manifest.taken_at < USE:
                kept.setdefault(one.manifest.snapshot_id, IN_USE)
        elif one.queue not in seen:
            seen.add(one.queue)
            kept.setdefault(one.manifest.snapshot_id, NEWEST)
    for one in found:
        identifier = one.manifest.snapshot_id
        if identifier not in beyond or identifier in kept:
            for referred in one.manifest.refers_to:
                kept.setdefault(referred, f"compact rows of {identifier} refer to it")
    return kept


def _beyond(
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
