"""A run's messages are read one after another, as far as somebody wants to."""

from __future__ import annotations

from dataclasses import replace

from mqdlq.ledger import open_ledger
from mqdlq.ledger.messages import BrowseOrderReader, Listed
from mqdlq.model import AttemptState, Outcome
from tests.unit.ledger.test_ledger import KEY, OTHER_KEY, accept, attempt, outcome, run


def test_messages_and_attempts_come_in_browse_order(ledger_url: str) -> None:
    with open_ledger(ledger_url) as ledger:
        first, second = accept(ledger, run(), KEY, OTHER_KEY)
        later, failed = attempt(second), replace(attempt(first, unit="u2"), attempt_no=2)
        ledger.attempts.add([later, attempt(first, unit="u0"), failed])
        ledger.attempts.add([replace(later, state=AttemptState.CONFIRMED)])
        ledger.outcomes.add("r1", [outcome(second)])

        assert list(ledger.messages.listed("r1")) == [
            Listed(1, first, None),
            Listed(2, second, outcome(second)),
        ]
        made = [(at, a.unit, a.state) for at, a in ledger.attempts.in_browse_order("r1")]
        assert made == [
            (1, "u0", AttemptState.INTENDED),
            (1, "u2", AttemptState.INTENDED),
            (2, "u1", AttemptState.CONFIRMED),
        ]
        assert ledger.outcomes.counts("r1") == {Outcome.DELIVERED: 1}
        assert ledger.attempts.has_open_units("r1")
        assert not ledger.attempts.has_open_units("r2")


def test_a_reading_that_is_broken_off_leaves_nothing_open(ledger_url: str) -> None:
    """An open cursor on PostgreSQL is a warning, and warnings fail a test."""
    with open_ledger(ledger_url) as ledger:
        (message_id, _) = accept(ledger, run(), KEY, OTHER_KEY)
        ledger.attempts.add([attempt(message_id), attempt(message_id, unit="u2")])

        assert next(ledger.messages.listed("r1")).browse_seq == 1
        assert next(ledger.attempts.in_browse_order("r1"))[0] == 1


def test_skipped_messages_are_not_handed_out() -> None:
    sources = BrowseOrderReader(iter([(1, "a"), (3, "b"), (3, "c"), (7, "d")]))

    assert [sources.rows_for(place) for place in (2, 3, 4, 7, 9)] == [[], ["b", "c"], [], ["d"], []]
