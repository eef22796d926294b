"""Restorations in the ledger: what was asked for, and what became of each copy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mqdlq.errors import LedgerError
from mqdlq.ledger import Ledger, open_ledger
from mqdlq.ledger.tables import CopyState, Restoration
from mqdlq.model import Action, AttemptState, RestorationState
from tests.unit.ledger.test_ledger import KEY, NOON, OTHER_KEY, accept, attempt, run

RESTORATION = Restoration(
    restoration_id="x1",
    handler="demo",
    who="alex",
    queue_manager="QM1",
    queue="DLQ",
    state_queue="MQDLQ.STATE",
    run_id="r1",
    message_keys=(KEY.hex(),),
    reason=2053,
    to_queue="DLQ",
    to_queue_manager="",
    header=True,
    again=False,
    dry_run=False,
    started_at=NOON,
)


@pytest.fixture(name="ledger")
def _ledger(ledger_url: str) -> Iterator[Ledger]:
    """Yield a ledger in which run r1 has copied two messages and discarded the first."""
    with open_ledger(ledger_url) as ledger:
        first, second = accept(ledger, run(), KEY, OTHER_KEY)
        ledger.archive.record("r1", "lake/one", {first: "d1", second: "d2"}, NOON)
        tried = replace(attempt(first), action=Action.DISCARD, rule=7)
        confirmed = replace(tried, state=AttemptState.CONFIRMED)
        # A frozen process may write down late a copy that another process has settled.
        late = replace(tried, state=AttemptState.UNKNOWN)
        ledger.attempts.add([tried, confirmed, late])
        yield ledger


def test_a_copy_is_provisional_until_its_unit_is_confirmed(ledger: Ledger) -> None:
    first, second = ledger.archive.copies(handler="demo", place=("QM1", "DLQ"))

    assert (first.is_provisional, first.rule, first.message_key) == (False, 7, KEY)
    assert (second.is_provisional, second.move, second.digest) == (True, None, "d2")


NARROWED: list[tuple[dict[str, Any], int]] = [
    ({"run_id": "r1"}, 2),
    ({"run_id": "r2"}, 0),
    ({"handler": "other"}, 0),
    ({"place": ("QM1", "DLQ2")}, 0),
    ({"message_keys": [OTHER_KEY.hex(), "ab" * 32]}, 1),
    ({"message_keys": [f"{number:064x}" for number in range(1200)] + [KEY.hex()]}, 1),
]


def test_each_condition_narrows_the_copies(ledger: Ledger) -> None:
    for narrowing, number in NARROWED:
        assert len(ledger.archive.copies(**narrowing)) == number, narrowing


def test_a_restoration_and_what_became_of_its_copies_are_read_back(ledger: Ledger) -> None:
    copies = ledger.archive.copies()
    ledger.restorations.record(RESTORATION, copies)
    newer = replace(RESTORATION, restoration_id="x2", started_at=NOON + timedelta(hours=1))
    ledger.restorations.record(newer, copies)
    dry = replace(newer, restoration_id="x3", started_at=NOON + timedelta(hours=2), dry_run=True)
    ledger.restorations.record(dry, copies)

    assert ledger.restorations.get("x1") == RESTORATION
    assert ledger.restorations.newest("QM1", "MQDLQ.STATE") == newer
    assert [state.state for state in ledger.restorations.states("x1").values()] == [
        "selected",
        "selected",
    ]


def test_only_what_markers_can_settle_is_open(ledger: Ledger) -> None:
    first, second = ledger.archive.copies()
    ledger.restorations.record(RESTORATION, [first, second])
    intended = CopyState(*first.key, RestorationState.INTENDED, NOON, unit="u1")
    ledger.restorations.intend(RESTORATION, [intended])
    assert ledger.restorations.open_units("QM1", "MQDLQ.STATE") == [(RESTORATION, [intended])]
    assert ledger.restorations.open_units("QM1", "ELSEWHERE") == []
    other = replace(RESTORATION, restoration_id="x2")
    ledger.restorations.record(other, [first])
    assert ledger.restorations.put_by_others("x2", [first.key, second.key]) == {
        first.key: (RESTORATION, intended)
    }
    with pytest.raises(LedgerError, match="restoration x2: restoration x1 puts the same messages"):
        ledger.restorations.intend(other, [intended])
    assert ledger.restorations.put_back("r1") == {first.message_id}

    ledger.restorations.add_states("x1", [replace(intended, state=RestorationState.BACKED_OUT)])

    assert ledger.restorations.open_units("QM1", "MQDLQ.STATE") == []
    assert ledger.restorations.put_back("r1") == set()
    ledger.restorations.intend(other, [intended])
