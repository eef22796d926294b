"""Messages of runs: their lists, leases and departures, and how each one ended."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, Final, Generic, NamedTuple, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from mqdlq.errors import LedgerError
from mqdlq.ledger import tables as t
from mqdlq.ledger.database import (
    ROWS_AT_ONCE,
    Condition,
    Repository,
    Row,
    add,
    add_many,
    columns_of,
    in_parts,
    inserted,
    is_last,
    is_on,
    select_records,
    total,
)
from mqdlq.model import DEPARTED, QUARANTINE, AttemptState, Disposition, Outcome
from mqdlq.reasons import Reason, Why

T = TypeVar("T")


def is_only_dry_run(booked: sa.FromClause) -> Condition:
    """Return `OutcomeFact.is_only_dry_run` as a condition on outcomes, or on an alias of them."""
    return (booked.c.outcome == Outcome.NOT_ATTEMPTED) & (booked.c.why == Why.DRY_RUN())


class Outcomes(Repository):
    """Outcomes: exactly one for each message of a run, and corrections that later runs learned."""

    def add(self, run_id: str, facts: Iterable[t.OutcomeFact]) -> None:
        """Add outcomes of a run at once; raise LedgerError if a message has one already."""
        with self._engine.connect() as connection:
            run_no = run_number(connection, run_id)
        with booking(self._engine) as (connection, ends):
            for part in in_parts(facts, ROWS_AT_ONCE):
                ends[:] = [(run_id, [fact.message_id for fact in part])]
                book(connection, run_no, lots_of(part))

    def of_run(self, run_id: str) -> dict[int, t.OutcomeFact]:
        """Return a run's outcomes by message id, without those of settled messages."""
        query = select_records(t.outcomes, t.OutcomeFact).where(t.outcomes.c.run_id == run_id)
        with self._stream(query) as rows:
            return {row.message_id: t.OutcomeFact(*row) for row in rows}

    def of_messages(self, message_ids: Iterable[int]) -> dict[int, dict[str, Outcome]]:
        """Return what any runs have booked of these messages: outcomes by message and run id."""
        found = defaultdict[int, dict[str, Outcome]](dict)
        query = sa.select(*t.outcomes.c["message_id", "run_id", "outcome"])
        for message_id, run_id, outcome in self._among(query, t.outcomes.c.message_id, message_ids):
            found[message_id][run_id] = outcome
        return found

    def counts(self, run_id: str) -> Counter[Outcome]:
        """Count a run's outcomes, those of settled messages included."""
        counted = Counter[Outcome]()
        for table, is_own in (
            (t.outcome_lots, is_of_run(t.outcome_lots, run_id)),
            (t.settled_outcomes, t.settled_outcomes.c.run_id == run_id),
        ):
            query = sa.select(table.c.outcome, total(table.c.messages)).where(is_own)
            counted.update(self._map(query.group_by(table.c.outcome)))
        return counted

    def count_without_archive_copy(self, run_id: str) -> int:
        is_meant = (t.outcomes.c.run_id == run_id) & (t.outcomes.c.why == Why.NO_ARCHIVE_COPY())
        return self._count(sa.select(sa.func.count()).where(is_meant))

    def quarantine_forwards(self, run_id: str) -> dict[int, str]:
        """Return by message the quarantine queue to which a run forwarded it."""
        query = sa.select(*t.outcomes.c["message_id", "target_q"]).where(
            t.outcomes.c.run_id == run_id,
            t.outcomes.c.outcome == Outcome.FORWARDED,
            t.outcomes.c.rule == QUARANTINE,
        )
        return self._map(query)

    def learned_counts(self, run_id: str) -> list[t.LearnedCount]:
        """Count what a run learned of others and what was learned of it, in that order."""
        kinds = columns_of(t.learned, t.Correction)
        of_it = t.learned.c.of_run == run_id
        query = (
            sa.select(*kinds, sa.func.count().label("messages"))
            .where((t.learned.c.run_id == run_id) | of_it)
            .group_by(*kinds)
            .order_by(of_it, *kinds)
        )
        return self._list(t.LearnedCount, query)

    def corrected(self, run_id: str) -> set[int]:
        """Return the few messages of a run of which a later run learned how they had ended."""
        own = t.learned.c.of_run == run_id
        return set(self._values(sa.select(t.learned.c.message_id).where(own)))

    def history(self, names: Sequence[str], at_once: int) -> Iterator[Sequence[Row]]:
        """Yield columns of the outcomes of all runs with their messages, some at a time.

        They are in no order, without those of settled messages. An outcome that was learned later
        replaces the booked one. Runs that a prune is removing count by their totals only (see
        `Prunes.history`).
        """
        held = {one.name: one for one in (*t.outcomes.c, *t.messages.c, *t.runs.c)} | known_last()
        query = (
            sa.select(*(held[name].label(name) for name in names))
            .select_from(t.outcomes.join(t.messages).join(t.runs))
            .outerjoin(t.learned, t.IS_LEARNED)
            .where(t.outcomes.c.run_id.not_in(sa.select(t.pruned_runs.c.run_id)))
        )
        with self._stream(query) as rows:
            yield from rows.partitions(at_once)


