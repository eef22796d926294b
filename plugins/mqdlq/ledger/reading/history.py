"""What the runs on a queue saw and booked over time: depths, ages, outcomes and causes."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from typing import Final

import sqlalchemy as sa

from mqdlq.causes import Cause
from mqdlq.ledger import tables as t
from mqdlq.ledger.database import Condition, Repository, Row, is_last, is_on, total
from mqdlq.ledger.runs import IS_FOR_ALL
from mqdlq.ledger.snapshots import CAUSE_IN_ROW, cause_in_row
from mqdlq.model import Outcome


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

    def depths(self, span: Span) -> Sequence[Row]:
        """Return (at, depth, max_depth) of each look by MQINQ and each last browse of a run.

        MAXDEPTH is None for a browse. Backfills see no queue.
        """
        look, seen = t.looks.c, t.sightings.c
        points = [
            point
            for query, run_id in (
                (sa.select(look.at, look.depth, look.max_depth), look.run_id),
                (sa.select(seen.at, seen.depth, sa.null().label("max_depth")), seen.run_id),
            )
            for point in self._rows(
                query.join(t.runs, t.runs.c.run_id == run_id).where(_within(span), _SEES_A_QUEUE)
            )
        ]
        return sorted(points, key=lambda point: point.at)

    def accounts(self, span: Span) -> Sequence[Row]:
        """Return `at` and `oldest_left` of runs that closed their account.

        `oldest_left` is since when the oldest remaining message is there, None if none remained.
        """
        seen = t.sightings.c
        query = (
            sa.select(seen.at, seen.oldest_left)
            .join(t.runs, t.runs.c.run_id == seen.run_id)
            .where(_within(span), _ACTS_ON_ALL)
        )
        return self._rows(query.order_by(seen.at))

    def arrivals(self, span: Span) -> list[tuple[datetime, int, int]]:
        """Return by cause and snapshot (taken_at, reason, messages not settled before)."""
        at, cause = t.snapshots.c.taken_at, t.causes.c
        query = (
            sa.select(at, cause.reason, cause.messages - cause.settled)
            .join(t.runs, t.runs.c.run_id == t.snapshots.c.run_id)
            .join(t.causes, cause.run_id == t.runs.c.run_id)
            .where(_within(span), _ACTS_ON_ALL)
            .order_by(at, cause.reason, cause.cause_id)
        )
        return [(taken_at, reason, arrived) for taken_at, reason, arrived in self._rows(query)]

    def expiries(self, span: Span) -> list[tuple[datetime, int]]:
        """Return when runs began, and how many messages each booked as expired, by its report."""
        counted, at = t.verdict_outcomes.c, t.runs.c.started_at
        query = (
            sa.select(at, total(counted.messages))
            .join(t.verdicts, t.verdicts.c.run_id == t.runs.c.run_id)
            .join(t.verdict_outcomes, counted.verdict_seq == t.verdicts.c.seq)
            .where(_within(span), _ACTS_ON_ALL, is_last(t.verdicts, "run_id"))
            .where(counted.outcome == Outcome.EXPIRED)
            .group_by(t.runs.c.run_id, at)
        )
        return [(began, messages) for began, messages in self._rows(query.order_by(at))]


_SEES_A_QUEUE: Final = t.runs.c.run_type != "backfill"
_IS_WHOLE: Final = IS_FOR_ALL & _SEES_A_QUEUE
_ACTS_ON_ALL: Final = _IS_WHOLE & ~t.runs.c.dry_run


def _within(span: Span) -> Condition:
    started = (t.runs.c.started_at >= span.start) & (t.runs.c.started_at < span.end)
    return (t.runs.c.handler == span.handler) & is_on(t.runs, *span.place) & started


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
        is_counted = is_on(t.runs, queue_manager, queue) & _IS_WHOLE
        compared = self._observed(is_counted, at_most)
        found = defaultdict[Cause, list[tuple[int, CauseSighting]]](list)
        position = {run_id: number for number, run_id in enumerate(compared)}
        met = sa.select(*t.causes.c["run_id", "messages", "settled"], *CAUSE_IN_ROW)
        for row in self._among(met, t.causes.c.run_id, position):
            seen = CauseSighting(row.run_id, compared[row.run_id], row.messages, row.settled)
            found[cause_in_row(row)].append((position[row.run_id], seen))
        first_seen = self._first_seen(is_counted)
        # By reason, the positions of the runs that may have met any cause with it.
        vague = defaultdict[int, set[int]](set)
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

    def _observed(self, is_counted: Condition, at_most: int) -> dict[str, datetime]:
        """Return the last runs that saw their whole queue, oldest first."""
        run_id = t.runs.c.run_id
        taken = (
            sa.select(run_id, t.snapshots.c.taken_at.label("at"))
            .join(t.snapshots, t.snapshots.c.run_id == run_id)
            .where(is_counted)
        )
        empty = (
            sa.select(run_id, sa.func.max(t.looks.c.at).label("at"))
            .join(t.looks, t.looks.c.run_id == run_id)
            .where(is_counted, t.looks.c.depth == 0)
            .where(run_id.not_in(sa.select(t.snapshots.c.run_id)))
            .group_by(run_id)
        )
        both = sa.union_all(taken, empty).subquery()
        newest = sa.select(both).order_by(both.c.at.desc(), both.c.run_id.desc()).limit(at_most)
        return {row.run_id: row.at for row in reversed(self._rows(newest))}

    def _first_seen(self, is_counted: Condition) -> dict[tuple[int, str], datetime]:
        kinds = t.causes.c["reason", "cause_id"]
        query = (
            sa.select(*kinds, sa.func.min(t.snapshots.c.taken_at))
            .join(t.runs, t.runs.c.run_id == t.causes.c.run_id)
            .join(t.snapshots, t.snapshots.c.run_id == t.causes.c.run_id)
            .where(is_counted)
            .group_by(*kinds)
        )
        return {(reason, cause_id): at for reason, cause_id, at in self._rows(query)}


def _order(history: CauseHistory) -> tuple[float, float, int, str]:
    cause = history.cause
    return -history.messages, -history.last_seen.timestamp(), cause.reason, cause.cause_id


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
