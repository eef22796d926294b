"""Add the meters of limited rates.

Handlers that limit how much they move in a second share their token buckets by this table.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "meters",
        sa.Column("subject", sa.String(length=200), nullable=False),
        sa.Column("unit", sa.String(length=10), nullable=False),
        sa.Column("handler", sa.String(length=100), nullable=False),
        sa.Column("per_second", sa.Float(), nullable=False),
        sa.Column("burst", sa.Float(), nullable=False),
        sa.Column("used_at", sa.DateTime(), nullable=False),
        sa.Column("full_at", sa.DateTime(), nullable=False),
        sa.Column("refused_run_id", sa.String(length=250), nullable=False),
        sa.Column("refused_until", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("subject", "unit"),
    )
