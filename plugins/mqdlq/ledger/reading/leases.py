"""Leases of live runs on messages, found by the messages' keys."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import func, select

from mqdlq.ledger.database import Repository, in_parts
from mqdlq.ledger.tables.messages import leases, messages


class Leases(Repository):
    """Read which runs have messages at the moment."""

    def of_keys(
        self, queue_manager: str, queue: str, keys: Collection[str], now: datetime
    ) -> dict[str, str]:
        """Return the run that has a lease on the messages of a queue with these keys (hex)."""
        later = leases.alias()
        newest = select(func.max(later.c.seq)).where(later.c.message_id == leases.c.message_id)
        query = (
            select(messages.c.message_key, leases.c.run_id)
            .join(leases, leases.c.message_id == messages.c.message_id)
            .where(
                messages.c.queue_manager == queue_manager,
                messages.c.queue == queue,
                leases.c.seq == newest.scalar_subquery(),
                leases.c.until > now,
            )
        )
        found: dict[str, str] = {}
        for some in in_parts(sorted(map(bytes.fromhex, keys))):
            for row in self._all(query.where(messages.c.message_key.in_(some))):
                found[row["message_key"].hex()] = row["run_id"]
        return found
