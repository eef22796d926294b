"""Runs: what each was given and saw, how its account closed, and the alerts sent for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select, update

from mqdlq.failures import Failure
from mqdlq.ledger.database import Repository, add, columns_of, inserted
from mqdlq.ledger.messages import Outcomes, is_newest_lease
from mqdlq.ledger.tables import (
    Ending,
    Look,
    RecordedVerdict,
    Run,
    Sighting,
    alerts,
    approvals,
    failures,
    leases,
    looks,
    outcomes,
    passes,
    runs,
    sightings,
    verdict_outcomes,
    verdicts,
)
from mqdlq.model import Outcome


class Runs(Repository):
    """Runs, runs that could not start, and the states of queues that runs saw."""

    def record(self, run: Run) -> None:
        """Record a run at its start; raise sqlalchemy.exc.IntegrityError if it is known."""
        self._add(runs, asdict(run))

    def get(self, run_id: str) -> Run | None:
        return self._one(Run, select(runs).where(runs.c.run_id == run_id))

    def latest(self) -> Run | None:
        """Return the run that started last, or None."""
        return self._one(Run, select(runs).order_by(runs.c.started_at.desc()))

    def record_failure(self, run_id: str, handler: str, failure: Failure, at: datetime) -> None:
        """Record why an attempt of a task failed; the run, or restoration, need not be recorded."""
        self._add(failures, {"run_id": run_id, "handler": handler, "at": at, **asdict(failure)})

    def failures(self, run_id: str) -> list[tuple[datetime, Failure]]:
        """Return when and why each task of a run, or restoration, failed last; oldest first."""
        last = select(func.max(failures.c.seq)).where(failures.c.run_id == run_id)
        query = select(failures.c.at, *columns_of(failures, Failure)).where(
            failures.c.seq.in_(last.group_by(failures.c.task))
        )
        rows = [dict(row) for row in self._all(query.order_by(failures.c.seq))]
        return [(row.pop("at"), Failure(**row)) for row in rows]

    def record_look(self, run_id: str, look: Look) -> None:
        self._add(looks, {"run_id": run_id, **asdict(look)})

    def last_look(self, run_id: str) -> Look | None:
        """Return what a run saw when it last looked, or None."""
        query = select(*columns_of(looks, Look)).where(looks.c.run_id == run_id)
        return self._one(Look, query.order_by(looks.c.seq.desc()))

    def broken_off(self, handler: str, but: str) -> datetime | None:
        """Return when a handler's last run with work saw it, if it has left no account.

        Run `but` does not count.
        """
        query = (
            select(looks.c.at, sightings.c.run_id)
            .join_from(looks, runs)
            .outerjoin(sightings, sightings.c.run_id == looks.c.run_id)
            .where(runs.c.handler == handler, runs.c.run_id != but, looks.c.is_work)
            .order_by(looks.c.at.desc())
        )
        row = self._first(query)
        return row["at"] if row and row["run_id"] is None else None

    def record_pass(self, run_id: str, started_at: datetime) -> None:
        self._add(passes, {"run_id": run_id, "started_at": started_at})

    def last_pass(self, run: Run) -> datetime | None:
        """Return when the last pass began; where attempts carry on, by any run on the queue."""
        is_counted = passes.c.run_id == run.run_id
        if run.carry_attempts:
            is_counted = is_on_queue(run.queue_manager, run.queue)
        return self._moment(last_pass_of(is_counted))

    def newest_pass(self, queue_manager: str, state_queue: str) -> tuple[Run, datetime] | None:
        """Return the run behind a state queue that began a pass last, and when; None if none did.

        While the state queue is held, that is the run whose pass it is.
        """
        query = (
            select(runs, passes.c.started_at.label("began"))
            .join_from(runs, passes)
            .where(runs.c.queue_manager == queue_manager, runs.c.state_queue == state_queue)
            .order_by(passes.c.seq.desc())
        )
        if (row := self._first(query)) is None:
            return None
        values = dict(row)
        began: datetime = values.pop("began")
        return Run(**values), began

    def other_rules_before(self, run: Run) -> str:
        """Return the id of the last run that acted on a run's queue if it had other rules, else "".

        If no run has ever acted, it is the last one with other rules that should have.
        """
        query = whole_runs_before(select(runs.c.run_id, runs.c.rules_digest), run)
        newest = query.order_by(runs.c.started_at.desc())
        found = self._first(newest.where(has_acted()))
        if found is None:
            is_over = runs.c.run_id.in_(select(sightings.c.run_id))
            found = self._first(newest.where(is_over, runs.c.rules_digest != run.rules_digest))
        return found["run_id"] if found and found["rules_digest"] != run.rules_digest else ""


def is_on_queue(queue_manager: str, queue: str) -> ColumnElement[bool]:
    """Return the condition that a run is one on this queue."""
    return (runs.c.queue_manager == queue_manager) & (runs.c.queue == queue)


def is_beside(run: Run) -> ColumnElement[bool]:
    """Return the condition that a run is another one on a run's queue."""
    return is_on_queue(run.queue_manager, run.queue) & (runs.c.run_id != run.run_id)


