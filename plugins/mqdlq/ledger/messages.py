"""Messages of runs: their lists, their leases, and their departures from the queue."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, and_, func, or_, select

from mqdlq.ledger.database import Repository, in_parts
from mqdlq.ledger.outcomes import OutcomeFact
from mqdlq.ledger.runs import Run
from mqdlq.ledger.tables.messages import attempts, leases, messages, outcomes, run_messages
from mqdlq.ledger.tables.runs import runs
from mqdlq.model import DEPARTED, AttemptState, Disposition

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RunMessage:
    """A message as one run's plan lists it.

    `occurrence` counts equal keys in browse order from 0, `residence` how often the message has
    come back to the queue.
    """

    message_id: int
    browse_seq: int
    message_key: bytes
    occurrence: int
    residence: int
    disposition: Disposition


class Listed(NamedTuple):
    """A message that a run lists, with its outcome if it has one."""

    browse_seq: int
    message_id: int
    outcome: OutcomeFact | None


class Messages(Repository):
    """Messages of dead-letter queues, as runs list and lease them."""

    def of_run(self, run_id: str) -> list[RunMessage]:
        """Return the messages of a run's plan in browse order."""
        query = (
            select(
                messages.c.message_id,
                run_messages.c.browse_seq,
                messages.c.message_key,
                messages.c.occurrence,
                messages.c.residence,
                run_messages.c.disposition,
            )
            .join(messages, messages.c.message_id == run_messages.c.message_id)
            .where(run_messages.c.run_id == run_id)
            .order_by(run_messages.c.browse_seq)
        )
        with self._stream(query) as rows:
            return [RunMessage(*row) for row in rows]

    def listed(self, run_id: str) -> Iterator[Listed]:
        """Yield the messages of a run's plan, and those it has listed since, in browse order.

        A few thousand are in memory at a time.
        """
        columns = [column for column in outcomes.c if column.name not in {"run_id", "message_id"}]
        query = (
            select(run_messages.c.browse_seq, run_messages.c.message_id, *columns)
            .outerjoin(
                outcomes,
                and_(
                    outcomes.c.run_id == run_messages.c.run_id,
                    outcomes.c.message_id == run_messages.c.message_id,
                ),
            )
            .where(run_messages.c.run_id == run_id)
            .order_by(run_messages.c.browse_seq)
        )
        with self._stream(query) as rows:
            for browse_seq, message_id, outcome, *rest in rows:
                fact = OutcomeFact(message_id, outcome, *rest) if outcome else None
                yield Listed(browse_seq, message_id, fact)

    def ids(self, run: Run, keys: Collection[bytes]) -> dict[tuple[bytes, int], int]:
        """Return the ids of messages on a run's queue in their latest residence.

        They are by key and occurrence; at most 500 keys.
        """
        query = (
            select(messages)
            .where(
                messages.c.queue_manager == run.queue_manager,
                messages.c.queue == run.queue,
                messages.c.message_key.in_(keys),
            )
            .order_by(messages.c.residence)
        )
        rows = self._all(query)
        return {(row["message_key"], row["occurrence"]): row["message_id"] for row in rows}

    def has_new(self, run: Run) -> bool:
        """Return whether a run lists a message that no earlier run listed, and that did not return.

        A message that has come back to the queue is not new.
        """
        others = run_messages.alias()
        earlier = (
            select(others.c.run_id)
            .join(runs, runs.c.run_id == others.c.run_id)
            .where(
                others.c.message_id == run_messages.c.message_id,
                runs.c.started_at < run.started_at,
            )
        )
        query = (
            select(messages.c.message_id)
            .join(run_messages, run_messages.c.message_id == messages.c.message_id)
            .where(
                run_messages.c.run_id == run.run_id, messages.c.residence == 0, ~earlier.exists()
            )
        )
        return self._first(query) is not None

    def residents(
        self, queue_manager: str, queue: str, keys: Collection[bytes]
    ) -> dict[bytes, int]:
        """Return by key how many messages have not departed from a queue, as far as known."""
        query = (
            select(messages.c.message_key, func.count().label("number"))
            .where(
                messages.c.queue_manager == queue_manager,
                messages.c.queue == queue,
                messages.c.message_key.in_(keys),
                ~has_departed(messages.c.message_id),
            )
            .group_by(messages.c.message_key)
        )
        return {row["message_key"]: row["number"] for row in self._all(query)}

    def known_keys(self, queue_manager: str, queue: str, keys: Iterable[bytes]) -> set[bytes]:
        """Return which of these keys messages had that runs have listed on a queue."""
        query = select(messages.c.message_key).where(
            messages.c.queue_manager == queue_manager, messages.c.queue == queue
        )
        return {
            key
            for some in in_parts(keys)
            for key in self._values(query.where(messages.c.message_key.in_(some)))
        }

    def first_residents(
        self, queue_manager: str, queue: str, keys: Collection[bytes]
    ) -> dict[bytes, int]:
        """Return by key the id of the first message that has not departed, as far as known."""
        query = (
            select(messages.c.message_key, func.min(messages.c.message_id).label("first"))
            .where(
                messages.c.queue_manager == queue_manager,
                messages.c.queue == queue,
                ~has_departed(messages.c.message_id),
            )
            .group_by(messages.c.message_key)
        )
        return {
            row["message_key"]: row["first"]
            for some in in_parts(keys)
            for row in self._all(query.where(messages.c.message_key.in_(some)))
        }

    def departed_elsewhere(self, run_id: str, others: Sequence[int] = ()) -> dict[int, str]:
        """Return which of a run's messages another run has moved: id to that run's id.

        The proof is that run's booking, or a unit of work that is known to have moved the message.
        `others` are further messages to look for, which the run does not list.
        """
        listed = select(run_messages.c.message_id).where(run_messages.c.run_id == run_id)
        chosen: list[Any] = [listed, *in_parts(others)]
        departed = outcomes.c.outcome.in_(DEPARTED)
        proven = attempts.c.state == AttemptState.CONFIRMED
        found: dict[int, str] = {}
        for some in chosen:
            for table, has_left in ((attempts, proven), (outcomes, departed)):
                query = select(table.c.message_id, table.c.run_id).where(
                    table.c.message_id.in_(some), table.c.run_id != run_id, has_left
                )
                found |= {row["message_id"]: row["run_id"] for row in self._all(query)}
        return found

    def lease(self, run_id: str, message_ids: Iterable[int], until: datetime) -> None:
        """Lease messages to a run until a time; a lease that ends now releases them."""
        rows = ({"message_id": one, "run_id": run_id, "until": until} for one in message_ids)
        self._add(leases, *rows)

    def lease_holders(self, run_id: str, now: datetime) -> dict[int, str]:
        """Return which run has the lease on which of a run's messages: message id to run id."""
        later = leases.alias()
        newest = select(func.max(later.c.seq)).where(later.c.message_id == leases.c.message_id)
        query = (
            select(leases.c.message_id, leases.c.run_id)
            .join(run_messages, run_messages.c.message_id == leases.c.message_id)
            .where(
                run_messages.c.run_id == run_id,
                leases.c.seq == newest.scalar_subquery(),
                leases.c.until > now,
            )
        )
        return {row["message_id"]: row["run_id"] for row in self._all(query)}


