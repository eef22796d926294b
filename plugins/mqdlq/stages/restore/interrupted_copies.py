"""Settle the copies of interrupted restorations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from mqdlq.ledger import CopyState, Restoration
from mqdlq.model import RestorationState
from mqdlq.mqi.state_queue import Marker, Markers
from mqdlq.stages.report.wording import place
from mqdlq.stages.restore.restoration_resources import RestorationResources
from mqdlq.stages.units.interrupted_units import settle_open_moves

_UndecidedCopies = tuple[Restoration, list[CopyState]]
_FROM_MARKER = "known from the unit's marker after an interruption"
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
    moves = _OpenCopies(work)
    standing = settle_open_moves(moves, markers, work, timedelta(0))
    ours = work.ledger.restorations.known({marker.run_id for marker in standing})
    return sorted(marker.unit for marker in standing if marker.run_id in ours)


@dataclass(frozen=True, slots=True)
class _OpenCopies:
    """The copies with unsettled units of work, of all restorations that use this state queue."""

    work: RestorationResources

    def confirm(self, standing: Sequence[Marker]) -> None:
        """Record the copies whose unit has a marker as restored."""
        units = {marker.unit for marker in standing}
        for restoration, states in self._find_open_units():
            proven = [state for state in states if state.unit in units]
            self._record_state(restoration, proven, RestorationState.RESTORED, _FROM_MARKER)

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
        """Record copies as unknown."""
        for restoration, states in moves:
            why = explain_unknown_copy(restoration)
            self._record_state(restoration, states, RestorationState.UNKNOWN, why)

    def _find_open_units(self) -> list[_UndecidedCopies]:
        restoration = self.work.restoration
        return self.work.ledger.restorations.open_units(
            restoration.queue_manager, restoration.state_queue
        )

    def _record_state(
        self,
        restoration: Restoration,
        states: Sequence[CopyState],
        state: RestorationState,
        why: str = "",
    ) -> None:
        name, now, log = restoration.restoration_id, self.work.clock(), self.work.log
        settled = [replace(each, state=state, why=why, mqrc=0, at=now) for each in states]
        self.work.ledger.restorations.add_states(name, settled)
        if settled:
            tell = log.warning if state is RestorationState.UNKNOWN else log.info
            tell(_LOG_LINES[state], len(settled), name, *filter(None, [why]))


def explain_unknown_copy(restoration: Restoration) -> str:
    """Return why it is unknown whether a message was put, and what to do about it."""
    where = place(restoration.to_queue, restoration.to_queue_manager)
    return (
        "its unit of work was interrupted, and no marker tells whether it committed: look for its"
        f" MsgId on {where} and at who reads from there; if it never came, restore it with again"
    )
