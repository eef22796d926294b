"""Ledgers of earlier versions with rows in every table, and descriptions of their schemas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Column, Engine, MetaData, Table, inspect, select, text

from mqdlq.ledger.database import connect_to, in_turn, to_migrate
from mqdlq.ledger.migrations import (
    BEFORE_REVISIONS,
    VERSION_TABLE,
    revision_of,
    revisions,
    upgrade,
)
from mqdlq.ledger.migrations.versions.r0001_create_the_ledger import STEPS, statements
from mqdlq.ledger.tables import metadata
from mqdlq.ledger.tables.messages import ATTEMPT_STATES
from mqdlq.model import Action, AttemptState, Disposition, Outcome, QueueKind
from tests.support.postgresql import running_server

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
WORDS = {
    "outcome": ("left_no_rule", Outcome.DELIVERED, "owned_by_run"),
    "state": (AttemptState.CONFIRMED,) * 3,
    "action": (Action.RETRY,) * 3,
    "disposition": ("no_rule", Disposition.PLANNED, Disposition.UNPROCESSABLE),
    "event": ("conservation", "failed", "growth"),
    "queue_kind": (QueueKind.DEAD_LETTER, QueueKind.BACKOUT, QueueKind.DEAD_LETTER),
}
"""By column: the value of each row, as ledgers had it before revision 0004."""
NEW_NAMES = {
    "left_no_rule": "unmatched",
    "no_rule": "unmatched",
    "owned_by_run": "leased_by_run",
    "conservation": "unaccounted",
}
"""By word: the one that revision 0004 put in its place."""
NEW_TABLES = {
    "parkings": "settled_lots",
    "parked": "settled_messages",
    "parked_outcomes": "settled_outcomes",
    "refusals": "failures",
}
NEW_COLUMNS = {
    "parking_id": "lot_id",
    "messages_in_a_unit": "max_messages_per_unit",
    "is_told": "is_sent",
    "parked": "settled",
    "oldest": "first_at",
}
ROWS = 3
Rows = dict[str, list[dict[str, Any]]]

OLDER = (*(step.stem for step in STEPS), *revisions()[:-1])
"""The name of each earlier version: the last step before there were revisions, or a revision."""


def ledger_of(version: str, url: str) -> Engine:
    """Make a ledger as an earlier version made it, by the DDL of that time."""
    if version in revisions():
        engine = connect_to(url)
        with to_migrate(engine) as connection:
            upgrade(connection, version)
        return engine
    return ledger_of_steps([step.stem for step in STEPS if step.stem <= version], url)


def ledger_of_steps(names: Iterable[str], url: str) -> Engine:
    """Make a ledger that has had these steps, from before there were revisions."""
    engine = connect_to(url)
    record = text(f"INSERT INTO {BEFORE_REVISIONS} VALUES (:name, '2026-11-21 12:00:00')")  # noqa: S608
    for step in STEPS:
        if step.stem in names:
            with in_turn(engine) as connection:
                for statement in statements(step, engine.dialect.name):
                    connection.exec_driver_sql(statement)
                connection.execute(record, {"name": step.stem})
    return engine


def declared(url: str, declarations: MetaData = metadata) -> Engine:
    """Make a database of the tables as they are declared, without any revision."""
    engine = connect_to(url)
    with engine.begin() as connection:
        declarations.create_all(connection)
        connection.execute(text(ATTEMPT_STATES))
    return engine


def another(ledger_url: str) -> str:
    """Return the URL of another empty ledger in a database of the same kind."""
    if ledger_url.startswith("sqlite"):
        return f"{ledger_url}.another"
    return running_server().new_ledger_url()


def tables(engine: Engine) -> list[Table]:
    """Return the tables of a ledger that hold facts, referred ones first."""
    found = MetaData()
    found.reflect(engine)
    apart = {BEFORE_REVISIONS, VERSION_TABLE}
    return [table for table in found.sorted_tables if table.name not in apart]


def fill(engine: Engine) -> None:
    """Put rows into each table: of equal names, equal values, so that they refer to each other.

    The database numbers the rows itself (seq), here too. Words are those of the ledger's revision.
    """
    revision = revision_of(engine)
    renamed = NEW_NAMES if revision is not None and revision >= "0004" else {}
    for table in tables(engine):
        columns = [column for column in table.columns if column.name != "seq"]
        rows = [{c.name: value(c, row, renamed) for c in columns} for row in range(1, ROWS + 1)]
        with engine.begin() as connection:
            for row in rows:
                connection.execute(table.insert(), row)


def value(column: Column[Any], row: int, renamed: Mapping[str, str]) -> Any:
    """Return what a row has in a column, with these words renamed."""
    kind = column.type.python_type
    if column.name == "of_run":
        return f"{row}-run_id"
    if kind is str:
        length = getattr(column.type, "length", None)
        if column.name in WORDS:
            word = str(WORDS[column.name][row - 1])
            return renamed.get(word, word)
        return f"{row}-{column.name}"[:length]
    if kind is bytes:
        return bytes([row]) * 32
    if kind is datetime:
        return NOON.replace(tzinfo=None) + timedelta(minutes=row)
    return kind(row)


def held(engine: Engine) -> Rows:
    """Return all rows by table."""

    def rows_of(table: Table) -> Iterator[dict[str, Any]]:
        with engine.connect() as connection:
            rows = connection.execute(select(table).order_by(*table.primary_key.columns))
            yield from (dict(row) for row in rows.mappings())

    return {table.name: list(rows_of(table)) for table in tables(engine)}


def of_old_columns(after: Rows, before: Rows) -> Rows:
    """Return the rows of tables that were there before, without the columns that were not."""
    return {
        name: [
            {column: new[column] for column in old}
            for new, old in zip(after[name], rows, strict=True)
        ]
        for name, rows in before.items()
    }


def with_new_names(rows: Rows) -> Rows:
    """Return the rows of an older ledger by the names and with the values of revision 0004."""

    def renamed(row: dict[str, Any]) -> dict[str, Any]:
        return {
            NEW_COLUMNS.get(column, column): NEW_NAMES.get(value, value)
            if isinstance(value, str)
            else value
            for column, value in row.items()
        }

    return {NEW_TABLES.get(name, name): [*map(renamed, of)] for name, of in rows.items()}


def schema_of(engine: Engine) -> dict[str, dict[str, Any]]:
    """Describe the tables and the views of a ledger, all that SQL can say of them.

    Names of constraints are left out, since SQLite has none for those of the first revision. The
    order of columns is left out, too, since a column that is added later is the last one.
    """
    see = inspect(engine)
    described: dict[str, dict[str, Any]] = {}
    for table in tables(engine):
        name = table.name
        described[name] = {
            "columns": {
                column["name"]: (
                    column["type"].compile(engine.dialect),
                    column["nullable"],
                    str(column["default"]).replace(f"{_schema(see)}.", ""),
                )
                for column in see.get_columns(name)
            },
            "primary key": see.get_pk_constraint(name)["constrained_columns"],
            "foreign keys": sorted(
                (key["constrained_columns"], key["referred_table"], key["referred_columns"])
                for key in see.get_foreign_keys(name)
            ),
            "unique": sorted(key["column_names"] for key in see.get_unique_constraints(name)),
            "checks": sorted(check["sqltext"] for check in see.get_check_constraints(name)),
            "indexes": sorted(
                (index["name"], index["column_names"], bool(index["unique"]))
                for index in see.get_indexes(name)
            ),
        }
    for view in see.get_view_names():
        definition = " ".join(see.get_view_definition(view).split()).removesuffix(";")
        columns = [column["name"] for column in see.get_columns(view)]
        described[view] = {"definition": definition, "columns": columns}
    return described


def _schema(see: Any) -> str:
    return str(see.default_schema_name)
