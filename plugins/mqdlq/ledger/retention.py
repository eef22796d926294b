"""What the ledger knows of pruned snapshots: ids and times in, and out again."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import insert, select

from mqdlq.ledger.database import in_turn
from mqdlq.ledger.reading import LedgerReader
from mqdlq.ledger.tables import prunings


def record_pruned(ledger: LedgerReader, snapshot_ids: Iterable[str], at: datetime) -> None:
    """Record snapshots as pruned, before they are; what is recorded already stays as it is."""
    with in_turn(ledger.engine) as connection:
        known = set(connection.scalars(select(prunings.c.snapshot_id)))
        rows = [{"snapshot_id": one, "at": at} for one in snapshot_ids if one not in known]
        if rows:
            connection.execute(insert(prunings), rows)


def pruned_at(ledger: LedgerReader, snapshot_id: str) -> datetime | None:
    """Return when a snapshot was pruned, None if it was not."""
    with ledger.engine.connect() as connection:
        query = select(prunings.c.at).where(prunings.c.snapshot_id == snapshot_id)
        return connection.execute(query).scalar()
