"""What controls record: checks by evidence, identities of messages, meters of rates, and ramps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    and_,
    func,
    insert,
    select,
    tuple_,
    update,
)

from mqdlq.ledger.database import Repository, add, columns_of, in_parts, in_turn
from mqdlq.ledger.runs import is_on_queue
from mqdlq.ledger.tables import (
    HAS_CAUSE,
    EvidenceCheck,
    Identity,
    Meter,
    RampState,
    Rate,
    Subject,
    attempts,
    evidence_checks,
    identities,
    messages,
    meters,
    outcomes,
    ramp_states,
    run_messages,
    runs,
)
from mqdlq.model import Action, AttemptState, Outcome, RampPhase


class EvidenceChecks(Repository):
    """The checks of queues by evidence; a run has at most one of each kind."""

    def record(self, run_id: str, check: EvidenceCheck) -> None:
        """Record a check of a run, unless the run has one of this kind."""
        self._add_once(evidence_checks, {"run_id": run_id, "kind": check.kind}, asdict(check))

    def of_run(self, run_id: str) -> list[EvidenceCheck]:
        """Return the checks of a run, by kind."""
        query = select(*columns_of(evidence_checks, EvidenceCheck))
        own = query.where(evidence_checks.c.run_id == run_id).order_by(evidence_checks.c.kind)
        return [EvidenceCheck(**row) for row in self._all(own)]

    def last_at(self, queue_manager: str, queue: str, kind: str) -> datetime | None:
        """Return up to when a queue was last checked by evidence of this kind, or None."""
        query = (
            select(evidence_checks.c.at)
            .join(runs)
            .where(
                is_on_queue(queue_manager, queue),
                evidence_checks.c.kind == kind,
                evidence_checks.c.trouble == "",
            )
            .order_by(evidence_checks.c.at.desc())
        )
        return self._moment(query)


_BACKFILL: Final = "backfill"


@dataclass(frozen=True, slots=True)
class Departure(Identity):
    """A move of a message off a dead-letter queue, by a RETRY or FWD that is known to be committed.

    `cause_id` is the cause for which the message was a dead letter then.
    """

    run_id: str
    queue_manager: str
    queue: str
    at: datetime


class Identities(Repository):
    """Identities of messages; a message has at most one, which never changes."""

    def record(self, found: Iterable[Identity]) -> None:
        """Record identities, in one transaction; a message that has one keeps it."""
        for part in in_parts(found):
            with in_turn(self._engine) as connection:
                known = select(identities.c.message_id).where(
                    identities.c.message_id.in_([one.message_id for one in part])
                )
                has_one = set(connection.scalars(known))
                rows = [asdict(one) for one in part if one.message_id not in has_one]
                add(connection, identities, rows)

    def of_run(self, run_id: str) -> dict[int, bytes]:
        """Return the identities of a run's messages by message id."""
        query = select(identities.c.message_id, identities.c.identity)
        listed = query.join(run_messages, run_messages.c.message_id == identities.c.message_id)
        return self._map(listed.where(run_messages.c.run_id == run_id))

    def of_messages(self, message_ids: Collection[int]) -> list[Identity]:
        """Return the identities of these messages, in no order."""
        query = select(*columns_of(identities, Identity))
        found = self._among(query, identities.c.message_id, message_ids)
        return [Identity(*row) for row in found]

    def departures(self, of: Collection[bytes]) -> dict[bytes, list[Departure]]:
        """Return by identity the departures of its messages from any queue, oldest first."""
        found = defaultdict[bytes, list[Departure]](list)
        held = {c.name: c for c in (*messages.c, *attempts.c, *identities.c)}
        query = (
            select(*(held[field.name] for field in fields(Departure)))
            .select_from(identities.join(messages).join(attempts))
            .where(
                attempts.c.state == AttemptState.CONFIRMED,
                attempts.c.action.in_((Action.RETRY, Action.FWD)),
            )
            .order_by(attempts.c.seq)
        )
        for row in self._among(query, identities.c.identity, of):
            found[row.identity].append(Departure(*row))
        return found

    def shared(self, among: Collection[bytes]) -> set[bytes]:
        """Return which of these identities two messages of one run had.

        They were on the queue at the same time, so they are different messages. Backfill runs do
        not count: they list messages of several times.
        """
        query = (
            select(identities.c.identity)
            .join(run_messages, run_messages.c.message_id == identities.c.message_id)
            .join(runs)
            .where(runs.c.run_type != _BACKFILL)
            .group_by(identities.c.identity, run_messages.c.run_id)
            .having(func.count() > 1)
        )
        return {row.identity for row in self._among(query, identities.c.identity, among)}


STRICTER_LIMIT_APPLIES_FOR: Final = timedelta(hours=1)
"""How long the stricter limit of another handler applies after that handler last used it."""

