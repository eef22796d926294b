"""The ledger's table of pruned snapshots, which its fourth migration adds."""

from __future__ import annotations

from sqlalchemy import Column, Connection, MetaData, String, Table

from mqdlq.ledger.columns import UtcDateTime

_METADATA = MetaData()  # of its own: the first migration creates all tables of the other one

prunings = Table(
    "prunings",
    _METADATA,
    Column("snapshot_id", String(100), primary_key=True),
    Column("at", UtcDateTime, nullable=False),
)
"""Which snapshots were removed from the lake since they were beyond what is kept, and when."""


def m0004_know_what_was_pruned(connection: Connection) -> None:
    """Add the snapshots that were pruned: one that is not there is not lost, then."""
    _METADATA.create_all(connection)
