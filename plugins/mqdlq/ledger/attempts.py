"""Attempts: each try of a rule's action on a message, and the states it has come to."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from itertools import groupby
from typing import Any, Final

import sqlalchemy as sa

from mqdlq.ledger import tables as t
from mqdlq.ledger.database import (
    Condition,
    Repository,
    Row,
    add,
    add_many,
    in_parts,
    in_turn,
    inserted,
)
from mqdlq.ledger.messages import (
    OutcomeLot,
    book,
    booking,
    has_departed,
    is_at,
    lots_of,
    run_number,
)
from mqdlq.ledger.runs import is_beside
from mqdlq.model import GIVEN_ACTION, AttemptState, Outcome

COUNTED: Final = (AttemptState.FAILED, AttemptState.CONFIRMED)
"""The states of an attempt that count against a rule's RETRY."""

_GOT: Final = (AttemptState.INTENDED, AttemptState.FAILED, AttemptState.BACKED_OUT_WITH_BATCH)
"""The states that an attempt comes to soon after the get of its message."""

_LAST: Final = t.attempt_states.c
_AS_MADE: Final = (_LAST.seq, _LAST.place)
_CONFIRMED: Final = _LAST.state == AttemptState.CONFIRMED
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

    def of_plan(self, run_id: str, plan_id: str) -> UnitBooking:
        """Return what books the units of work by which a run acts on a plan."""
        return UnitBooking(self._engine, run_id, plan_id)

    def add(
        self,
        made: Iterable[t.Attempt],
        ended: Iterable[tuple[str, t.OutcomeFact]] = (),
        learned: Sequence[t.Learned] = (),
    ) -> None:
        """Add the states that attempts have come to and, with them, (run_id, outcome) pairs.

        `learned` is of messages whose outcome was booked before its proof came. All of it in one
        transaction, durable when this returns. Raises LedgerError, and writes nothing, if one of
        the messages has an outcome in its run already, or was learned of.
        """
        units, facts = defaultdict[str, list[t.Attempt]](list), defaultdict[str, list[Any]](list)
        for attempt in made:
            units[attempt.unit].append(attempt)
        for run_id, fact in ended:
            facts[run_id].append(fact)
        with booking(self._engine, learned, in_turn) as (connection, ends):
            for unit, attempts in units.items():
                _add_states(connection, unit, attempts)
            for run_id, own in facts.items():
                ends.append((run_id, [fact.message_id for fact in own]))
                book(connection, run_number(connection, run_id), lots_of(own))

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
            booked = t.outcomes.c
            is_same = (booked.run_id == _LAST.run_id) & (booked.message_id == _LAST.message_id)
            has_ended = sa.exists().where(is_same, booked.outcome.in_(sorted(without)))
            query = query.where(~has_ended)
        with self._stream(query) as rows:
            for *values, browse_seq in rows:
                yield browse_seq, t.Attempt(*values)

    def between(self, run_id: str) -> tuple[datetime, datetime] | None:
        """Return when a run recorded the first state of an attempt, and when the last one."""
        at = t.unit_states.c.at
        query = sa.select(sa.func.min(at), sa.func.max(at)).join(t.units)
        query = query.where(t.units.c.run_id == run_id)
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
        return self._in_states(states, t.messages.c.queue_manager == queue_manager)

    def intended(self, queue_manager: str, queue: str) -> list[t.Attempt]:
        """Return the attempts on a queue whose unit of work nobody has settled, oldest first."""
        return self._in_states([AttemptState.INTENDED], is_at(queue_manager, queue))

    def has_open_units(self, run_id: str) -> bool:
        return bool(self._in_states([AttemptState.INTENDED], _LAST.run_id == run_id))

    def _in_states(self, states: Collection[AttemptState], condition: Condition) -> list[t.Attempt]:
        """Return the attempts that are in these states now, looking into few units of work."""
        state, later = t.unit_states, t.unit_states.alias()
        is_superseded = sa.exists().where(
            later.c.unit_no == state.c.unit_no,
            later.c.seq > state.c.seq,
            later.c.message_id.is_(None),
        )
        query = sa.select(t.units.c.unit).distinct().join_from(state, t.units)
        units = self._values(query.where(state.c.state.in_(states), ~is_superseded))
        chosen = _ATTEMPTS.where(condition, _LAST.state.in_(states)).order_by(*_AS_MADE)
        return [t.Attempt(*row) for row in self._among(chosen, _LAST.unit, units)]

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
        lot, state, own = t.attempt_lots.c, t.unit_states.c, t.attempt_messages.c
        is_in_lot = sa.exists().where(
            own.unit_no == lot.unit_no, own.lot == lot.lot, own.message_id == state.message_id
        )
        query = (
            sa.select(lot.target_q, lot.target_q_mgr)
            .distinct()
            .join_from(t.attempt_lots, t.units)
            .join(t.runs, t.runs.c.run_id == t.units.c.run_id)
            .join(t.unit_states, state.unit_no == lot.unit_no)
            .where(state.state == AttemptState.CONFIRMED, state.message_id.is_(None) | is_in_lot)
        )
        return {(queue, of) for queue, of in self._rows(query.where(is_beside(run)))}

    def _select(self, *conditions: Condition) -> list[t.Attempt]:
        with self._stream(_ATTEMPTS.where(*conditions).order_by(*_AS_MADE)) as rows:
            return [t.Attempt(*row) for row in rows]


