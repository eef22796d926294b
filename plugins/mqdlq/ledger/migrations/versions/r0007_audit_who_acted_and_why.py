"""Audit who acted and why.

A table of events that no other table records; the reasons that people give, beside the runs,
approvals and restorations that they are for; and an index by which a run's discards are counted.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

IS_DISCARDED = sa.text("outcome = 'discarded'")


def upgrade() -> None:
    """Create the table, add the columns, then create the indexes."""
    op.create_table(
        "audit",
        sa.Column("seq", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("at", sa.DateTime(), nullable=False),
        sa.Column("what", sa.String(length=30), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("handler", sa.String(length=100), nullable=False),
        sa.Column("run_id", sa.String(length=250), nullable=False),
        sa.Column("message_key", sa.LargeBinary(length=32), nullable=True),
        sa.Column("messages", sa.Integer(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("details", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
    )
    for column in ("at", "message_key", "run_id"):
        op.create_index(f"ix_audit_{column}", "audit", [column])
    for table, column in (
        ("approvals", "why"),
        ("pruned_runs", "why"),
        ("restorations", "why"),
        ("runs", "started_by_user"),
        ("runs", "why"),
    ):
        with op.batch_alter_table(table, schema=None) as batch_op:
            batch_op.add_column(sa.Column(column, sa.Text(), server_default="", nullable=False))
    op.create_index(
        "outcomes_discarded",
        "outcomes",
        ["run_id", "at"],
        sqlite_where=IS_DISCARDED,
        postgresql_where=IS_DISCARDED,
    )
