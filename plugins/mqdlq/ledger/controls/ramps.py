"""Ramps and breakers: how far the handling of a cause is, and the attempts that decide it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Select, func, select, tuple_

from mqdlq.ledger.database import Repository, in_parts
from mqdlq.ledger.tables.controls import identities, ramp_states
from mqdlq.ledger.tables.messages import HAS_CAUSE, attempts, messages, outcomes
from mqdlq.model import AttemptState, Outcome, RampPhase
from mqdlq.reasons import Reason


class Subject(NamedTuple):
    """The messages that one ramp, or one breaker, is for: a queue, a cause and a target."""

    queue_manager: str
    queue: str
    cause_id: str
    target_q: str
    target_q_mgr: str


@dataclass(frozen=True, slots=True)
class RampState:
    """The state of a ramp or a breaker, recorded by a run.

    `step` counts the steps of a ramp from 1; 0 is the one message that a breaker tries, or a closed
    breaker without a ramp. In a step, `allowed` messages may move. `depth` is that of the target
    when the step began, None if it is not known. Attempts after `step_from` belong to the step;
    returns and failures count after `count_from`. Both are `seq` of attempts. `until` is when the
    state may change, None if that does not depend on the time.
    """

    run_id: str
    phase: RampPhase
    step: int
    allowed: int
    depth: int | None
    step_from: int
    count_from: int
    until: datetime | None
    why: Reason | None
    at: datetime


class CauseAttempt(NamedTuple):
    """A confirmed attempt on a message of a subject; `seq` orders attempts."""

    subject: Subject
    message_id: int
    seq: int


class AwaitedTarget(NamedTuple):
    """A target that messages on the queue are for; `cause_id` is None if it is not known."""

    cause_id: str | None
    target_q: str
    target_q_mgr: str


CLOCK_DIFFERENCE: Final = timedelta(minutes=1)
"""By how much the clock of a queue manager that writes an MQDLH may be behind this machine's."""

_MAY_HAVE_MOVED = (AttemptState.CONFIRMED, AttemptState.UNKNOWN)
_WAITING = (Outcome.NOT_ATTEMPTED, Outcome.RETRY_PENDING)
_SUBJECT = [ramp_states.c[name] for name in Subject._fields]
_STATE = [ramp_states.c[field.name] for field in fields(RampState)]


class Ramps(Repository):
    """States of ramps and breakers, and the attempts by cause that they depend on."""

    def record(self, subject: Subject, state: RampState) -> None:
        """Record that a ramp or a breaker has come to a state, durably."""
        self._add(ramp_states, {**subject._asdict(), **asdict(state)})

    def current(
        self, queue_manager: str, queue: str, before: datetime | None = None
    ) -> dict[Subject, RampState]:
        """Return the current states of a queue, or those at a time, in the order recorded."""
        conditions = [ramp_states.c.queue_manager == queue_manager, ramp_states.c.queue == queue]
        if before is not None:
            conditions.append(ramp_states.c.at <= before)
        newest = newest_states().where(*conditions)
        query = select(*_SUBJECT, *_STATE).where(ramp_states.c.seq.in_(newest))
        size = len(_SUBJECT)
        with self._stream(query.order_by(ramp_states.c.seq)) as rows:
            return {Subject(*row[:size]): RampState(*row[size:]) for row in rows}

    def returned_elsewhere(self, subject: Subject, after: int) -> dict[int, bytes]:
        """Return the messages of a subject that were dead-lettered on another queue since a move.

        Only moves after an attempt count. The values are the identities, which any queue's runs
        have recorded. A message that still has its MQDLH of before the move was only forwarded. Its
        new MQDLH may be up to `CLOCK_DIFFERENCE` older than the intent to move it.
        """
        with self._stream(_returned_elsewhere(subject, after)) as rows:
            return {
                row.message_id: row.identity
                for row in rows
                if row.dead_lettered_at >= row.at - CLOCK_DIFFERENCE
            }

    def awaited_targets(self, run_id: str) -> set[AwaitedTarget]:
        """Return the targets of the messages that a run left on the queue with a further step.

        A message without an identity has no known cause here.
        """
        columns = (identities.c.cause_id, outcomes.c.target_q, outcomes.c.target_q_mgr)
        query = (
            select(*columns)
            .distinct()
            .select_from(outcomes)
            .outerjoin(identities, identities.c.message_id == outcomes.c.message_id)
            .where(outcomes.c.run_id == run_id, outcomes.c.outcome.in_(_WAITING))
        )
        with self._stream(query) as rows:
            return {AwaitedTarget(*row) for row in rows}

    def last_attempt(self) -> int:
        """Return the `seq` of the attempt that was recorded last, 0 if there is none."""
        found = self._values(select(func.max(attempts.c.seq)))
        return found[0] or 0

    def moved(self, subject: Subject, after: int) -> int:
        """Count the messages of a subject that moved, or may have moved, after an attempt."""
        is_moved = attempts.c.state.in_(_MAY_HAVE_MOVED)
        number = select(func.count(attempts.c.message_id.distinct())).select_from(attempts)
        return int(self._values(_of_subject(number, subject, after, is_moved))[0])

    def last_moved_at(self, subject: Subject) -> datetime | None:
        """Return when a message of a subject moved last, None if none did."""
        is_moved = attempts.c.state.in_(_MAY_HAVE_MOVED)
        query = _of_subject(select(attempts.c.at), subject, 0, is_moved)
        return self._moment(query.order_by(attempts.c.seq.desc()))

    def failures_in_a_row(self, subject: Subject, after: int, but: Collection[int] = ()) -> int:
        """Count the attempts of a subject that failed since the last one that succeeded.

        Failures with the reason codes `but` do not count.
        """
        succeeded = attempts.c.state == AttemptState.CONFIRMED
        last = self._values(
            _of_subject(select(func.max(attempts.c.seq)), subject, after, succeeded)
        )
        failed = (attempts.c.state == AttemptState.FAILED) & attempts.c.mqrc.not_in(but)
        number = select(func.count()).select_from(attempts)
        query = _of_subject(number, subject, max(after, last[0] or 0), failed)
        return int(self._values(query)[0])

    def moves_of(self, message_ids: Iterable[int]) -> Iterator[CauseAttempt]:
        """Yield the confirmed attempts by cause on these messages."""
        columns = (messages.c.queue_manager, messages.c.queue)
        names = ("cause_id", "target_q", "target_q_mgr", "message_id", "seq")
        query = (
            select(*columns, *(attempts.c[name] for name in names))
            .join(messages, messages.c.message_id == attempts.c.message_id)
            .where(attempts.c.state == AttemptState.CONFIRMED, attempts.c.cause_id != "")
        )
        for some in in_parts(message_ids):
            with self._stream(query.where(attempts.c.message_id.in_(some))) as rows:
                for *subject, message_id, seq in rows:
                    yield CauseAttempt(Subject(*subject), message_id, seq)


