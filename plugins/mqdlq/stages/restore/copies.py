"""The resources of an attempt at a restoration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import groupby

from mqdlq.errors import LakeError
from mqdlq.lake.archive import Copy, read_copies
from mqdlq.lake.files import MissingFileError
from mqdlq.ledger import Ledger
from mqdlq.ledger.archive import ArchivedCopy
from mqdlq.ledger.tables import CopyId, CopyState, Epoch, Restoration
from mqdlq.model import AttemptState, RestorationState
from mqdlq.mqi.state_queue import Marker, Markers
from mqdlq.reasons import Reason, Why
from mqdlq.resources import Resources
from mqdlq.stages.units.interruptions import settle_open_moves
from mqdlq.words import place


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorationResources(Resources):
    """The resources of an attempt at a restoration.

    `max_messages_per_unit` limits the number of messages in a unit of work.
    """

    restoration: Restoration
    max_messages_per_unit: int


# Read archived copies, and find the reasons why copies must not be restored.


ReadCopy = tuple[ArchivedCopy, Copy | Reason]
"""A copy and its content, or why its content is missing or unreliable."""


def read_archived_copies(copies: Sequence[ArchivedCopy]) -> Iterator[ReadCopy]:
    """Yield the copies with their content, file by file, in the order of their original queue.

    The digest of each copy is computed and compared. A copy that was pruned, or is missing,
    unreadable or altered, is yielded with the reason; missing copies of a file come last.
    """
    for location, group in groupby(copies, key=lambda copy: copy.location):
        rest = {}
        for copy in group:
            if why := explain_pruned_copy(copy):
                yield copy, why
            else:
                rest[copy.message_id] = copy
        if rest:
            yield from _read_file(location, rest)


def _read_file(location: str, wanted: dict[int, ArchivedCopy]) -> Iterator[ReadCopy]:
    problem = Why.COPY_NOT_IN_FILE(location=location)
    try:
        for content in read_copies(location):
            copy = wanted.pop(content.message_id, None)
            if copy is not None:
                is_intact = content.digest == copy.digest
                yield copy, content if is_intact else Why.COPY_ALTERED(location=copy.location)
    except MissingFileError:
        problem = Why.COPY_FILE_MISSING(location=location)
    except LakeError as error:
        problem = Why.COPY_UNREADABLE(error=error.text)
    for copy in wanted.values():
        yield copy, problem


def explain_pruned_copy(copy: ArchivedCopy) -> Reason | None:
    if copy.pruned_at is None:
        return None
    return Why.COPY_PRUNED(at=copy.pruned_at, policy=copy.pruned_by, handler=copy.handler)


def explain_provisional_copy(copy: ArchivedCopy) -> Reason | None:
    """Return why a copy is provisional, that is, its message may still be on its queue, or None."""
    if not copy.is_provisional:
        return None
    is_repaired = copy.repair is not None
    if copy.move is AttemptState.INTENDED:
        return Why.MOVE_NOT_SETTLED(is_repaired=is_repaired, queue=copy.queue)
    if copy.move is AttemptState.UNKNOWN:
        return Why.MOVE_UNKNOWN(is_repaired=is_repaired, queue=copy.queue)
    return Why.MOVE_NOT_MADE(run_id=copy.run_id, is_repaired=is_repaired, queue=copy.queue)


def explain_repaired_delivery(copy: ArchivedCopy) -> Reason | None:
    if copy.repair is None or copy.is_provisional or copy.moved_at is None:
        return None
    where = place(copy.repair.target_q, copy.repair.target_q_mgr)
    return Why.DELIVERED_TO(place=where, at=copy.moved_at, run_id=copy.run_id)


def explain_no_repeat(by: Restoration, state: CopyState) -> Reason:
    where, name = place(by.to_queue, by.to_queue_manager), by.restoration_id
    if state.state is RestorationState.RESTORED:
        return Why.RESTORED_BEFORE(place=where, at=state.at, restoration_id=name)
    if state.state is RestorationState.UNKNOWN:
        return Why.PERHAPS_RESTORED_BEFORE(restoration_id=name, place=where)
    return Why.BEING_RESTORED(restoration_id=name, place=where)


def is_there(why: Reason | None, restoration: Restoration) -> bool:
    """Whether a copy was refused because it was restored to the queue of this restoration."""
    where = place(restoration.to_queue, restoration.to_queue_manager)
    return why is not None and why.code is Why.RESTORED_BEFORE and why.by_name["place"] == where


def explain_lost_time(copy: ArchivedCopy, taken_on: Epoch | None) -> Reason | None:
    """Return why nobody knows whether a copy was put in a time that the ledger lost, or None."""
    if taken_on is None or copy.at > taken_on.began_at:
        return None
    return Why.RESTORATION_LOST(at=taken_on.began_at)


def find_refusals(
    copies: Sequence[ArchivedCopy], restoration: Restoration, ledger: Ledger
) -> dict[CopyId, Reason]:
    """Return why the ledger refuses copies.

    If the restoration says again, a copy is put although its message was restored before, delivered
    repaired, or perhaps put in the time that an older ledger lost. Until it was asked for again, a
    restoration from before that loss puts nothing.
    """
    others = ledger.restorations.put_by_others(
        restoration.restoration_id, [copy.key for copy in copies]
    )
    taken_on = ledger.epochs.taken_on()
    is_lost = taken_on is not None and restoration.started_at < taken_on.began_at
    found = {}
    for copy in copies:
        why = explain_pruned_copy(copy) or explain_provisional_copy(copy)
        if not why and (is_lost or not restoration.again):
            if copy.key in others:
                why = explain_no_repeat(*others[copy.key])
            elif delivered := explain_repaired_delivery(copy):
                why = Why.REPAIRED_BEFORE(delivered=delivered)
            else:
                why = explain_lost_time(copy, taken_on)
        if why:
            found[copy.key] = why
    return found


# Settle the copies of interrupted restorations.

_UndecidedCopies = tuple[Restoration, list[CopyState]]
_LOG_LINES = {
    RestorationState.RESTORED: "%d messages of restoration %s were put: %s",
    RestorationState.BACKED_OUT: "%d messages of restoration %s were backed out with its"
    " connection",
    RestorationState.UNKNOWN: "%d messages of restoration %s are recorded as unknown: %s",
}


def settle_open_units(work: RestorationResources, markers: Markers) -> list[str]:
    """Settle the units that earlier attempts left open; return the markers to clear.

    While this restoration holds the state queue, no other task can commit a unit with a marker: the
    connection that put the marker held the queue until it ended. A missing marker therefore proves
    that its unit was backed out, provided that another marker of the same restoration proves that
    nobody has cleared the queue. Without that proof, or without a state queue, the copies are
    recorded as `unknown` and are not put again, since waiting would prove nothing more. A marker
    that appears later is still used.

    The markers of other settled restorations are cleared, too. The markers of executors stay.
    """
    standing = settle_open_moves(_OpenCopies(work), markers, work, timedelta(0))
    ours = work.ledger.restorations.known({marker.run_id for marker in standing})
    return sorted(marker.unit for marker in standing if marker.run_id in ours)


class _OpenCopies:
    """The copies with unsettled units of work, of all restorations that use this state queue."""

    def __init__(self, work: RestorationResources) -> None:
        self._work = work

    def confirm(self, standing: Sequence[Marker]) -> None:
        units = {marker.unit for marker in standing}
        for restoration, states in self._find_open_units():
            proven = [state for state in states if state.unit in units]
            self._record_state(
                restoration, proven, RestorationState.RESTORED, Why.KNOWN_FROM_MARKER()
            )

    def back_out(self, standing: Sequence[Marker]) -> list[_UndecidedCopies]:
        """Record as backed out the copies that another marker of the same restoration decides."""
        marked = {marker.run_id for marker in standing}
        rest = []
        for restoration, states in self._find_open_units():
            intended = [state for state in states if state.state is RestorationState.INTENDED]
            if restoration.restoration_id in marked:
                self._record_state(restoration, intended, RestorationState.BACKED_OUT)
            elif intended:
                rest.append((restoration, intended))
        return rest

    def mark_unknown(self, moves: Sequence[_UndecidedCopies]) -> None:
        for restoration, states in moves:
            where = place(restoration.to_queue, restoration.to_queue_manager)
            why = Why.PUT_IN_DOUBT(place=where)
            self._record_state(restoration, states, RestorationState.UNKNOWN, why)

    def _find_open_units(self) -> list[_UndecidedCopies]:
        restoration = self._work.restoration
        return self._work.ledger.restorations.open_units(
            restoration.queue_manager, restoration.state_queue
        )

    def _record_state(
        self,
        restoration: Restoration,
        states: Sequence[CopyState],
        state: RestorationState,
        why: Reason | None = None,
    ) -> None:
        name, now, log = restoration.restoration_id, self._work.clock(), self._work.log
        settled = [replace(each, state=state, why=why, mqrc=0, at=now) for each in states]
        self._work.ledger.restorations.add_states(name, settled)
        if settled:
            tell = log.warning if state is RestorationState.UNKNOWN else log.info
            tell(_LOG_LINES[state], len(settled), name, *([why.words] if why else []))
