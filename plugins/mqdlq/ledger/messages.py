"""Messages of runs: their lists, leases and departures, and how each one ended."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Connection, Engine, FromClause, Row, and_, func, or_, select
from sqlalchemy.exc import IntegrityError

from mqdlq.errors import LedgerError
from mqdlq.ledger.database import ROWS_AT_ONCE, Repository, add, columns_of, in_parts
from mqdlq.ledger.tables import (
    IS_LEARNED,
    Correction,
    Learned,
    LearnedCount,
    OutcomeFact,
    Run,
    attempts,
    learned,
    leases,
    messages,
    outcomes,
    pruned_runs,
    run_messages,
    runs,
    settled_outcomes,
)
from mqdlq.model import DEPARTED, QUARANTINE, AttemptState, Disposition, Outcome
from mqdlq.reasons import Why


def is_only_dry_run(booked: FromClause) -> ColumnElement[bool]:
    """Return `OutcomeFact.is_only_dry_run` as a condition on outcomes, or on an alias of them."""
    return (booked.c.outcome == Outcome.NOT_ATTEMPTED) & (booked.c.why == Why.DRY_RUN())


class Outcomes(Repository):
    """Outcomes: exactly one for each message of a run, and corrections that later runs learned."""

    def add(self, run_id: str, facts: Iterable[OutcomeFact]) -> None:
        """Add outcomes of a run, in one transaction, however many; a message has one in a run.

        Raises LedgerError, and writes nothing, if a message has an outcome in this run already.
        """
        with booking(self._engine) as (connection, ends):
            for part in in_parts(facts, ROWS_AT_ONCE):
                ends[:] = [outcome_row(run_id, fact) for fact in part]
                add(connection, outcomes, ends)

    def of_run(self, run_id: str) -> dict[int, OutcomeFact]:
        """Return a run's outcomes by message id, without those of settled messages."""
        query = select(*columns_of(outcomes, OutcomeFact)).where(outcomes.c.run_id == run_id)
        with self._stream(query) as rows:
            return {row.message_id: OutcomeFact(*row) for row in rows}

    def of_messages(self, message_ids: Iterable[int]) -> dict[int, dict[str, Outcome]]:
        """Return what any runs have booked of these messages: outcomes by message and run id."""
        found = defaultdict[int, dict[str, Outcome]](dict)
        query = select(outcomes.c.message_id, outcomes.c.run_id, outcomes.c.outcome)
        for row in self._among(query, outcomes.c.message_id, message_ids):
            found[row.message_id][row.run_id] = row.outcome
        return found

    def counts(self, run_id: str) -> Counter[Outcome]:
        """Count a run's outcomes, those of settled messages included."""
        counted = Counter[Outcome]()
        for table, number in (
            (outcomes, func.count()),
            (settled_outcomes, func.sum(settled_outcomes.c.messages)),
        ):
            query = select(table.c.outcome, number).where(table.c.run_id == run_id)
            for outcome, found in self._rows(query.group_by(table.c.outcome)):
                counted[outcome] += int(found)
        return counted

    def count_without_archive_copy(self, run_id: str) -> int:
        """Count the messages of a run that were not discarded because they were not archived."""
        query = select(func.count()).where(
            outcomes.c.run_id == run_id, outcomes.c.why == Why.NO_ARCHIVE_COPY()
        )
        return self._count(query)

    def quarantine_forwards(self, run_id: str) -> dict[int, str]:
        """Return the messages that a run forwarded to a quarantine queue, with that queue."""
        query = select(outcomes.c.message_id, outcomes.c.target_q).where(
            outcomes.c.run_id == run_id,
            outcomes.c.outcome == Outcome.FORWARDED,
            outcomes.c.rule == QUARANTINE,
        )
        return self._map(query)

    def learned_counts(self, run_id: str) -> list[LearnedCount]:
        """Count what a run learned of others and what was learned of it, in that order."""
        kinds = columns_of(learned, Correction)
        query = (
            select(*kinds, func.count().label("messages"))
            .where(or_(learned.c.run_id == run_id, learned.c.of_run == run_id))
            .group_by(*kinds)
            .order_by(learned.c.of_run == run_id, *kinds)
        )
        return [LearnedCount(**row) for row in self._all(query)]

    def corrected(self, run_id: str) -> set[int]:
        """Return the ids of a run's messages of which a later run learned how they had ended.

        There are as many as units of work were interrupted and could not be settled: few.
        """
        return set(self._values(select(learned.c.message_id).where(learned.c.of_run == run_id)))

    def history(self, names: Sequence[str], at_once: int) -> Iterator[Sequence[Row[Any]]]:
        """Yield columns of the outcomes of all runs with their messages, some at a time.

        They are in no order, without those of settled messages. An outcome that was learned later
        replaces the booked one. Runs that a prune is removing count by their totals only (see
        `Prunes.history`).
        """
        held = {column.name: column for column in (*outcomes.c, *messages.c, *runs.c)}
        latest = {n: func.coalesce(learned.c[n], outcomes.c[n]) for n in ("outcome", "at")}
        query = (
            select(*((held | latest)[name].label(name) for name in names))
            .select_from(outcomes.join(messages).join(runs).outerjoin(learned, IS_LEARNED))
            .where(outcomes.c.run_id.not_in(select(pruned_runs.c.run_id)))
        )
        with self._stream(query) as rows:
            yield from rows.partitions(at_once)


_COLUMNS = [column.name for column in columns_of(outcomes, OutcomeFact)]


def outcome_row(run_id: str, fact: OutcomeFact) -> dict[str, Any]:
    """Return the row of an outcome; not by asdict, which copies deeply and takes longer."""
    return {"run_id": run_id, **{name: getattr(fact, name) for name in _COLUMNS}}


