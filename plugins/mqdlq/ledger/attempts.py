"""Attempts: each try of a rule's action on a message, and the states it has come to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, Final, TypeVar

from sqlalchemy import Column, ColumnElement, Select, and_, func, or_, select

from mqdlq.ledger.database import Repository, add, in_parts
from mqdlq.ledger.messages import booking, has_departed, is_at, outcome_row
from mqdlq.ledger.runs import is_beside
from mqdlq.ledger.tables import (
    Attempt,
    Learned,
    OutcomeFact,
    Run,
    attempt_states,
    attempts,
    messages,
    outcomes,
    run_messages,
    runs,
)
from mqdlq.model import GIVEN_ACTION, AttemptState

T = TypeVar("T")

COUNTED: Final = (AttemptState.FAILED, AttemptState.CONFIRMED)
"""The states of an attempt that count against a rule's RETRY."""

_GOT: Final = (
    AttemptState.INTENDED,
    AttemptState.FAILED,
    AttemptState.BACKED_OUT_WITH_BATCH,
)
"""The states that an attempt comes to soon after the get of its message."""


_COLUMNS: Final = [column.name for column in attempts.columns if column.name != "seq"]
_STATES: Final = attempt_states
_CONFIRMED: Final = _STATES.c.state == AttemptState.CONFIRMED
_INTENDED: Final = _STATES.c.state == AttemptState.INTENDED


