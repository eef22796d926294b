"""Settle the copies of restorations that were interrupted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from mqdlq.ledger import CopyState, Restoration
from mqdlq.model import RestorationState
from mqdlq.mqi.state_queue import Marker, Markers
from mqdlq.stages.report.wording import place
from mqdlq.stages.restore.restoration_resources import Restoring
from mqdlq.stages.units.interrupted_units import settle_open_moves

_Doubtful = tuple[Restoration, list[CopyState]]
_FROM_MARKER = "known from the unit's marker after an interruption"
_LOGGED = {
    RestorationState.RESTORED: "%d messages of restoration %s were put: %s",
    RestorationState.BACKED_OUT: "%d messages of restoration %s were backed out with its"
    " connection",
    RestorationState.UNKNOWN: "%d messages of restoration %s are booked as unknown: %s",
}


def settle_open_units(work: Restoring, markers: Markers) -> list[str]:
    """Settle what earlier attempts left open on this state queue; return markers to be cleared.

    While we hold the state queue nobody else can commit a unit with a marker: the connection that
    put the marker held the queue, and released it when it ended. An absent marker therefore
    proves that its unit was backed out, as long as another marker of the restoration proves that
    nobody has cleared the queue. Without that proof, and where there is no state queue, its copies
    are `unknown`, and are not put again: waiting would prove nothing more. A marker that appears
    later is still used.

    The markers of other restorations that are settled are cleared with those of this one; those
    of executors are theirs.
    """
    moves = _OpenCopies(work)
    standing = settle_open_moves(moves, markers, work, timedelta(0))
    ours = work.ledger.restorations.known({marker.run_id for marker in standing})
    return sorted(marker.unit for marker in standing if marker.run_id in ours)


@dataclass(frozen=True, slots=True)
class _OpenCopies:
    """The copies of restorations by this state queue whose units of work are not settled."""

    work: Restoring

    def confirm(self, standing: Sequence[Marker]) -> None:
        """Book the copies whose unit has a marker as restored."""
        units = {marker.unit for marker in standing}
        for restoration, states in self._open():
            proven = [state for state in states if state.unit in units]
            self._book(restoration, proven, RestorationState.RESTORED, _FROM_MARKER)

    def back_out(self, standing: Sequence[Marker]) -> list[_Doubtful]:
        """Book as backed out what another marker of the same restoration proves."""
        marked = {marker.run_id for marker in standing}
        rest = []
        for restoration, states in self._open():
            intended = [state for state in states if state.state is RestorationState.INTENDED]
            if restoration.restoration_id in marked:
                self._book(restoration, intended, RestorationState.BACKED_OUT)
            elif intended:
                rest.append((restoration, intended))
        return rest

    def mark_unknown(self, moves: Sequence[_Doubtful]) -> None:
        """Book copies as unknown."""
        for restoration, states in moves:
            why = why_unknown(restoration)
            self._book(restoration, states, RestorationState.UNKNOWN, why)

    def _open(self) -> list[_Doubtful]:
        restoration = self.work.restoration
        return self.work.ledger.restorations.open_units(
            restoration.queue_manager, restoration.state_queue
        )

    def _book(
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
            tell(_LOGGED[state], len(settled), name, *filter(None, [why]))


def why_unknown(restoration: Restoration) -> str:
    """Say why nobody knows whether a message was put, and what a person does about it."""
    where = place(restoration.to_queue, restoration.to_queue_manager)
    return (
        "its unit of work was interrupted, and no marker tells whether it committed: look for its"
        f" MsgId on {where} and at who reads from there; if it never came, restore it with again"
    )
