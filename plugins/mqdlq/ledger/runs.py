"""Runs: what each was given, what it saw of its queue, and when its passes began."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select

from mqdlq.failures import Failure
from mqdlq.ledger.database import Repository, columns_of
from mqdlq.ledger.tables.runs import approvals, failures, looks, passes, runs, sightings
from mqdlq.model import GIVEN_ACTION, QueueKind


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a handler, with the rules it read at its start; they hold to its end.

    `wait_s` is WAIT in seconds: 0 for NO, None for YES. `carry_attempts` says that attempts made
    by earlier runs count (see DESIGN, "Attempts"), `nul_as_blank` that the rules take NULs for
    blanks. `hold_while_blocked` keeps attempts while a destination is blocked, `deliver_truncated`
    delivers what may have been cut, `max_messages_per_unit` bounds a unit of work per destination.
    `message_keys` (hex) are the only messages to act on; none means all. `started_by` is who or
    what has started it, in words: "alice in Airflow", "the schedule"; "" for a run of a version
    that did not record it. `started_by_user` is the name of the user as Airflow knows it, "" where
    no user has started the run or the user is not known. `why` is the reason or ticket given.
    `controls` is JSON: the controls of the handler when the run started.
    `queue_kind` says which messages the rules act on. `repair` is JSON: what the run changes of the
    messages that its given action puts, "" for nothing.
    """

    run_id: str
    handler: str
    dag_run_id: str
    run_type: str
    queue_manager: str
    queue: str
    state_queue: str
    rules_source: str
    rules_digest: str
    rules_text: str
    retry_interval_s: int
    wait_s: int | None
    carry_attempts: bool
    dry_run: bool
    max_run_time_s: int
    started_at: datetime
    nul_as_blank: bool = False
    hold_while_blocked: bool = False
    deliver_truncated: bool = False
    max_messages_per_unit: int = 128
    max_plan_age_s: int = 86_400
    message_keys: tuple[str, ...] = ()
    started_by: str = ""
    started_by_user: str = ""
    why: str = ""
    controls: str = "{}"
    queue_kind: QueueKind = QueueKind.DEAD_LETTER
    repair: str = ""

    @property
    def has_given_action(self) -> bool:
        """Whether one action is given for the named messages, in place of a rules table."""
        return self.rules_source == GIVEN_ACTION

    @property
    def named(self) -> frozenset[bytes]:
        """The keys in `message_keys` as the snapshot holds them; empty where all are meant."""
        return frozenset(bytes.fromhex(key) for key in self.message_keys)


@dataclass(frozen=True, slots=True)
class Look:
    """The state of a queue that a run saw: whether there was work, and the reason in words.

    `max_depth` is MAXDEPTH, None if the queue was not inquired.
    """

    depth: int
    is_work: bool
    why: str
    at: datetime
    max_depth: int | None = None


class Runs(Repository):
    """Runs, runs that could not start, and the states of queues that runs saw."""

    def record(self, run: Run) -> None:
        """Record a run at its start; raise sqlalchemy.exc.IntegrityError if it is known."""
        self._add(runs, asdict(run))

    def get(self, run_id: str) -> Run | None:
        """Return a run, or None."""
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
        """Record what a run saw."""
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
            .join(runs, runs.c.run_id == looks.c.run_id)
            .outerjoin(sightings, sightings.c.run_id == looks.c.run_id)
            .where(runs.c.handler == handler, runs.c.run_id != but, looks.c.is_work)
            .order_by(looks.c.at.desc())
        )
        row = self._first(query)
        return row["at"] if row and row["run_id"] is None else None

    def record_pass(self, run_id: str, started_at: datetime) -> None:
        """Record that a pass of a run begins."""
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
            .join(passes, runs.c.run_id == passes.c.run_id)
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
    passed = select(func.max(passes.c.started_at)).join(runs, runs.c.run_id == passes.c.run_id)
    return passed.where(is_counted)


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
