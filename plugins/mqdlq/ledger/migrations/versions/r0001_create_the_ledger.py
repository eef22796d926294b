"""Create the ledger of the first release, 0.1.0.

Its DDL is in the SQL file beside this one, as SQLAlchemy writes it for PostgreSQL.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None

SQLITE = {
    "SERIAL": "INTEGER",
    "BYTEA": "BLOB",
    "TIMESTAMP WITHOUT TIME ZONE": "DATETIME",
    "/* WITHOUT ROWID */": "WITHOUT ROWID",
}


def upgrade() -> None:
    """Create the tables, their indexes and the views, in the words of the database."""
    connection = op.get_bind()
    ddl = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
    for postgresql, sqlite in SQLITE.items() if connection.dialect.name == "sqlite" else ():
        ddl = ddl.replace(postgresql, sqlite)
    for statement in filter(None, map(str.strip, ddl.split(";"))):
        connection.exec_driver_sql(statement)
