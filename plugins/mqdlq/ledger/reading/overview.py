"""Overview of all handlers: the last runs on each queue, refusals and open approvals.

The number of SQL statements does not depend on the number of runs. Of handlers, some hundred more
take one statement more.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    CTE,
    ColumnElement,
    RowMapping,
    ScalarSelect,
    Select,
    and_,
    case,
    func,
    null,
    select,
)

from mqdlq.ledger.database import Repository, columns_of, in_parts
from mqdlq.ledger.reading.later_outcomes import LaterCount, LaterOutcomes
from mqdlq.ledger.runs import before_the_start
from mqdlq.ledger.tables.messages import run_messages
from mqdlq.ledger.tables.retention import Prune, prunes
from mqdlq.ledger.tables.runs import (
    approvals,
    failures,
    looks,
    runs,
    sightings,
    snapshots,
    verdict_outcomes,
    verdicts,
)
from mqdlq.model import DEPARTED, Disposition, Outcome


@dataclass(frozen=True, slots=True)
class SeenRun:
    """A run, with what it saw of its queue and the verdict of its report.

    `look_…` is the last look by MQINQ, `taken` the number of messages in the snapshot of
    `taken_at`, `end_…` the last browse, `oldest_left` the time since when
    the oldest remaining message is there. A value is None, and a text "", if the run has no such
    fact. `verdict` is "" as long as no report is recorded. `departed` counts the messages that the
    report booked as departed. `asked_at` is when the run asked for an approval that it still lacks.
    """

    run_id: str
    handler: str
    dag_run_id: str
    run_type: str
    queue_manager: str
    queue: str
    rules_source: str
    rules_digest: str
    dry_run: bool
    started_at: datetime
    started_by: str
    max_run_time_s: int
    is_for_named: bool
    look_depth: int | None = None
    look_is_work: bool | None = None
    look_at: datetime | None = None
    max_depth: int | None = None
    taken_at: datetime | None = None
    taken: int | None = None
    end_depth: int | None = None
    end_at: datetime | None = None
    oldest_left: datetime | None = None
    verdict: str = ""
    headline: str = ""
    why: str = ""
    messages: int | None = None
    adds_up: bool | None = None
    attention: int | None = None
    departed: int = 0
    asked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SeenQueue:
    """The last runs of a handler on a queue.

    `last` is the newest run of any kind. The others are for the whole queue, so neither backfills
    nor for named messages: `whole` is the newest, `before` the one before it. `closed` is the
    newest with an account and a report; it is looked for only if `whole` lacks one of them and saw
    messages. `later` says what the runs after `counted` did with its messages.
    """

    handler: str
    queue_manager: str
    queue: str
    last: SeenRun
    whole: SeenRun | None
    before: SeenRun | None
    closed: SeenRun | None
    later: tuple[LaterCount, ...] = ()

    @property
    def counted(self) -> SeenRun | None:
        """The last run with an account of the whole queue; None if there is none, or no message.

        A run that found no work, is in progress or broke off, or whose report is missing, has none.
        """
        whole = self.whole
        has_account = whole is not None and whole.end_at is not None and bool(whole.verdict)
        return whole if has_account else self.closed


@dataclass(frozen=True, slots=True)
class SeenRefusal:
    """The last refusal of a handler: a run that could not start, why, and when."""

    handler: str
    run_id: str
    why: str
    at: datetime


@dataclass(frozen=True, slots=True)
class OpenApproval:
    """A plan without an answer: its run, the guards that asked, and the messages it plans."""

    handler: str
    queue_manager: str
    queue: str
    run_id: str
    dag_run_id: str
    guards: tuple[str, ...]
    messages: int
    at: datetime


class Overview(Repository):
    """The state of all handlers, or of one."""

    def queues(self, handler: str | None = None) -> list[SeenQueue]:
        """Return each queue that a handler had a run on, by handler, queue manager and queue."""
        picked = _picked(handler)
        found = self._all(select(picked).order_by(*list(picked.c)[:3]))
        names = ("last", "whole", "before", "closed")
        ids = {row[name] for row in found for name in names} - {None}
        known = {
            row["run_id"]: row
            for some in in_parts(ids)
            for row in self._all(_facts_of(runs.c.run_id.in_(some)))
        }

        def run(run_id: str | None) -> SeenRun | None:
            return None if run_id is None else _seen_run(known[run_id])

        queues = []
        for row in found:
            last = run(row["last"])
            assert last is not None  # noqa: S101 (each group of runs has a newest one)
            rest = (run(row["whole"]), run(row["before"]), run(row["closed"]))
            queues.append(
                SeenQueue(row["handler"], row["queue_manager"], row["queue"], last, *rest)
            )
        passed = {q.counted.run_id for q in queues if q.counted and q.counted != q.last}
        later = LaterOutcomes(self._engine).counts(sorted(passed))
        return [
            replace(q, later=later.get(q.counted.run_id, ()) if q.counted else ()) for q in queues
        ]

    def refusals(self, handler: str | None = None) -> dict[str, SeenRefusal]:
        """Return the last refusal of each handler that ever had one."""
        newest = select(func.max(failures.c.seq)).where(before_the_start())
        newest = newest.group_by(failures.c.handler)
        if handler is not None:
            newest = newest.where(failures.c.handler == handler)
        names = ("handler", "run_id", "why", "at")
        query = select(*(failures.c[name] for name in names)).where(failures.c.seq.in_(newest))
        return {row["handler"]: SeenRefusal(**row) for row in self._all(query)}

    def open_approvals(self, handler: str | None = None) -> list[OpenApproval]:
        """Return the plans without an answer of runs that have not ended, oldest first.

        Airflow knows whether a run still waits for the answer.
        """
        planned = (
            select(func.count())
            .select_from(run_messages)
            .where(
                run_messages.c.run_id == runs.c.run_id,
                run_messages.c.disposition == Disposition.PLANNED,
            )
        )
        query = (
            select(
                *(runs.c[n] for n in ("handler", "queue_manager", "queue", "run_id", "dag_run_id")),
                approvals.c.guards,
                planned.correlate(runs).scalar_subquery().label("messages"),
                approvals.c.at,
            )
            .join(runs, runs.c.run_id == approvals.c.run_id)
            .where(_is_unanswered())
            .order_by(approvals.c.seq)
        )
        if handler is not None:
            query = query.where(runs.c.handler == handler)
        return [OpenApproval(**row) for row in self._all(query)]

    def outcomes(self, run_id: str) -> Counter[Outcome]:
        """Count the outcomes that the last report of a run counted."""
        last = select(func.max(verdicts.c.seq)).where(verdicts.c.run_id == run_id)
        table = verdict_outcomes
        query = (
            select(table.c.outcome, func.sum(table.c.messages).label("messages"))
            .where(table.c.verdict_seq == last.scalar_subquery())
            .group_by(table.c.outcome)
        )
        return Counter({row["outcome"]: int(row["messages"]) for row in self._all(query)})

    def last_prune(self, handler: str) -> Prune | None:
        """Return the last prune by a handler's policy, or None."""
        query = select(*columns_of(prunes, Prune)).where(prunes.c.handler == handler)
        return self._one(Prune, query.order_by(prunes.c.at.desc()))

    def last_runs(self, handler: str, at_most: int) -> list[SeenRun]:
        """Return the newest runs of a handler on any queue, newest first."""
        newest = select(runs.c.run_id).where(runs.c.handler == handler)
        newest = newest.order_by(runs.c.started_at.desc()).limit(at_most)
        query = _facts_of(runs.c.run_id.in_(newest)).order_by(runs.c.started_at.desc())
        return [_seen_run(row) for row in self._all(query)]


