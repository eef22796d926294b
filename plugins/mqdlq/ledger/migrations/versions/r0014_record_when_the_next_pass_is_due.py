"""Record when the next pass is due.

A run that ends before its controls let all messages move leaves that pass to the next run.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Add the column."""
    with op.batch_alter_table("sightings", schema=None) as batch_op:
        batch_op.add_column(sa.Column("next_pass_at", sa.DateTime(), nullable=True))
