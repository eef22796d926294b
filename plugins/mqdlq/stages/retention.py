"""Prune archive copies, runs and snapshots by policy, never what a restoration or run needs."""

import logging
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from typing import Final

from pydantic import TypeAdapter

from mqdlq.errors import LedgerError, MqDlqError
from mqdlq.handlers import Handler
from mqdlq.lake import Snapshot, finished_snapshots, remove_snapshot, snapshot_directory, storage
from mqdlq.lake.archive import file_in_lake, read_copies, remove_copies, remove_unfinished_files
from mqdlq.lake.replacements import remove_replacements
from mqdlq.ledger import Ledger
from mqdlq.ledger.archive import ArchivedCopy
from mqdlq.ledger.retention import Protection
from mqdlq.ledger.tables import Prune, Run
from mqdlq.stages.older_ledger import require_newest_ledger
from mqdlq.words import moment

# The retention policy of a handler, and the check of the clock that its ages depend on.

LARGEST_SKEW: Final = timedelta(minutes=5)
"""How far the clocks of two computers may differ: another one may write to the ledger now."""
LONGEST_PAUSE: Final = timedelta(days=31)
"""The longest time without a record before someone must confirm the clock."""


def policy_of(handler: Handler) -> str:
    """Say for how long archive copies and runs of a handler are kept; "" for without limit."""
    keys = ("keep_archive_for", "keep_runs_for")
    limits = ((key, getattr(handler, key)) for key in keys)
    return ", ".join(f"{key} {_as_duration(limit)}" for key, limit in limits if limit is not None)


def _as_duration(value: timedelta) -> str:
    """Return a duration in ISO 8601: whole days as days, not as years."""
    if value % timedelta(days=1):
        return str(TypeAdapter(timedelta).dump_python(value, mode="json"))
    return f"P{value.days}D"


def check_clock(ledger: Ledger, now: datetime, *, is_trusted: bool) -> datetime | None:
    """Check that the clock agrees with the records of the ledger.

    With `is_trusted`, a person has confirmed the clock: returns the time of the newest record.
    Otherwise raises LedgerError if a record is newer than `now`, or if there is a long time without
    any record since the last prune, because the clock may have jumped.
    """
    newest = ledger.prunes.newest_record()
    if is_trusted:
        return newest
    trusted, last = ledger.prunes.trusted_until(), ledger.prunes.last()
    is_known = trusted is not None and newest is not None and newest <= trusted
    if newest is not None and newest > now + LARGEST_SKEW and not is_known:
        raise LedgerError(
            "MQDLQ-253",
            f"the newest record of the ledger is of {moment(newest)}, and the clock says"
            f" {moment(now)}: nothing is pruned; correct the clock, or confirm it with mqdlq prune"
            " --trust-clock",
        )
    since = [last.at] if last else []
    starts = [at for at in ledger.prunes.starts_since(last.at if last else None) if at <= now]
    for earlier, later in pairwise([*since, *starts, now]):
        if later - earlier > LONGEST_PAUSE:
            raise LedgerError(
                "MQDLQ-254",
                f"the ledger has no record between {moment(earlier)} and {moment(later)}, as if the"
                " clock had jumped: nothing is pruned; confirm the clock with mqdlq prune"
                " --trust-clock",
            )
    return None


# Prune archive copies and runs: choose them by the policy, then remove them.

Progress = Callable[[str], None]
TELL_EVERY_FILES: Final = 100
TELL_EVERY_RUNS: Final = 1_000


FileChoice = tuple[str, str, set[int], int]
"""Copies that go: run, file, ids of messages, and about how many bytes they take there."""


@dataclass(slots=True)
class PruneResult:
    """What a policy removes, or would remove, and by reason what is kept beyond its limits."""

    handler: Handler
    copies: int = 0
    stored_bytes: int = 0
    run_ids: Sequence[str] = ()
    messages: int = 0
    kept_copies: Counter[Protection] = field(default_factory=Counter)
    kept_runs: Counter[Protection] = field(default_factory=Counter)


