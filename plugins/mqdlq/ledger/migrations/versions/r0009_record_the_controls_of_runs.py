"""Record the controls of runs.

A run keeps the controls that its handler had at its start, as JSON; earlier runs had none.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add the column."""
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.add_column(sa.Column("controls", sa.Text(), server_default="{}", nullable=False))
