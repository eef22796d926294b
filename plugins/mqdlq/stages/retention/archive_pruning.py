"""Prune archive copies: choose them by the policy, then remove them from their files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from typing import Final

from mqdlq.lake import storage
from mqdlq.lake.archive import file_in_lake, read_copies, remove_copies
from mqdlq.ledger import ArchivedCopy, Ledger, OpenFile, Protection

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