# Write units of work: what their attempts have in common once, and a state for all of them.

_UNIT_MESSAGE: Final = ("unit_no", "place", "lot", "message_id")
_ADD_MESSAGE: Final = sa.insert(t.attempt_messages)


def _add_unit(
    connection: sa.Connection, names: tuple[str, str, str], tries: Sequence[t.Try]
) -> int:
    """Add a unit of work with its attempts; `names` are its unit, run and plan."""
    unit_no = inserted(
        connection, t.units, dict(zip(("unit", "run_id", "plan_id"), names, strict=True))
    )
    lots: dict[t.AttemptLot, int] = {}
    rows = [
        (unit_no, place, lots.setdefault(lot, len(lots)), message_id)
        for place, (lot, message_id) in enumerate(tries)
    ]
    counted = Counter(lot for _, _, lot, _ in rows)
    add(
        connection,
        t.attempt_lots,
        [
            {"unit_no": unit_no, "lot": number, "messages": counted[number], **asdict(lot)}
            for lot, number in lots.items()
        ],
    )
    add_many(connection, _ADD_MESSAGE, _UNIT_MESSAGE, rows)
    return unit_no


def _add_state(
    connection: sa.Connection,
    unit_no: int,
    change: tuple[AttemptState, int, datetime],
    message_ids: Iterable[int | None] = (None,),
) -> None:
    """Add the state to which all attempts of a unit have come, or those on some messages."""
    state, mqrc, at = change
    row = {"unit_no": unit_no, "state": state, "mqrc": mqrc, "at": at}
    add(connection, t.unit_states, [row | {"message_id": one} for one in message_ids])


def _add_states(connection: sa.Connection, unit: str, attempts: Sequence[t.Attempt]) -> None:
    """Add states of attempts in a unit of work, and those attempts that it does not have yet."""
    own = t.attempt_messages.c
    query = sa.select(own.message_id, own.unit_no).join(t.units).where(t.units.c.unit == unit)
    known = {row.message_id: row.unit_no for row in connection.execute(query)}
    new = {one.message_id: one for one in attempts if one.message_id not in known}
    if new:
        first = attempts[0]
        tries = [
            (t.AttemptLot(*(getattr(one, name) for name in t.AttemptLot.__match_args__)), key)
            for key, one in new.items()
        ]
        unit_no = _add_unit(connection, (unit, first.run_id, first.plan_id), tries)
        known |= dict.fromkeys(new, unit_no)

    def change_of(one: t.Attempt) -> tuple[int, tuple[AttemptState, int, datetime]]:
        return known[one.message_id], (one.state, one.mqrc, one.at)

    # Neighbours with the same change, and not all with it: states stay in the order of attempts.
    for (unit_no, change), alike in groupby(attempts, change_of):
        message_ids = [one.message_id for one in alike]
        is_whole = len(message_ids) == list(known.values()).count(unit_no)
        _add_state(connection, unit_no, change, (None,) if is_whole else message_ids)


class UnitBooking:
    """Books the units of work of a run by a plan; a unit takes few statements, however large."""

    def __init__(self, engine: sa.Engine, run_id: str, plan_id: str) -> None:
        self._engine, self._run_id, self._plan_id = engine, run_id, plan_id
        self._unit_nos: dict[str, int] = {}
        with engine.connect() as connection:
            self._run_no = run_number(connection, run_id)

    def begin(
        self, unit: str, tries: Sequence[t.Try], state: AttemptState, mqrc: int, at: datetime
    ) -> None:
        """Add the attempts of a unit of work, all of them in one state."""
        with self._engine.begin() as connection:
            names = unit, self._run_id, self._plan_id
            unit_no = _add_unit(connection, names, tries)
            _add_state(connection, unit_no, (state, mqrc, at))
        if state is AttemptState.INTENDED:
            self._unit_nos[unit] = unit_no

    def confirm(self, unit: str, ended: Sequence[OutcomeLot], at: datetime) -> None:
        """Add that a unit which was intended has committed, and the outcomes of its messages.

        Raises LedgerError, and writes nothing, if one of them has an outcome in the run already.
        """
        with booking(self._engine) as (connection, ends):
            ends += [(self._run_id, lot.message_ids) for lot in ended]
            _add_state(connection, self._unit_nos[unit], (AttemptState.CONFIRMED, 0, at))
            book(connection, self._run_no, ended)
        del self._unit_nos[unit]

    def back_out(self, unit: str, tries: Sequence[t.Try], mqrc: int, at: datetime) -> None:
        """Add that a unit was backed out, which may have been intended."""
        state, unit_no = AttemptState.BACKED_OUT_WITH_BATCH, self._unit_nos.pop(unit, None)
        if unit_no is None:
            self.begin(unit, tries, state, mqrc, at)
            return
        with self._engine.begin() as connection:
            _add_state(connection, unit_no, (state, mqrc, at))