def _picked(handler: str | None) -> CTE:
    """Return handler, queue manager and queue of each group of runs, with the ids of its runs."""
    key = ("handler", "queue_manager", "queue")
    group = select(*(runs.c[name] for name in key)).group_by(*(runs.c[name] for name in key))
    if handler is not None:
        group = group.where(runs.c.handler == handler)
    groups = group.subquery("queues")
    one = runs.alias("one")

    def nth(number: int, *conditions: ColumnElement[bool]) -> ScalarSelect[Any]:
        own = (one.c[name] == groups.c[name] for name in key)
        query = select(one.c.run_id).where(*own, *conditions)
        return query.order_by(one.c.started_at.desc()).offset(number).limit(1).scalar_subquery()

    is_whole = (one.c.message_keys == ()) & (one.c.run_type != "backfill")
    inner = select(
        groups,
        nth(0).label("last"),
        nth(0, is_whole).label("whole"),
        nth(1, is_whole).label("before"),
    ).cte("newest")
    closed = (
        select(one.c.run_id)
        .where(
            *(one.c[name] == inner.c[name] for name in key), is_whole, *_account_of(one.c.run_id)
        )
        .order_by(one.c.started_at.desc())
        .limit(1)
        .scalar_subquery()
    )
    seen = looks.alias("seen")
    has_own = and_(*_account_of(inner.c.whole))
    is_empty = (
        select(seen.c.seq)
        .where(seen.c.run_id == inner.c.whole, ~seen.c.is_work, seen.c.depth == 0)
        .exists()
    )
    return select(inner, case((has_own | is_empty, null()), else_=closed).label("closed")).cte(
        "picked"
    )


