"""A ledger of any earlier version, with facts in it, is brought up to date and keeps them all."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from sqlalchemy import text

from mqdlq.errors import LedgerError
from mqdlq.ledger import open_ledger
from mqdlq.ledger.database import connect_to
from mqdlq.ledger.migrations import revision_of, revisions
from mqdlq.ledger.migrations.versions.r0001_create_the_ledger import STEPS
from mqdlq.ledger.tables import metadata
from mqdlq.model import AttemptState, Outcome
from tests.unit.ledger.older_ledgers import (
    NOON,
    OLDER,
    ROWS,
    another,
    declared,
    fill,
    held,
    ledger_of,
    ledger_of_steps,
    of_old_columns,
    schema_of,
    with_new_names,
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("version", OLDER)
def test_an_older_ledger_keeps_every_row_and_gets_the_declared_schema(
    ledger_url: str, version: str
) -> None:
    engine = ledger_of(version, ledger_url)
    fill(engine)
    before = held(engine)
    assert all(len(rows) == ROWS for rows in before.values())
    engine.dispose()
    fresh = declared(another(ledger_url))

    with open_ledger(ledger_url) as ledger:
        after = held(ledger.engine)

        expected = with_new_names(before)
        assert of_old_columns(after, expected) == expected
        assert all(after[name] == [] for name in set(after) - set(expected))
        assert schema_of(ledger.engine) == schema_of(fresh)
        assert revision_of(ledger.engine) == revisions()[-1]
    fresh.dispose()


def test_a_new_ledger_has_the_declared_schema(ledger_url: str) -> None:
    fresh = declared(another(ledger_url))

    with open_ledger(ledger_url) as ledger:
        assert schema_of(ledger.engine) == schema_of(fresh)
    fresh.dispose()


@pytest.mark.parametrize("version", OLDER)
def test_the_facts_of_an_older_ledger_are_read_and_added_to(ledger_url: str, version: str) -> None:
    engine = ledger_of(version, ledger_url)
    fill(engine)
    engine.dispose()

    with open_ledger(ledger_url) as ledger:
        run = ledger.runs.get("2-run_id")
        assert run is not None
        assert (run.wait_s, run.message_keys) == (2, ("2-message_keys",))
        assert [a.state for a in ledger.attempts.of_run("2-run_id")] == [AttemptState.CONFIRMED]
        assert {f.outcome for f in ledger.outcomes.of_run("2-run_id").values()} == {
            Outcome.DELIVERED
        }
        assert [m.message_key for m in ledger.messages.of_run("2-run_id")] == [bytes([2]) * 32]
        ledger.runs.record_pass("2-run_id", NOON + timedelta(days=1))
        assert ledger.runs.last_pass(run) == NOON + timedelta(days=1)


def test_a_step_that_was_skipped_before_there_were_revisions_is_applied(ledger_url: str) -> None:
    """Steps were merged out of order: each that a ledger has not had is applied."""
    engine = ledger_of_steps(
        [step.stem for step in STEPS if not step.stem.startswith("m0002")], ledger_url
    )
    fill(engine)
    before = held(engine)
    engine.dispose()

    with open_ledger(ledger_url) as ledger:
        after = held(ledger.engine)

    assert of_old_columns(after, with_new_names(before)) == with_new_names(before)
    assert set(after) == set(metadata.tables)


def test_a_lot_of_settled_messages_gets_a_new_number_after_an_upgrade(ledger_url: str) -> None:
    engine = ledger_of("0003", ledger_url)
    fill(engine)
    engine.dispose()

    with open_ledger(ledger_url) as ledger, ledger.engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO settled_lots (run_id, snapshot_id, needs_carry, outcome, rule, action,"
                " target_q, target_q_mgr) SELECT run_id, 'new', needs_carry, outcome, rule, action,"
                " target_q, target_q_mgr FROM settled_lots WHERE lot_id = 1"
            )
        )
        new = text("SELECT lot_id FROM settled_lots WHERE snapshot_id = 'new'")
        assert connection.scalar(new) == ROWS + 1


def test_foreign_keys_are_enforced_after_an_upgrade(ledger_url: str) -> None:
    ledger_of(OLDER[0], ledger_url).dispose()

    with open_ledger(ledger_url) as ledger, ledger.engine.connect() as connection:
        if ledger.engine.dialect.name == "sqlite":
            assert connection.scalar(text("PRAGMA foreign_keys")) == 1
            assert connection.scalar(text("PRAGMA legacy_alter_table")) == 0
        with pytest.raises(Exception, match=r"(?i)foreign key"):
            connection.execute(text("INSERT INTO ages VALUES ('no such run', NULL)"))


def test_a_ledger_of_a_newer_revision_is_refused(ledger_url: str) -> None:
    with open_ledger(ledger_url) as ledger, ledger.engine.begin() as connection:
        connection.execute(text("UPDATE ledger_revision SET version_num = '9999'"))
        shown = str(ledger.engine.url)

    with pytest.raises(LedgerError) as refused:
        open_ledger(ledger_url)

    assert str(refused.value) == (
        f"the ledger {shown} cannot be used: it is at revision 9999, made by a newer"
        f" version of mqdlq, and this version knows revisions up to {revisions()[-1]}; use"
        " the newer version, or restore the backup that was made before the upgrade"
        " [MQDLQ-225]"
    )


@pytest.mark.parametrize("table", ["dag_run", "migrations"])
def test_the_database_of_another_program_is_refused(ledger_url: str, table: str) -> None:
    engine = connect_to(ledger_url)
    with engine.begin() as connection:
        connection.execute(text(f"CREATE TABLE {table} (id INTEGER)"))

    with pytest.raises(LedgerError) as refused:
        open_ledger(ledger_url)

    assert str(refused.value) == (
        f"the ledger {engine.url} cannot be used: the database belongs to another program"
        f" (it has the table {table}); name an empty database in the ledger's URL"
        " [MQDLQ-224]"
    )
    assert set(held(engine)) == {table} - {"migrations"}
    engine.dispose()


def test_rows_that_refer_to_nothing_stop_an_upgrade_and_stay(ledger_url: str) -> None:
    engine = ledger_of("0001", ledger_url)
    fill(engine)
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO ages VALUES ('no such run', NULL)"))
    before, schema = held(engine), schema_of(engine)

    with pytest.raises(LedgerError) as refused:
        open_ledger(ledger_url)

    assert re.fullmatch(
        re.escape(f"the ledger {engine.url} cannot be used: it cannot be upgraded and was not")
        + " changed: "
        + r"(row 4 of table ages refers to a row that runs does not have|.*ages_run_id_fkey.*"
        + r'Key \(run_id\)=\(no such run\) is not present in table "runs"\.)'
        + re.escape("; restore a backup, or report this text [MQDLQ-226]"),
        str(refused.value),
    )
    assert held(engine) == before
    assert schema_of(engine) == schema
    assert revision_of(engine) == "0001"
    engine.dispose()
