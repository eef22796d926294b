"""Descriptions of ledgers' schemas, to compare the revisions with the declared tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Engine, MetaData, Table, inspect, select

from mqdlq.ledger.database import connect_to
from mqdlq.ledger.migrations import VERSION_TABLE
from mqdlq.ledger.tables import metadata
from tests.support.postgresql import running_server

Rows = dict[str, list[dict[str, Any]]]


def declared(url: str, declarations: MetaData = metadata) -> Engine:
    """Make a database of the tables as they are declared, without any revision."""
    engine = connect_to(url)
    with engine.begin() as connection:
        declarations.create_all(connection)
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
    return [table for table in found.sorted_tables if table.name != VERSION_TABLE]


def held(engine: Engine) -> Rows:
    """Return all rows by table."""

    def rows_of(table: Table) -> Iterator[dict[str, Any]]:
        with engine.connect() as connection:
            rows = connection.execute(select(table).order_by(*table.primary_key.columns))
            yield from (dict(row) for row in rows.mappings())

    return {table.name: list(rows_of(table)) for table in tables(engine)}


def schema_of(engine: Engine) -> dict[str, dict[str, Any]]:
    """Describe the tables of a ledger, all that SQL can say of them.

    The order of columns is left out, since a column that is added later is the last one.
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
    return described


def _schema(see: Any) -> str:
    return str(see.default_schema_name)
