"""Table of the checks of a queue by evidence: its stream queue, or statistics of it."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Integer, String, Table, Text

from mqdlq.ledger.tables.columns import UtcDateTime, at, metadata, of_run

evidence_checks = Table(
    "evidence_checks",
    metadata,
    of_run(primary_key=True),
    Column("kind", String(12), primary_key=True),
    Column("source", String(48), nullable=False),
    Column("since", UtcDateTime),
    at(),
    Column("examined", Integer, nullable=False),
    Column("unseen", Integer, nullable=False),
    Column("is_exact", Boolean, nullable=False),
    Column("trouble", Text, nullable=False),
)
"""The result of each run's comparison with evidence from `since` to `at`.

`source` is the queue with the evidence. `since` is null for the first check of a queue, which has
nothing to compare. No outcome depends on a check.
"""