def before_the_start() -> ColumnElement[bool]:
    """Return the condition that a failure of `sense` kept its run from starting."""
    started = select(runs.c.run_id).where(
        runs.c.run_id == failures.c.run_id, runs.c.started_at <= failures.c.at
    )
    return (failures.c.task == "sense") & ~started.exists()


def last_pass_of(is_counted: ColumnElement[bool]) -> Select[Any]:
    """Return the query for when the last pass began of the runs that a condition counts."""
    return select(func.max(passes.c.started_at)).join(runs).where(is_counted)


def whole_runs_before(query: Select[Any], run: Run) -> Select[Any]:
    """Narrow a query to other runs for all messages of a run's queue that are not dry runs.

    Dry runs and runs for named messages do not count as precedents.
    """
    return query.where(is_beside(run), ~runs.c.dry_run, runs.c.message_keys == ())


def has_acted() -> ColumnElement[bool]:
    """Return the condition that a run had leave to act: it has begun a pass or closed its account.

    A run without a required approval does not count. A run that continues another run's pass has
    no pass. An approval is always the last answer.
    """
    asked = select(approvals.c.run_id)
    began = runs.c.run_id.in_(select(passes.c.run_id))
    closed = runs.c.run_id.in_(select(sightings.c.run_id))
    approved = runs.c.run_id.in_(asked.where(approvals.c.decision == "approved"))
    return (began | closed) & (runs.c.run_id.not_in(asked) | approved)


class Alerts(Repository):
    """Alerts of runs; an event is the name of one of `mqdlq.handlers.operation.Event`."""

    def record(
        self, run_id: str, sent: Sequence[str], lasting: Sequence[str], at: datetime
    ) -> None:
        """Record, once, the events with a sent alert and the events that last after a run."""
        known = {(event, True) for event in self.sent(run_id)}
        known |= {(event, False) for event in self.lasting(run_id)}
        new = [(event, True) for event in sent] + [(event, False) for event in lasting]
        rows = [
            {"run_id": run_id, "event": str(event), "is_sent": is_sent, "at": at}
            for event, is_sent in new
            if (event, is_sent) not in known
        ]
        self._add(alerts, *rows)

    def sent(self, run_id: str) -> set[str]:
        """Return the events of a run whose alerts were sent, by any try of its task."""
        query = select(alerts.c.event).where(alerts.c.run_id == run_id, alerts.c.is_sent)
        return set(self._values(query))

    def lasting(self, run_id: str) -> set[str]:
        query = select(alerts.c.event).where(alerts.c.run_id == run_id, ~alerts.c.is_sent)
        return set(self._values(query))

    def cannot_begin(self, handler: str, event: str, but: str) -> bool:
        """Whether `event` was sent for a run that could not start, and no run has started since.

        Considers the handler's runs except run `but`.
        """
        notified = select(alerts.c.run_id).where(alerts.c.event == event, alerts.c.is_sent)
        latest = select(func.max(failures.c.at)).where(
            failures.c.handler == handler,
            failures.c.run_id != but,
            failures.c.run_id.in_(notified),
            before_the_start(),
        )
        at = self._moment(latest)
        if at is None:
            return False
        begun = select(runs.c.run_id).where(runs.c.handler == handler, runs.c.started_at > at)
        return self._first(begun) is None

    def could_not_begin_since(self, before: str | None, run: Run) -> bool:
        """Whether an alert said that an earlier run of this handler could not start.

        Only failures since run `before` started count, if there is one.
        """
        query = (
            select(failures.c.run_id)
            .join(alerts, alerts.c.run_id == failures.c.run_id)
            .where(
                failures.c.handler == run.handler,
                failures.c.at <= run.started_at,
                ~alerts.c.is_sent,
                before_the_start(),
            )
        )
        if before is not None:
            since = select(runs.c.started_at).where(runs.c.run_id == before).scalar_subquery()
            query = query.where(failures.c.at > since)
        return self._first(query) is not None

    def run_before(self, run: Run, *, is_closed: bool = False) -> str | None:
        """Return the run of this queue that ended last before this one, with an account or failed.

        With `is_closed` it is the last one that closed its account of the whole queue. Runs
        overlap: the one that started last need not be the one that ended last.
        """
        own_end = self._moment(select(_end()).where(runs.c.run_id == run.run_id))
        has_ended = _end().is_not(None) if own_end is None else _end() < own_end
        query = select(runs.c.run_id).where(is_beside(run), has_ended)
        if is_closed:
            closed = runs.c.run_id.in_(select(sightings.c.run_id))
            query = query.where(closed, runs.c.message_keys == ())
        return next(iter(self._values(query.order_by(_end().desc()).limit(1))), None)


