"""States of messages over all runs, and the snapshots that have their rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, false, func, or_, select

from mqdlq.ledger.database import Repository, in_parts
from mqdlq.ledger.messages import has_departed
from mqdlq.ledger.tables.messages import learned, messages, outcomes, run_messages
from mqdlq.ledger.tables.runs import runs, snapshots
from mqdlq.model import Outcome
from mqdlq.reasons import Reason


@dataclass(frozen=True, slots=True)
class KnownSnapshot:
    """A snapshot that a run took of a queue; `full` counts its full rows."""

    snapshot_id: str
    run_id: str
    handler: str
    queue_manager: str
    queue: str
    taken_at: datetime
    full: int


@dataclass(frozen=True, slots=True)
class MessageState:
    """State of the messages of a queue that have the same key.

    `outcome` is the last one of the message that needs attention most, None if no run has booked
    one since the message came (back) to the queue. `run_id`, `why` and `at` are those of this
    outcome. `has_departed` says that no message with this key is on the queue, as far as known.
    `occurrences` counts the messages in their latest residence, and `residence` how often one of
    them has come back.
    """

    outcome: Outcome | None = None
    run_id: str = ""
    why: Reason | None = None
    at: datetime | None = None
    has_departed: bool = False
    occurrences: int = 1
    residence: int = 0


UNKNOWN_MESSAGE = MessageState()
"""The state of a message that no run has listed."""


class MessageStates(Repository):
    """The last outcomes of messages, and the snapshots that have their rows."""

    def snapshots(self, handlers: Iterable[str]) -> list[KnownSnapshot]:
        """Return the snapshots of these handlers that were not pruned, newest first.

        A snapshot without full rows is left out.
        """
        full = snapshots.c.messages - snapshots.c.settled
        query = (
            select(
                snapshots.c.snapshot_id,
                snapshots.c.run_id,
                runs.c.handler,
                runs.c.queue_manager,
                runs.c.queue,
                snapshots.c.taken_at,
                full.label("full"),
            )
            .join(runs, runs.c.run_id == snapshots.c.run_id)
            .where(full > 0, snapshots.c.pruned_at.is_(None))
        )
        found = [
            KnownSnapshot(**row)
            for some in in_parts(sorted(set(handlers)))
            for row in self._all(query.where(runs.c.handler.in_(some)))
        ]
        return sorted(found, key=lambda one: (one.taken_at, one.snapshot_id), reverse=True)

    def of_keys(
        self, queue_manager: str, queue: str, keys: Collection[bytes]
    ) -> dict[bytes, MessageState]:
        """Return by key the state of messages of a queue, without keys that no run has listed."""
        return {
            key: state
            for some in in_parts(sorted(set(keys)))
            for key, state in self._states(queue_manager, queue, some).items()
        }

    def places(self, handler: str, key: bytes, limit: int = 5) -> list[tuple[str, int]]:
        """Return (snapshot id, browse_seq) of a message in a handler's runs, newest first.

        A run may list a message that has a compact row in its snapshot.
        """
        # One by one: SQLite does not search its index for the pairs of a subquery.
        own = runs.c.handler == handler
        queues = select(runs.c.queue_manager, runs.c.queue).where(own).distinct()
        query = (
            select(snapshots.c.snapshot_id, run_messages.c.browse_seq)
            .join(run_messages, run_messages.c.message_id == messages.c.message_id)
            .join(runs, runs.c.run_id == run_messages.c.run_id)
            .join(snapshots, snapshots.c.run_id == runs.c.run_id)
            .where(messages.c.message_key == key, own)
            .where(or_(false(), *(is_on_queue(*row.values()) for row in self._all(queues))))
            .order_by(snapshots.c.taken_at.desc())
            .limit(limit)
        )
        return [(row["snapshot_id"], row["browse_seq"]) for row in self._all(query)]

    def with_last_outcome(
        self, outcome: Outcome, limit: int
    ) -> dict[tuple[str, str], set[bytes]] | None:
        """Return the keys of messages with this outcome in any run, by queue manager and queue.

        It is what narrows a search: the last outcome of a message may be another one. Returns None
        if more than `limit` outcomes are of this kind.
        """
        ids: set[int] = set()
        for table in (outcomes, learned):
            some = select(table.c.message_id).where(table.c.outcome == outcome)
            (number,) = self._values(
                select(func.count()).select_from(some.limit(limit + 1).subquery())
            )
            if number > limit:
                return None
            ids.update(self._values(some) if number else ())
        keys: dict[tuple[str, str], set[bytes]] = defaultdict(set)
        columns = (messages.c.queue_manager, messages.c.queue, messages.c.message_key)
        for part in in_parts(sorted(ids)):
            for row in self._all(select(*columns).where(messages.c.message_id.in_(part))):
                keys[row["queue_manager"], row["queue"]].add(row["message_key"])
        return dict(keys)

    def _states(
        self, queue_manager: str, queue: str, keys: list[bytes]
    ) -> dict[bytes, MessageState]:
        query = select(messages, has_departed(messages.c.message_id).label("departed")).where(
            messages.c.queue_manager == queue_manager,
            messages.c.queue == queue,
            messages.c.message_key.in_(keys),
        )
        latest: dict[bytes, dict[int, Any]] = defaultdict(dict)
        for row in self._all(query.order_by(messages.c.residence)):
            latest[row["message_key"]][row["occurrence"]] = row
        ids = [row["message_id"] for rows in latest.values() for row in rows.values()]
        ends = {
            row["message_id"]: row
            for some in in_parts(ids)
            for row in self._all(last_outcomes(some))
        }
        return {key: _state_of(list(rows.values()), ends) for key, rows in latest.items()}


def is_on_queue(queue_manager: str, queue: str) -> ColumnElement[bool]:
    """Return the condition that a message is on this queue; an index begins with both."""
    return (messages.c.queue_manager == queue_manager) & (messages.c.queue == queue)


def last_outcomes(message_ids: Collection[int]) -> Select[Any]:
    """Return the query for the last outcome of each message, as learned later if it was."""
    place = func.row_number().over(
        partition_by=outcomes.c.message_id,
        order_by=(outcomes.c.at.desc(), outcomes.c.run_id.desc()),
    )
    ranked = (
        select(
            outcomes.c.message_id,
            outcomes.c.run_id,
            outcomes.c.why,
            func.coalesce(learned.c.outcome, outcomes.c.outcome).label("outcome"),
            func.coalesce(learned.c.at, outcomes.c.at).label("at"),
            place.label("place"),
        )
        .outerjoin(
            learned,
            (learned.c.of_run == outcomes.c.run_id)
            & (learned.c.message_id == outcomes.c.message_id),
        )
        .where(outcomes.c.message_id.in_(message_ids))
        .subquery()
    )
    return select(ranked).where(ranked.c.place == 1)


_URGENCY = {outcome: place for place, outcome in enumerate(Outcome, start=1)}


def _state_of(rows: list[Any], ends: dict[int, Any]) -> MessageState:
    here = [row for row in rows if not row["departed"]] or rows
    most = max(
        (ends[row["message_id"]] for row in here if row["message_id"] in ends),
        key=lambda end: _URGENCY[end["outcome"]],
        default=None,
    )
    return MessageState(
        outcome=most and most["outcome"],
        run_id=most["run_id"] if most else "",
        why=most and most["why"],
        at=most and most["at"],
        has_departed=all(row["departed"] for row in rows),
        occurrences=len(rows),
        residence=max(row["residence"] for row in rows),
    )
