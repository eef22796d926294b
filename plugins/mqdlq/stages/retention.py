"""Retention: prune archive copies and runs by policy, never what a restoration or run needs."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from typing import Final

from pydantic import TypeAdapter

from mqdlq.errors import LedgerError
from mqdlq.handlers import Handler
from mqdlq.lake import snapshot_directory, storage
from mqdlq.lake.archive import file_in_lake, read_copies, remove_copies, remove_unfinished_files
from mqdlq.lake.works import remove_snapshot_files
from mqdlq.ledger import ArchivedCopy, Ledger, OpenFile, Protection, Prune
from mqdlq.stages.older_ledger import require_newest_ledger
from mqdlq.words import moment

# The retention policy of a handler, and the check of the clock that its ages depend on.

LARGEST_SKEW: Final = timedelta(minutes=5)
"""How far the clocks of two computers may differ: another one may write to the ledger now."""
LONGEST_PAUSE: Final = timedelta(days=31)
"""The longest time without a record before someone must confirm the clock."""


@dataclass(frozen=True, slots=True)
class Policy:
    """For how long archive copies and runs of a handler are kept; None means without limit."""

    handler: str
    keep_archive_for: timedelta | None
    keep_runs_for: timedelta | None

    @classmethod
    def of(cls, handler: Handler) -> Policy:
        """Return the policy of a handler."""
        return cls(handler.name, handler.keep_archive_for, handler.keep_runs_for)

    @property
    def prunes(self) -> bool:
        """Whether the policy limits anything."""
        return self.keep_archive_for is not None or self.keep_runs_for is not None

    def __str__(self) -> str:
        limits = ("keep_archive_for", "keep_runs_for")
        return ", ".join(
            f"{name} {_as_duration(value)}"
            for name in limits
            if (value := getattr(self, name)) is not None
        )


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
    trusted = ledger.prunes.trusted_until()
    is_known = trusted is not None and newest is not None and newest <= trusted
    if newest is not None and newest > now + LARGEST_SKEW and not is_known:
        raise LedgerError(
            "MQDLQ-253",
            f"the newest record of the ledger is of {moment(newest)}, and the clock says"
            f" {moment(now)}: nothing is pruned; correct the clock, or confirm it with mqdlq prune"
            " --trust-clock",
        )
    last = ledger.prunes.last()
    since = None if last is None else last.at
    starts = [at for at in ledger.prunes.starts_since(since) if at <= now]
    known = [*([since] if since is not None else []), *starts, now]
    for earlier, later in pairwise(known):
        if later - earlier > LONGEST_PAUSE:
            raise LedgerError(
                "MQDLQ-254",
                f"the ledger has no record between {moment(earlier)} and {moment(later)}, as if the"
                " clock had jumped: nothing is pruned; confirm the clock with mqdlq prune"
                " --trust-clock",
            )
    return None


# Prune archive copies: choose them by the policy, then remove them from their files.

Progress = Callable[[str], None]
TELL_EVERY: Final = 100


@dataclass(frozen=True, slots=True)
class FileChoice:
    """The copies that go from one file; `stored_bytes` is about how much room they take there."""

    run_id: str
    location: str
    going: frozenset[int]
    is_whole: bool
    stored_bytes: int


@dataclass(slots=True)
class CopyChoice:
    """The copies that go, by file, the kept ones by reason, and the runs without any other copy."""

    files: list[FileChoice] = field(default_factory=list)
    kept: Counter[Protection] = field(default_factory=Counter)
    freed_runs: set[str] = field(default_factory=set)

    @property
    def copies(self) -> int:
        """How many copies go."""
        return sum(len(file.going) for file in self.files)

    @property
    def stored_bytes(self) -> int:
        """About how many bytes go."""
        return sum(file.stored_bytes for file in self.files)


def choose_copies(
    handler: str, keep_for: timedelta, *, ledger: Ledger, lake_root: str, now: datetime
) -> CopyChoice:
    """Choose the copies of a handler whose discard was confirmed longer than `keep_for` ago.

    Nothing is removed. Copies that are beyond this limit and must stay are counted by reason.
    """
    before, chosen = now - keep_for, CopyChoice()
    for run_id in ledger.prunes.runs_with_copies(handler, before):
        copies = [copy for copy in ledger.archive.copies(run_id=run_id) if copy.pruned_at is None]
        protected = ledger.prunes.protected_copies(run_id, before)
        going = 0
        for location, group in groupby(copies, key=lambda copy: copy.location):
            here = list(group)
            reasons = {copy.message_id: why_kept(copy, protected, before) for copy in here}
            file = _choose_in_file(run_id, location, reasons, lake_root, chosen.kept)
            if file is not None:
                chosen.files.append(file)
                going += len(file.going)
        if going == len(copies):
            chosen.freed_runs.add(run_id)
    return chosen


def why_kept(
    copy: ArchivedCopy, protected: Mapping[int, Protection], before: datetime
) -> Protection | None:
    """Return why a copy stays, None if it goes."""
    if copy.message_id in protected:
        return protected[copy.message_id]
    if copy.is_provisional or copy.moved_at is None:
        return Protection.PROVISIONAL
    return Protection.AGE if copy.moved_at >= before else None


def _choose_in_file(
    run_id: str,
    location: str,
    reasons: Mapping[int, Protection | None],
    lake_root: str,
    kept: Counter[Protection],
) -> FileChoice | None:
    going = frozenset(number for number, why in reasons.items() if why is None)
    place = file_in_lake(lake_root, location)
    if going and not storage.exists(place):
        kept[Protection.MISSING] += len(going)
        going = frozenset()
    kept.update(why for why in reasons.values() if why and why is not Protection.AGE)
    if not going:
        return None
    is_whole = len(going) == len(reasons)
    size = storage.size(place) if is_whole else sum(_sizes(place, going))
    return FileChoice(run_id, location, going, is_whole, size)


def _sizes(place: str, going: frozenset[int]) -> Iterator[int]:
    for copy in read_copies(place):
        if copy.message_id in going:
            yield len(copy.descriptor) + len(copy.body)


def prune_copies(
    prune_id: int,
    chosen: CopyChoice,
    before: datetime,
    *,
    ledger: Ledger,
    lake_root: str,
    clock: Callable[[], datetime],
    progress: Progress,
) -> CopyChoice:
    """Remove the chosen copies, file by file; return the removed ones.

    The ledger records the copies of a file before the file changes, and the file afterwards. Copies
    that became protected since they were chosen stay.
    """
    removed = CopyChoice(kept=chosen.kept)
    for number, file in enumerate(chosen.files, start=1):
        going = ledger.prunes.intend_copies(prune_id, file.run_id, file.going, before)
        if going:
            open_file = OpenFile(prune_id, file.run_id, file.location)
            finish_file(open_file, ledger=ledger, lake_root=lake_root, clock=clock)
            share = len(going) * file.stored_bytes // len(file.going)
            is_whole = file.is_whole and going == file.going
            removed.files.append(
                FileChoice(file.run_id, file.location, frozenset(going), is_whole, share)
            )
        if number % TELL_EVERY == 0:
            progress(f"{number:,} of {len(chosen.files):,} files of the archive pruned")
    return removed


def finish_file(
    file: OpenFile, *, ledger: Ledger, lake_root: str, clock: Callable[[], datetime]
) -> None:
    """Remove all copies that prunes were to remove from a file, and record that it is done.

    It may be repeated. If another prune writes the same file at the same time, the file may contain
    its copies again; they are then removed again.
    """
    place = file_in_lake(lake_root, file.location)
    pruned: set[int] = set()
    while (now := ledger.prunes.pruned_in(file.run_id, file.location)) != pruned:
        remove_copies(place, now)
        pruned = now
    ledger.prunes.finish_file(file.prune_id, file.location, clock())


# Prune runs: choose them by the policy, then remove their rows from the ledger.

TELL_EVERY_RUNS: Final = 1_000


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
        if number % TELL_EVERY_RUNS == 0:
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


# Prune archive and ledger by the policies of handlers.


@dataclass(frozen=True, slots=True)
class PruneResult:
    """The data that a policy removes, or would remove, and the data kept beyond its limits."""

    policy: Policy
    copies: CopyChoice = field(default_factory=CopyChoice)
    runs: RunChoice = field(default_factory=RunChoice)


@dataclass(frozen=True, slots=True)
class PruneResources:
    """The ledger and the lake to prune, the clock, and the person or schedule that prunes."""

    ledger: Ledger
    lake_root: str
    clock: Callable[[], datetime]
    who: str
    progress: Progress = print


def prune(
    policies: Sequence[Policy],
    resources: PruneResources,
    *,
    is_dry_run: bool = False,
    trust_clock: bool = False,
) -> list[PruneResult]:
    """Prune by each policy that has a limit; with `is_dry_run` remove nothing.

    An interrupted prune is completed first. The prune may be called again at any time, also while
    another one runs: both then remove the same copies and runs, once. Raises LedgerError if the
    clock does not agree with the ledger, OlderLedgerError if the ledger is older than the lake, and
    LakeError or OSError if a file cannot be changed; the next prune continues there.
    """
    active = [policy for policy in policies if policy.prunes]
    if not active:
        return []
    now = resources.clock()
    trusted = check_clock(resources.ledger, now, is_trusted=trust_clock)
    if is_dry_run:
        return [_choose(policy, resources, now) for policy in active]
    require_newest_ledger(resources.ledger, resources.lake_root)  # holds may be lost
    complete_interrupted_prunes(resources)
    return [_prune_one(policy, resources, now, trusted) for policy in active]


def complete_interrupted_prunes(resources: PruneResources) -> None:
    """Remove the copies and runs that the ledger has recorded as going and that are still there."""
    ledger, lake_root = resources.ledger, resources.lake_root
    for file in ledger.prunes.open_files():
        finish_file(file, ledger=ledger, lake_root=lake_root, clock=resources.clock)
    for run_id in ledger.prunes.open_runs():
        finish_run(run_id, ledger=ledger, lake_root=lake_root)


def _choose(policy: Policy, resources: PruneResources, now: datetime) -> PruneResult:
    copies, runs = CopyChoice(), RunChoice()
    if policy.keep_archive_for is not None:
        copies = _choose_copies(policy, resources, now)
    if policy.keep_runs_for is not None:
        runs = choose_runs(
            policy.handler,
            policy.keep_runs_for,
            ledger=resources.ledger,
            now=now,
            without_copies=copies.freed_runs,
        )
    return PruneResult(policy, copies, runs)


def _choose_copies(policy: Policy, resources: PruneResources, now: datetime) -> CopyChoice:
    assert policy.keep_archive_for is not None  # noqa: S101 (for mypy)
    return choose_copies(
        policy.handler,
        policy.keep_archive_for,
        ledger=resources.ledger,
        lake_root=resources.lake_root,
        now=now,
    )


def _prune_one(
    policy: Policy, resources: PruneResources, now: datetime, trusted: datetime | None
) -> PruneResult:
    ledger, lake_root, progress = resources.ledger, resources.lake_root, resources.progress
    began = Prune(policy.handler, str(policy), resources.who, now, trusted)
    prune_id = ledger.prunes.begin(began)
    copies, runs = CopyChoice(), RunChoice()
    if policy.keep_archive_for is not None:
        copies = prune_copies(
            prune_id,
            choose_copies(
                policy.handler,
                policy.keep_archive_for,
                ledger=ledger,
                lake_root=lake_root,
                now=now,
            ),
            now - policy.keep_archive_for,
            ledger=ledger,
            lake_root=lake_root,
            clock=resources.clock,
            progress=progress,
        )
    if policy.keep_runs_for is not None:
        runs = prune_runs(
            prune_id,
            choose_runs(policy.handler, policy.keep_runs_for, ledger=ledger, now=now),
            ledger=ledger,
            lake_root=lake_root,
            now=now,
            progress=progress,
        )
    return PruneResult(policy, copies, runs)
