"""Convert counted causes into rows of the ledger, and back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final

from sqlalchemy import ColumnElement, RowMapping, Select, func, select, union_all

from mqdlq.causes import Cause, CountedCause
from mqdlq.ledger.database import Repository, in_parts
from mqdlq.ledger.runs import is_on_queue
from mqdlq.ledger.tables.runs import causes, looks, runs, snapshots
from mqdlq.model import MessageClass

_COUNTS: Final = ("messages", "settled", "queues", "first_at", "last_at")


def row_of(counted: CountedCause) -> dict[str, Any]:
    """Return the row of a counted cause, without its run."""
    cause = counted.cause
    return {
        "reason": cause.reason,
        "cause_id": cause.cause_id,
        "message_class": str(cause.cls),
        "dest_q_name": cause.dest_q_name,
        "dest_q_mgr_name": cause.dest_q_mgr_name,
        **{name: getattr(counted, name) for name in _COUNTS},
    }


def cause_in_row(row: RowMapping) -> Cause:
    """Return the cause of a row."""
    cls = MessageClass(row["message_class"])
    return Cause(cls, row["reason"], row["dest_q_name"], row["dest_q_mgr_name"])


def counted_cause(row: RowMapping) -> CountedCause:
    """Return a row as a counted cause."""
    return CountedCause(cause_in_row(row), **{name: row[name] for name in _COUNTS})


# Causes over time: when a queue or a handler had which cause, and which are new or returned.

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
class ObservedRun:
    """A run that saw its whole queue, and when: a snapshot, or a look at an empty queue."""

    run_id: str
    at: datetime


@dataclass(frozen=True, slots=True)
class CauseSighting:
    """The messages of a cause in the snapshot of one run; the fields are those of `CountedCause`.

    `at` is when the snapshot was taken.
    """

    run_id: str
    at: datetime
    messages: int
    settled: int
    queues: int | None
    first_at: datetime | None
    last_at: datetime | None


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
    """The compared runs, oldest first, and the causes that they met, most frequent now first."""

    runs: tuple[ObservedRun, ...]
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
        return self._over_time(is_on_queue(queue_manager, queue), at_most)

    def of_handler(self, handler: str, at_most: int = RUNS) -> CausesOverTime:
        """Return the causes that the last `at_most` runs of a handler met."""
        return self._over_time(runs.c.handler == handler, at_most)

    def find(self, cause_id: str) -> Cause | None:
        """Return the cause with this fingerprint, None if no run in the ledger met it."""
        if not cause_id:
            return None
        row = self._first(select(causes).where(causes.c.cause_id == cause_id))
        return cause_in_row(row) if row else None

    def _over_time(self, is_counted: ColumnElement[bool], at_most: int) -> CausesOverTime:
        compared = self._observed(is_counted & _is_whole(), at_most)
        found: dict[Cause, list[tuple[int, CauseSighting]]] = defaultdict(list)
        position = {one.run_id: number for number, one in enumerate(compared)}
        for part in in_parts(position):
            for row in self._all(select(causes).where(causes.c.run_id.in_(part))):
                number = position[row["run_id"]]
                found[cause_in_row(row)].append((number, _sighting(row, compared[number].at)))
        first_seen = self._first_seen(is_counted & _is_whole())
        vague = _positions_without_destination(found)
        histories = []
        for cause, numbered in found.items():
            numbered.sort(key=lambda item: item[0])
            histories.append(
                _build_history(
                    cause,
                    numbered,
                    first_seen[cause.reason, cause.cause_id],
                    vague[cause.reason] if cause.cause_id else set(),
                    compared,
                )
            )
        histories.sort(key=_order)
        return CausesOverTime(compared, tuple(histories))

    def _observed(self, is_counted: ColumnElement[bool], at_most: int) -> tuple[ObservedRun, ...]:
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
        return tuple(ObservedRun(**row) for row in reversed(self._all(newest)))

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


def _sighting(row: RowMapping, at: datetime) -> CauseSighting:
    names = ("run_id", "messages", "settled", "queues", "first_at", "last_at")
    return CauseSighting(at=at, **{name: row[name] for name in names})


def _positions_without_destination(
    found: dict[Cause, list[tuple[int, CauseSighting]]],
) -> dict[int, set[int]]:
    """Return by reason the positions of the runs that may have met any cause with it."""
    vague: dict[int, set[int]] = defaultdict(set)
    for cause, numbered in found.items():
        if not cause.cause_id:
            vague[cause.reason] |= {number for number, _ in numbered}
    return vague


def _build_history(
    cause: Cause,
    numbered: Sequence[tuple[int, CauseSighting]],
    first_seen: datetime,
    vague: set[int],
    compared: Sequence[ObservedRun],
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
    elif first_seen == compared[newest].at and not any(number < newest for number in vague):
        state = CauseState.NEW
    elif newest and newest - 1 not in may_have_met:
        state = CauseState.RETURNED
    else:
        state = CauseState.KNOWN
    return CauseHistory(cause, tuple(one for _, one in numbered), first_seen, state, returns)
