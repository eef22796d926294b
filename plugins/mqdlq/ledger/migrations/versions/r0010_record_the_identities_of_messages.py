"""Record the identities of messages, by which messages that come back are recognised."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "identities",
        sa.Column("message_id", sa.Integer(), nullable=False),
        sa.Column("identity", sa.LargeBinary(length=32), nullable=False),
        sa.Column("cause_id", sa.String(length=12), nullable=False),
        sa.Column("dead_lettered_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["message_id"], ["messages.message_id"], name=op.f("identities_message_id_fkey")
        ),
        sa.PrimaryKeyConstraint("message_id"),
    )
    with op.batch_alter_table("identities", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_identities_identity"), ["identity"], unique=False)
