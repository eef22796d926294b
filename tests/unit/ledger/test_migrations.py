"""A new ledger has the declared tables; newer ledgers and databases of others are refused."""

from __future__ import annotations

import pytest
from sqlalchemy import inspect, text

from mqdlq.errors import LedgerError
from mqdlq.ledger import open_ledger
from mqdlq.ledger.columns import views
from mqdlq.ledger.database import connect_to
from mqdlq.ledger.migrations import revision_of, revisions
from tests.unit.ledger.described_schemas import another, declared, held, schema_of

pytestmark = pytest.mark.slow


def test_a_new_ledger_has_the_declared_schema(ledger_url: str) -> None:
    fresh = declared(another(ledger_url))

    with open_ledger(ledger_url) as ledger:
        assert schema_of(ledger.engine) == schema_of(fresh)
        assert revision_of(ledger.engine) == revisions()[-1]
    fresh.dispose()


def test_a_new_ledger_has_the_declared_views(ledger_url: str) -> None:
    with open_ledger(ledger_url) as ledger:
        see = inspect(ledger.engine)
        found = {
            name: {one["name"] for one in see.get_columns(name)} for name in see.get_view_names()
        }

    assert found == {name: {*view.columns.keys()} for name, view in views.tables.items()}


def test_foreign_keys_are_enforced_in_a_new_ledger(ledger_url: str) -> None:
    with open_ledger(ledger_url) as ledger, ledger.engine.connect() as connection:
        if ledger.engine.dialect.name == "sqlite":
            assert connection.scalar(text("PRAGMA foreign_keys")) == 1
            assert connection.scalar(text("PRAGMA legacy_alter_table")) == 0
        with pytest.raises(Exception, match=r"(?i)foreign key"):
            connection.execute(
                text("INSERT INTO passes (run_id, started_at) VALUES ('no such run', '2026-11-23')")
            )


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


def test_the_database_of_another_program_is_refused(ledger_url: str) -> None:
    engine = connect_to(ledger_url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE dag_run (id INTEGER)"))

    with pytest.raises(LedgerError) as refused:
        open_ledger(ledger_url)

    assert str(refused.value) == (
        f"the ledger {engine.url} cannot be used: the database belongs to another program"
        " (it has the table dag_run); name an empty database in the ledger's URL"
        " [MQDLQ-224]"
    )
    assert set(held(engine)) == {"dag_run"}
    engine.dispose()
