"""Know the kind of a queue.

A run has the kind of the queue that its handler serves. All earlier runs served dead-letter queues.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Add the column."""
    op.add_column(
        "runs",
        sa.Column("queue_kind", sa.String(length=20), server_default="dead_letter", nullable=False),
    )
