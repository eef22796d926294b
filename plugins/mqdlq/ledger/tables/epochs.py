"""Table of the epochs of the ledger, and the high-water mark of each."""

from __future__ import annotations

from sqlalchemy import Column, Integer, String, Table, Text

from mqdlq.ledger.tables.columns import UtcDateTime, at, metadata

epochs = Table(
    "epochs",
    metadata,
    Column("epoch", Integer, primary_key=True, autoincrement=False),
    Column("name", String(16), nullable=False),
    Column("number", Integer, nullable=False),
    at("began_at"),
    Column("worked_at", UtcDateTime, nullable=False),
    Column("who", Text, nullable=False),
    Column("why", Text, nullable=False),
)
"""`number` is that of the last pass or restoration in the epoch, which began at `worked_at`.

`who` took on an older ledger and so began the epoch; "" for the first epoch of a new ledger.
"""
