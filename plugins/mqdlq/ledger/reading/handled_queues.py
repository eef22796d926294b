"""The queues of a handler, and their newest runs with a table and a snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select

from mqdlq.ledger.database import Repository
from mqdlq.ledger.snapshots import taken_snapshots
from mqdlq.ledger.tables.runs import Run, TakenSnapshot, runs, snapshots
from mqdlq.model import GIVEN_ACTION


@dataclass(frozen=True, slots=True)
class HandledQueue:
    """A queue that runs of a handler handled, and when the last one of them started."""

    queue_manager: str
    queue: str
    last_started_at: datetime


class HandledQueues(Repository):
    """Queues that handlers handled, and the runs that say what happens to all their messages.

    Backfills, runs for named messages and runs with a given action do not count: they take no
    snapshot of the whole queue, or do not use the handler's table.
    """

    def of_handler(self, handler: str) -> list[HandledQueue]:
        """Return the queues of a handler, the last handled first."""
        last = func.max(runs.c.started_at).label("last_started_at")
        query = (
            select(runs.c.queue_manager, runs.c.queue, last)
            .where(runs.c.handler == handler)
            .group_by(runs.c.queue_manager, runs.c.queue)
            .order_by(last.desc())
        )
        return [HandledQueue(**row) for row in self._all(query)]

    def newest_run(self, handler: str, queue_manager: str, queue: str) -> Run | None:
        """Return the newest run with the handler's table, or None."""
        query = _whole_runs(select(runs), handler, queue_manager, queue)
        return self._one(Run, query.order_by(runs.c.started_at.desc()).limit(1))

    def newest_snapshot(self, handler: str, queue_manager: str, queue: str) -> TakenSnapshot | None:
        """Return the newest snapshot that was not pruned, or None."""
        return next(iter(self.snapshots(handler, queue_manager, queue, limit=1)), None)

    def snapshots(
        self,
        handler: str,
        queue_manager: str,
        queue: str,
        *,
        limit: int,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[TakenSnapshot]:
        """Return the newest snapshots that were not pruned, the newest first.

        `since` counts, `until` does not.
        """
        kept = snapshots.c.pruned_at.is_(None)
        query = taken_snapshots().join(runs, runs.c.run_id == snapshots.c.run_id).where(kept)
        query = _whole_runs(query, handler, queue_manager, queue)
        if since is not None:
            query = query.where(snapshots.c.taken_at >= since)
        if until is not None:
            query = query.where(snapshots.c.taken_at < until)
        newest = query.order_by(snapshots.c.taken_at.desc()).limit(limit)
        return [TakenSnapshot(**row) for row in self._all(newest)]


def _whole_runs(query: Select[Any], handler: str, queue_manager: str, queue: str) -> Select[Any]:
    conditions: tuple[ColumnElement[bool], ...] = (
        runs.c.handler == handler,
        runs.c.queue_manager == queue_manager,
        runs.c.queue == queue,
        runs.c.run_type != "backfill",
        runs.c.message_keys == (),
        runs.c.rules_source != GIVEN_ACTION,
    )
    return query.where(*conditions)
