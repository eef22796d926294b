"""Create the ledger as it was released before there were revisions.

The steps m0001 to m0007 made it, and a table `migrations` recorded which of them a ledger had
already. Their DDL is in `released`, as SQLAlchemy wrote it for PostgreSQL. A ledger of that time
gets the steps that it has not had.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from alembic import op
from sqlalchemy import Connection, inspect, text

revision = "0001"
down_revision = None

STEPS = sorted((Path(__file__).parents[1] / "released").glob("m*.sql"))
SQLITE = {"SERIAL": "INTEGER", "BYTEA": "BLOB", "TIMESTAMP WITHOUT TIME ZONE": "DATETIME"}


def upgrade() -> None:
    """Apply the steps that have not been applied; from now on a revision records the schema."""
    connection = op.get_bind()
    had = steps_had(connection)
    for step in STEPS:
        if step.stem not in had:
            for statement in statements(step, connection.dialect.name):
                connection.exec_driver_sql(statement)
    op.drop_table("migrations")


def steps_had(connection: Connection) -> set[str]:
    """Return the names of the steps that a ledger without revisions has had."""
    if not inspect(connection).has_table("migrations"):
        return set()
    return set(connection.scalars(text("SELECT name FROM migrations")))


def statements(step: Path, dialect: str) -> Iterator[str]:
    """Yield the SQL statements of a step, in the words of the database."""
    ddl = step.read_text(encoding="utf-8")
    for postgresql, sqlite in SQLITE.items() if dialect == "sqlite" else ():
        ddl = ddl.replace(postgresql, sqlite)
    yield from filter(None, map(str.strip, ddl.split(";")))
