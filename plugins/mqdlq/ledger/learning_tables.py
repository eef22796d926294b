"""The ledger's table of what was learned later, which its sixth migration adds."""

from __future__ import annotations

from sqlalchemy import Column, Connection, Integer, MetaData, String, Table

from mqdlq.ledger.columns import UtcDateTime

_METADATA = MetaData()  # of its own: the first migration creates all tables of the other one

learned = Table(
    "learned",
    _METADATA,
    Column("of_run", String(250), primary_key=True),
    Column("message_id", Integer, primary_key=True),
    Column("run_id", String(250), nullable=False, index=True),
    Column("outcome", String(20), nullable=False),
    Column("target_q", String(48), nullable=False),
    Column("target_q_mgr", String(48), nullable=False),
    Column("at", UtcDateTime, nullable=False),
)
"""How a message had ended in the run `of_run`, which had booked it otherwise, for want of knowing.

The run `run_id` came upon the marker of the unit of work that moved it. The outcome that was booked
stays as it is.
"""


def m0006_learn_what_was_unknown(connection: Connection) -> None:
    """Add how messages had ended whose units of work proved later to have committed."""
    _METADATA.create_all(connection)
