"""Add foreign keys where rows refer to rows of tables that later steps had added."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"

REFERENCES = {
    "looks": [(["run_id"], "runs", ["run_id"])],
    "approvals": [(["run_id"], "runs", ["run_id"])],
    "causes": [(["run_id"], "runs", ["run_id"])],
    "ages": [(["run_id"], "runs", ["run_id"])],
    "compact_snapshots": [(["run_id"], "snapshots", ["run_id"])],
    "parkings": [(["run_id"], "runs", ["run_id"])],
    "parked": [
        (["parking_id"], "parkings", ["parking_id"]),
        (["message_id"], "messages", ["message_id"]),
    ],
    "parked_outcomes": [(["run_id"], "runs", ["run_id"])],
    "learned": [
        (["of_run"], "runs", ["run_id"]),
        (["message_id"], "messages", ["message_id"]),
        (["run_id"], "runs", ["run_id"]),
    ],
    "restoration_states": [
        (["restoration_id"], "restorations", ["restoration_id"]),
        (["run_id", "message_id"], "archive", ["run_id", "message_id"]),
    ],
}
"""By table: its columns, the table they refer to, and that table's columns."""


def upgrade() -> None:
    """Add them; SQLite's tables are copied for it, with all their rows."""
    for table, references in REFERENCES.items():
        with op.batch_alter_table(table) as batch:
            for columns, referred, their_columns in references:
                name = "_".join([table, *columns, "fkey"])
                batch.create_foreign_key(name, referred, columns, their_columns)