class Pruner:
    """Prunes a ledger and its lake for `who`, a person or the schedule."""

    def __init__(
        self,
        ledger: Ledger,
        lake_root: str,
        clock: Callable[[], datetime],
        who: str,
        progress: Progress = print,
    ) -> None:
        self._ledger, self._lake_root, self._clock = ledger, lake_root, clock
        self._who, self._progress = who, progress

    def prune(
        self, handlers: Iterable[Handler], *, is_dry_run: bool = False, trust_clock: bool = False
    ) -> list[PruneResult]:
        """Prune by the policy of each handler that has a limit; with `is_dry_run` remove nothing.

        An interrupted prune is completed first. The prune may be called again at any time, also
        while another one runs: both then remove the same copies and runs, once. Raises LedgerError
        if the clock does not agree with the ledger, OlderLedgerError if the ledger is older than
        the lake, and LakeError or OSError if a file cannot be changed; the next prune continues
        there.
        """
        active = [handler for handler in handlers if policy_of(handler)]
        if not active:
            return []
        now = self._clock()
        trusted = check_clock(self._ledger, now, is_trusted=trust_clock)
        if is_dry_run:
            return [self._apply(handler, now, None) for handler in active]
        require_newest_ledger(self._ledger, self._lake_root)  # holds may be lost
        self.complete_interrupted_prunes()
        results = []
        for handler in active:
            began = Prune(handler.name, policy_of(handler), self._who, now)
            results.append(self._apply(handler, now, self._ledger.prunes.begin(began, trusted)))
        return results

    def complete_interrupted_prunes(self) -> None:
        """Remove the copies and runs that the ledger has recorded as going and still has."""
        for file in self._ledger.prunes.open_files():
            self._finish_file(*file)
        for run_id in self._ledger.prunes.open_runs():
            self._finish_run(run_id)

    def _apply(self, handler: Handler, now: datetime, prune_id: int | None) -> PruneResult:
        """Choose by one policy, and remove unless it is a dry run, which has no `prune_id`."""
        result, freed = PruneResult(handler), set[str]()
        if handler.keep_archive_for is not None:
            before = now - handler.keep_archive_for
            files, freed = self._choose_copies(handler.name, before, result.kept_copies)
            if prune_id is not None:
                files, freed = self._remove_copies(prune_id, files, before), set()
                if not self._ledger.holds.all():
                    remove_replacements(self._lake_root, handler.name, before)
            result.copies = sum(len(going) for _, _, going, _ in files)
            result.stored_bytes = sum(size for *_, size in files)
        if handler.keep_runs_for is not None:
            before = now - handler.keep_runs_for
            run_ids, result.kept_runs = self._choose_runs(handler.name, before, now, freed)
            if prune_id is not None:
                run_ids = self._ledger.prunes.intend_runs(prune_id, run_ids, now)
            messages = self._ledger.prunes.count_messages(run_ids)
            result.run_ids, result.messages = run_ids, messages
            for number, run_id in enumerate(run_ids if prune_id is not None else (), start=1):
                self._finish_run(run_id)
                if number % TELL_EVERY_RUNS == 0:
                    self._progress(f"{number:,} of {len(run_ids):,} runs pruned")
        return result

    def _choose_copies(
        self, handler: str, before: datetime, kept: Counter[Protection]
    ) -> tuple[list[FileChoice], set[str]]:
        """Choose the copies of a handler whose discard was confirmed before a moment.

        Returns them by file, and the runs without any other copy. Copies that are beyond this limit
        and must stay are counted by reason in `kept`.
        """
        ledger, files, freed = self._ledger, list[FileChoice](), set[str]()
        for run_id in ledger.prunes.runs_with_copies(handler, before):
            copies = [one for one in ledger.archive.copies(run_id=run_id) if one.pruned_at is None]
            protected = ledger.prunes.protected_copies(run_id, before)
            number = 0
            for location, group in groupby(copies, key=lambda copy: copy.location):
                reasons = {copy.message_id: why_kept(copy, protected, before) for copy in group}
                going = {message_id for message_id, why in reasons.items() if why is None}
                place = file_in_lake(self._lake_root, location)
                if going and not storage.exists(place):
                    kept[Protection.MISSING] += len(going)
                    going = set()
                kept.update(why for why in reasons.values() if why and why is not Protection.AGE)
                if going:
                    is_whole = len(going) == len(reasons)
                    size = storage.size(place) if is_whole else sum(_sizes(place, going))
                    files.append((run_id, location, going, size))
                    number += len(going)
            if number == len(copies):
                freed.add(run_id)
        return files, freed

    def _remove_copies(
        self, prune_id: int, chosen: Sequence[FileChoice], before: datetime
    ) -> list[FileChoice]:
        """Remove the chosen copies, file by file; return the removed ones.

        The ledger records the copies of a file before the file changes, and the file afterwards.
        Copies that became protected since they were chosen stay.
        """
        removed = []
        for number, (run_id, location, wanted, size) in enumerate(chosen, start=1):
            going = self._ledger.prunes.intend_copies(prune_id, run_id, wanted, before)
            if going:
                self._finish_file(prune_id, run_id, location)
                removed.append((run_id, location, going, len(going) * size // len(wanted)))
            if number % TELL_EVERY_FILES == 0:
                self._progress(f"{number:,} of {len(chosen):,} files of the archive pruned")
        return removed

    def _finish_file(self, prune_id: int, run_id: str, location: str) -> None:
        """Remove all copies that prunes were to remove from a file, and record that it is done.

        It may be repeated. If another prune writes the same file at the same time, the file may
        contain its copies again; they are then removed again.
        """
        place = file_in_lake(self._lake_root, location)
        pruned: set[int] = set()
        while (now := self._ledger.prunes.pruned_in(run_id, location)) != pruned:
            remove_copies(place, now)
            pruned = now
        self._ledger.prunes.finish_file(prune_id, location, self._clock())

    def _choose_runs(
        self, handler: str, before: datetime, now: datetime, without_copies: Collection[str]
    ) -> tuple[list[str], Counter[Protection]]:
        """Choose the runs of a handler that ended before a moment and that nothing needs.

        Returns them, and the kept ones counted by reason. `without_copies` are runs whose archive
        copies are about to go.
        """
        prunes = self._ledger.prunes
        old = prunes.closed_before(handler, before)
        protected, links = prunes.protected_runs(handler, before, now, without_copies)
        kept = keep_linked(old, protected, links, prunes.open_runs())
        going = [run_id for run_id in old if run_id not in kept]
        return going, Counter(kept[run_id] for run_id in old if run_id in kept)

    def _finish_run(self, run_id: str) -> None:
        """Remove the files of a run that a prune has recorded, then its rows; may be repeated."""
        root, ledger = self._lake_root, self._ledger
        run, taken = ledger.runs.get(run_id), ledger.snapshots.of_run(run_id)
        if run is not None and taken is not None:
            directory = snapshot_directory(root, run.queue_manager, run.queue, taken.snapshot_id)
            remove_snapshot(root, directory, taken.snapshot_id)
        remove_unfinished_files(root, run_id)
        ledger.prunes.erase(run_id)


def why_kept(
    copy: ArchivedCopy, protected: Mapping[int, Protection], before: datetime
) -> Protection | None:
    if copy.message_id in protected:
        return protected[copy.message_id]
    if copy.is_provisional or copy.moved_at is None:
        return Protection.PROVISIONAL
    return Protection.AGE if copy.moved_at >= before else None


def _sizes(place: str, going: set[int]) -> Iterator[int]:
    for copy in read_copies(place):
        if copy.message_id in going:
            yield len(copy.descriptor) + len(copy.body)


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
    kept, candidates = dict(protected), set(old)
    needed_by: dict[str, set[str]] = defaultdict(set)
    for run_id, other in links:
        needed_by[other].add(run_id)
    waiting = deque([*kept, *(set(needed_by) - candidates - set(going))])
    while waiting:
        for run_id in needed_by[waiting.popleft()]:
            if run_id in candidates and run_id not in kept:
                kept[run_id] = Protection.LINKED
                waiting.append(run_id)
    return kept


# Prune the snapshots that exceed the limits of their number or age.

NEWEST_OF_QUEUE: Final = "it is the newest of its queue"
USED_BY_BACKFILL: Final = "a backfill may still evaluate it"
BACKFILL_USE: Final = timedelta(days=1)
"""How long a merged snapshot is kept for its backfill: the ledger does not record every one."""


def prune_snapshots(
    lake_root: str,
    *,
    ledger: Ledger,
    now: datetime,
    keep: int | None = None,
    keep_for: timedelta | None = None,
    queue: tuple[str, str] | None = None,
    is_dry_run: bool = False,
) -> tuple[list[Snapshot], list[tuple[Snapshot, str]]]:
    """Remove the snapshots of each queue beyond the `keep` newest or older than `keep_for`.

    Returns the removed snapshots, and those kept beyond the limits, each with its reason. A
    snapshot that exceeds either limit is removed, unless `find_reasons_to_keep` has one; the ledger
    records it as pruned first. `queue` (queue manager, queue) restricts the pruning to one queue;
    with `is_dry_run` nothing is removed. Raises LakeError for an invalid manifest.
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
            remove_snapshot(lake_root, one.directory, one.manifest.snapshot_id)
    kept = [(one, reasons[one.manifest.snapshot_id]) for one in beyond if one not in removed]
    return removed, kept


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
        removed, _ = prune_snapshots(
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
    if removed:
        log.info("%d snapshots pruned", len(removed))


def find_reasons_to_keep(
    found: Sequence[Snapshot],
    ledger: Ledger,
    now: datetime,
    beyond: frozenset[str] | set[str] = frozenset(),
) -> Mapping[str, str]:
    """Return by id the reasons why snapshots must not be removed.

    `beyond` are the ids of snapshots beyond the limits. A snapshot to which only these refer may be
    removed with them. Merged snapshots of backfills neither push out others nor count as the newest
    of a queue.
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
