"""What controls record: checks by evidence, identities of messages, meters of rates, and ramps."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa

from mqdlq.ledger import tables as t
from mqdlq.ledger.database import (
    Condition,
    Repository,
    Row,
    add,
    columns_of,
    in_parts,
    in_turn,
    is_last,
    is_on,
    select_records,
)
from mqdlq.model import Action, AttemptState, Outcome, RampPhase


class EvidenceChecks(Repository):
    """The checks of queues by evidence; a run has at most one of each kind."""

    def record(self, run_id: str, check: t.EvidenceCheck) -> None:
        """Record a check of a run, unless the run has one of this kind."""
        self._add_once(t.evidence_checks, {"run_id": run_id, **asdict(check)}, "run_id", "kind")

    def of_run(self, run_id: str) -> list[t.EvidenceCheck]:
        """Return the checks of a run, by kind."""
        query = select_records(t.evidence_checks, t.EvidenceCheck)
        own = query.where(t.evidence_checks.c.run_id == run_id)
        return self._list(t.EvidenceCheck, own.order_by(t.evidence_checks.c.kind))

    def last_at(self, queue_manager: str, queue: str, kind: str) -> datetime | None:
        """Return up to when a queue was last checked by evidence of this kind, or None."""
        check = t.evidence_checks.c
        is_meant = is_on(t.runs, queue_manager, queue) & (check.kind == kind)
        query = sa.select(sa.func.max(check.at)).join(t.runs)
        return self._moment(query.where(is_meant, check.trouble == ""))


class Identities(Repository):
    """Identities of messages; a message has at most one, which never changes."""

    def record(self, found: Iterable[t.Identity]) -> None:
        """Record identities, in one transaction; a message that has one keeps it."""
        message_id = t.identities.c.message_id
        for part in in_parts(found):
            with in_turn(self._engine) as connection:
                is_known = message_id.in_([one.message_id for one in part])
                has_one = set(connection.scalars(sa.select(message_id).where(is_known)))
                rows = [asdict(one) for one in part if one.message_id not in has_one]
                add(connection, t.identities, rows)

    def of_run(self, run_id: str) -> dict[int, bytes]:
        """Return the identities of a run's messages by message id."""
        message_id = t.identities.c.message_id
        query = sa.select(message_id, t.identities.c.identity).join(
            t.run_messages, t.run_messages.c.message_id == message_id
        )
        return self._map(query.where(t.run_messages.c.run_id == run_id))

    def come_again(self, run_id: str) -> Sequence[int]:
        """Return the ids of a run's messages whose identity an earlier message had."""
        own, other, listed = t.identities.c, t.identities.alias().c, t.run_messages.c
        query = sa.select(own.message_id).join(t.run_messages, listed.message_id == own.message_id)
        is_earlier = (other.identity == own.identity) & (other.message_id < own.message_id)
        return self._values(query.where(listed.run_id == run_id, sa.exists().where(is_earlier)))

    def of_messages(self, message_ids: Collection[int]) -> list[t.Identity]:
        query = select_records(t.identities, t.Identity)
        found = self._among(query, t.identities.c.message_id, message_ids)
        return [t.Identity(*row) for row in found]

    def departures(self, of: Collection[bytes]) -> dict[bytes, list[Row]]:
        """Return by identity the departures of its messages from any queue, oldest first.

        A departure is a RETRY or FWD that is known to be committed: a row with the fields of the
        message's `Identity`, and with `run_id`, `queue_manager`, `queue` and `at`.
        """
        found = defaultdict[bytes, list[Row]](list)
        made, known = t.attempts.c, t.identities.c
        query = (
            sa.select(*known["message_id", "identity", "cause_id", "dead_lettered_at"])
            .add_columns(*made["run_id", "at"])
            .add_columns(*t.messages.c["queue_manager", "queue"])
            .select_from(t.identities.join(t.messages).join(t.attempts))
            .where(_CONFIRMED, made.action.in_((Action.RETRY, Action.FWD)))
            .order_by(made.seq)
        )
        for row in self._among(query, known.identity, of):
            found[row.identity].append(row)
        return found

    def shared(self, among: Collection[bytes]) -> set[bytes]:
        """Return which of these identities two messages of one run had.

        They were on the queue at the same time, so they are different messages. Backfill runs do
        not count: they list messages of several times.
        """
        identity, listed = t.identities.c.identity, t.run_messages.c
        query = (
            sa.select(identity)
            .join(t.run_messages, listed.message_id == t.identities.c.message_id)
            .join(t.runs)
            .where(t.runs.c.run_type != "backfill")
            .group_by(identity, listed.run_id)
            .having(sa.func.count() > 1)
        )
        return {row.identity for row in self._among(query, identity, among)}


STRICTER_LIMIT_APPLIES_FOR: Final = timedelta(hours=1)
"""How long the stricter limit of another handler applies after that handler last used it."""

