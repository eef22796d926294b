"""Attempts: each try of a rule's action on a message, and the states it has come to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from mqdlq.ledger import tables as t
from mqdlq.ledger.database import Condition, Repository, Row, add, in_parts
from mqdlq.ledger.messages import (
    OUTCOME_OF_LISTED,
    booking,
    has_departed,
    is_at,
    is_without,
    outcome_row,
)
from mqdlq.ledger.runs import is_beside
from mqdlq.model import GIVEN_ACTION, AttemptState, Outcome

COUNTED: Final = (AttemptState.FAILED, AttemptState.CONFIRMED)
"""The states of an attempt that count against a rule's RETRY."""

_GOT: Final = (AttemptState.INTENDED, AttemptState.FAILED, AttemptState.BACKED_OUT_WITH_BATCH)
"""The states that an attempt comes to soon after the get of its message."""

_COLUMNS: Final = [column.name for column in t.attempts.columns if column.name != "seq"]
_LAST: Final = t.attempt_states.c
_CONFIRMED: Final = _LAST.state == AttemptState.CONFIRMED
_INTENDED: Final = _LAST.state == AttemptState.INTENDED
_FIELDS: Final = [
    t.messages.c.message_key if name == "message_key" else _LAST[name]
    for name in t.Attempt.__match_args__
]
_ATTEMPTS: Final = sa.select(*_FIELDS).join_from(
    t.attempt_states, t.messages, t.messages.c.message_id == _LAST.message_id
)
"""The query for the fields of `Attempt`, in their order."""


