"""Record verdicts and MAXDEPTH.

Tables of the verdicts of runs' reports, MAXDEPTH in looks, and indexes by which a page finds the
last runs of many handlers.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Create the tables, then the column and the indexes."""
    op.create_table(
        "verdicts",
        sa.Column("seq", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("run_id", sa.String(length=250), nullable=False),
        sa.Column("verdict", sa.String(length=20), nullable=False),
        sa.Column("headline", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("messages", sa.Integer(), nullable=True),
        sa.Column("adds_up", sa.Boolean(), nullable=True),
        sa.Column("attention", sa.Integer(), nullable=False),
        sa.Column("resolution_median_s", sa.Float(), nullable=True),
        sa.Column("resolution_p90_s", sa.Float(), nullable=True),
        sa.Column("at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("verdicts_run_id_fkey")),
        sa.PrimaryKeyConstraint("seq"),
    )
    with op.batch_alter_table("verdicts", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_verdicts_run_id"), ["run_id"], unique=False)

    op.create_table(
        "verdict_outcomes",
        sa.Column("verdict_seq", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.String(length=250), nullable=False),
        sa.Column("outcome", sa.String(length=20), nullable=False),
        sa.Column("rule", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("action", sa.String(length=10), autoincrement=False, nullable=False),
        sa.Column("target_q", sa.String(length=48), autoincrement=False, nullable=False),
        sa.Column("target_q_mgr", sa.String(length=48), autoincrement=False, nullable=False),
        sa.Column("messages", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.run_id"], name=op.f("verdict_outcomes_run_id_fkey")
        ),
        sa.ForeignKeyConstraint(
            ["verdict_seq"], ["verdicts.seq"], name=op.f("verdict_outcomes_verdict_seq_fkey")
        ),
        sa.PrimaryKeyConstraint(
            "verdict_seq", "outcome", "rule", "action", "target_q", "target_q_mgr"
        ),
    )
    with op.batch_alter_table("verdict_outcomes", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_verdict_outcomes_run_id"), ["run_id"], unique=False)

    with op.batch_alter_table("looks", schema=None) as batch_op:
        batch_op.add_column(sa.Column("max_depth", sa.Integer(), nullable=True))

    with op.batch_alter_table("refusals", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_refusals_handler"), ["handler"], unique=False)

    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.create_index(
            "runs_of_a_queue", ["handler", "queue_manager", "queue", "started_at"], unique=False
        )
