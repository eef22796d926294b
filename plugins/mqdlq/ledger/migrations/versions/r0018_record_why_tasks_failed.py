"""Record why tasks failed, in place of why runs could not start."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Create the table, copy the rows of the former one, and drop that."""
    op.create_table(
        "failures",
        sa.Column("seq", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("run_id", sa.String(length=250), nullable=False),
        sa.Column("handler", sa.String(length=100), nullable=False),
        sa.Column("task", sa.String(length=250), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("error_id", sa.String(length=20), nullable=False),
        sa.Column("next_step", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
    )
    op.create_index("ix_failures_handler", "failures", ["handler"])
    op.create_index("ix_failures_run_id", "failures", ["run_id"])
    op.execute(
        "INSERT INTO failures (run_id, handler, task, why, error_id, next_step, at)"
        " SELECT run_id, handler, 'sense', why, '', '', at FROM refusals ORDER BY seq"
    )
    op.drop_table("refusals")
