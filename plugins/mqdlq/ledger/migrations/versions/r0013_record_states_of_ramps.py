"""Record states of ramps.

A ramp counts the attempts of one cause: attempts get the cause of their message.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

ATTEMPT_STATES = """
CREATE VIEW attempt_states AS
SELECT a.* FROM attempts a
WHERE a.seq = (
    SELECT max(b.seq) FROM attempts b WHERE b.unit = a.unit AND b.message_id = a.message_id
)
"""


def upgrade() -> None:
    """Create the table of states; add the cause to attempts, and to the view of them."""
    op.create_table(
        "ramp_states",
        sa.Column("seq", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("run_id", sa.String(length=250), nullable=False),
        sa.Column("queue_manager", sa.String(length=48), nullable=False),
        sa.Column("queue", sa.String(length=48), nullable=False),
        sa.Column("cause_id", sa.String(length=12), nullable=False),
        sa.Column("target_q", sa.String(length=48), nullable=False),
        sa.Column("target_q_mgr", sa.String(length=48), nullable=False),
        sa.Column("phase", sa.String(length=10), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("allowed", sa.Integer(), nullable=False),
        sa.Column("depth", sa.Integer(), nullable=True),
        sa.Column("step_from", sa.Integer(), nullable=False),
        sa.Column("count_from", sa.Integer(), nullable=False),
        sa.Column("until", sa.DateTime(), nullable=True),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("ramp_states_run_id_fkey")),
        sa.PrimaryKeyConstraint("seq"),
    )
    op.create_index("ix_ramp_states_run_id", "ramp_states", ["run_id"])
    op.create_index(
        "ramp_states_of_a_subject",
        "ramp_states",
        ["queue_manager", "queue", "cause_id", "target_q", "target_q_mgr", "seq"],
    )
    op.execute("DROP VIEW attempt_states")
    with op.batch_alter_table("attempts", schema=None) as batch_op:
        batch_op.add_column(
            sa.Column("cause_id", sa.String(length=12), server_default="", nullable=False)
        )
    op.create_index(
        "attempts_of_a_cause",
        "attempts",
        ["cause_id", "target_q", "target_q_mgr", "seq"],
        sqlite_where=sa.text("cause_id <> ''"),
        postgresql_where=sa.text("cause_id <> ''"),
    )
    op.execute(ATTEMPT_STATES)