def _returned_elsewhere(subject: Subject, after: int) -> Select[Any]:
    """Return the query for the messages of a subject that another queue had after they moved."""
    moves = select(attempts.c.message_id, attempts.c.unit)
    is_confirmed = attempts.c.state == AttemptState.CONFIRMED
    moved = _of_subject(moves, subject, after, is_confirmed).subquery()
    # A message may be back before its move is recorded as confirmed: after a crash, hours before.
    intended = attempts.alias()
    later = identities.alias()
    own_queue = (subject.queue_manager, subject.queue)
    return (
        select(moved.c.message_id, identities.c.identity, intended.c.at, later.c.dead_lettered_at)
        .distinct()
        .join(identities, identities.c.message_id == moved.c.message_id)
        .join(
            intended,
            (intended.c.message_id == moved.c.message_id)
            & (intended.c.unit == moved.c.unit)
            & (intended.c.state == AttemptState.INTENDED),
        )
        .join(later, later.c.identity == identities.c.identity)
        .join(messages, messages.c.message_id == later.c.message_id)
        .where(
            later.c.message_id > moved.c.message_id,
            later.c.dead_lettered_at.is_distinct_from(identities.c.dead_lettered_at),
            later.c.dead_lettered_at.is_not(None),
            tuple_(messages.c.queue_manager, messages.c.queue) != own_queue,
        )
    )


def newest_states() -> Select[Any]:
    """Return the query for the `seq` of the last state of each subject."""
    return select(func.max(ramp_states.c.seq)).group_by(*_SUBJECT)


def open_breakers() -> Select[Any]:
    """Return the query for the runs that recorded the current state of an open breaker."""
    return select(ramp_states.c.run_id).where(
        ramp_states.c.phase == RampPhase.OPEN, ramp_states.c.seq.in_(newest_states())
    )


def _of_subject(
    query: Select[Any], subject: Subject, after: int, condition: ColumnElement[bool]
) -> Select[Any]:
    """Narrow a query to the attempts of a subject after one of them, by their index."""
    return query.join(messages, messages.c.message_id == attempts.c.message_id).where(
        HAS_CAUSE,
        attempts.c.cause_id == subject.cause_id,
        attempts.c.target_q == subject.target_q,
        attempts.c.target_q_mgr == subject.target_q_mgr,
        attempts.c.seq > after,
        messages.c.queue_manager == subject.queue_manager,
        messages.c.queue == subject.queue,
        condition,
    )