class BrowseOrderReader(Generic[T]):
    """Items of messages in browse order, returned message by message.

    Several sources can be read side by side, without holding any in memory.
    """

    def __init__(self, pairs: Iterable[tuple[int, T]]) -> None:
        """Read pairs of a browse_seq and an item."""
        self._pairs = iter(pairs)
        self._next = next(self._pairs, None)

    def rows_for(self, browse_seq: int) -> list[T]:
        """Return the items of one message; the items of messages before it are skipped."""
        found = []
        while self._next is not None and self._next[0] <= browse_seq:
            if self._next[0] == browse_seq:
                found.append(self._next[1])
            self._next = next(self._pairs, None)
        return found


def has_departed(message_id: ColumnElement[int]) -> ColumnElement[bool]:
    """Return the condition that a run booked a message as departed, or a unit of work moved it.

    The proof may come after the run has ended and booked the message as unknown. The outcome stays,
    and the message has departed.
    """
    # Aliases: the query around it may read these tables, too, and name its own column.
    booked, proven = outcomes.alias(), attempts.alias()
    departures = (
        select(booked.c.message_id).where(
            booked.c.message_id == message_id, booked.c.outcome.in_(DEPARTED)
        ),
        select(proven.c.message_id).where(
            proven.c.message_id == message_id, proven.c.state == AttemptState.CONFIRMED
        ),
    )
    return or_(*(departure.exists() for departure in departures))
