"""History of a handler's queue: what its runs saw and booked within a time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select

from mqdlq.ledger.database import Repository
from mqdlq.ledger.tables.runs import (
    causes,
    looks,
    runs,
    sightings,
    snapshots,
    verdict_outcomes,
    verdicts,
)
from mqdlq.model import Outcome


@dataclass(frozen=True, slots=True)
class DepthPoint:
    """The depth of a queue that a run saw at a time, by MQINQ or by its last browse."""

    at: datetime
    depth: int
    max_depth: int | None


@dataclass(frozen=True, slots=True)
class RunPoint:
    """A run with an account: since when its oldest remaining message is there, and resolution.

    The times of resolution are seconds from arrival to departure, None if no message departed.
    """

    at: datetime
    oldest_left: datetime | None
    resolution_median_s: float | None
    resolution_p90_s: float | None


@dataclass(frozen=True, slots=True)
class CausePoint:
    """How many messages of a cause a snapshot had, and how many of them were settled before."""

    at: datetime
    reason: int
    cause_id: str
    messages: int
    settled: int


@dataclass(frozen=True, slots=True)
class OutcomePoint:
    """How many messages a run booked with an outcome by a rule of a table."""

    at: datetime
    rules_digest: str
    rule: int
    action: str
    outcome: Outcome
    messages: int


@dataclass(frozen=True, slots=True)
class Span:
    """The runs of a handler on a queue that started from `start` up to `end`."""

    handler: str
    queue_manager: str
    queue: str
    start: datetime
    end: datetime


class Histories(Repository):
    """Time series of queues, each oldest first.

    Runs for named messages, backfills and dry runs do not count, except for their depths.
    """

    def depths(self, span: Span) -> list[DepthPoint]:
        """Return the depths that runs saw; backfills see no queue."""
        is_meant = _within(span) & (runs.c.run_type != "backfill")
        seen = select(looks.c.at, looks.c.depth, looks.c.max_depth)
        left = select(sightings.c.at, sightings.c.depth)
        points = [
            *(DepthPoint(**row) for row in self._of_runs(seen, looks.c.run_id, is_meant)),
            *(
                DepthPoint(**row, max_depth=None)
                for row in self._of_runs(left, sightings.c.run_id, is_meant)
            ),
        ]
        return sorted(points, key=lambda point: point.at)

    def accounts(self, span: Span) -> list[RunPoint]:
        """Return the ages and the times of resolution of runs that closed their account."""
        query = (
            select(
                sightings.c.at,
                sightings.c.oldest_left,
                verdicts.c.resolution_median_s,
                verdicts.c.resolution_p90_s,
            )
            .join(runs, runs.c.run_id == sightings.c.run_id)
            .outerjoin(verdicts, verdicts.c.seq == _last_verdict())
            .where(_within(span), _acts_on_all())
            .order_by(sightings.c.at)
        )
        return [RunPoint(**row) for row in self._all(query)]

    def causes(self, span: Span) -> list[CausePoint]:
        """Return the causes of each snapshot."""
        query = (
            select(
                snapshots.c.taken_at.label("at"),
                *(causes.c[name] for name in ("reason", "cause_id", "messages", "settled")),
            )
            .join(runs, runs.c.run_id == snapshots.c.run_id)
            .join(causes, causes.c.run_id == runs.c.run_id)
            .where(_within(span), _acts_on_all())
            .order_by(snapshots.c.taken_at, causes.c.reason, causes.c.cause_id)
        )
        return [CausePoint(**row) for row in self._all(query)]

    def outcomes(self, span: Span) -> list[OutcomePoint]:
        """Return the outcomes that the last report of each run counted."""
        names = ("rule", "action", "outcome")
        kinds = [verdict_outcomes.c[name] for name in names]
        query = (
            select(
                runs.c.started_at.label("at"),
                runs.c.rules_digest,
                *kinds,
                func.sum(verdict_outcomes.c.messages).label("messages"),
            )
            .join(verdicts, verdicts.c.run_id == runs.c.run_id)
            .join(verdict_outcomes, verdict_outcomes.c.verdict_seq == verdicts.c.seq)
            .where(_within(span), _acts_on_all(), verdicts.c.seq == _last_verdict())
            .group_by(runs.c.run_id, runs.c.started_at, runs.c.rules_digest, *kinds)
            .order_by(runs.c.started_at, *kinds)
        )
        found = self._all(query)
        return [OutcomePoint(**{**row, "messages": int(row["messages"])}) for row in found]

    def _of_runs(
        self, query: Select[Any], run_id: ColumnElement[str], is_meant: ColumnElement[bool]
    ) -> Any:
        return self._all(query.join(runs, runs.c.run_id == run_id).where(is_meant))


def _within(span: Span) -> ColumnElement[bool]:
    return (
        (runs.c.handler == span.handler)
        & (runs.c.queue_manager == span.queue_manager)
        & (runs.c.queue == span.queue)
        & (runs.c.started_at >= span.start)
        & (runs.c.started_at < span.end)
    )


def _acts_on_all() -> ColumnElement[bool]:
    return (runs.c.message_keys == ()) & (runs.c.run_type != "backfill") & ~runs.c.dry_run


def _last_verdict() -> Any:
    other = verdicts.alias()
    newest = select(func.max(other.c.seq)).where(other.c.run_id == runs.c.run_id)
    return newest.correlate(runs).scalar_subquery()