_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Meters(Repository):
    """Reserve parts of limited rates. A crash loses some: the rate is lower, never higher."""

    def reserve(
        self,
        meter: t.Meter,
        rate: t.Rate,
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
            full_at = max(now, row.full_at) if row else now
            missing = (min(amount, rate.burst) - rate.burst) / rate.per_second
            ready_at = max(now, full_at + timedelta(seconds=missing))
            duration = timedelta(seconds=amount / rate.per_second)
            if ready_at > latest:
                duration = timedelta(0)
            values = {"handler": owner, "used_at": used_at, "full_at": full_at + duration}
            _write(connection, meter, row, {**values, **rate._asdict()})
        return ready_at, duration

    def give_back(self, meter: t.Meter, duration: timedelta) -> None:
        """Give back the unused part of a reservation, as the time that the rate takes for it."""
        with in_turn(self._engine) as connection:
            row = _find(connection, meter)
            if row is not None:
                _write(connection, meter, row, {"full_at": row.full_at - duration})

    def record_refusal(self, meter: t.Meter, run_id: str, until: datetime) -> None:
        """Record until when a run waits; a meter knows the last run that was refused."""
        with in_turn(self._engine) as connection:
            values = {"refused_run_id": run_id, "refused_until": until}
            _write(connection, meter, _find(connection, meter), values)

    def refusals(self, run_id: str, now: datetime) -> dict[t.Meter, datetime]:
        """Return the meters that a run waits for now, with the times until which it waits."""
        is_meant = (t.meters.c.refused_run_id == run_id) & (t.meters.c.refused_until > now)
        query = sa.select(*t.meters.c["subject", "unit", "refused_until"]).where(is_meant)
        return {t.Meter(subject, unit): until for subject, unit, until in self._rows(query)}


def _choose_stricter(
    row: Row | None, rate: t.Rate, handler: str, now: datetime
) -> tuple[t.Rate, str, datetime]:
    """Return the limit that applies, its handler, and when that handler used it."""
    if row is None or row.handler in {"", handler}:
        return rate, handler, now
    other = t.Rate(row.per_second, row.burst)
    if other < rate and row.used_at > now - STRICTER_LIMIT_APPLIES_FOR:
        return other, row.handler, row.used_at
    return rate, handler, now


def _find(connection: sa.Connection, meter: t.Meter) -> Row | None:
    return connection.execute(sa.select(t.meters).where(_is(meter))).first()


def _write(
    connection: sa.Connection, meter: t.Meter, row: Row | None, values: Mapping[str, Any]
) -> None:
    if row is not None:
        connection.execute(sa.update(t.meters).where(_is(meter)).values(values))
        return
    unused = {"handler": "", "per_second": 0.0, "burst": 0.0, "refused_run_id": ""}
    times = dict.fromkeys(("used_at", "full_at", "refused_until"), _NEVER)
    connection.execute(sa.insert(t.meters), {**asdict(meter), **unused, **times, **values})


def _is(meter: t.Meter) -> Condition:
    return (t.meters.c.subject == meter.subject) & (t.meters.c.unit == meter.unit)


CLOCK_DIFFERENCE: Final = timedelta(minutes=1)
"""By how much the clock of a queue manager that writes an MQDLH may be behind this machine's."""

_MAY_HAVE_MOVED = t.attempts.c.state.in_((AttemptState.CONFIRMED, AttemptState.UNKNOWN))
_CONFIRMED = t.attempts.c.state == AttemptState.CONFIRMED
_WAITING = (Outcome.NOT_ATTEMPTED, Outcome.RETRY_PENDING)
_SUBJECT = [t.ramp_states.c[name] for name in t.Subject._fields]


class Ramps(Repository):
    """States of ramps and breakers, and the attempts by cause that they depend on."""

    def record(self, subject: t.Subject, state: t.RampState) -> None:
        self._add(t.ramp_states, {**subject._asdict(), **asdict(state)})

    def current(
        self, queue_manager: str, queue: str, before: datetime | None = None
    ) -> dict[t.Subject, t.RampState]:
        """Return the current states of a queue, or those at a time, in the order recorded."""
        newest = sa.select(sa.func.max(t.ramp_states.c.seq)).group_by(*_SUBJECT)
        newest = newest.where(is_on(t.ramp_states, queue_manager, queue))
        if before is not None:
            newest = newest.where(t.ramp_states.c.at <= before)
        query = sa.select(*_SUBJECT, *columns_of(t.ramp_states, t.RampState))
        query = query.where(t.ramp_states.c.seq.in_(newest)).order_by(t.ramp_states.c.seq)
        size = len(_SUBJECT)
        return {t.Subject(*row[:size]): t.RampState(*row[size:]) for row in self._rows(query)}

    def returned_elsewhere(self, subject: t.Subject, after: int) -> dict[int, bytes]:
        """Return the messages of a subject that were dead-lettered on another queue since a move.

        Only moves after an attempt count. The values are the identities, which any queue's runs
        have recorded. A message that still has its MQDLH of before the move was only forwarded. Its
        new MQDLH may be up to `CLOCK_DIFFERENCE` older than the intent to move it.
        """
        moves = sa.select(t.attempts.c.message_id, t.attempts.c.unit)
        moved = _of_subject(moves, subject, after, _CONFIRMED).subquery()
        # A message may be back before its move is recorded as confirmed: hours after a crash.
        intended, known, later = t.attempts.alias(), t.identities.c, t.identities.alias()
        is_intent = (intended.c.message_id == moved.c.message_id) & (
            intended.c.unit == moved.c.unit
        )
        query = (
            sa.select(moved.c.message_id, known.identity, intended.c.at, later.c.dead_lettered_at)
            .distinct()
            .join(t.identities, known.message_id == moved.c.message_id)
            .join(intended, is_intent & (intended.c.state == AttemptState.INTENDED))
            .join(later, later.c.identity == known.identity)
            .join(t.messages, t.messages.c.message_id == later.c.message_id)
            .where(
                later.c.message_id > moved.c.message_id,
                later.c.dead_lettered_at.is_distinct_from(known.dead_lettered_at),
                later.c.dead_lettered_at.is_not(None),
                ~is_on(t.messages, subject.queue_manager, subject.queue),
            )
        )
        with self._stream(query) as rows:
            return {
                row.message_id: row.identity
                for row in rows
                if row.dead_lettered_at >= row.at - CLOCK_DIFFERENCE
            }

    def awaited_targets(self, run_id: str) -> set[tuple[str | None, str, str]]:
        """Return cause, None if not known, and target of messages with a further step."""
        booked, known = t.outcomes.c, t.identities.c
        query = (
            sa.select(known.cause_id, booked.target_q, booked.target_q_mgr)
            .distinct()
            .outerjoin_from(t.outcomes, t.identities, known.message_id == booked.message_id)
            .where(booked.run_id == run_id, booked.outcome.in_(_WAITING))
        )
        return {(cause_id, queue, manager) for cause_id, queue, manager in self._rows(query)}

    def last_attempt(self) -> int:
        return int(self._value(sa.select(sa.func.max(t.unit_states.c.seq))) or 0)

    def moved(self, subject: t.Subject, after: int) -> int:
        """Count the messages of a subject that moved, or may have moved, after an attempt."""
        number = sa.select(sa.func.count(t.attempts.c.message_id.distinct()))
        number = number.select_from(t.attempts)
        return self._count(_of_subject(number, subject, after, _MAY_HAVE_MOVED))

    def last_moved_at(self, subject: t.Subject) -> datetime | None:
        """Return when a message of a subject moved last, None if none did."""
        query = _of_subject(sa.select(t.attempts.c.at), subject, 0, _MAY_HAVE_MOVED)
        return self._moment(query.order_by(t.attempts.c.seq.desc()))

    def failures_in_a_row(self, subject: t.Subject, after: int, but: Collection[int] = ()) -> int:
        """Count the failures of a subject since its last success, without reason codes `but`."""
        last = sa.select(sa.func.max(t.attempts.c.seq))
        succeeded = self._value(_of_subject(last, subject, after, _CONFIRMED)) or 0
        failed = (t.attempts.c.state == AttemptState.FAILED) & t.attempts.c.mqrc.not_in(but)
        number = sa.select(sa.func.count()).select_from(t.attempts)
        return self._count(_of_subject(number, subject, max(after, succeeded), failed))

    def moves_of(self, message_ids: Iterable[int]) -> Iterator[tuple[t.Subject, int, int]]:
        """Yield subject, message id and `seq` of confirmed attempts by cause."""
        names = ("cause_id", "target_q", "target_q_mgr", "message_id", "seq")
        query = (
            sa.select(*t.messages.c["queue_manager", "queue"], *t.attempts.c[names])
            .join_from(t.attempts, t.messages)
            .where(_CONFIRMED, t.attempts.c.cause_id != "")
        )
        for *subject, message_id, seq in self._among(query, t.attempts.c.message_id, message_ids):
            yield t.Subject(*subject), message_id, seq


def open_breakers() -> sa.Select[Any]:
    """Return the query for the runs that recorded the current state of an open breaker."""
    is_open = t.ramp_states.c.phase == RampPhase.OPEN
    is_current = is_last(t.ramp_states, *t.Subject._fields)
    return sa.select(t.ramp_states.c.run_id).where(is_open, is_current)


def _of_subject(
    query: sa.Select[Any], subject: t.Subject, after: int, condition: Condition
) -> sa.Select[Any]:
    """Narrow a query to the attempts of a subject after one of them, by their index."""
    made = t.attempts.c
    return query.join(t.messages).where(
        t.HAS_CAUSE,
        made.cause_id == subject.cause_id,
        made.target_q == subject.target_q,
        made.target_q_mgr == subject.target_q_mgr,
        made.seq > after,
        is_on(t.messages, subject.queue_manager, subject.queue),
        condition,
    )
