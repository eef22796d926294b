"""Runs: what each was given and saw, how its account closed, and the alerts sent for it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from mqdlq.failures import Failure
from mqdlq.ledger import tables as t
from mqdlq.ledger.database import (
    Condition,
    Repository,
    add,
    columns_of,
    inserted,
    is_last,
    is_on,
    select_records,
)
from mqdlq.ledger.messages import Outcomes
from mqdlq.model import Outcome


class Runs(Repository):
    """Runs, runs that could not start, and the states of queues that runs saw."""

    def record(self, run: t.Run) -> None:
        """Record a run at its start; raise sqlalchemy.exc.IntegrityError if it is known."""
        self._add(t.runs, asdict(run))

    def get(self, run_id: str) -> t.Run | None:
        return self._of_run(t.runs, t.Run, run_id)

    def latest(self) -> t.Run | None:
        return self._one(t.Run, select_records(t.runs, t.Run).order_by(t.runs.c.started_at.desc()))

    def open_of(self, handler: str) -> list[t.Run]:
        """Return the runs of a handler that have neither an account nor a report, newest first."""
        ended = (sa.select(table.c.run_id) for table in (t.sightings, t.verdicts))
        query = select_records(t.runs, t.Run).where(t.runs.c.handler == handler)
        query = query.where(*(t.runs.c.run_id.not_in(one) for one in ended))
        return self._list(t.Run, query.order_by(t.runs.c.started_at.desc()))

    def record_failure(self, run_id: str, handler: str, failure: Failure, at: datetime) -> None:
        """Record why a task failed; the run, or restoration, need not be recorded."""
        self._add(t.failures, {"run_id": run_id, "handler": handler, "at": at, **asdict(failure)})

    def failures(self, run_id: str) -> list[tuple[datetime, Failure]]:
        """Return when and why each task of a run, or restoration, failed last; oldest first."""
        query = sa.select(t.failures.c.at, *columns_of(t.failures, Failure)).where(
            t.failures.c.run_id == run_id, is_last(t.failures, "run_id", "task")
        )
        rows = self._rows(query.order_by(t.failures.c.seq))
        return [(at, Failure(*failure)) for at, *failure in rows]

    def record_look(self, run_id: str, look: t.Look) -> None:
        self._add(t.looks, {"run_id": run_id, **asdict(look)})

    def last_look(self, run_id: str) -> t.Look | None:
        return self._of_run(t.looks, t.Look, run_id)

    def broken_off(self, handler: str, but: str) -> datetime | None:
        """Return when the last run with work, without `but`, saw it, if it has left no account."""
        query = (
            sa.select(t.looks.c.at, t.sightings.c.run_id)
            .join_from(t.looks, t.runs)
            .outerjoin(t.sightings, t.sightings.c.run_id == t.looks.c.run_id)
            .where(t.runs.c.handler == handler, t.runs.c.run_id != but, t.looks.c.is_work)
            .order_by(t.looks.c.at.desc())
        )
        row = self._first(query)
        return row.at if row and row.run_id is None else None

    def record_pass(self, run_id: str, started_at: datetime) -> None:
        self._add(t.passes, {"run_id": run_id, "started_at": started_at})

    def passes(self, run_id: str) -> Sequence[datetime]:
        query = sa.select(t.passes.c.started_at).where(t.passes.c.run_id == run_id)
        return self._values(query.order_by(t.passes.c.seq))

    def last_pass_of(self, run_id: str) -> datetime | None:
        return self._moment(_last_pass(t.passes.c.run_id == run_id))

    def last_pass(self, run: t.Run) -> datetime | None:
        """Return when the last pass began; where attempts carry on, by any run on the queue."""
        is_counted = t.passes.c.run_id == run.run_id
        if run.carry_attempts:
            is_counted = is_on(t.runs, run.queue_manager, run.queue)
        return self._moment(_last_pass(is_counted))

    def newest_pass(self, queue_manager: str, state_queue: str) -> tuple[t.Run, datetime] | None:
        """Return the run that last began a pass by a state queue, and when."""
        query = (
            sa.select(t.passes.c.started_at.label("began"), *columns_of(t.runs, t.Run))
            .join_from(t.runs, t.passes)
            .where(t.runs.c.queue_manager == queue_manager, t.runs.c.state_queue == state_queue)
            .order_by(t.passes.c.seq.desc())
        )
        row = self._first(query)
        return (t.Run(*row[1:]), row.began) if row else None

    def other_rules_before(self, run: t.Run) -> str:
        """Return the id of the last run that acted on a run's queue if it had other rules, else "".

        If no run has ever acted, it is the last one with other rules that should have.
        """
        query = whole_runs_before(sa.select(t.runs.c.run_id, t.runs.c.rules_digest), run)
        newest = query.order_by(t.runs.c.started_at.desc())
        found = self._first(newest.where(has_acted()))
        if found is None:
            is_over = t.runs.c.run_id.in_(sa.select(t.sightings.c.run_id))
            found = self._first(newest.where(is_over, t.runs.c.rules_digest != run.rules_digest))
        return found.run_id if found and found.rules_digest != run.rules_digest else ""


def is_beside(run: t.Run) -> Condition:
    """Return the condition that a run is another one on a run's queue."""
    return is_on(t.runs, run.queue_manager, run.queue) & (t.runs.c.run_id != run.run_id)


