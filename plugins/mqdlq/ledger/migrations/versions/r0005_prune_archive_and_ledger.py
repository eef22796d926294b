"""Prune archive and ledger.

Tables of legal holds, prunes and the totals of pruned runs; and indexes by which the rows of a run
or a message are found when it is deleted.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

INDEXES = [
    ("archive", "message_id"),
    ("learned", "message_id"),
    ("leases", "run_id"),
    ("run_messages", "message_id"),
    ("settled_messages", "message_id"),
]


def upgrade() -> None:
    """Create the tables, then the indexes."""
    op.create_table(
        "holds",
        sa.Column("hold_id", sa.Integer(), nullable=False),
        sa.Column("handler", sa.String(length=100), nullable=False),
        sa.Column("run_id", sa.String(length=250), nullable=False),
        sa.Column("message_key", sa.LargeBinary(length=32), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("hold_id"),
    )
    op.create_table(
        "prunes",
        sa.Column("prune_id", sa.Integer(), nullable=False),
        sa.Column("handler", sa.String(length=100), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("trusted_until", sa.DateTime(), nullable=True),
        sa.Column("at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("prune_id"),
    )
    op.create_table(
        "pruned_files",
        sa.Column("prune_id", sa.Integer(), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["prune_id"], ["prunes.prune_id"], name=op.f("pruned_files_prune_id_fkey")
        ),
        sa.PrimaryKeyConstraint("prune_id", "location"),
    )
    op.create_table(
        "pruned_runs",
        sa.Column("run_id", sa.String(length=250), nullable=False),
        sa.Column("prune_id", sa.Integer(), nullable=False),
        sa.Column("handler", sa.String(length=100), nullable=False),
        sa.Column("run_type", sa.String(length=50), nullable=False),
        sa.Column("queue_manager", sa.String(length=48), nullable=False),
        sa.Column("queue", sa.String(length=48), nullable=False),
        sa.Column("rules_digest", sa.String(length=64), nullable=False),
        sa.Column("dry_run", sa.Boolean(), nullable=False),
        sa.Column("started_by", sa.Text(), nullable=False),
        sa.Column("started_at", sa.DateTime(), nullable=False),
        sa.Column("closed_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["prune_id"], ["prunes.prune_id"], name=op.f("pruned_runs_prune_id_fkey")
        ),
        sa.PrimaryKeyConstraint("run_id"),
    )
    op.create_table(
        "released_holds",
        sa.Column("hold_id", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["hold_id"], ["holds.hold_id"], name=op.f("released_holds_hold_id_fkey")
        ),
        sa.PrimaryKeyConstraint("hold_id"),
    )
    op.create_table(
        "pruned_copies",
        sa.Column("run_id", sa.String(length=250), nullable=False),
        sa.Column("message_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("prune_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["prune_id"], ["prunes.prune_id"], name=op.f("pruned_copies_prune_id_fkey")
        ),
        sa.ForeignKeyConstraint(
            ["run_id", "message_id"],
            ["archive.run_id", "archive.message_id"],
            name=op.f("pruned_copies_run_id_message_id_fkey"),
        ),
        sa.PrimaryKeyConstraint("run_id", "message_id"),
    )
    op.create_table(
        "pruned_outcomes",
        sa.Column("run_id", sa.String(length=250), nullable=False),
        sa.Column("is_settled", sa.Boolean(), autoincrement=False, nullable=False),
        sa.Column("outcome", sa.String(length=20), nullable=False),
        sa.Column("rule", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("action", sa.String(length=10), autoincrement=False, nullable=False),
        sa.Column("target_q", sa.String(length=48), autoincrement=False, nullable=False),
        sa.Column("target_q_mgr", sa.String(length=48), autoincrement=False, nullable=False),
        sa.Column("messages", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"], ["pruned_runs.run_id"], name=op.f("pruned_outcomes_run_id_fkey")
        ),
        sa.PrimaryKeyConstraint(
            "run_id", "is_settled", "outcome", "rule", "action", "target_q", "target_q_mgr"
        ),
    )
    for table, column in INDEXES:
        op.create_index(f"ix_{table}_{column}", table, [column])
