"""The ledger's tables of restorations from the archive, which its fifth migration adds."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Connection, Index, Integer, MetaData, String, Table, Text

from mqdlq.ledger.columns import UtcDateTime, Words

_METADATA = MetaData()  # of their own: the first migration creates all tables of the other one

restorations = Table(
    "restorations",
    _METADATA,
    Column("restoration_id", String(250), primary_key=True),
    Column("handler", String(100), nullable=False),
    Column("who", Text, nullable=False),
    Column("queue_manager", String(48), nullable=False),
    Column("queue", String(48), nullable=False),
    Column("state_queue", String(48), nullable=False),
    Column("run_id", String(250), nullable=False),
    Column("message_keys", Words, nullable=False),
    Column("reason", Integer, nullable=False),
    Column("to_queue", String(48), nullable=False),
    Column("to_queue_manager", String(48), nullable=False),
    Column("header", Boolean, nullable=False),
    Column("again", Boolean, nullable=False),
    Column("dry_run", Boolean, nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
)
"""Who asked for which archived copies to be put where, and when; `queue` is where they were.

`run_id` is "" for all runs, `message_keys` empty for all messages, `reason` 0 for every reason.
"""

restoration_states = Table(
    "restoration_states",
    _METADATA,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("restoration_id", String(250), nullable=False, index=True),
    Column("run_id", String(250), nullable=False),
    Column("message_id", Integer, nullable=False),
    Column("unit", String(48), nullable=False),
    Column("state", String(20), nullable=False),
    Column("mqrc", Integer, nullable=False),
    Column("why", Text, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Index("restoration_states_of_a_copy", "run_id", "message_id"),
)
"""What a restoration has come to with each copy it selected (a run's, of a message): each change
of a state is a row of its own, and the last one holds."""


def m0005_restore_from_the_archive(connection: Connection) -> None:
    """Add the restorations, and what became of the copies they selected."""
    _METADATA.create_all(connection)