def known_last(*names: str) -> dict[str, sa.ColumnElement[Any]]:
    """Return columns of outcomes, each as it was learned later where it was."""
    return {
        name: sa.func.coalesce(t.learned.c[name], t.outcomes.c[name])
        for name in names or ("outcome", "at")
    }


class OutcomeLot(NamedTuple):
    """Messages that ended in the same way."""

    how: t.Ending
    why: Reason
    at: datetime
    message_ids: list[int]


def lots_of(facts: Iterable[t.OutcomeFact]) -> list[OutcomeLot]:
    """Put outcomes together that differ in their message only."""
    names = t.Ending.__match_args__
    lots: dict[Any, OutcomeLot] = {}
    for fact in facts:
        ending = tuple(getattr(fact, name) for name in names)
        key = (*ending, fact.why, fact.at)
        if key not in lots:
            lots[key] = OutcomeLot(t.Ending(*ending), fact.why, fact.at, [])
        lots[key].message_ids.append(fact.message_id)
    return list(lots.values())


_BOOKED: Final = ("run_no", "message_id", "lot_id")
_BOOK: Final = sa.insert(t.outcome_messages)


def book(connection: sa.Connection, run_no: int, lots: Iterable[OutcomeLot]) -> None:
    """Add outcomes of a run's messages."""
    for how, why, at, message_ids in lots:
        lot = {"run_no": run_no, "why": why, "at": at, "messages": len(message_ids), **asdict(how)}
        lot_id = inserted(connection, t.outcome_lots, lot)
        add_many(connection, _BOOK, _BOOKED, [(run_no, one, lot_id) for one in message_ids])


def run_number(connection: sa.Connection, run_id: str) -> int:
    """Return the number of a run, to which rows for each message refer."""
    query = sa.select(t.runs.c.run_no).where(t.runs.c.run_id == run_id)
    return int(connection.scalars(query).one())


def is_of_run(table: sa.Table, run_id: str) -> Condition:
    """Return the condition that a row with a run's number is one of this run."""
    number = sa.select(t.runs.c.run_no).where(t.runs.c.run_id == run_id)
    return table.c.run_no == number.scalar_subquery()


