"""Table of the audit: what people did that no other table records."""

from __future__ import annotations

from sqlalchemy import Column, Integer, LargeBinary, String, Table, Text

from mqdlq.ledger.tables.columns import Kind, UtcDateTime, metadata, seq
from mqdlq.model import AuditKind

audit = Table(
    "audit",
    metadata,
    seq(),
    Column("at", UtcDateTime, nullable=False, index=True),
    Column("what", Kind(AuditKind, 30), nullable=False),
    Column("who", Text, nullable=False),
    Column("handler", String(100), nullable=False),
    Column("run_id", String(250), nullable=False, index=True),
    Column("message_key", LargeBinary(32), index=True),
    Column("messages", Integer, nullable=False),
    Column("why", Text, nullable=False),
    Column("details", Text, nullable=False),
)
"""Events that no other table records, and the approvals of pruned runs; rows are only added.

`run_id` refers to no row, so that a prune of the run leaves its events. `message_key` is null if
the event concerns no single message; `messages` is 0 if it concerns no number of messages.
"""
