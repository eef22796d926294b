"""Recognise a ledger that is older than the lake or a state queue, and take it on."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from mqdlq.errors import LakeError, OlderLedgerError
from mqdlq.lake import storage
from mqdlq.lake.archive import read_copies, time_of_copies
from mqdlq.lake.works import RecordedWork, newest_work, record_work, recorded_restorations
from mqdlq.ledger import Ledger
from mqdlq.ledger.tables import CopyState, Epoch, Restoration
from mqdlq.model import RestorationState, WorkNumber
from mqdlq.mqi.state_queue import RESTORATION_MARKER, Marker, Markers
from mqdlq.reasons import Why
from mqdlq.resources import Resources
from mqdlq.words import count, moment, place

# Find what an older ledger misses, and what it can take on of that from the lake.

MOST_WORDS: Final = 5
"""How many things a summary names."""


LostFile = tuple[str, str, int, Mapping[int, str]]
"""A file of archive copies that the ledger does not know: its run, its place, its copies.

The digests are those of the copies that the ledger can take on, of messages that it knows.
"""
LostRestoration = tuple[Restoration, Sequence[tuple[str, int, str]]]
"""A restoration of which the ledger misses what it put, and what it was to put."""


@dataclass(frozen=True, slots=True)
class Missing:
    """The work in the lake that a ledger misses; `works` counts it, 0 if that is unknown."""

    works: int
    files: Sequence[LostFile]
    restorations: Sequence[LostRestoration]

    @property
    def in_words(self) -> list[str]:
        found = []
        if self.works:
            found.append(count(self.works, "pass or restoration", "passes and restorations"))
        for run_id, location, number, digests in self.files:
            fate = f"they stay in {location}, and `mqdlq restore` cannot put them"
            if digests:
                fate = f"{len(digests)} of them can be taken on"
            copies = count(number, "archive copy", "archive copies")
            found.append(f"{copies} of run {run_id} ({fate})")
        for restoration, lost in self.restorations:
            to = place(restoration.to_queue, restoration.to_queue_manager)
            found.append(
                f"what restoration {restoration.restoration_id} of"
                f" {count(len(lost), 'message')} to {to} put"
            )
        return found

    @property
    def summary(self) -> str:
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
    plan = ledger.plans.of_run(run_id)
    is_of_plan = plan is not None and plan.accepted_at <= time_of_copies(location)
    ids = {one.message_id for one in ledger.messages.of_run(run_id)} if is_of_plan else set()
    ids -= ledger.archive.digests(run_id).keys()
    copies, digests = 0, dict[int, str]()
    with suppress(LakeError):  # a damaged file; its copies stay unknown
        for copy in read_copies(location):
            copies += 1
            if copy.message_id in ids:
                digests[copy.message_id] = copy.digest
    return run_id, location, copies, digests


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
            yield restoration, lost


# Recognise a ledger that was restored from an older copy, or is not the ledger of its lake.

_NO_MESSAGES: Final = hashlib.sha256().hexdigest()
"""The digest in the marker of a unit of work that moves nothing."""


def find_lost_work(ledger: Ledger, lake_root: str) -> RecordedWork | None:
    found = newest_work(lake_root)
    return None if found is None or ledger.epochs.knows(found.number) else found


def describe_older_ledger(ledger: Ledger, lake_root: str) -> str:
    """Return what a ledger that is older than the lake misses, "" for the newest one."""
    try:
        require_newest_ledger(ledger, lake_root)
    except OlderLedgerError as error:
        return str(error)
    return ""


def require_newest_ledger(ledger: Ledger, lake_root: str) -> None:
    found = find_lost_work(ledger, lake_root)
    if found is not None:
        raise OlderLedgerError(
            "MQDLQ-278",
            f"the lake {lake_root} has work that the ledger {ledger} does not know: {found.what},"
            f" which began at {moment(found.at)}. {_explain(ledger, lake_root)}",
        )


def begin_work(resources: Resources, what: str, state_queue: str, markers: Markers) -> RecordedWork:
    """Take the number of a pass or restoration, and write it to the lake before anything moves.

    The caller holds the state queue. If a crash comes between the two writes, the ledger knows a
    number that is nowhere else, which does no harm. Raises OlderLedgerError if the lake or a marker
    has work that the ledger does not know.
    """
    ledger, lake_root = resources.ledger, resources.lake_root
    require_newest_ledger(ledger, lake_root)
    where = state_queue, resources.settings.queue_manager
    require_known_markers(markers.markers(), ledger, lake_root, where)
    at = resources.clock()
    begun = RecordedWork(ledger.epochs.next_number(at), what, at)
    record_work(lake_root, begun)
    return begun


def require_known_markers(
    standing: Sequence[Marker], ledger: Ledger, lake_root: str, where: tuple[str, str]
) -> None:
    """Raise OlderLedgerError for a marker of a unit that the ledger lost and has not taken on.

    `where` are the state queue and its queue manager.
    """
    for marker in standing:
        if not is_known(marker, ledger) and not is_taken_on(marker, ledger):
            raise OlderLedgerError(
                "MQDLQ-626",
                f"the state queue {where[0]} of queue manager {where[1]} has the marker of a unit"
                f" of work of {marker.run_id} that the ledger {ledger} does not know."
                f" {_explain(ledger, lake_root)}",
            )


def is_known(marker: Marker, ledger: Ledger) -> bool:
    """Whether the ledger recorded the unit of a marker; each unit is recorded before its commit.

    A restoration records no unit that puts nothing, and a prune removes the units of a run.
    """
    if marker.plan_id != RESTORATION_MARKER:
        is_pruned = ledger.prunes.pruned_run(marker.run_id) is not None
        return is_pruned or bool(ledger.attempts.of_unit(marker.unit))
    states = ledger.restorations.states(marker.run_id)
    is_empty = marker.messages == _NO_MESSAGES
    return bool(states) and (is_empty or marker.unit in {one.unit for one in states.values()})


def is_taken_on(marker: Marker, ledger: Ledger) -> bool:
    """Whether a person took the ledger on after the unit of a marker that it does not know."""
    newest = ledger.epochs.newest()
    try:
        return newest is not None and WorkNumber.parse(marker.work).epoch < newest.epoch
    except ValueError:
        return False


def _explain(ledger: Ledger, lake_root: str) -> str:
    missing, newest = find_missing(ledger, lake_root).summary, ledger.epochs.newest()
    last = (
        f"its last work began at {moment(newest.worked_at)}" if newest else "it has begun no work"
    )
    return (
        f"The ledger was restored from an older copy, or is another one: {last}. It misses:"
        f" {missing}. Nothing is moved until you put the newer ledger back, or take this one on:"
        " `mqdlq ledger take-on --why REASON`"
    )


# Take on an older ledger: begin an epoch, and record what the lake knows of the lost time.


def take_on(
    ledger: Ledger, lake_root: str, *, who: str, why: str, clock: Callable[[], datetime]
) -> tuple[Epoch, Missing]:
    """Begin an epoch: from now on this ledger is the newest one of its lake and state queues.

    Returns the epoch and what the ledger missed. The ledger records the archive copies of messages
    that it knows, and copies that a lost restoration was to put as `unknown`, so that they are not
    put again unless a person asks for that. Moves are taken on later, from the markers that the
    next pass finds. If a crash comes in between, the same call records the rest. It may be called
    although nothing is missing: then only the state queues may show what the ledger lost.
    """
    missing, newest = find_missing(ledger, lake_root), newest_work(lake_root)
    for file in missing.files:
        _take_on_copies(file, ledger, lake_root)
    now = clock()
    for restoration, lost in missing.restorations:
        _take_on_restoration(restoration, lost, ledger, now)
    above = newest.number.epoch if newest is not None else 0
    epoch = ledger.epochs.begin(above, who, why, missing.summary, now)
    record_work(lake_root, RecordedWork(epoch.last, f"epoch {epoch.epoch}, taken on by {who}", now))
    return epoch, missing


def _take_on_copies(file: LostFile, ledger: Ledger, lake_root: str) -> None:
    from mqdlq.stages.execute.pending_steps import load_work_list  # noqa: PLC0415 (it imports us)

    run_id, location, _, digests = file
    run = ledger.runs.get(run_id)
    if run is None or not digests:
        return
    changes = [
        item.changes
        for item in (load_work_list(run, ledger, lake_root).items if run.repair else ())
        if item.changes is not None and item.message.message_id in digests
    ]
    ledger.archive.record(run_id, location, digests, time_of_copies(location), changes)


def _take_on_restoration(
    lost: Restoration, wanted: Sequence[tuple[str, int, str]], ledger: Ledger, now: datetime
) -> None:
    """Record as unknown the copies of a restoration that the ledger has."""
    runs = dict.fromkeys(run_id for run_id, _, _ in wanted)
    held = [copy for run_id in runs for copy in ledger.archive.copies(run_id=run_id)]
    named = set(wanted)
    copies = [one for one in held if (*one.key, one.message_key.hex()) in named]
    if not copies:
        return
    if ledger.restorations.get(lost.restoration_id) is None:
        ledger.restorations.record(lost, copies)
    why = Why.RECORDED_FROM_LAKE(at=now)
    states = [CopyState(*one.key, RestorationState.UNKNOWN, now, why=why) for one in copies]
    ledger.restorations.add_states(lost.restoration_id, states)
