"""What the runs on a queue saw and booked over time: depths, ages, outcomes and causes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, func, select, union_all

from mqdlq.causes import Cause
from mqdlq.ledger.database import Repository, in_parts
from mqdlq.ledger.runs import is_on_queue
from mqdlq.ledger.snapshots import cause_in_row
from mqdlq.ledger.tables import (
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
    """The runs of a handler on a queue of a queue manager, started from `start` up to `end`."""

    handler: str
    place: tuple[str, str]
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
            DepthPoint(**{"max_depth": None, **row})
            for query, table in ((seen, looks), (left, sightings))
            for row in self._all(query.join(runs, runs.c.run_id == table.c.run_id).where(is_meant))
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

    def arrivals(self, span: Span) -> list[tuple[datetime, int, int]]:
        """Return the causes of each snapshot.

        A cause is given by when the snapshot was taken, its reason, and the number of its messages
        that no earlier run had settled.
        """
        query = (
            select(
                snapshots.c.taken_at,
                causes.c.reason,
                (causes.c.messages - causes.c.settled).label("arrived"),
            )
            .join(runs, runs.c.run_id == snapshots.c.run_id)
            .join(causes, causes.c.run_id == runs.c.run_id)
            .where(_within(span), _acts_on_all())
            .order_by(snapshots.c.taken_at, causes.c.reason, causes.c.cause_id)
        )
        rows = self._all(query)
        return [(row["taken_at"], row["reason"], row["arrived"]) for row in rows]

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


def _within(span: Span) -> ColumnElement[bool]:
    started = (runs.c.started_at >= span.start) & (runs.c.started_at < span.end)
    return (runs.c.handler == span.handler) & is_on_queue(*span.place) & started


def _acts_on_all() -> ColumnElement[bool]:
    return _is_whole() & ~runs.c.dry_run


def _last_verdict() -> Any:
    other = verdicts.alias()
    newest = select(func.max(other.c.seq)).where(other.c.run_id == runs.c.run_id)
    return newest.correlate(runs).scalar_subquery()


# Causes over time: when a queue had which cause, and which are new or returned.

RUNS: Final = 500
"""How many runs are compared with each other, unless more are asked for."""


class CauseState(StrEnum):
    """State of a cause in the newest snapshot.

    `new`: no earlier run met it. `returned`: the run before did not meet it, but an earlier one
    did. `known`: the run before met it, too. `gone`: the newest snapshot has no message of it.
    """

    NEW = "new"
    RETURNED = "returned"
    KNOWN = "known"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class CauseSighting:
    """All messages of a cause in the snapshot of one run, and how many of them were settled."""

    run_id: str
    at: datetime
    messages: int
    settled: int


@dataclass(frozen=True, slots=True)
class CauseHistory:
    """A cause in the compared runs, oldest sighting first.

    `first_seen` is the first sighting by any run that is not pruned. `returns` counts how often
    the cause was seen again after a compared run that did not meet it.
    """

    cause: Cause
    sightings: tuple[CauseSighting, ...]
    first_seen: datetime
    state: CauseState
    returns: int

    @property
    def last_seen(self) -> datetime:
        """When a snapshot last had a message of it."""
        return self.sightings[-1].at

    @property
    def messages(self) -> int:
        """How many messages of the newest snapshot have this cause."""
        return 0 if self.state is CauseState.GONE else self.sightings[-1].messages


@dataclass(frozen=True, slots=True)
class CausesOverTime:
    """The compared runs, oldest first, and the causes that they met, most frequent now first.

    `runs` are those that saw their whole queue, by id, and when: a snapshot, or a look at an empty
    queue.
    """

    runs: dict[str, datetime]
    causes: tuple[CauseHistory, ...]


class CauseHistories(Repository):
    """Causes over time.

    Runs for named messages, and backfills, do not count: they do not see a whole queue. Where the
    ledger does not know the destinations of a reason (the run met too many causes), the run may
    have met each cause with this reason: such a cause is not new after it, and is not regarded as
    absent from it.
    """

    def of_queue(self, queue_manager: str, queue: str, at_most: int = RUNS) -> CausesOverTime:
        """Return the causes that the last `at_most` runs met on a queue."""
        is_counted = is_on_queue(queue_manager, queue) & _is_whole()
        compared = self._observed(is_counted, at_most)
        found: dict[Cause, list[tuple[int, CauseSighting]]] = defaultdict(list)
        position = {run_id: number for number, run_id in enumerate(compared)}
        for part in in_parts(position):
            for row in self._all(select(causes).where(causes.c.run_id.in_(part))):
                run_id = row["run_id"]
                seen = CauseSighting(run_id, compared[run_id], row["messages"], row["settled"])
                found[cause_in_row(row)].append((position[run_id], seen))
        first_seen = self._first_seen(is_counted)
        # By reason, the positions of the runs that may have met any cause with it.
        vague: dict[int, set[int]] = defaultdict(set)
        for cause, numbered in found.items():
            if not cause.cause_id:
                vague[cause.reason] |= {number for number, _ in numbered}
        histories = [
            _build_history(
                cause,
                sorted(numbered, key=lambda item: item[0]),
                first_seen[cause.reason, cause.cause_id],
                vague[cause.reason] if cause.cause_id else set(),
                list(compared.values()),
            )
            for cause, numbered in found.items()
        ]
        return CausesOverTime(compared, tuple(sorted(histories, key=_order)))

    def _observed(self, is_counted: ColumnElement[bool], at_most: int) -> dict[str, datetime]:
        """Return the last runs that saw their whole queue, oldest first."""
        taken = (
            select(runs.c.run_id, snapshots.c.taken_at.label("at"))
            .join(snapshots, snapshots.c.run_id == runs.c.run_id)
            .where(is_counted)
        )
        empty = (
            select(runs.c.run_id, func.max(looks.c.at).label("at"))
            .join(looks, looks.c.run_id == runs.c.run_id)
            .where(is_counted, looks.c.depth == 0)
            .where(runs.c.run_id.not_in(select(snapshots.c.run_id)))
            .group_by(runs.c.run_id)
        )
        both = union_all(taken, empty).subquery()
        newest = select(both).order_by(both.c.at.desc(), both.c.run_id.desc()).limit(at_most)
        return {row["run_id"]: row["at"] for row in reversed(self._all(newest))}

    def _first_seen(self, is_counted: ColumnElement[bool]) -> dict[tuple[int, str], datetime]:
        query: Select[Any] = (
            select(causes.c.reason, causes.c.cause_id, func.min(snapshots.c.taken_at).label("at"))
            .join(runs, runs.c.run_id == causes.c.run_id)
            .join(snapshots, snapshots.c.run_id == causes.c.run_id)
            .where(is_counted)
            .group_by(causes.c.reason, causes.c.cause_id)
        )
        return {(row["reason"], row["cause_id"]): row["at"] for row in self._all(query)}


def _order(history: CauseHistory) -> tuple[float, float, int, str]:
    cause = history.cause
    return -history.messages, -history.last_seen.timestamp(), cause.reason, cause.cause_id


def _is_whole() -> ColumnElement[bool]:
    return (runs.c.message_keys == ()) & (runs.c.run_type != "backfill")


def _build_history(
    cause: Cause,
    numbered: Sequence[tuple[int, CauseSighting]],
    first_seen: datetime,
    vague: set[int],
    compared: Sequence[datetime],
) -> CauseHistory:
    newest = len(compared) - 1
    met = [number for number, _ in numbered]
    may_have_met = vague | set(met)
    returns = sum(
        any(number not in may_have_met for number in range(one + 1, other))
        for one, other in pairwise(met)
    )
    if met[-1] != newest:
        state = CauseState.GONE
    elif first_seen == compared[newest] and not any(number < newest for number in vague):
        state = CauseState.NEW
    elif newest and newest - 1 not in may_have_met:
        state = CauseState.RETURNED
    else:
        state = CauseState.KNOWN
    return CauseHistory(cause, tuple(one for _, one in numbered), first_seen, state, returns)
