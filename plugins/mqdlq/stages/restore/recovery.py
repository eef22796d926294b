"""What became of interrupted restorations: markers in, settled copies out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from mqdlq.ledger import CopyState, Restoration
from mqdlq.model import RestorationState
from mqdlq.mqi.state_queue import Marker, Markers
from mqdlq.stages.report.words import place
from mqdlq.stages.restore.work import Restoring

_FROM_MARKER = "known from the unit's marker after an interruption"


def settle_open_units(work: Restoring, markers: Markers) -> list[str]:
    """Settle what earlier attempts left open on this state queue; return markers to be cleared.

    A unit's marker is on the state queue exactly if it committed. While we hold the queue nobody
    else can commit a unit with a marker: it was held by the connection that put it, which let go
    of it when it ended, and so did not commit any more. An absent marker therefore proves that its
    unit was backed out, as long as another marker of the restoration is there to prove that nobody
    has cleared the queue. Without that proof, and where there is no state queue, its copies are
    `unknown`: we do not guess, and put nothing twice. A marker that shows up later still tells.

    The markers of other restorations that are settled are cleared with those of this one; those
    of executors are theirs.
    """
    restoration, ledger = work.restoration, work.ledger
    standing = markers.markers()
    for other, states in ledger.restorations.open_units(
        restoration.queue_manager, restoration.state_queue
    ):
        _settle(other, states, standing, work, proves=markers.prove_commits)
    ours = ledger.restorations.known({marker.run_id for marker in standing})
    return sorted(marker.unit for marker in standing if marker.run_id in ours)


def _settle(
    restoration: Restoration,
    states: Sequence[CopyState],
    standing: Sequence[Marker],
    work: Restoring,
    *,
    proves: bool,
) -> None:
    own = {marker.unit for marker in standing if marker.run_id == restoration.restoration_id}
    settled = []
    for state in states:
        if state.unit in own:
            new, why = RestorationState.RESTORED, _FROM_MARKER
        elif state.state is RestorationState.UNKNOWN:
            continue  # only its marker could tell
        elif proves and own:
            new, why = RestorationState.BACKED_OUT, ""
        else:
            new, why = RestorationState.UNKNOWN, why_unknown(restoration)
        settled.append(replace(state, state=new, why=why, mqrc=0, at=work.clock()))
    work.ledger.restorations.add_states(restoration.restoration_id, settled)
    _tell(restoration, Counter(state.state for state in settled), work)


def why_unknown(restoration: Restoration) -> str:
    """Say why nobody knows whether a message was put, and what a person does about it."""
    where = place(restoration.to_queue, restoration.to_queue_manager)
    return (
        "its unit of work was interrupted, and no marker tells whether it committed: look for its"
        f" MsgId on {where} and at who reads from there; if it never came, restore it with again"
    )


def _tell(restoration: Restoration, settled: Counter[RestorationState], work: Restoring) -> None:
    name = restoration.restoration_id
    if number := settled[RestorationState.RESTORED]:
        work.log.info("%d messages of restoration %s were put: %s", number, name, _FROM_MARKER)
    if number := settled[RestorationState.BACKED_OUT]:
        work.log.info(
            "%d messages of restoration %s were backed out with its connection", number, name
        )
    if number := settled[RestorationState.UNKNOWN]:
        work.log.warning(
            "%d messages of restoration %s are booked as unknown: %s",
            number,
            name,
            why_unknown(restoration),
        )
