"""The ledger's tables of looks, approvals, causes and alerts, which its third migration adds."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Connection, Integer, MetaData, String, Table, Text

from mqdlq.ledger.columns import UtcDateTime, Words

_METADATA = MetaData()  # of their own: the first migration creates all tables of the other one

looks = Table(
    "looks",
    _METADATA,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("run_id", String(250), nullable=False, index=True),
    Column("depth", Integer, nullable=False),
    Column("is_work", Boolean, nullable=False),
    Column("why", Text, nullable=False),
    Column("at", UtcDateTime, nullable=False),
)
"""What a run saw when it looked at its queue's depth, and whether that was work, and why."""

approvals = Table(
    "approvals",
    _METADATA,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("run_id", String(250), nullable=False, index=True),
    Column("plan_hash", String(64), nullable=False),
    Column("guards", Words, nullable=False),
    Column("decision", String(10), nullable=False),
    Column("who", Text, nullable=False),
    Column("at", UtcDateTime, nullable=False),
)
"""What was asked of a person about a plan, what the answer was, whose, and when."""


causes = Table(
    "causes",
    _METADATA,
    Column("run_id", String(250), primary_key=True),
    Column("reason", Integer, primary_key=True),
    Column("messages", Integer, nullable=False),
    Column("oldest", UtcDateTime),
)
"""Why messages were dead-lettered, by the reason in their MQDLH (0: without one), for each run."""


alerts = Table(
    "alerts",
    _METADATA,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("run_id", String(250), nullable=False, index=True),
    Column("event", String(20), nullable=False),
    Column("is_told", Boolean, nullable=False),
    Column("at", UtcDateTime, nullable=False),
)
"""What people were told of a run (`is_told`), and what holds after it, told or not."""


def m0003_look_and_approve(connection: Connection) -> None:
    """Add what runs saw of their queues, and what people decided about their plans."""
    _METADATA.create_all(connection)
