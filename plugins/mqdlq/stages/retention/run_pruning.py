"""Prune runs: choose them by the policy, then remove their rows from the ledger."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from mqdlq.lake import snapshot_directory
from mqdlq.lake.archive import remove_unfinished_files
from mqdlq.lake.retention import remove_snapshot_files
from mqdlq.ledger import Ledger, Protection

Progress = Callable[[str], None]
TELL_EVERY: Final = 1_000


@dataclass(frozen=True, slots=True)
class RunChoice:
    """The runs that go, with the number of their messages, and the kept ones by reason."""

    run_ids: Sequence[str] = ()
    messages: int = 0
    kept: Counter[Protection] = field(default_factory=Counter)


def choose_runs(
    handler: str,
    keep_for: timedelta,
    *,
    ledger: Ledger,
    now: datetime,
    without_copies: Collection[str] = (),
) -> RunChoice:
    """Choose the runs of a handler that ended longer than `keep_for` ago and that nothing needs.

    Nothing is removed. `without_copies` are runs whose archive copies are about to go.
    """
    before = now - keep_for
    old = ledger.prunes.closed_before(handler, before)
    protected, links = ledger.prunes.protected_runs(handler, before, now, without_copies)
    kept = keep_linked(old, protected, links, ledger.prunes.open_runs())
    going = [run_id for run_id in old if run_id not in kept]
    messages = sum(one.messages for one in ledger.prunes.count_outcomes(going))
    return RunChoice(going, messages, Counter(kept[run_id] for run_id in old if run_id in kept))


def keep_linked(
    old: Iterable[str],
    protected: Mapping[str, Protection],
    links: Iterable[tuple[str, str]],
    going: Collection[str] = (),
) -> dict[str, Protection]:
    """Return the protected runs, and the runs whose rows a kept run needs.

    `links` are pairs of a run and another run that needs it. A run that is not `old` is kept,
    unless it is `going` already.
    """
    kept = dict(protected)
    gone = set(going)
    candidates = set(old)
    needed_by: dict[str, set[str]] = defaultdict(set)
    for run_id, other in links:
        needed_by[other].add(run_id)
    others = set(needed_by) - candidates - gone
    waiting = deque([*kept, *others])
    while waiting:
        for run_id in needed_by[waiting.popleft()]:
            if run_id in candidates and run_id not in kept:
                kept[run_id] = Protection.LINKED
                waiting.append(run_id)
    return kept


def prune_runs(
    prune_id: int,
    chosen: RunChoice,
    *,
    ledger: Ledger,
    lake_root: str,
    now: datetime,
    progress: Progress,
) -> RunChoice:
    """Remove the chosen runs; return the removed ones.

    The ledger records a run and its totals before its files and rows go. Runs that became protected
    since they were chosen stay.
    """
    going = ledger.prunes.intend_runs(prune_id, chosen.run_ids, now)
    messages = sum(one.messages for one in ledger.prunes.count_outcomes(going))
    for number, run_id in enumerate(going, start=1):
        finish_run(run_id, ledger=ledger, lake_root=lake_root)
        if number % TELL_EVERY == 0:
            progress(f"{number:,} of {len(going):,} runs pruned")
    return RunChoice(going, messages, chosen.kept)


def finish_run(run_id: str, *, ledger: Ledger, lake_root: str) -> None:
    """Remove the files of a run that a prune has recorded, then its rows. It may be repeated."""
    run, taken = ledger.runs.get(run_id), ledger.snapshots.of_run(run_id)
    if run is not None and taken is not None:
        directory = snapshot_directory(lake_root, run.queue_manager, run.queue, taken.snapshot_id)
        remove_snapshot_files(lake_root, directory, taken.snapshot_id)
    remove_unfinished_files(lake_root, run_id)
    ledger.prunes.erase(run_id)
