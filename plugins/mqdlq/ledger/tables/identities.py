"""Table of the identities by which a returning message is recognised."""

from __future__ import annotations

from sqlalchemy import Column, LargeBinary, String, Table

from mqdlq.ledger.tables.columns import UtcDateTime, metadata, of_message

identities = Table(
    "identities",
    metadata,
    of_message(primary_key=True),
    Column("identity", LargeBinary(32), nullable=False, index=True),
    Column("cause_id", String(12), nullable=False),
    Column("dead_lettered_at", UtcDateTime),
)
"""The identity of a message, which a later residence of the same message has, too.

Only runs of handlers with a control that recognises returning messages write it. A message without
an identity has no row. `dead_lettered_at` is null if the MQDLH has no valid date and time.
"""
