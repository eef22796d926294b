"""Count messages by cause, row by row, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from mqdlq.causes.fingerprint import CAUSE_COLUMNS, Cause, cause_of_row
from mqdlq.model import Outcome

COLUMNS: Final = (
    *CAUSE_COLUMNS,
    "dead_lettered_at",
    "put_at",
)
"""The columns of a snapshot that `count_causes` reads."""

MOST_CAUSES: Final = 10_000
"""How many causes a counter tells apart; it counts the messages of the others by reason only."""

MOST_NAMES: Final = 1_000
"""How many queue names of one cause a counter tells apart."""


@dataclass(frozen=True, slots=True)
class CountedCause:
    """A cause with the number and the times of its messages.

    `queues` is the number of different queue names in its messages: several for a generalized
    destination, and for a cause whose `dest_q_name` is None. At `MOST_NAMES` or more the number may
    be too small; None says that it is not known. The times are when the first and the last message
    was dead-lettered, or put if its MQDLH does not say; None if no message says either. `settled`
    is the number of messages that an earlier run has settled.
    `outcomes` counts the messages that have an outcome. With `has_nuls`, a NUL ends the destination
    in some of the messages, and a rule's pattern does not match it unless `nul_as_blank` is on.
    """

    cause: Cause
    messages: int
    settled: int = 0
    queues: int | None = None
    first_at: datetime | None = None
    last_at: datetime | None = None
    outcomes: Mapping[Outcome, int] = field(default_factory=dict)
    has_nuls: bool = False


class CauseCounter:
    """Counts messages by cause.

    It tells `MOST_CAUSES` causes apart, the first that it meets, and counts the messages of the
    others by reason, in causes whose `dest_q_name` is None.
    """

    def __init__(self) -> None:
        self._counts: dict[Cause, _Count] = {}

    def add_row(self, row: Mapping[str, Any], *, is_settled: bool = False) -> None:
        """Count a snapshot's row, which has at least the columns `COLUMNS`."""
        at = row.get("dead_lettered_at") or row.get("put_at")
        self.add(cause_of_row(row), row.get("dlh_dest_q_name") or "", at, is_settled=is_settled)

    def add(
        self,
        cause: Cause,
        dest_q_name: str,
        at: datetime | None,
        outcome: Outcome | None = None,
        *,
        is_settled: bool = False,
    ) -> None:
        """Count a message; `dest_q_name` is the name in its MQDLH."""
        count = self._counts.get(cause)
        if count is None:
            if len(self._counts) >= MOST_CAUSES:
                cause = without_destination(cause)
            count = self._counts.setdefault(cause, _Count())
        count.add(dest_q_name, at, outcome)
        count.settled += is_settled

    def counted(self, at_most: int | None = None) -> list[CountedCause]:
        """Return the causes, the most frequent first, and causes without a destination last.

        The causes beyond the first `at_most` are counted by reason: their `dest_q_name` is None.
        """
        found = [count.made(cause) for cause, count in self._counts.items()]
        told_apart = sorted((one for one in found if one.cause.dest_q_name is not None), key=_order)
        kept = told_apart[:at_most]
        rest = {one.cause: one for one in found if one.cause.dest_q_name is None}
        for one in told_apart[len(kept) :]:
            cause = without_destination(one.cause)
            rest[cause] = _merge(rest[cause], one) if cause in rest else replace(one, cause=cause)
        return [*kept, *sorted(rest.values(), key=_order)]


def without_destination(cause: Cause) -> Cause:
    """Return the cause that counts a reason's messages of several destinations together.

    Messages without a valid MQDLH have no destination: their cause stays as it is.
    """
    return Cause(cause.cls, cause.reason, None) if cause.is_of_dead_letters else cause


def count_causes(rows: Iterable[Mapping[str, Any]]) -> list[CountedCause]:
    """Return the causes of rows that have at least the columns `COLUMNS`, most frequent first."""
    counter = CauseCounter()
    for row in rows:
        counter.add_row(row)
    return counter.counted()


@dataclass(slots=True)
class _Count:
    messages: int = 0
    settled: int = 0
    names: set[str] = field(default_factory=set)
    first_at: datetime | None = None
    last_at: datetime | None = None
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    has_nuls: bool = False

    def add(self, name: str, at: datetime | None, outcome: Outcome | None) -> None:
        self.messages += 1
        if name not in self.names and len(self.names) < MOST_NAMES:
            self.names.add(name)
        self.has_nuls = self.has_nuls or "\0" in name
        if outcome is not None:
            self.outcomes[outcome] += 1
        if at is not None:
            self.first_at = min(self.first_at or at, at)
            self.last_at = max(self.last_at or at, at)

    def made(self, cause: Cause) -> CountedCause:
        ended = {outcome: self.outcomes[outcome] for outcome in Outcome if self.outcomes[outcome]}
        return CountedCause(
            cause,
            self.messages,
            self.settled,
            len(self.names),
            self.first_at,
            self.last_at,
            ended,
            self.has_nuls,
        )


def _merge(one: CountedCause, other: CountedCause) -> CountedCause:
    firsts = [at for at in (one.first_at, other.first_at) if at is not None]
    lasts = [at for at in (one.last_at, other.last_at) if at is not None]
    outcomes = Counter(one.outcomes) + Counter(other.outcomes)
    return CountedCause(
        one.cause,
        one.messages + other.messages,
        one.settled + other.settled,
        (one.queues or 0) + (other.queues or 0),
        min(firsts, default=None),
        max(lasts, default=None),
        {outcome: outcomes[outcome] for outcome in Outcome if outcomes[outcome]},
        one.has_nuls or other.has_nuls,
    )


def _order(one: CountedCause) -> tuple[int, str, int, str, str]:
    cause = one.cause
    name = cause.dest_q_name or ""
    return -one.messages, cause.cls or "", cause.reason, name, cause.dest_q_mgr_name
