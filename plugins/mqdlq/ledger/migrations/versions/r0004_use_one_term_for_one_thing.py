"""Use one term for one thing.

Outcomes, a disposition and an event get the values of the glossary, and the tables of settled
messages the names.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

OUTCOMES = {"left_no_rule": "unmatched", "owned_by_run": "leased_by_run"}
VALUES = [
    ("outcomes", "outcome", OUTCOMES),
    ("learned", "outcome", OUTCOMES),
    ("parkings", "outcome", OUTCOMES),
    ("parked_outcomes", "outcome", OUTCOMES),
    ("run_messages", "disposition", {"no_rule": "unmatched"}),
    ("alerts", "event", {"conservation": "unaccounted"}),
]
COLUMNS = [
    ("runs", "messages_in_a_unit", "max_messages_per_unit"),
    ("compact_snapshots", "parked", "settled"),
    ("alerts", "is_told", "is_sent"),
]


def upgrade() -> None:
    """Rename values and columns; copy the rows of tables that get another name, and drop these."""
    for name, column, renamed in VALUES:
        rows = sa.table(name, sa.column(column))
        for old, new in renamed.items():
            op.execute(rows.update().where(rows.c[column] == old).values({column: new}))
    for table, old, new in COLUMNS:
        op.execute(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")
    create_tables()
    lot = "run_id, snapshot_id, needs_carry, outcome, rule, action, target_q, target_q_mgr"
    outcome = "run_id, outcome, rule, action, target_q, target_q_mgr, messages, at"
    for new, columns, table, old_columns in (
        ("settled_lots", f"lot_id, {lot}", "parkings", f"parking_id, {lot}"),
        ("settled_messages", "lot_id, message_id", "parked", "parking_id, message_id"),
        ("settled_outcomes", outcome, "parked_outcomes", outcome),
    ):
        op.execute(f"INSERT INTO {new} ({columns}) SELECT {old_columns} FROM {table}")  # noqa: S608
    for table in ("parked", "parkings", "parked_outcomes"):
        op.drop_table(table)
    if op.get_bind().dialect.name == "postgresql":  # which numbers new rows by a sequence
        op.execute(
            "SELECT setval(pg_get_serial_sequence('settled_lots', 'lot_id'), max(lot_id))"
            " FROM settled_lots"
        )


def create_tables() -> None:
    """Create the tables of settled messages."""
    op.create_table(
        "settled_lots",
        sa.Column("lot_id", sa.Integer(), primary_key=True),
        sa.Column("run_id", sa.String(250), nullable=False),
        sa.Column("snapshot_id", sa.String(100), nullable=False),
        sa.Column("needs_carry", sa.Boolean(), nullable=False),
        sa.Column("outcome", sa.String(20), nullable=False),
        *how(is_key=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name="settled_lots_run_id_fkey"),
    )
    op.create_index("ix_settled_lots_run_id", "settled_lots", ["run_id"])
    op.create_table(
        "settled_messages",
        sa.Column("lot_id", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("message_id", sa.Integer(), primary_key=True, autoincrement=False),
        sa.ForeignKeyConstraint(
            ["lot_id"], ["settled_lots.lot_id"], name="settled_messages_lot_id_fkey"
        ),
        sa.ForeignKeyConstraint(
            ["message_id"], ["messages.message_id"], name="settled_messages_message_id_fkey"
        ),
    )
    op.create_table(
        "settled_outcomes",
        sa.Column("run_id", sa.String(250), primary_key=True),
        sa.Column("outcome", sa.String(20), primary_key=True),
        *how(is_key=True),
        sa.Column("messages", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name="settled_outcomes_run_id_fkey"),
    )


def how(*, is_key: bool) -> list[sa.Column[Any]]:
    """Return the columns that say which rule decided, on which action and target."""
    kinds: dict[str, sa.types.TypeEngine[Any]] = {"rule": sa.Integer(), "action": sa.String(10)}
    kinds |= {"target_q": sa.String(48), "target_q_mgr": sa.String(48)}
    return [
        sa.Column(name, kind, primary_key=is_key, autoincrement=False, nullable=False)
        for name, kind in kinds.items()
    ]