@contextmanager
def booking(
    engine: sa.Engine,
    news: Sequence[t.Learned] = (),
    begin: Callable[[sa.Engine], AbstractContextManager[sa.Connection]] = sa.Engine.begin,
) -> Iterator[tuple[sa.Connection, list[tuple[str, list[int]]]]]:
    """Begin a transaction that books outcomes; yield it, and a list for what it books.

    The list is of runs and messages. Adds `news` at its end. Raises LedgerError, and nothing is
    written, if a message has an outcome in its run already, or was learned of.
    """
    ends: list[tuple[str, list[int]]] = []
    try:
        with begin(engine) as connection:
            yield connection, ends
            add(connection, t.learned, [asdict(fact) for fact in news])
    except IntegrityError as error:
        if not news and not any(_are_booked(engine, *end) for end in ends):
            raise
        run_id = news[0].of_run if news else ends[0][0]
        raise LedgerError(
            "MQDLQ-603",
            f"another executor has settled this unit of work of run {run_id} and booked how its"
            " messages ended, so this task ends; no message was moved twice",
        ) from error


def _are_booked(engine: sa.Engine, run_id: str, message_ids: list[int]) -> bool:
    """Return whether any of these messages of a run has an outcome."""
    booked = t.outcome_messages.c
    own = sa.select(booked.lot_id).where(is_of_run(t.outcome_messages, run_id))
    with engine.connect() as connection:
        return any(
            connection.execute(own.where(booked.message_id.in_(some))).first() is not None
            for some in in_parts(message_ids)
        )


class RunMessage(NamedTuple):
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
    outcome: t.OutcomeFact | None


# Not by the views: SQLite would read all outcomes of all runs for an outer join of one.
_LISTED: Final = t.listed_messages.join(t.runs)
_LISTED_AND_ENDED: Final = _LISTED.outerjoin(
    t.outcome_messages,
    (t.outcome_messages.c.run_no == t.listed_messages.c.run_no)
    & (t.outcome_messages.c.message_id == t.listed_messages.c.message_id),
).outerjoin(t.outcome_lots, t.outcome_lots.c.lot_id == t.outcome_messages.c.lot_id)
_OUTCOME: Final = t.outcome_lots.c.outcome


def _is_without(outcomes: Collection[Outcome]) -> Condition:
    """Return the condition that a message of `_LISTED_AND_ENDED` has none of these outcomes."""
    return _OUTCOME.is_(None) | _OUTCOME.not_in(sorted(outcomes))


