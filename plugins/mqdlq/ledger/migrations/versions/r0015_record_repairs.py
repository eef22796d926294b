"""Record the repairs of messages: what a run was given, and what it changed of each message."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Add the repair to runs, and create the table of changes."""
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.add_column(sa.Column("repair", sa.Text(), server_default="", nullable=False))
    op.create_table(
        "repairs",
        sa.Column("run_id", sa.String(length=250), nullable=False),
        sa.Column("message_id", sa.Integer(), nullable=False),
        sa.Column("format_from", sa.String(length=8), nullable=False),
        sa.Column("format_to", sa.String(length=8), nullable=False),
        sa.Column("ccsid_from", sa.Integer(), nullable=False),
        sa.Column("ccsid_to", sa.Integer(), nullable=False),
        sa.Column("dest_q_from", sa.String(length=48), nullable=False),
        sa.Column("dest_q_mgr_from", sa.String(length=48), nullable=False),
        sa.Column("target_q", sa.String(length=48), nullable=False),
        sa.Column("target_q_mgr", sa.String(length=48), nullable=False),
        sa.Column("length", sa.Integer(), nullable=False),
        sa.Column("refusal", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["message_id"], ["messages.message_id"], name=op.f("repairs_message_id_fkey")
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("repairs_run_id_fkey")),
        sa.PrimaryKeyConstraint("run_id", "message_id"),
    )
    op.create_index("ix_repairs_message_id", "repairs", ["message_id"])
