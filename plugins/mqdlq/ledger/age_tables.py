"""The ledger's table of how old what stays is, which its seventh migration adds."""

from __future__ import annotations

from sqlalchemy import Column, Connection, MetaData, String, Table

from mqdlq.ledger.columns import UtcDateTime

_METADATA = MetaData()  # of its own: the first migration creates all tables of the other one

ages = Table(
    "ages",
    _METADATA,
    Column("run_id", String(250), primary_key=True),
    Column("oldest_left", UtcDateTime),
)
"""Since when the oldest message is there that a run left on its queue; null where it left none."""


def m0007_know_the_age_of_what_stays(connection: Connection) -> None:
    """Add since when the oldest message that a run left is there: later runs may not look."""
    _METADATA.create_all(connection)
