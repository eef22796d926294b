"""Find what an older ledger misses, and what it can take on of that from the lake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from mqdlq.errors import LakeError
from mqdlq.lake import storage
from mqdlq.lake.archive import read_copies, time_of_copies
from mqdlq.lake.works import newest_work, recorded_restorations
from mqdlq.ledger import Ledger, Restoration
from mqdlq.model import RestorationState
from mqdlq.stages.report.wording import count, place

MOST_WORDS: Final = 5
"""How many things a summary names."""


@dataclass(frozen=True, slots=True)
class LostFile:
    """A file of archive copies that the ledger does not know, of a run that it knows or misses.

    `digests` has the copies that the ledger can take on: those of messages that it knows.
    """

    run_id: str
    location: str
    copies: int
    at: datetime
    digests: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LostRestoration:
    """A restoration of which the ledger misses what it put; `copies` are what it was to put."""

    restoration: Restoration
    copies: Sequence[tuple[str, int, str]]


@dataclass(frozen=True, slots=True)
class Missing:
    """The work in the lake that a ledger misses; `works` counts it, 0 if that is unknown."""

    works: int
    files: Sequence[LostFile]
    restorations: Sequence[LostRestoration]

    @property
    def in_words(self) -> list[str]:
        """The missing work, and the result of taking it on."""
        found = []
        if self.works:
            found.append(f"{count(self.works, 'pass or restoration', 'passes and restorations')}")
        for file in self.files:
            copies = count(file.copies, "archive copy", "archive copies")
            fate = (
                f"{len(file.digests)} of them can be taken on"
                if file.digests
                else f"they stay in {file.location}, and `mqdlq restore` cannot put them"
            )
            found.append(f"{copies} of run {file.run_id} ({fate})")
        for lost in self.restorations:
            to = place(lost.restoration.to_queue, lost.restoration.to_queue_manager)
            found.append(
                f"what restoration {lost.restoration.restoration_id} of"
                f" {count(len(lost.copies), 'message')} to {to} put"
            )
        return found

    @property
    def summary(self) -> str:
        """The first of these words, for one line."""
        words = self.in_words
        more = [f"and {len(words) - MOST_WORDS} more"] if len(words) > MOST_WORDS else []
        return "; ".join([*words[:MOST_WORDS], *more]) or "nothing that the lake shows"


def find_missing(ledger: Ledger, lake_root: str) -> Missing:
    """Compare the lake with the ledger; archive files that the ledger does not know are read."""
    newest, own = newest_work(lake_root), ledger.epochs.newest()
    works = 0
    if newest is not None and (own is None or newest.number.name == own.name):
        works = max(0, newest.number.number - (own.number if own else 0))
    return Missing(
        works, tuple(_lost_files(ledger, lake_root)), tuple(_lost_restorations(ledger, lake_root))
    )


def _lost_files(ledger: Ledger, lake_root: str) -> Iterator[LostFile]:
    for location in storage.matching(lake_root, "/archive/*/*.parquet"):
        run_id, name = location.rsplit("/", 2)[-2:]
        known = {place.rsplit("/", 1)[-1] for place in ledger.archive.locations(run_id)}
        if name not in known and ledger.prunes.pruned_run(run_id) is None:
            yield _read_lost_file(run_id, location, ledger)


def _read_lost_file(run_id: str, location: str, ledger: Ledger) -> LostFile:
    """Read a file; its copies are of the ledger's messages if it was made by the accepted plan.

    A run that began again after the loss has another plan, and other messages under the same ids.
    """
    at = time_of_copies(location)
    plan = ledger.plans.of_run(run_id)
    is_of_plan = plan is not None and plan.accepted_at <= at
    ids = {one.message_id for one in ledger.messages.of_run(run_id)} if is_of_plan else set()
    ids -= ledger.archive.digests(run_id).keys()
    copies, digests = 0, dict[int, str]()
    with suppress(LakeError):  # a damaged file; its copies stay unknown
        for copy in read_copies(location):
            copies += 1
            if copy.message_id in ids:
                digests[copy.message_id] = copy.digest
    return LostFile(run_id, location, copies, at, digests)


def _lost_restorations(ledger: Ledger, lake_root: str) -> Iterator[LostRestoration]:
    for held in recorded_restorations(lake_root):
        values: dict[str, Any] = held["restoration"]
        started_at = datetime.fromisoformat(values["started_at"])
        restoration = Restoration(
            **{**values, "started_at": started_at, "message_keys": tuple(values["message_keys"])}
        )
        states = ledger.restorations.states(restoration.restoration_id)
        lost = [
            (run_id, message_id, key)
            for run_id, message_id, key in held["copies"]
            if (run_id, message_id) not in states
            or states[run_id, message_id].state is RestorationState.SELECTED
        ]
        if lost:
            yield LostRestoration(restoration, lost)
