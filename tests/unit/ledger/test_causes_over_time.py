"""The ledger says when a queue had which cause, and which causes are new or returned."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from mqdlq.causes import Cause, CountedCause, find_cause
from mqdlq.ledger import Ledger, open_ledger
from mqdlq.ledger.reading.history import CauseHistory, CauseState
from mqdlq.ledger.tables import Look, TakenSnapshot
from mqdlq.model import MessageClass
from tests.unit.ledger.test_ledger import NOON, run

pytestmark = pytest.mark.slow

FULL = find_cause("dead_letter", 2053, "ORDERS", "QM1")
DYNAMIC = find_cause("dead_letter", 2085, "AMQ.5F2A6C7E21034B02", "QM1")
STRAY = find_cause("no_dlh", 0, "", "")
FULL_SOMEWHERE = Cause(MessageClass.DEAD_LETTER, 2053, None)


@pytest.fixture(name="ledger")
def _ledger(ledger_url: str) -> Iterator[Ledger]:
    with open_ledger(ledger_url) as ledger:
        yield ledger


def take(ledger: Ledger, number: int, *causes: Cause, **fields: Any) -> str:
    """Record a run whose snapshot, taken at this hour, has as many messages of each cause."""
    at, run_id = NOON + timedelta(hours=number), f"r{number}"
    ledger.runs.record(run(run_id, started_at=at, **fields))
    ledger.snapshots.record(TakenSnapshot(run_id, f"s{number}", "lake", number, at))
    found = (CountedCause(cause, number + 1, 0, 2, at, at) for cause in causes)
    ledger.snapshots.record_causes(run_id, found)
    return run_id


def of_queue(ledger: Ledger, at_most: int = 99) -> dict[str | None, CauseHistory]:
    found = ledger.causes.of_queue("QM1", "DLQ", at_most)
    return {history.cause.dest_q_name: history for history in found.causes}


def states(ledger: Ledger) -> dict[str | None, str]:
    return {name: history.state.value for name, history in of_queue(ledger).items()}


def test_causes_are_read_back_as_they_were_counted(ledger: Ledger) -> None:
    found = [
        CountedCause(DYNAMIC, 9, 3, 4, NOON, NOON + timedelta(hours=1)),
        CountedCause(STRAY, 2, 0, 1),
        CountedCause(FULL_SOMEWHERE, 1, 0, 7, NOON, NOON),
    ]
    ledger.runs.record(run())
    ledger.snapshots.record_causes("r1", found)
    ledger.snapshots.record_causes("r1", [])

    assert ledger.snapshots.causes("r1") == found


def test_a_cause_has_its_messages_in_each_run_and_when_it_was_seen(ledger: Ledger) -> None:
    take(ledger, 1, FULL)
    take(ledger, 2, FULL, DYNAMIC)

    found = ledger.causes.of_queue("QM1", "DLQ")

    assert list(found.runs) == ["r1", "r2"]
    (full,) = [one for one in found.causes if one.cause == FULL]
    assert [(one.run_id, one.messages) for one in full.sightings] == [("r1", 2), ("r2", 3)]
    assert (full.first_seen, full.last_seen) == (
        NOON + timedelta(hours=1),
        NOON + timedelta(hours=2),
    )
    assert (full.messages, full.state) == (3, CauseState.KNOWN)
    assert ledger.causes.of_queue("QM1", "OTHER").runs == {}


def test_a_cause_is_new_returned_known_or_gone(ledger: Ledger) -> None:
    take(ledger, 1, FULL, STRAY)
    assert states(ledger) == {"ORDERS": "new", "": "new"}
    take(ledger, 2, FULL)
    assert states(ledger) == {"ORDERS": "known", "": "gone"}
    take(ledger, 3, STRAY, DYNAMIC)
    assert states(ledger) == {"AMQ.*": "new", "": "returned", "ORDERS": "gone"}
    take(ledger, 4, STRAY, FULL)
    take(ledger, 5, STRAY)
    take(ledger, 6, FULL)

    found = of_queue(ledger)
    assert found["ORDERS"].state is CauseState.RETURNED
    assert {name: one.returns for name, one in found.items()} == {"ORDERS": 2, "": 1, "AMQ.*": 0}
    assert (found[""].messages, found["ORDERS"].messages) == (0, 7)


def test_a_queue_that_was_empty_has_no_cause(ledger: Ledger) -> None:
    """Such a run takes no snapshot."""
    take(ledger, 1, FULL)
    ledger.runs.record(run("r2", started_at=NOON + timedelta(hours=2)))
    ledger.runs.record_look("r2", Look(0, False, "empty", NOON + timedelta(hours=2)))
    assert states(ledger) == {"ORDERS": "gone"}
    take(ledger, 3, FULL)

    assert states(ledger) == {"ORDERS": "returned"}


def test_runs_for_named_messages_and_backfills_do_not_count(ledger: Ledger) -> None:
    take(ledger, 1, FULL)
    take(ledger, 2, DYNAMIC, message_keys=("aa",))
    take(ledger, 3, DYNAMIC, run_type="backfill")
    take(ledger, 4, DYNAMIC, queue="OTHER")

    assert states(ledger) == {"ORDERS": "new"}


def test_a_run_that_knows_no_destination_may_have_met_every_cause_of_the_reason(
    ledger: Ledger,
) -> None:
    take(ledger, 1, FULL_SOMEWHERE)
    take(ledger, 2, FULL, DYNAMIC)
    take(ledger, 3, FULL_SOMEWHERE)
    take(ledger, 4, FULL, DYNAMIC)

    found = of_queue(ledger)
    assert {name: one.state.value for name, one in found.items()} == {
        "ORDERS": "known",
        "AMQ.*": "returned",
        None: "gone",
    }
    assert found["ORDERS"].returns == 0


def test_a_limited_number_of_runs_is_compared(ledger: Ledger) -> None:
    for number in range(1, 5):
        take(ledger, number, FULL)

    found = of_queue(ledger, at_most=2)

    assert [one.run_id for one in found["ORDERS"].sightings] == ["r3", "r4"]
    assert found["ORDERS"].first_seen == NOON + timedelta(hours=1)
    assert found["ORDERS"].state is CauseState.KNOWN
