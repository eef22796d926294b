"""Tell causes apart by destination.

The table of causes gets the fingerprint of a cause, its class and destination, and the times of
its messages. Its key gets the fingerprint, so the table is created again with all its rows.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Create the table again with its rows; the destination of these is not known."""
    op.execute("CREATE TABLE causes_before AS SELECT run_id, reason, messages, oldest FROM causes")
    op.drop_table("causes")
    op.create_table(
        "causes",
        sa.Column("run_id", sa.String(length=250), nullable=False),
        sa.Column("reason", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("cause_id", sa.String(length=12), server_default="", nullable=False),
        sa.Column("message_class", sa.String(length=30), server_default="", nullable=False),
        sa.Column("dest_q_name", sa.String(length=48), nullable=True),
        sa.Column("dest_q_mgr_name", sa.String(length=48), server_default="", nullable=False),
        sa.Column("messages", sa.Integer(), nullable=False),
        sa.Column("settled", sa.Integer(), server_default="0", nullable=False),
        sa.Column("queues", sa.Integer(), nullable=True),
        sa.Column("first_at", sa.DateTime(), nullable=True),
        sa.Column("last_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("causes_run_id_fkey")),
        sa.PrimaryKeyConstraint("run_id", "reason", "cause_id"),
    )
    op.create_index("ix_causes_cause_id", "causes", ["cause_id"])
    op.execute(
        "INSERT INTO causes (run_id, reason, messages, first_at)"
        " SELECT run_id, reason, messages, oldest FROM causes_before"
    )
    op.drop_table("causes_before")