def _of_run(run_id: str, listed: sa.FromClause, *more: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Return the query for the fields of `RunMessage`, and more columns, in browse order."""
    own, message = t.listed_messages.c, t.messages.c
    return (
        sa.select(
            *(message.message_id, own.browse_seq, message.message_key),
            *(message.occurrence, message.residence, own.disposition, *more),
        )
        .select_from(listed.join(t.messages, message.message_id == own.message_id))
        .where(t.runs.c.run_id == run_id)
        .order_by(own.browse_seq)
    )


_FACT: Final = [
    (t.outcome_messages if name == "message_id" else t.outcome_lots).c[name]
    for name in t.OutcomeFact.__match_args__
]
LISTED: Final = (
    sa.select(*t.listed_messages.c["browse_seq", "message_id"], *_FACT)
    .select_from(_LISTED_AND_ENDED)
    .order_by(t.listed_messages.c.browse_seq)
)
"""The query for messages that runs list, for `listed`, in browse order."""


def listed(browse_seq: int, message_id: int, *ended: Any) -> Listed:
    fact = t.OutcomeFact(*ended) if ended[0] is not None else None
    return Listed(browse_seq, message_id, fact)


LEASE_GRACE: Final = timedelta(minutes=5)
"""How late the next pass may begin before other runs may take the messages."""


class Messages(Repository):
    """Messages of dead-letter queues, as runs list and lease them."""

    def of_run(self, run_id: str) -> list[RunMessage]:
        """Return the messages of a run's plan in browse order."""
        with self._stream(_of_run(run_id, _LISTED)) as rows:
            return [RunMessage(*row) for row in rows]

    def not_departed(self, run_id: str) -> Iterator[Sequence[Row]]:
        """Yield, in parts and in browse order, the messages that a run has not booked as departed.

        A row has the fields of `RunMessage`, and the `outcome`, None if there is none.
        """
        query = _of_run(run_id, _LISTED_AND_ENDED, _OUTCOME).where(_is_without(DEPARTED))
        with self._stream(query) as rows:
            yield from rows.partitions()

    def listed(self, run_id: str, without: Collection[Outcome] = ()) -> Iterator[Listed]:
        """Yield what a run has listed, in its plan or since, in browse order.

        Messages with an outcome in `without` are left out.
        """
        query = LISTED.where(t.runs.c.run_id == run_id)
        with self._stream(query.where(_is_without(without)) if without else query) as rows:
            yield from (listed(*row) for row in rows)

    def departed_keys(self, run_id: str, keys: Iterable[bytes], but: Collection[int]) -> set[bytes]:
        """Return which of these keys messages have that a run booked as departed, but for some."""
        booked = t.outcomes.c
        query = sa.select(t.messages.c.message_key, booked.message_id).join(t.outcomes)
        query = query.where(booked.run_id == run_id, booked.outcome.in_(sorted(DEPARTED)))
        found = self._among(query, t.messages.c.message_key, keys)
        return {key for key, message_id in found if message_id not in but}

    def ids(self, run: t.Run, keys: Collection[bytes]) -> dict[tuple[bytes, int], int]:
        """Return by key and occurrence the ids in the latest residence of at most 500 keys."""
        is_meant = is_at(run.queue_manager, run.queue) & t.messages.c.message_key.in_(keys)
        query = sa.select(t.messages).where(is_meant).order_by(t.messages.c.residence)
        return {(row.message_key, row.occurrence): row.message_id for row in self._rows(query)}

    def has_new(self, run: t.Run) -> bool:
        """Return whether a run lists a message that is not known and has not come back."""
        others = t.run_messages.alias()
        earlier = (
            sa.select(others.c.run_id)
            .join_from(others, t.runs)
            .where(others.c.message_id == t.run_messages.c.message_id)
            .where(t.runs.c.started_at < run.started_at)
        )
        query = sa.select(t.messages.c.message_id).join_from(t.messages, t.run_messages)
        is_new = (t.messages.c.residence == 0) & ~earlier.exists()
        return self._first(query.where(t.run_messages.c.run_id == run.run_id, is_new)) is not None

    def residents(
        self, queue_manager: str, queue: str, keys: Collection[bytes]
    ) -> dict[bytes, int]:
        """Return by key how many messages have not departed from a queue, as far as known."""
        return self._here(sa.func.count(), queue_manager, queue, keys)

    def first_residents(
        self, queue_manager: str, queue: str, keys: Collection[bytes]
    ) -> dict[bytes, int]:
        """Return by key the id of the first message that has not departed, as far as known."""
        return self._here(sa.func.min(t.messages.c.message_id), queue_manager, queue, keys)

    def _here(
        self, what: sa.ColumnElement[int], queue_manager: str, queue: str, keys: Collection[bytes]
    ) -> dict[bytes, int]:
        key = t.messages.c.message_key
        is_here = is_at(queue_manager, queue) & ~has_departed(t.messages.c.message_id)
        query = sa.select(key, what).where(is_here).group_by(key)
        return {row[0]: row[1] for row in self._among(query, key, keys)}

    def known_keys(self, queue_manager: str, queue: str, keys: Iterable[bytes]) -> set[bytes]:
        """Return which of these keys messages had that runs have listed on a queue."""
        query = sa.select(t.messages.c.message_key).where(is_at(queue_manager, queue))
        return {row.message_key for row in self._among(query, t.messages.c.message_key, keys)}

    def departed_elsewhere(self, run_id: str, others: Sequence[int] = ()) -> dict[int, str]:
        """Return which of a run's messages another run has moved: id to that run's id.

        Those that the run itself has booked as departed are left out. The proof is the other run's
        booking, or a unit of work that is known to have moved the message.
        `others` are further messages to look for, which the run does not list.
        """
        own = (
            sa.select(t.listed_messages.c.message_id)
            .select_from(_LISTED_AND_ENDED)
            .where(t.runs.c.run_id == run_id, _is_without(DEPARTED))
        )
        chosen: list[Any] = [own, *in_parts(others)]
        found: dict[int, str] = {}
        for some in chosen:
            for table, has_left in DEPARTURES:
                query = sa.select(*table.c["message_id", "run_id"]).where(has_left)
                is_meant = table.c.message_id.in_(some) & (table.c.run_id != run_id)
                found |= self._map(query.where(is_meant))
        return found

    def lease(self, run_id: str, message_ids: Iterable[int], until: datetime) -> None:
        """Lease messages to a run until a time; a lease that ends now releases them."""
        rows = ({"message_id": one, "run_id": run_id, "until": until} for one in message_ids)
        with self._engine.begin() as connection:
            for some in in_parts(rows, ROWS_AT_ONCE):
                add(connection, t.leases, some)

    def next_pass(self, run_id: str, now: datetime) -> datetime | None:
        """Return when the pass is due for which a run leases messages, None if none is to come."""
        query = sa.select(t.leases.c.until).where(t.leases.c.run_id == run_id)
        until = self._moment(query.order_by(t.leases.c.seq.desc()).limit(1))
        # The leases of the pass before last beyond the beginning of the next one.
        due_at = until - LEASE_GRACE if until is not None else now
        return due_at if due_at > now else None

    def lease_holders(self, run_id: str, now: datetime) -> dict[int, str]:
        """Return which run has the lease on which of a run's messages: message id to run id."""
        query = (
            sa.select(*t.leases.c["message_id", "run_id"])
            .join(t.run_messages, t.run_messages.c.message_id == t.leases.c.message_id)
            .where(t.run_messages.c.run_id == run_id, is_leased(now))
        )
        return self._map(query)


class BrowseOrderReader(Generic[T]):
    """Items of messages in browse order, to read several sources side by side."""

    def __init__(self, pairs: Iterable[tuple[int, T]]) -> None:
        self._pairs = iter(pairs)
        self._next = next(self._pairs, None)

    def rows_for(self, browse_seq: int) -> list[T]:
        """Return the items of one message; those of messages before it are skipped."""
        found = []
        while self._next is not None and self._next[0] <= browse_seq:
            if self._next[0] == browse_seq:
                found.append(self._next[1])
            self._next = next(self._pairs, None)
        return found


def is_at(queue_manager: str, queue: str) -> Condition:
    """Return the condition that a message is, or was, on this queue."""
    return is_on(t.messages, queue_manager, queue)


def is_leased(now: datetime) -> Condition:
    """Return the condition that a lease lasts, and is the last one of its message."""
    return (t.leases.c.until > now) & is_last(t.leases, "message_id")


DEPARTURES: Final[tuple[tuple[sa.Table, Condition], ...]] = (
    (t.attempts, t.attempts.c.state == AttemptState.CONFIRMED),
    (t.outcomes, t.outcomes.c.outcome.in_(DEPARTED)),
)
"""The tables that prove that a message has departed, and by which rows.

The proof may come after the run has ended and booked the message as unknown. The outcome stays,
and the message has departed.
"""


def has_departed(message_id: sa.ColumnElement[int]) -> Condition:
    """Return the condition that a run booked a message as departed, or a unit of work moved it."""
    # Aliases: the query around it may read these tables, too, and name its own column.
    booked, proven = t.outcomes.alias(), t.attempts.alias()
    return sa.or_(
        sa.exists().where(booked.c.message_id == message_id, booked.c.outcome.in_(DEPARTED)),
        sa.exists().where(
            proven.c.message_id == message_id, proven.c.state == AttemptState.CONFIRMED
        ),
    )