def _last_pass(is_counted: Condition) -> sa.Select[Any]:
    return sa.select(sa.func.max(t.passes.c.started_at)).join(t.runs).where(is_counted)


def is_for_all(runs: sa.FromClause) -> Condition:
    """Return the condition that a run is for all messages of its queue, not for some."""
    return (runs.c.message_keys == ()) & (runs.c.condition == "")


IS_FOR_ALL: Final = is_for_all(t.runs)


def before_the_start() -> Condition:
    """Return the condition that a failure of `sense` kept its run from starting."""
    started = sa.exists().where(
        t.runs.c.run_id == t.failures.c.run_id, t.runs.c.started_at <= t.failures.c.at
    )
    return (t.failures.c.task == "sense") & ~started


def whole_runs_before(query: sa.Select[Any], run: t.Run) -> sa.Select[Any]:
    """Narrow a query to precedents: other runs for a whole queue, dry runs left out."""
    return query.where(is_beside(run), ~t.runs.c.dry_run, IS_FOR_ALL)


def has_acted() -> Condition:
    """Return the condition that a run had leave to act: it has begun a pass or closed its account.

    A run without a required approval does not count. A run that continues another run's pass has
    no pass. An approval is always the last answer.
    """
    asked = sa.select(t.approvals.c.run_id)
    began = t.runs.c.run_id.in_(sa.select(t.passes.c.run_id))
    closed = t.runs.c.run_id.in_(sa.select(t.sightings.c.run_id))
    approved = t.runs.c.run_id.in_(asked.where(t.approvals.c.decision == "approved"))
    return (began | closed) & (t.runs.c.run_id.not_in(asked) | approved)


class Alerts(Repository):
    """Alerts of runs; an event is the name of one of `mqdlq.handlers.operation.Event`."""

    def record(
        self, run_id: str, sent: Sequence[str], lasting: Sequence[str], at: datetime
    ) -> None:
        """Record, once, the events with a sent alert and the events that last after a run."""
        new = {(str(event), True) for event in sent} | {(str(event), False) for event in lasting}
        known = {(event, True) for event in self.sent(run_id)}
        known |= {(event, False) for event in self.lasting(run_id)}
        rows = [
            {"run_id": run_id, "event": event, "is_sent": is_sent, "at": at}
            for event, is_sent in sorted(new - known)
        ]
        self._add(t.alerts, *rows)

    def sent(self, run_id: str) -> set[str]:
        """Return the events of a run whose alerts were sent, by any try of its task."""
        return self._events(run_id, t.alerts.c.is_sent)

    def lasting(self, run_id: str) -> set[str]:
        return self._events(run_id, ~t.alerts.c.is_sent)

    def _events(self, run_id: str, is_meant: Condition) -> set[str]:
        query = sa.select(t.alerts.c.event).where(t.alerts.c.run_id == run_id, is_meant)
        return set(self._values(query))

    def cannot_begin(self, handler: str, event: str, but: str) -> bool:
        """Whether `event` was sent of a run, not `but`, that did not start, nor one since."""
        notified = sa.select(t.alerts.c.run_id).where(t.alerts.c.event == event, t.alerts.c.is_sent)
        latest = sa.select(sa.func.max(t.failures.c.at)).where(
            t.failures.c.handler == handler,
            t.failures.c.run_id != but,
            t.failures.c.run_id.in_(notified),
            before_the_start(),
        )
        at = self._moment(latest)
        begun = sa.select(t.runs.c.run_id).where(t.runs.c.handler == handler)
        return at is not None and self._first(begun.where(t.runs.c.started_at > at)) is None

    def could_not_begin_since(self, before: str | None, run: t.Run) -> bool:
        """Whether an alert said that an earlier run could not start, since run `before`."""
        query = (
            sa.select(t.failures.c.run_id)
            .join(t.alerts, t.alerts.c.run_id == t.failures.c.run_id)
            .where(t.failures.c.handler == run.handler, t.failures.c.at <= run.started_at)
            .where(~t.alerts.c.is_sent, before_the_start())
        )
        if before is not None:
            since = sa.select(t.runs.c.started_at).where(t.runs.c.run_id == before)
            query = query.where(t.failures.c.at > since.scalar_subquery())
        return self._first(query) is not None

    def run_before(self, run: t.Run, *, is_closed: bool = False) -> str | None:
        """Return the run of this queue that ended last before this one, with an account or failed.

        With `is_closed` it is the last one that closed its account of the whole queue. Runs
        overlap: the one that started last need not be the one that ended last.
        """
        own_end = self._moment(sa.select(_end()).where(t.runs.c.run_id == run.run_id))
        has_ended = _end().is_not(None) if own_end is None else _end() < own_end
        query = sa.select(t.runs.c.run_id).where(is_beside(run), has_ended)
        if is_closed:
            closed = t.runs.c.run_id.in_(sa.select(t.sightings.c.run_id))
            query = query.where(closed, IS_FOR_ALL)
        return next(iter(self._values(query.order_by(_end().desc()).limit(1))), None)


