"""Record checks of a queue by evidence, such as its stream queue."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "evidence_checks",
        sa.Column("run_id", sa.String(length=250), nullable=False),
        sa.Column("kind", sa.String(length=12), nullable=False),
        sa.Column("source", sa.String(length=48), nullable=False),
        sa.Column("since", sa.DateTime(), nullable=True),
        sa.Column("at", sa.DateTime(), nullable=False),
        sa.Column("examined", sa.Integer(), nullable=False),
        sa.Column("unseen", sa.Integer(), nullable=False),
        sa.Column("is_exact", sa.Boolean(), nullable=False),
        sa.Column("trouble", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.run_id"], name=op.f("evidence_checks_run_id_fkey")
        ),
        sa.PrimaryKeyConstraint("run_id", "kind"),
    )
