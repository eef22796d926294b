"""Outcomes: how each message of a run ended, and what later runs learned of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Engine, FromClause, func, or_, select
from sqlalchemy.exc import IntegrityError

from mqdlq.errors import LedgerError
from mqdlq.ledger.database import ROWS_AT_ONCE, Repository, add, columns_of, in_parts
from mqdlq.ledger.tables.messages import learned, messages, outcomes, settled_outcomes
from mqdlq.ledger.tables.retention import pruned_runs
from mqdlq.ledger.tables.runs import runs
from mqdlq.model import QUARANTINE, Outcome
from mqdlq.reasons import Reason, Why


@dataclass(frozen=True, slots=True)
class OutcomeFact:
    """How one message ended in one run; `rule` is 0 where no rule decided."""

    message_id: int
    outcome: Outcome
    why: Reason
    rule: int
    action: str
    target_q: str
    target_q_mgr: str
    at: datetime

    @property
    def is_only_dry_run(self) -> bool:
        """Whether nothing but the dry run kept the message's next step from being taken."""
        return self.outcome is Outcome.NOT_ATTEMPTED and self.why == Why.DRY_RUN()


def is_only_dry_run(booked: FromClause) -> ColumnElement[bool]:
    """Return `OutcomeFact.is_only_dry_run` as a condition on outcomes, or on an alias of them."""
    return (booked.c.outcome == Outcome.NOT_ATTEMPTED) & (booked.c.why == Why.DRY_RUN())


@dataclass(frozen=True, slots=True)
class Learned:
    """How a message had ended in the run `of_run`, as the run `run_id` came to know.

    The earlier run had booked another outcome, since nothing proved this one then.
    """

    of_run: str
    message_id: int
    run_id: str
    outcome: Outcome
    target_q: str
    target_q_mgr: str
    at: datetime


@dataclass(frozen=True, slots=True)
class LearnedCount:
    """How many messages of the run `of_run` had ended so, as the run `run_id` found out."""

    of_run: str
    run_id: str
    outcome: Outcome
    target_q: str
    target_q_mgr: str
    messages: int


class HistoryRow(NamedTuple):
    """An outcome with its message and its run, as the history of all runs has it."""

    run_id: str
    queue_manager: str
    queue: str
    message_key: bytes
    residence: int
    rules_digest: str
    dry_run: bool
    rule: int
    action: str
    outcome: Outcome
    at: datetime


class Outcomes(Repository):
    """Outcomes: exactly one for each message of a run, and corrections that later runs learned."""

    def add(self, run_id: str, facts: Iterable[OutcomeFact]) -> None:
        """Add outcomes of a run, in one transaction, however many; a message has one in a run.

        Raises LedgerError, and writes nothing, if a message has an outcome in this run already.
        """
        with booking(self._engine) as (connection, ends):
            for part in in_parts(facts, ROWS_AT_ONCE):
                ends[:] = [row_of(run_id, fact) for fact in part]
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
        for some in in_parts(message_ids):
            for row in self._all(query.where(outcomes.c.message_id.in_(some))):
                found[row["message_id"]][row["run_id"]] = row["outcome"]
        return found

    def counts(self, run_id: str) -> Counter[Outcome]:
        """Count a run's outcomes, those of settled messages included."""
        counted = Counter[Outcome]()
        for table, number in (
            (outcomes, func.count()),
            (settled_outcomes, func.sum(settled_outcomes.c.messages)),
        ):
            query = select(table.c.outcome, number.label("number")).where(table.c.run_id == run_id)
            for row in self._all(query.group_by(table.c.outcome)):
                counted[row["outcome"]] += int(row["number"])
        return counted

    def count_without_archive_copy(self, run_id: str) -> int:
        """Count the messages of a run that were not discarded because they were not archived."""
        query = select(func.count()).where(
            outcomes.c.run_id == run_id, outcomes.c.why == Why.NO_ARCHIVE_COPY()
        )
        return int(next(iter(self._values(query))))

    def quarantine_forwards(self, run_id: str) -> dict[int, str]:
        """Return the messages that a run forwarded to a quarantine queue, with that queue."""
        query = select(outcomes.c.message_id, outcomes.c.target_q).where(
            outcomes.c.run_id == run_id,
            outcomes.c.outcome == Outcome.FORWARDED,
            outcomes.c.rule == QUARANTINE,
        )
        with self._stream(query) as rows:
            return {row.message_id: row.target_q for row in rows}

    def learned_counts(self, run_id: str) -> list[LearnedCount]:
        """Count what a run learned of others and what was learned of it, in that order."""
        names = ("of_run", "run_id", "outcome", "target_q", "target_q_mgr")
        kinds = [learned.c[name] for name in names]
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

    def history(self, at_once: int) -> Iterator[list[HistoryRow]]:
        """Yield the outcomes of all runs, without those of settled messages, some at a time.

        They are in no order. An outcome that was learned later replaces the booked one. Runs that a
        prune is removing count by their totals only (see `Prunes.history`).
        """
        held = {column.name: column for column in (*outcomes.c, *messages.c, *runs.c)}
        latest = {n: func.coalesce(learned.c[n], outcomes.c[n]) for n in ("outcome", "at")}
        query = (
            select(*((held | latest)[name].label(name) for name in HistoryRow._fields))
            .select_from(outcomes)
            .join(messages, messages.c.message_id == outcomes.c.message_id)
            .join(runs, runs.c.run_id == outcomes.c.run_id)
            .outerjoin(
                learned,
                (learned.c.of_run == outcomes.c.run_id)
                & (learned.c.message_id == outcomes.c.message_id),
            )
            .where(outcomes.c.run_id.not_in(select(pruned_runs.c.run_id)))
        )
        with self._stream(query) as rows:
            for part in rows.partitions(at_once):
                yield [HistoryRow._make(row) for row in part]


_COLUMNS = [column.name for column in outcomes.c if column.name != "run_id"]


def row_of(run_id: str, fact: OutcomeFact) -> dict[str, Any]:
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
