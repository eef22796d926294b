"""Keep diagnoses."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Keep diagnoses."""
    op.create_table(
        "diagnoses",
        sa.Column("seq", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("cause_id", sa.String(length=12), nullable=False),
        sa.Column("handler", sa.String(length=100), nullable=False),
        sa.Column("queue_manager", sa.String(length=48), nullable=False),
        sa.Column("queue", sa.String(length=48), nullable=False),
        sa.Column("first_at", sa.DateTime(), nullable=False),
        sa.Column("last_at", sa.DateTime(), nullable=False),
        sa.Column("found", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
    )
    with op.batch_alter_table("diagnoses", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_diagnoses_cause_id"), ["cause_id"], unique=False)
