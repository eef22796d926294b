"""Recognise a ledger that was restored from an older copy, or is not the ledger of its lake."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from mqdlq.errors import OlderLedgerError
from mqdlq.lake.works import RecordedWork, newest_work, record_work
from mqdlq.ledger import Epoch, Ledger
from mqdlq.model import WorkNumber
from mqdlq.mqi.state_queue import RESTORATION_MARKER, Marker, Markers
from mqdlq.stages.older_ledger.missing import find_missing
from mqdlq.stages.report.wording import moment
from mqdlq.stages.units.resources import Resources

_NO_MESSAGES: Final = hashlib.sha256().hexdigest()
"""The digest in the marker of a unit of work that moves nothing."""


def find_lost_work(ledger: Ledger, lake_root: str) -> RecordedWork | None:
    """Return the newest work in the lake if the ledger does not know it, else None."""
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
    """Raise OlderLedgerError if the lake has work that the ledger does not know."""
    found = find_lost_work(ledger, lake_root)
    if found is not None:
        raise OlderLedgerError(
            "MQDLQ-278",
            f"the lake {lake_root} has work that the ledger {ledger} does not know: {found.what},"
            f" which began at {moment(found.at)}. {_explain(ledger, lake_root)}",
        )


def begin_work(resources: Resources, what: str, state_queue: str, markers: Markers) -> RecordedWork:
    """Take the number of a pass or restoration, and write it to the lake before anything moves.

    `what` names the run or the restoration; the caller holds the state queue. If a crash comes
    between the two writes, the ledger knows a number that is nowhere else, which does no harm.
    Raises OlderLedgerError if the lake or a marker has work that the ledger does not know.
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
    missing = find_missing(ledger, lake_root).summary
    return (
        "The ledger was restored from an older copy, or is another one:"
        f" {_last(ledger.epochs.newest())}. It misses: {missing}. Nothing is moved until you put"
        " the newer ledger back, or take this one on: `mqdlq ledger take-on --why REASON`"
    )


def _last(newest: Epoch | None) -> str:
    if newest is None:
        return "it has begun no work"
    return f"its last work began at {moment(newest.worked_at)}"
