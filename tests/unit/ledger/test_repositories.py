"""A ledger's repositories answer about rows that several of them have written."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from mqdlq.ledger import Ledger, open_ledger
from mqdlq.ledger.database import connect_to
from mqdlq.ledger.tables import Ending, Learned
from mqdlq.model import AttemptState, Outcome
from tests.unit.ledger.test_ledger import KEY, NOON, OTHER_KEY, accept, attempt, outcome, run

LEFT = Ending(0, "", "", "", Outcome.UNMATCHED)


def test_the_outcomes_of_settled_messages_are_counted_with_the_others(ledger_url: str) -> None:
    with open_ledger(ledger_url) as ledger:
        first, second = accept(ledger, run(), KEY, OTHER_KEY)
        ledger.settled.record("r1", "s1", [(second, False, LEFT)])
        ledger.outcomes.add("r1", [outcome(first), outcome(second, Outcome.UNMATCHED)])
        ledger.settled.book("r1", {LEFT: 3, Ending(1, "", "", "", Outcome.EXHAUSTED): 2}, (), NOON)

        assert ledger.outcomes.counts("r1") == {
            Outcome.DELIVERED: 1,
            Outcome.UNMATCHED: 4,
            Outcome.EXHAUSTED: 2,
        }
        assert ledger.outcomes.counts("r2") == {}


def test_the_history_has_what_was_learned_in_place_of_what_was_booked(ledger_url: str) -> None:
    late = NOON + timedelta(hours=1)
    with open_ledger(ledger_url) as ledger:
        first, second = accept(ledger, run(), KEY, OTHER_KEY)
        ledger.outcomes.add("r1", [outcome(first), outcome(second, Outcome.UNKNOWN)])
        ledger.runs.record(run("r2"))
        news = Learned("r1", "r2", Outcome.DELIVERED, "PAYMENTS", "QM1", second, late)
        ledger.attempts.add([], learned=[news])

        names = ("message_key", "run_id", "outcome", "at")
        rows = [row for part in ledger.outcomes.history(names, 1) for row in part]

    found = {row.message_key: (row.run_id, row.outcome, row.at) for row in rows}
    assert found == {
        KEY: ("r1", Outcome.DELIVERED, NOON),
        OTHER_KEY: ("r1", Outcome.DELIVERED, late),
    }


def test_more_units_are_looked_up_than_a_query_can_name(ledger_url: str) -> None:
    with open_ledger(ledger_url) as ledger:
        (message_id,) = accept(ledger, run(), KEY)
        confirmed = replace(attempt(message_id, unit="u39999"), state=AttemptState.CONFIRMED)
        ledger.attempts.add([attempt(message_id), confirmed])
        units = [f"u{number}" for number in range(40_000)]

        assert ledger.attempts.confirmed_units(units) == {"u39999"}
        assert ledger.attempts.moved(range(40_000)) == {message_id}


def test_values_of_enumerations_are_read_back_as_members(ledger_url: str) -> None:
    with open_ledger(ledger_url) as ledger:
        (message_id,) = accept(ledger, run(), KEY)
        ledger.attempts.add([attempt(message_id)], [("r1", outcome(message_id))])

        (made,) = ledger.attempts.of_run("r1")
        (ended,) = ledger.outcomes.of_run("r1").values()
        assert made.state is AttemptState.INTENDED
        assert ended.outcome is Outcome.DELIVERED


def test_an_outcome_that_this_version_does_not_know_is_an_error(ledger_url: str) -> None:
    with open_ledger(ledger_url) as ledger:
        (message_id,) = accept(ledger, run(), KEY)
        ledger.outcomes.add("r1", [outcome(message_id)])
        with ledger.engine.begin() as connection:
            connection.execute(text("UPDATE outcome_lots SET outcome = 'evaporated'"))

        with pytest.raises(ValueError, match="'evaporated' is not a valid Outcome"):
            ledger.outcomes.of_run("r1")


def test_a_ledger_is_shown_as_its_url_without_the_password(tmp_path: Path) -> None:
    with open_ledger(f"sqlite:///{tmp_path}/ledger.db") as ledger:
        assert str(ledger) == f"sqlite:///{tmp_path}/ledger.db"
    engine = connect_to("postgresql://mqdlq:secret@db/ledger")
    assert str(Ledger(engine)) == "postgresql+psycopg://mqdlq:***@db/ledger"
