"""A ledger of any earlier version, with facts in it, is brought up to date and keeps them all."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Column, Engine, MetaData, Table, select

from mqdlq.ledger import open_ledger
from mqdlq.ledger.database import connect_to, in_turn
from mqdlq.ledger.schema import MIGRATIONS, applied, migrations
from mqdlq.model import Action, AttemptState, Disposition, Outcome

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
WORDS = {
    "outcome": Outcome.DELIVERED,
    "state": AttemptState.CONFIRMED,
    "action": Action.RETRY,
    "disposition": Disposition.PLANNED,
}
ROWS = 3


def ledger_of(version: int, url: str) -> Engine:
    """Make a ledger as it was after so many migrations."""
    engine = connect_to(url)
    for step in MIGRATIONS[:version]:
        with in_turn(engine) as connection:
            step(connection)
            connection.execute(migrations.insert(), {"name": step.__name__, "applied_at": NOON})
    return engine


def tables(engine: Engine) -> list[Table]:
    """Return the tables of a database but that of the migrations, parents first."""
    found = MetaData()
    found.reflect(engine)
    return [table for table in found.sorted_tables if table.name != migrations.name]


def fill(engine: Engine) -> None:
    """Put rows into each table: of equal names, equal values, so that they refer to each other.

    What the database numbers by itself (seq) it numbers here, too.
    """
    for table in tables(engine):
        columns = [column for column in table.columns if column.name != "seq"]
        rows = [{c.name: value(c, row) for c in columns} for row in range(1, ROWS + 1)]
        with engine.begin() as connection:
            for row in rows:
                connection.execute(table.insert(), row)


def value(column: Column[Any], row: int) -> Any:
    """Return what a row has in a column."""
    kind = column.type.python_type
    if kind is str:
        length = getattr(column.type, "length", None)
        return str(WORDS.get(column.name) or f"{row}-{column.name}"[:length])
    if kind is bytes:
        return bytes([row]) * 32
    if kind is datetime:
        return NOON.replace(tzinfo=None) + timedelta(minutes=row)
    return kind(row)


def held(engine: Engine) -> dict[str, list[dict[str, Any]]]:
    """Return all rows by table."""

    def rows_of(table: Table) -> Iterator[dict[str, Any]]:
        with engine.connect() as connection:
            rows = connection.execute(select(table).order_by(*table.primary_key.columns))
            yield from (dict(row) for row in rows.mappings())

    return {table.name: list(rows_of(table)) for table in tables(engine)}


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS) + 1))
def test_every_row_of_an_older_ledger_is_found_again(ledger_url: str, version: int) -> None:
    engine = ledger_of(version, ledger_url)
    fill(engine)
    before = held(engine)
    assert all(len(rows) == ROWS for rows in before.values())
    engine.dispose()

    with open_ledger(ledger_url) as ledger:
        after = held(ledger.engine)

        assert {name: after[name] for name in before} == before
        assert all(after[name] == [] for name in set(after) - set(before))
        assert applied(ledger.engine) == {step.__name__ for step in MIGRATIONS}


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS)))
def test_the_facts_of_an_older_ledger_are_read_and_added_to(ledger_url: str, version: int) -> None:
    engine = ledger_of(version, ledger_url)
    fill(engine)
    engine.dispose()

    with open_ledger(ledger_url) as ledger:
        run = ledger.run("2-run_id")
        assert run is not None
        assert (run.wait_s, run.message_keys) == (2, ("2-message_keys",))
        assert [a.state for a in ledger.attempts("2-run_id")] == [AttemptState.CONFIRMED]
        assert {f.outcome for f in ledger.outcomes("2-run_id").values()} == {Outcome.DELIVERED}
        assert [m.message_key for m in ledger.run_messages("2-run_id")] == [bytes([2]) * 32]
        ledger.record_pass("2-run_id", NOON + timedelta(days=1))
        assert ledger.last_pass(run) == NOON + timedelta(days=1)


def test_a_ledger_with_a_later_migration_alone_gets_what_is_missing(ledger_url: str) -> None:
    """Numbers may be merged out of order: what has not been applied is, whatever came before."""
    engine = connect_to(ledger_url)
    with in_turn(engine) as connection:
        for step in (MIGRATIONS[0], *MIGRATIONS[2:]):
            step(connection)
            connection.execute(migrations.insert(), {"name": step.__name__, "applied_at": NOON})
    fill(engine)
    before = held(engine)
    engine.dispose()

    with open_ledger(ledger_url) as ledger:
        after = held(ledger.engine)

    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) == {
        "parkings",
        "parked",
        "parked_outcomes",
        "compact_snapshots",
    }
