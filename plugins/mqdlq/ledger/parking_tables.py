"""The ledger's tables of parked messages, which its second migration adds."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Connection, Integer, MetaData, String, Table

from mqdlq.ledger.columns import UtcDateTime

_METADATA = MetaData()  # of their own: the first migration creates all tables of the other one

parkings = Table(
    "parkings",
    _METADATA,
    Column("parking_id", Integer, primary_key=True),
    Column("run_id", String(250), nullable=False, index=True),
    Column("snapshot_id", String(100), nullable=False),
    Column("needs_carry", Boolean, nullable=False),
    Column("outcome", String(20), nullable=False),
    Column("rule", Integer, nullable=False),
    Column("action", String(10), nullable=False),
    Column("target_q", String(48), nullable=False),
    Column("target_q_mgr", String(48), nullable=False),
)
"""Messages that a run left for good in the same way; `needs_carry`: where attempts carry on."""

parked = Table(
    "parked",
    _METADATA,
    Column("parking_id", Integer, primary_key=True),
    Column("message_id", Integer, primary_key=True),
)
"""Which messages those are."""

parked_outcomes = Table(
    "parked_outcomes",
    _METADATA,
    Column("run_id", String(250), primary_key=True),
    Column("outcome", String(20), primary_key=True),
    Column("rule", Integer, primary_key=True),
    Column("action", String(10), primary_key=True),
    Column("target_q", String(48), primary_key=True),
    Column("target_q_mgr", String(48), primary_key=True),
    Column("messages", Integer, nullable=False),
    Column("at", UtcDateTime, nullable=False),
)
"""How many parked messages of a run's snapshot were left in it as they had been before."""

compact_snapshots = Table(
    "compact_snapshots",
    _METADATA,
    Column("run_id", String(250), primary_key=True),
    Column("parked", Integer, nullable=False),
)
"""The runs whose snapshots have compact rows; a snapshot of a run not among them is complete."""


def m0002_park_messages(connection: Connection) -> None:
    """Parked messages, their outcomes by number, and which snapshots have compact rows."""
    _METADATA.create_all(connection)