def _account_of(run_id: ColumnElement[str]) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """Return the conditions that a run has closed its account, and that its report is recorded."""
    ended, reported = sightings.alias(), verdicts.alias()
    return (
        select(ended.c.run_id).where(ended.c.run_id == run_id).exists(),
        select(reported.c.seq).where(reported.c.run_id == run_id).exists(),
    )


_OF_RUN: Final = (
    "run_id",
    "handler",
    "dag_run_id",
    "run_type",
    "queue_manager",
    "queue",
    "rules_source",
    "rules_digest",
    "dry_run",
    "started_at",
    "started_by",
    "max_run_time_s",
)


def _facts_of(is_meant: ColumnElement[bool]) -> Select[Any]:
    """Return the query for the facts of runs, one row for each."""
    look, verdict = looks.alias("look"), verdicts.alias("verdict")
    last_look = select(func.max(looks.c.seq)).where(looks.c.run_id == runs.c.run_id)
    last_verdict = select(func.max(verdicts.c.seq)).where(verdicts.c.run_id == runs.c.run_id)
    departed = select(func.sum(verdict_outcomes.c.messages)).where(
        verdict_outcomes.c.verdict_seq == verdict.c.seq,
        verdict_outcomes.c.outcome.in_(sorted(DEPARTED)),
    )
    departed = departed.correlate(verdict)
    asked = select(func.max(approvals.c.at)).where(
        approvals.c.run_id == runs.c.run_id, _is_unanswered()
    )
    asked = asked.correlate(runs)
    return (
        select(
            *(runs.c[name] for name in _OF_RUN),
            (runs.c.message_keys != ()).label("is_for_named"),
            look.c.depth.label("look_depth"),
            look.c.is_work.label("look_is_work"),
            look.c.at.label("look_at"),
            look.c.max_depth,
            snapshots.c.taken_at,
            snapshots.c.messages.label("taken"),
            sightings.c.depth.label("end_depth"),
            sightings.c.at.label("end_at"),
            sightings.c.oldest_left,
            func.coalesce(verdict.c.verdict, "").label("verdict"),
            func.coalesce(verdict.c.headline, "").label("headline"),
            func.coalesce(verdict.c.why, "").label("why"),
            verdict.c.messages,
            verdict.c.adds_up,
            verdict.c.attention,
            func.coalesce(departed.scalar_subquery(), 0).label("departed"),
            asked.scalar_subquery().label("asked_at"),
        )
        .select_from(runs)
        .outerjoin(look, look.c.seq == last_look.correlate(runs).scalar_subquery())
        .outerjoin(verdict, verdict.c.seq == last_verdict.correlate(runs).scalar_subquery())
        .outerjoin(snapshots, snapshots.c.run_id == runs.c.run_id)
        .outerjoin(sightings, sightings.c.run_id == runs.c.run_id)
        .where(is_meant)
    )


def _is_unanswered() -> ColumnElement[bool]:
    """Return the condition that an approval is a question, the last of a run that has not ended."""
    later, ended, reported = approvals.alias(), sightings.alias(), verdicts.alias()
    is_answered = select(later.c.seq).where(
        later.c.run_id == approvals.c.run_id, later.c.seq > approvals.c.seq
    )
    has_ended = select(ended.c.run_id).where(ended.c.run_id == approvals.c.run_id)
    has_report = select(reported.c.seq).where(reported.c.run_id == approvals.c.run_id)
    return (
        (approvals.c.decision == "asked")
        & ~is_answered.exists()
        & ~has_ended.exists()
        & ~has_report.exists()
    )


def _seen_run(row: RowMapping) -> SeenRun:
    return SeenRun(**{**row, "departed": int(row["departed"])})
