"""Table of the meters of limited rates, which runs share."""

from __future__ import annotations

from sqlalchemy import Column, Float, String, Table

from mqdlq.ledger.tables.columns import UtcDateTime, metadata

meters = Table(
    "meters",
    metadata,
    Column("subject", String(200), primary_key=True),
    Column("unit", String(10), primary_key=True),
    Column("handler", String(100), nullable=False),
    Column("per_second", Float, nullable=False),
    Column("burst", Float, nullable=False),
    Column("used_at", UtcDateTime, nullable=False),
    Column("full_at", UtcDateTime, nullable=False),
    Column("refused_run_id", String(250), nullable=False),
    Column("refused_until", UtcDateTime, nullable=False),
)
"""The rate of a handler, a queue manager or a queue: a token bucket for messages, bytes or depth.

The bucket is full from `full_at`; each reservation adds to this time, so rows are updated. If
several handlers limit a rate, the strictest limit applies: `handler` has it, and used it at
`used_at`. The run `refused_run_id` waits until `refused_until`.
"""
