"""${message}."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}
revision = "${up_revision}"
down_revision = "${down_revision}"


def upgrade() -> None:
    """${message}."""
    ${upgrades if upgrades else "pass"}
