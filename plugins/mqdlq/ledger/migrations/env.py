"""Alembic's environment: the revisions run over the connection that they are given."""

from typing import Any, Literal

from alembic import context
from sqlalchemy import TypeDecorator

from mqdlq.ledger.migrations import VERSION_TABLE
from mqdlq.ledger.tables import metadata


def frozen(kind: str, item: Any, _: Any) -> str | Literal[False]:
    """Write the plain type of a column into a new revision: ours may change later."""
    if kind == "type" and isinstance(item, TypeDecorator):
        return f"sa.{item.impl!r}"
    return False


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    render_as_batch=True,  # SQLite cannot alter most of a table: Alembic copies it
    render_item=frozen,
)
context.run_migrations()