class Attempts(Repository):
    """Attempts, each in its latest state; the states before are kept, too."""

    def add(
        self,
        made: Sequence[t.Attempt],
        ended: Sequence[tuple[str, t.OutcomeFact]] = (),
        learned: Sequence[t.Learned] = (),
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
            add(connection, t.attempts, rows)
            add(connection, t.outcomes, ends)

    def of_run(self, run_id: str) -> list[t.Attempt]:
        """Return a run's attempts in the order made."""
        return self._select(_LAST.run_id == run_id)

    def in_browse_order(
        self, run_id: str, without: Collection[Outcome] = ()
    ) -> Iterator[tuple[int, t.Attempt]]:
        """Yield browse_seq and attempt of a run in browse order, then in the order made.

        Attempts on messages with an outcome in `without` are left out.
        """
        own = t.run_messages.c
        is_own = (own.run_id == _LAST.run_id) & (own.message_id == _LAST.message_id)
        query = (
            _ATTEMPTS.add_columns(own.browse_seq)
            .join(t.run_messages, is_own)
            .where(_LAST.run_id == run_id)
            .order_by(own.browse_seq, _LAST.seq)
        )
        if without:
            query = query.outerjoin(t.outcomes, OUTCOME_OF_LISTED).where(is_without(without))
        with self._stream(query) as rows:
            for *values, browse_seq in rows:
                yield browse_seq, t.Attempt(*values)

    def between(self, run_id: str) -> tuple[datetime, datetime] | None:
        """Return when a run recorded the first state of an attempt, and when the last one."""
        at = t.attempts.c.at
        query = sa.select(sa.func.min(at), sa.func.max(at)).where(t.attempts.c.run_id == run_id)
        first, last = self._rows(query)[0]
        return None if first is None else (first, last)

    def made_between(self, queue_manager: str, queue: str, start: datetime, end: datetime) -> int:
        """Return how many gets of a queue's messages runs have made in a time.

        Gets that were backed out count, and a message that two units got counts twice.
        """
        made = t.attempts.c
        query = sa.select(made.unit, made.message_id).join(t.messages).distinct()
        is_meant = is_at(queue_manager, queue) & made.state.in_(_GOT) & made.at.between(start, end)
        number = sa.select(sa.func.count()).select_from(query.where(is_meant).subquery())
        return self._count(number)

    def made(self, run: t.Run) -> dict[int, tuple[int, datetime]]:
        """Return by message id how many attempts count, and when the last of them was made.

        If attempts carry on, attempts of earlier runs with the same rules count; attempts of an
        action given for named messages do not, nor do forwards to a quarantine queue (rule 0).
        """
        made: dict[int, tuple[int, datetime]] = {}
        for message_id, _, number, last in self._counted(run):
            before, at = made.get(message_id, (0, last))
            made[message_id] = before + number, max(at, last)
        return made

    def made_by_rule(self, run: t.Run) -> dict[int, dict[int, int]]:
        """Return by message id how many of its attempts that count are of each rule."""
        made = defaultdict[int, dict[int, int]](dict)
        for message_id, rule, number, _ in self._counted(run):
            made[message_id][rule] = number
        return made

    def _counted(self, run: t.Run) -> Sequence[Row]:
        """Return message, rule, number and last time of the attempts that count against RETRY."""
        query = (
            sa.select(_LAST.message_id, _LAST.rule, sa.func.count(), sa.func.max(_LAST.at))
            .join(t.run_messages, t.run_messages.c.message_id == _LAST.message_id)
            .join(t.runs, t.runs.c.run_id == _LAST.run_id)
            .where(t.run_messages.c.run_id == run.run_id, _LAST.state.in_(COUNTED))
            .group_by(_LAST.message_id, _LAST.rule)
        )
        if not run.carry_attempts:
            return self._rows(query.where(_LAST.run_id == run.run_id))
        by_same_rules = query.where(
            t.runs.c.rules_digest == run.rules_digest,
            t.runs.c.rules_source != GIVEN_ACTION,
            (_LAST.rule != 0) | (_LAST.run_id == run.run_id),
        )
        return self._rows(by_same_rules)

    def of_residents(
        self, queue_manager: str, queue: str, keys: Collection[bytes]
    ) -> dict[bytes, list[int]]:
        """Return by key how many attempts were made on messages that have not departed.

        Attempts of all runs on the queue count, whatever their rules. A key with several messages
        has a number for each, in the order in which a browse recognises them; a key without any
        attempt is absent.
        """
        here = sa.select(t.messages.c.message_id, t.messages.c.message_key).where(
            is_at(queue_manager, queue), ~has_departed(t.messages.c.message_id)
        )
        made: dict[bytes, list[int]] = {}
        for some in in_parts(keys):
            query = here.where(t.messages.c.message_key.in_(some)).order_by(t.messages.c.occurrence)
            residents = self._map(query)
            numbers, in_doubt = self._count_by_message(residents)
            for one in sorted(residents, key=in_doubt.__contains__):
                made.setdefault(residents[one], []).append(numbers.get(one, 0))
        return {key: numbers for key, numbers in made.items() if any(numbers)}

    def _count_by_message(self, ids: Iterable[int]) -> tuple[dict[int, int], set[int]]:
        """Return how many attempts on each message count, and the messages in doubt."""
        numbers, in_doubt = defaultdict[int, int](int), set[int]()
        relevant = _LAST.state.in_((*COUNTED, AttemptState.UNKNOWN))
        query = sa.select(_LAST.message_id, _LAST.state).where(relevant)
        for row in self._among(query, _LAST.message_id, ids):
            if row.state in COUNTED:
                numbers[row.message_id] += 1
            else:
                in_doubt.add(row.message_id)
        return numbers, in_doubt

    def in_states(self, queue_manager: str, *states: AttemptState) -> list[t.Attempt]:
        """Return the attempts on a queue manager whose latest state is one of these, in order."""
        return self._select(t.messages.c.queue_manager == queue_manager, _LAST.state.in_(states))

    def intended(self, queue_manager: str, queue: str) -> list[t.Attempt]:
        """Return the attempts on a queue whose unit of work nobody has settled, oldest first."""
        return self._select(is_at(queue_manager, queue), _INTENDED)

    def has_open_units(self, run_id: str) -> bool:
        query = sa.select(_LAST.unit).where(_LAST.run_id == run_id, _INTENDED)
        return self._first(query) is not None

    def of_unit(self, unit: str) -> list[t.Attempt]:
        return self._select(_LAST.unit == unit)

    def confirmed_units(self, units: Collection[str]) -> set[str]:
        """Return which of these units of work are known to have committed."""
        return self._confirmed("unit", units)

    def moved(self, message_ids: Collection[int]) -> set[int]:
        """Return which of these messages a unit of work is known to have moved."""
        return self._confirmed("message_id", message_ids)

    def _confirmed(self, name: str, values: Iterable[Any]) -> set[Any]:
        query = sa.select(_LAST[name]).where(_CONFIRMED)
        return {row[0] for row in self._among(query, _LAST[name], values)}

    def earlier_targets(self, run: t.Run) -> set[tuple[str, str]]:
        """Return the (queue, queue manager) to which earlier runs moved messages of this queue."""
        query = sa.select(_LAST.target_q, _LAST.target_q_mgr).distinct()
        moved = query.join(t.runs, t.runs.c.run_id == _LAST.run_id).where(_CONFIRMED)
        return {(queue, of) for queue, of in self._rows(moved.where(is_beside(run)))}

    def _select(self, *conditions: Condition) -> list[t.Attempt]:
        with self._stream(_ATTEMPTS.where(*conditions).order_by(_LAST.seq)) as rows:
            return [t.Attempt(*row) for row in rows]