@contextmanager
def booking(
    engine: Engine, news: Sequence[Learned] = ()
) -> Iterator[tuple[Connection, list[dict[str, Any]]]]:
    """Begin a transaction that books outcomes; yield it, and a list for the rows it books.

    Adds `news` at its end. Raises LedgerError, and nothing is written, if a message has an outcome
    in its run already, or was learned of.
    """
    ends: list[dict[str, Any]] = []
    try:
        with engine.begin() as connection:
            yield connection, ends
            add(connection, learned, [asdict(fact) for fact in news])
    except IntegrityError as error:
        if not news and not any(_is_booked(engine, end) for end in ends):
            raise
        run_id = news[0].of_run if news else ends[0]["run_id"]
        raise LedgerError(
            "MQDLQ-603",
            f"another executor has settled this unit of work of run {run_id} and booked how its"
            " messages ended, so this task ends; no message was moved twice",
        ) from error


def _is_booked(engine: Engine, end: dict[str, Any]) -> bool:
    query = select(outcomes.c.outcome).where(
        outcomes.c.run_id == end["run_id"], outcomes.c.message_id == end["message_id"]
    )
    with engine.connect() as connection:
        return connection.execute(query).first() is not None


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
            .join_from(run_messages, messages)
            .where(run_messages.c.run_id == run_id)
            .order_by(run_messages.c.browse_seq)
        )
        with self._stream(query) as rows:
            return [RunMessage(*row) for row in rows]

    def listed(self, run_id: str) -> Iterator[Listed]:
        """Yield the messages of a run's plan, and those it has listed since, in browse order.

        A few thousand are in memory at a time.
        """
        fact = columns_of(outcomes, OutcomeFact)
        query = (
            select(run_messages.c.browse_seq, run_messages.c.message_id, *fact)
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
            for browse_seq, message_id, *ended in rows:
                is_booked = ended[0] is not None
                yield Listed(browse_seq, message_id, OutcomeFact(*ended) if is_booked else None)

    def ids(self, run: Run, keys: Collection[bytes]) -> dict[tuple[bytes, int], int]:
        """Return the ids of messages on a run's queue in their latest residence.

        They are by key and occurrence; at most 500 keys.
        """
        is_meant = is_at(run.queue_manager, run.queue) & messages.c.message_key.in_(keys)
        rows = self._all(select(messages).where(is_meant).order_by(messages.c.residence))
        return {(row["message_key"], row["occurrence"]): row["message_id"] for row in rows}

    def has_new(self, run: Run) -> bool:
        """Return whether a run lists a message that no earlier run listed, and that did not return.

        A message that has come back to the queue is not new.
        """
        others = run_messages.alias()
        earlier = (
            select(others.c.run_id)
            .join_from(others, runs)
            .where(
                others.c.message_id == run_messages.c.message_id,
                runs.c.started_at < run.started_at,
            )
        )
        query = (
            select(messages.c.message_id)
            .join_from(messages, run_messages)
            .where(
                run_messages.c.run_id == run.run_id, messages.c.residence == 0, ~earlier.exists()
            )
        )
        return self._first(query) is not None

    def residents(
        self, queue_manager: str, queue: str, keys: Collection[bytes]
    ) -> dict[bytes, int]:
        """Return by key how many messages have not departed from a queue, as far as known."""
        is_here = is_at(queue_manager, queue) & ~has_departed(messages.c.message_id)
        query = select(messages.c.message_key, func.count()).where(is_here)
        meant = query.where(messages.c.message_key.in_(keys))
        return self._map(meant.group_by(messages.c.message_key))

    def known_keys(self, queue_manager: str, queue: str, keys: Iterable[bytes]) -> set[bytes]:
        """Return which of these keys messages had that runs have listed on a queue."""
        query = select(messages.c.message_key).where(is_at(queue_manager, queue))
        return {row.message_key for row in self._among(query, messages.c.message_key, keys)}

    def first_residents(
        self, queue_manager: str, queue: str, keys: Collection[bytes]
    ) -> dict[bytes, int]:
        """Return by key the id of the first message that has not departed, as far as known."""
        is_here = is_at(queue_manager, queue) & ~has_departed(messages.c.message_id)
        first = func.min(messages.c.message_id).label("first")
        query = select(messages.c.message_key, first).where(is_here)
        found = self._among(query.group_by(messages.c.message_key), messages.c.message_key, keys)
        return {row.message_key: row.first for row in found}

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
                found |= self._map(query)
        return found

    def lease(self, run_id: str, message_ids: Iterable[int], until: datetime) -> None:
        """Lease messages to a run until a time; a lease that ends now releases them."""
        rows = ({"message_id": one, "run_id": run_id, "until": until} for one in message_ids)
        self._add(leases, *rows)

    def lease_holders(self, run_id: str, now: datetime) -> dict[int, str]:
        """Return which run has the lease on which of a run's messages: message id to run id."""
        query = (
            select(leases.c.message_id, leases.c.run_id)
            .join(run_messages, run_messages.c.message_id == leases.c.message_id)
            .where(run_messages.c.run_id == run_id, is_newest_lease(), leases.c.until > now)
        )
        return self._map(query)


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


def is_at(queue_manager: str, queue: str) -> ColumnElement[bool]:
    """Return the condition that a message is, or was, on this queue; an index begins with both."""
    return (messages.c.queue_manager == queue_manager) & (messages.c.queue == queue)


def is_newest_lease() -> ColumnElement[bool]:
    """Return the condition that a lease is the last one of its message."""
    later = leases.alias()
    newest = select(func.max(later.c.seq)).where(later.c.message_id == leases.c.message_id)
    return leases.c.seq == newest.scalar_subquery()


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