class Attempts(Repository):
    """Attempts, each in its latest state; the states before are kept, too."""

    def add(
        self,
        made: Sequence[Attempt],
        ended: Sequence[tuple[str, OutcomeFact]] = (),
        learned: Sequence[Learned] = (),
    ) -> None:
        """Add the states that attempts have come to and, with them, (run_id, outcome) pairs.

        `learned` is of messages whose outcome was booked before its proof came. All of it in one
        transaction, durable when this returns. Raises LedgerError, and writes nothing, if one of
        the messages has an outcome in its run already, or was learned of.
        """
        # Not by asdict, which copies deeply: this is written for every message that moves.
        rows = [{name: getattr(attempt, name) for name in _COLUMNS} for attempt in made]
        with booking(self._engine, learned) as (connection, ends):
            ends += [outcome_row(run_id, fact) for run_id, fact in ended]
            add(connection, attempts, rows)
            add(connection, outcomes, ends)

    def of_run(self, run_id: str) -> list[Attempt]:
        """Return a run's attempts in the order made, each in its latest state."""
        return self._select(_STATES.c.run_id == run_id)

    def in_browse_order(self, run_id: str) -> Iterator[tuple[int, Attempt]]:
        """Yield a run's attempts with the browse_seq of their messages, each in its latest state.

        They are in the order of the messages, those on one message in the order made. A few
        thousand are in memory at a time.
        """
        query = (
            _attempts(run_messages.c.browse_seq)
            .join(
                run_messages,
                and_(
                    run_messages.c.run_id == _STATES.c.run_id,
                    run_messages.c.message_id == _STATES.c.message_id,
                ),
            )
            .where(_STATES.c.run_id == run_id)
            .order_by(run_messages.c.browse_seq, _STATES.c.seq)
        )
        with self._stream(query) as rows:
            for *values, browse_seq in rows:
                yield browse_seq, Attempt(*values)

    def between(self, run_id: str) -> tuple[datetime, datetime] | None:
        """Return when a run recorded the first state of an attempt, and when the last one."""
        first, last = func.min(attempts.c.at).label("first"), func.max(attempts.c.at).label("last")
        row = self._first(select(first, last).where(attempts.c.run_id == run_id))
        return None if row is None or row["first"] is None else (row["first"], row["last"])

    def made_between(self, queue_manager: str, queue: str, start: datetime, end: datetime) -> int:
        """Return how many attempts runs made in a time on messages of a dead-letter queue.

        An attempt that failed, or was backed out with others, has got its message, too.
        """
        made = (
            select(attempts.c.unit, attempts.c.message_id)
            .join(messages)
            .where(
                is_at(queue_manager, queue),
                attempts.c.state.in_(_GOT),
                attempts.c.at.between(start, end),
            )
            .distinct()
        )
        return self._count(select(func.count()).select_from(made.subquery()))

    def made(self, run: Run) -> dict[int, tuple[int, datetime]]:
        """Return by message id how many attempts count, and when the last of them was made.

        If attempts carry on, attempts of earlier runs with the same rules count; attempts of an
        action given for named messages do not, nor do forwards to a quarantine queue (rule 0).
        """
        number, last = func.count().label("number"), func.max(_STATES.c.at).label("last")
        counted = _counted(run, _STATES.c.message_id, number, last)
        query = counted.group_by(_STATES.c.message_id)
        return {row["message_id"]: (row["number"], row["last"]) for row in self._all(query)}

    def made_by_rule(self, run: Run) -> dict[int, dict[int, int]]:
        """Return by message id how many of its attempts that count are of each rule."""
        columns = (_STATES.c.message_id, _STATES.c.rule)
        query = _counted(run, *columns, func.count().label("number")).group_by(*columns)
        made = defaultdict[int, dict[int, int]](dict)
        for row in self._all(query):
            made[row["message_id"]][row["rule"]] = row["number"]
        return made

    def of_residents(
        self, queue_manager: str, queue: str, keys: Collection[bytes]
    ) -> dict[bytes, list[int]]:
        """Return by key how many attempts were made on messages that have not departed.

        Attempts of all runs on the queue count, whatever their rules. A key with several messages
        has a number for each, in the order in which a browse recognises them; a key without any
        attempt is absent.
        """
        here = select(messages.c.message_id, messages.c.message_key).where(
            is_at(queue_manager, queue), ~has_departed(messages.c.message_id)
        )
        made: dict[bytes, list[int]] = {}
        for some in in_parts(keys):
            query = here.where(messages.c.message_key.in_(some)).order_by(messages.c.occurrence)
            residents = {row["message_id"]: row["message_key"] for row in self._all(query)}
            numbers, in_doubt = self._count_by_message(residents)
            for one in sorted(residents, key=in_doubt.__contains__):
                made.setdefault(residents[one], []).append(numbers.get(one, 0))
        return {key: numbers for key, numbers in made.items() if any(numbers)}

    def _count_by_message(self, ids: Iterable[int]) -> tuple[dict[int, int], set[int]]:
        """Return how many attempts on each message count, and which messages are in doubt."""
        numbers, in_doubt = defaultdict[int, int](int), set[int]()
        relevant = _STATES.c.state.in_((*COUNTED, AttemptState.UNKNOWN))
        query = select(_STATES.c.message_id, _STATES.c.state).where(relevant)
        for row in self._among(query, _STATES.c.message_id, ids):
            if row.state in COUNTED:
                numbers[row.message_id] += 1
            else:
                in_doubt.add(row.message_id)
        return numbers, in_doubt

    def in_states(self, queue_manager: str, *states: AttemptState) -> list[Attempt]:
        """Return the attempts on a queue manager whose latest state is one of these, in order."""
        return self._select(messages.c.queue_manager == queue_manager, _STATES.c.state.in_(states))

    def intended(self, queue_manager: str, queue: str) -> list[Attempt]:
        """Return the attempts on a queue whose unit of work nobody has settled, oldest first."""
        return self._select(is_at(queue_manager, queue), _INTENDED)

    def has_open_units(self, run_id: str) -> bool:
        """Whether a unit of work of a run is intended, and nobody has settled it."""
        query = select(_STATES.c.unit).where(_STATES.c.run_id == run_id, _INTENDED)
        return self._first(query) is not None

    def of_unit(self, unit: str) -> list[Attempt]:
        """Return the attempts that were made in a unit of work, each in its latest state."""
        return self._select(_STATES.c.unit == unit)

    def confirmed_units(self, units: Collection[str]) -> set[str]:
        """Return which of these units of work are known to have committed."""
        return self._confirmed(_STATES.c.unit, units)

    def moved(self, message_ids: Collection[int]) -> set[int]:
        """Return which of these messages a unit of work is known to have moved."""
        return self._confirmed(_STATES.c.message_id, message_ids)

    def earlier_targets(self, run: Run) -> set[tuple[str, str]]:
        """Return the (queue, queue manager) to which earlier runs moved messages of this queue."""
        query = (
            select(_STATES.c.target_q, _STATES.c.target_q_mgr)
            .join(runs, runs.c.run_id == _STATES.c.run_id)
            .where(is_beside(run), _CONFIRMED)
            .distinct()
        )
        return {(row["target_q"], row["target_q_mgr"]) for row in self._all(query)}

    def _confirmed(self, column: Column[T], among: Iterable[T]) -> set[T]:
        return {row[0] for row in self._among(select(column).where(_CONFIRMED), column, among)}

    def _select(self, *conditions: ColumnElement[bool]) -> list[Attempt]:
        with self._stream(_attempts().where(*conditions).order_by(_STATES.c.seq)) as rows:
            return [Attempt(*row) for row in rows]


def _attempts(*more: ColumnElement[Any]) -> Select[Any]:
    """Return the query for attempts: the fields of `Attempt` in their order, then more columns."""
    columns = [
        (messages if field.name == "message_key" else _STATES).c[field.name]
        for field in fields(Attempt)
    ]
    query = select(*columns, *more).select_from(_STATES)
    return query.join(messages, messages.c.message_id == _STATES.c.message_id)


def _counted(run: Run, *columns: ColumnElement[Any]) -> Select[Any]:
    """Return the query for the attempts on a run's messages that count against RETRY."""
    query = (
        select(*columns)
        .join(run_messages, run_messages.c.message_id == _STATES.c.message_id)
        .join(runs, runs.c.run_id == _STATES.c.run_id)
        .where(run_messages.c.run_id == run.run_id, _STATES.c.state.in_(COUNTED))
    )
    if not run.carry_attempts:
        return query.where(_STATES.c.run_id == run.run_id)
    return query.where(
        runs.c.rules_digest == run.rules_digest,
        runs.c.rules_source != GIVEN_ACTION,
        or_(_STATES.c.rule != 0, _STATES.c.run_id == run.run_id),
    )
