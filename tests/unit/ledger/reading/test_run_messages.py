"""The messages of a run are counted and selected by the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from mqdlq.ledger import Ledger, open_ledger
from mqdlq.ledger.reading.run_messages import AttemptCount, OutcomeFilter
from mqdlq.ledger.tables import Ending, Learned, OutcomeFact
from mqdlq.model import Action, AttemptState, Outcome
from mqdlq.reasons import Why
from tests.unit.ledger.test_ledger import NOON, accept, attempt, outcome, run

pytestmark = pytest.mark.stages

KEYS = [bytes([0xA0 + number]) * 32 for number in range(4)]
DELIVERED = outcome(1)


@pytest.fixture(name="ledger")
def _ledger(ledger_url: str) -> Iterator[Ledger]:
    """Yield a ledger with a run of four messages: delivered, unknown, untouched, not booked."""
    with open_ledger(ledger_url) as ledger:
        first, second, third, _ = accept(ledger, run(), *KEYS)
        decided = 2, "DISCARD", "", "", Outcome.NOT_ATTEMPTED
        left = OutcomeFact(*decided, third, Why.DRY_RUN(), NOON)
        unknown = outcome(second, Outcome.UNKNOWN)
        ledger.outcomes.add("r1", [outcome(first), unknown, left])
        yield ledger


def test_messages_are_counted_by_outcome_and_decision(ledger: Ledger) -> None:
    counts = ledger.run_messages.counts("r1")

    by_rule = ("RETRY", "PAYMENTS", "QM1")
    assert counts.booked == {
        Ending(1, *by_rule, Outcome.DELIVERED): 1,
        Ending(1, *by_rule, Outcome.UNKNOWN): 1,
        Ending(2, "DISCARD", "", "", Outcome.NOT_ATTEMPTED): 1,
    }
    assert counts.only_dry_run == {"DISCARD": 1}
    assert (counts.listed, counts.unbooked) == (4, 1)
    assert list(ledger.run_messages.select("r1", OutcomeFilter(is_unbooked=True))) == [4]


def test_an_outcome_that_a_later_run_found_out_is_counted_apart(ledger: Ledger) -> None:
    second = ledger.messages.of_run("r1")[1].message_id
    ledger.runs.record(run("r2"))
    fact = Learned("r1", "r2", Outcome.DELIVERED, "PAYMENTS", "QM1", second, NOON)
    ledger.attempts.add([], [], [fact])

    assert ledger.run_messages.counts("r1").known_since == Counter({Outcome.UNKNOWN: 1})


SELECTIONS: list[tuple[OutcomeFilter, list[int]]] = [
    (OutcomeFilter(), [1, 2, 3, 4]),
    (OutcomeFilter(outcome=Outcome.UNKNOWN), [2]),
    (OutcomeFilter(is_unbooked=True), [4]),
    (OutcomeFilter(rule=1), [1, 2]),
    (OutcomeFilter(rule=0), []),
    (OutcomeFilter(key="a2"), [3]),
    (OutcomeFilter(key="a"), [1, 2, 3, 4]),
    (OutcomeFilter(key="a1a1a"), [2]),
    (OutcomeFilter(key="a1a2"), []),
    (OutcomeFilter(outcome=Outcome.DELIVERED, key="a0"), [1]),
]


@pytest.mark.parametrize(("chosen", "expected"), SELECTIONS, ids=str)
def test_a_filter_selects_messages_in_browse_order(
    ledger: Ledger, chosen: OutcomeFilter, expected: list[int]
) -> None:
    assert list(ledger.run_messages.select("r1", chosen)) == expected
    assert chosen.is_empty == (chosen == OutcomeFilter())


def test_selected_messages_are_described_with_their_number_of_attempts(ledger: Ledger) -> None:
    ids = [message.message_id for message in ledger.messages.of_run("r1")]
    intended = attempt(ids[0], unit="u1")
    failed = replace(attempt(ids[0], unit="u0"), state=AttemptState.FAILED, mqrc=2053)
    ledger.attempts.add([failed, intended])
    ledger.attempts.add([replace(intended, state=AttemptState.CONFIRMED)])

    found = list(ledger.run_messages.described("r1", [1, 4]))

    assert [(key, listed.browse_seq, made) for key, listed, made in found] == [
        (KEYS[0], 1, 2),
        (KEYS[3], 4, 0),
    ]
    assert found[0][1].outcome == outcome(ids[0])
    assert found[1][1].outcome is None


def test_attempts_are_counted_in_their_current_state(ledger: Ledger) -> None:
    ids = [message.message_id for message in ledger.messages.of_run("r1")]
    second = NOON + timedelta(seconds=1)
    intended = [attempt(one, unit="u1") for one in ids[:3]]
    ledger.attempts.add(intended)
    ledger.attempts.add(
        [replace(one, state=AttemptState.CONFIRMED, at=second) for one in intended[:2]]
    )
    # A process that was frozen records late what another one has settled.
    ledger.attempts.add([replace(intended[1], state=AttemptState.UNKNOWN, at=second)])
    failed = replace(attempt(ids[3], unit="u2"), state=AttemptState.FAILED, mqrc=2053, rule=2)
    ledger.attempts.add([failed])

    to = (Action.RETRY, "PAYMENTS", "QM1")
    assert ledger.run_messages.tried("r1") == [
        AttemptCount(1, *to, AttemptState.INTENDED, 0, NOON, 1),
        AttemptCount(1, *to, AttemptState.CONFIRMED, 0, second, 2),
        AttemptCount(2, *to, AttemptState.FAILED, 2053, NOON, 1),
    ]
    assert ledger.run_messages.count_tried("r1", 1, "PAYMENTS", "QM1") == 3