def _end() -> ColumnElement[datetime | None]:
    """When a run closed its account or, without one, had its first alert; null if neither."""
    closed = select(sightings.c.at).where(sightings.c.run_id == runs.c.run_id)
    alerted = select(func.min(alerts.c.at)).where(alerts.c.run_id == runs.c.run_id)
    return func.coalesce(
        closed.correlate(runs).scalar_subquery(), alerted.correlate(runs).scalar_subquery()
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
    pending: int
    last_pass: datetime | None
    others_until: datetime | None
    next_pass_at: datetime | None


class Accounts(Repository):
    """The accounts that runs close, the age of remaining messages, and the verdicts of reports."""

    def record(self, run_id: str, sighting: Sighting) -> None:
        """Record the counts of a run's last browse: this closes the run's account.

        Raises sqlalchemy.exc.IntegrityError if the account is closed already.
        """
        self._add(sightings, {"run_id": run_id, **asdict(sighting)})

    def of_run(self, run_id: str) -> Sighting | None:
        """Return the counts of a run's last browse, or None."""
        query = select(*columns_of(sightings, Sighting)).where(sightings.c.run_id == run_id)
        return self._one(Sighting, query)

    def last(self, queue_manager: str, queue: str) -> LastAccount | None:
        """Return the last account of a queue by a run for all of its messages, or None.

        Dry runs do not count.
        """
        query = (
            select(
                runs.c.run_id,
                runs.c.rules_digest,
                (sightings.c.depth - sightings.c.arrived).label("left"),
                sightings.c.at,
                sightings.c.next_pass_at,
            )
            .join_from(sightings, runs)
            .where(is_on_queue(queue_manager, queue), ~runs.c.dry_run, runs.c.message_keys == ())
            .order_by(sightings.c.at.desc())
        )
        row = self._first(query)
        if row is None:
            return None
        return LastAccount(
            **row,
            pending=Outcomes(self._engine).counts(row["run_id"])[Outcome.RETRY_PENDING],
            last_pass=self._moment(last_pass_of(is_on_queue(queue_manager, queue))),
            others_until=self._others_until(row["run_id"]),
        )

    def oldest_that_stays(self, run: Run, found: datetime | None) -> datetime | None:
        """Return the time since when the oldest message is on a run's queue, None if it is empty.

        If the run has closed its account, this is the time its report `found`, which is recorded
        once. A run that saw nothing new has read no message: the messages of the last account are
        still there, settled or not.
        """
        if self.of_run(run.run_id) is not None:
            is_open = (sightings.c.run_id == run.run_id) & sightings.c.oldest_left.is_(None)
            with self._engine.begin() as connection:
                connection.execute(update(sightings).where(is_open).values(oldest_left=found))
            return found
        look = Runs(self._engine).last_look(run.run_id)
        if look is None or look.is_work or not look.depth or run.run_type == "backfill":
            return found
        account = self.last(run.queue_manager, run.queue)
        if account is None:
            return found
        is_last = sightings.c.run_id == account.run_id
        return self._moment(select(sightings.c.oldest_left).where(is_last))

    def record_verdict(
        self, run_id: str, verdict: RecordedVerdict, outcomes: Mapping[Ending, int]
    ) -> None:
        """Record the verdict of a run's report, and its outcomes by rule; the last one counts.

        `outcomes` includes those of settled messages.
        """
        with self._engine.begin() as connection:
            seq = inserted(connection, verdicts, {"run_id": run_id, **asdict(verdict)})
            own = {"verdict_seq": seq, "run_id": run_id}
            rows = [{**own, **asdict(how), "messages": number} for how, number in outcomes.items()]
            add(connection, verdict_outcomes, rows)

    def verdict_of(self, run_id: str) -> RecordedVerdict | None:
        """Return the verdict of a run's last report; None if no report was written."""
        query = select(*columns_of(verdicts, RecordedVerdict)).where(verdicts.c.run_id == run_id)
        return self._one(RecordedVerdict, query.order_by(verdicts.c.seq.desc()))

    def _others_until(self, run_id: str) -> datetime | None:
        """Return the end of the last lease on messages that a run skipped.

        A lease that was released has ended.
        """
        query = (
            select(func.max(leases.c.until))
            .join(outcomes, outcomes.c.message_id == leases.c.message_id)
            .where(
                outcomes.c.run_id == run_id,
                outcomes.c.outcome == Outcome.LEASED_BY_RUN,
                is_newest_lease(),
            )
        )
        return self._moment(query)