_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Meters(Repository):
    """Reserve parts of limited rates, each in one short transaction.

    A crash loses what its run has reserved and not used: the rate is lower then, never higher.
    """

    def reserve(
        self,
        meter: Meter,
        rate: Rate,
        amount: float,
        *,
        handler: str,
        now: datetime,
        latest: datetime,
    ) -> tuple[datetime, timedelta]:
        """Reserve an amount unless it would be ready after `latest`.

        Returns when it is ready, and how long the rate takes for it: zero if it was refused. The
        meter is a token bucket. An amount above the burst is ready when the bucket is full, and
        is paid for in full. If another handler has a stricter limit for the same meter, that limit
        applies while the other handler uses it, and for an hour more.
        """
        with in_turn(self._engine) as connection:
            row = _find(connection, meter)
            rate, owner, used_at = _choose_stricter(row, rate, handler, now)
            full_at = max(now, row["full_at"]) if row else now
            missing = (min(amount, rate.burst) - rate.burst) / rate.per_second
            ready_at = max(now, full_at + timedelta(seconds=missing))
            duration = timedelta(seconds=amount / rate.per_second)
            if ready_at > latest:
                duration = timedelta(0)
            values = {"handler": owner, "used_at": used_at, "full_at": full_at + duration}
            _write(connection, meter, row, {**values, **rate._asdict()})
        return ready_at, duration

    def give_back(self, meter: Meter, duration: timedelta) -> None:
        """Give back the unused part of a reservation, as the time that the rate takes for it."""
        with in_turn(self._engine) as connection:
            row = _find(connection, meter)
            if row is not None:
                _write(connection, meter, row, {"full_at": row["full_at"] - duration})

    def record_refusal(self, meter: Meter, run_id: str, until: datetime) -> None:
        """Record until when a run waits; a meter knows the last run that was refused."""
        with in_turn(self._engine) as connection:
            row = _find(connection, meter)
            _write(connection, meter, row, {"refused_run_id": run_id, "refused_until": until})

    def refusals(self, run_id: str, now: datetime) -> dict[Meter, datetime]:
        """Return the meters that a run waits for now, with the times until which it waits."""
        query = select(meters.c.subject, meters.c.unit, meters.c.refused_until).where(
            meters.c.refused_run_id == run_id, meters.c.refused_until > now
        )
        return {
            Meter(row["subject"], row["unit"]): row["refused_until"] for row in self._all(query)
        }


def _choose_stricter(
    row: RowMapping | None, rate: Rate, handler: str, now: datetime
) -> tuple[Rate, str, datetime]:
    """Return the limit that applies, the handler that has it, and when that handler used it."""
    if row is None or row["handler"] in {"", handler}:
        return rate, handler, now
    other = Rate(row["per_second"], row["burst"])
    is_stricter = other < rate
    if is_stricter and row["used_at"] > now - STRICTER_LIMIT_APPLIES_FOR:
        return other, row["handler"], row["used_at"]
    return rate, handler, now


def _find(connection: Connection, meter: Meter) -> RowMapping | None:
    return connection.execute(select(meters).where(_is(meter))).mappings().first()


def _write(
    connection: Connection, meter: Meter, row: RowMapping | None, values: Mapping[str, Any]
) -> None:
    if row is not None:
        connection.execute(update(meters).where(_is(meter)).values(values))
        return
    unused = {"handler": "", "per_second": 0.0, "burst": 0.0, "refused_run_id": ""}
    times = dict.fromkeys(("used_at", "full_at", "refused_until"), _NEVER)
    connection.execute(insert(meters), {**asdict(meter), **unused, **times, **values})


def _is(meter: Meter) -> ColumnElement[bool]:
    return and_(meters.c.subject == meter.subject, meters.c.unit == meter.unit)


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

    def awaited_targets(self, run_id: str) -> set[tuple[str | None, str, str]]:
        """Return cause and target of the messages that a run left on the queue with a further step.

        A message without an identity has no known cause here: None.
        """
        query = (
            select(identities.c.cause_id, outcomes.c.target_q, outcomes.c.target_q_mgr)
            .distinct()
            .select_from(outcomes)
            .outerjoin(identities, identities.c.message_id == outcomes.c.message_id)
            .where(outcomes.c.run_id == run_id, outcomes.c.outcome.in_(_WAITING))
        )
        return {(row.cause_id, row.target_q, row.target_q_mgr) for row in self._rows(query)}

    def last_attempt(self) -> int:
        """Return the `seq` of the attempt that was recorded last, 0 if there is none."""
        found = self._values(select(func.max(attempts.c.seq)))
        return found[0] or 0

    def moved(self, subject: Subject, after: int) -> int:
        """Count the messages of a subject that moved, or may have moved, after an attempt."""
        is_moved = attempts.c.state.in_(_MAY_HAVE_MOVED)
        number = select(func.count(attempts.c.message_id.distinct())).select_from(attempts)
        return self._count(_of_subject(number, subject, after, is_moved))

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
        return self._count(query)

    def moves_of(self, message_ids: Iterable[int]) -> Iterator[tuple[Subject, int, int]]:
        """Yield the confirmed attempts by cause on these messages.

        They are a subject, a message id and the `seq` by which attempts are ordered.
        """
        columns = (messages.c.queue_manager, messages.c.queue)
        names = ("cause_id", "target_q", "target_q_mgr", "message_id", "seq")
        query = (
            select(*columns, *(attempts.c[name] for name in names))
            .join_from(attempts, messages)
            .where(attempts.c.state == AttemptState.CONFIRMED, attempts.c.cause_id != "")
        )
        for *subject, message_id, seq in self._among(query, attempts.c.message_id, message_ids):
            yield Subject(*subject), message_id, seq


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
    return query.join(messages).where(
        HAS_CAUSE,
        attempts.c.cause_id == subject.cause_id,
        attempts.c.target_q == subject.target_q,
        attempts.c.target_q_mgr == subject.target_q_mgr,
        attempts.c.seq > after,
        messages.c.queue_manager == subject.queue_manager,
        messages.c.queue == subject.queue,
        condition,
    )