def _end() -> sa.ColumnElement[datetime | None]:
    """When a run closed its account or, without one, had its first alert; null if neither."""
    closed = sa.select(t.sightings.c.at).where(t.sightings.c.run_id == t.runs.c.run_id)
    alerted = sa.select(sa.func.min(t.alerts.c.at)).where(t.alerts.c.run_id == t.runs.c.run_id)
    return sa.func.coalesce(
        closed.correlate(t.runs).scalar_subquery(), alerted.correlate(t.runs).scalar_subquery()
    )


@dataclass(frozen=True, slots=True)
class LastAccount:
    """The last account of a whole queue: the remaining messages, the rules, and the time.

    `left` counts the booked messages that are still there, `pending` the ones among them that wait
    for a retry. `others_until` is the end of the last lease of another run, None without one.
    `next_pass_at` is that of the `Sighting`.
    """

    run_id: str
    rules_digest: str
    left: int
    at: datetime
    next_pass_at: datetime | None
    pending: int
    last_pass: datetime | None
    others_until: datetime | None


class Accounts(Repository):
    """The accounts that runs close, the age of remaining messages, and the verdicts of reports."""

    def record(self, run_id: str, sighting: t.Sighting) -> None:
        """Close a run's account by its last browse; raise IntegrityError if it is closed."""
        self._add(t.sightings, {"run_id": run_id, **asdict(sighting)})

    def of_run(self, run_id: str) -> t.Sighting | None:
        return self._of_run(t.sightings, t.Sighting, run_id)

    def last(self, queue_manager: str, queue: str) -> LastAccount | None:
        """Return the last account of a whole queue, dry runs left out, or None."""
        seen, is_here = t.sightings.c, is_on(t.runs, queue_manager, queue)
        left = (seen.depth - seen.arrived).label("left")
        query = (
            sa.select(t.runs.c.run_id, t.runs.c.rules_digest, left, seen.at, seen.next_pass_at)
            .join_from(t.sightings, t.runs)
            .where(is_here, ~t.runs.c.dry_run, IS_FOR_ALL)
            .order_by(seen.at.desc())
        )
        row = self._first(query)
        if row is None:
            return None
        return LastAccount(
            **row._asdict(),
            pending=Outcomes(self._engine).counts(row.run_id)[Outcome.RETRY_PENDING],
            last_pass=self._moment(_last_pass(is_here)),
            others_until=self._others_until(row.run_id),
        )

    def _others_until(self, run_id: str) -> datetime | None:
        """Return the end of the last lease on messages that a run skipped."""
        query = (
            sa.select(sa.func.max(t.leases.c.until))
            .join(t.outcomes, t.outcomes.c.message_id == t.leases.c.message_id)
            .where(t.outcomes.c.run_id == run_id, t.outcomes.c.outcome == Outcome.LEASED_BY_RUN)
        )
        return self._moment(query.where(is_last(t.leases, "message_id")))

    def oldest_that_stays(self, run: t.Run, found: datetime | None) -> datetime | None:
        """Return the time since when the oldest message is on a run's queue, None if it is empty.

        If the run has closed its account, this is the time its report `found`, which is recorded
        once. A run that saw nothing new has read no message: the messages of the last account are
        still there, settled or not.
        """
        seen = t.sightings.c
        if self.of_run(run.run_id) is not None:
            is_open = (seen.run_id == run.run_id) & seen.oldest_left.is_(None)
            with self._engine.begin() as connection:
                connection.execute(sa.update(t.sightings).where(is_open).values(oldest_left=found))
            return found
        look = self._of_run(t.looks, t.Look, run.run_id)
        if look is None or look.is_work or not look.depth or run.run_type == "backfill":
            return found
        account = self.last(run.queue_manager, run.queue)
        if account is None:
            return found
        return self._moment(sa.select(seen.oldest_left).where(seen.run_id == account.run_id))

    def record_verdict(
        self, run_id: str, verdict: t.RecordedVerdict, outcomes: Mapping[t.Ending, int]
    ) -> None:
        """Record the verdict of a run's report, and all outcomes by rule; the last one counts."""
        with self._engine.begin() as connection:
            seq = inserted(connection, t.verdicts, {"run_id": run_id, **asdict(verdict)})
            own = {"verdict_seq": seq, "run_id": run_id}
            rows = [{**own, **asdict(how), "messages": number} for how, number in outcomes.items()]
            add(connection, t.verdict_outcomes, rows)

    def verdict_of(self, run_id: str) -> t.RecordedVerdict | None:
        return self._of_run(t.verdicts, t.RecordedVerdict, run_id)
