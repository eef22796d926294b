"""The list of causes: filtered, sorted, and paged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import Final

from mqdlq.causes import Cause
from mqdlq.ledger import (
    CauseHistory,
    CauseSighting,
    CausesOverTime,
    CauseState,
    HandledQueue,
    Ledger,
)
from mqdlq.stages.cause_profiles import NO_RULE, CauseProfile
from mqdlq.stages.report.report_sources import WrittenRule
from mqdlq.web.causes.filters import CauseFilters
from mqdlq.web.causes.queue_state import QueueState, choose_queue, read_queue_state
from mqdlq.web.causes.sparklines import Point, Sparkline, sparkline

ON_A_PAGE: Final = 25
TREND_RUNS: Final = 20
MOST_APPLICATIONS: Final = 10
"""How many runs a trend shows."""


@dataclass(frozen=True, slots=True)
class Handling:
    """How many messages a rule matches first; `rule` is None for messages that no rule matches."""

    ordinal: int
    rule: WrittenRule | None
    messages: int


@dataclass(frozen=True, slots=True)
class CauseRow:
    """A cause in the list; `messages` of it are on the queue, `share` of all of them.

    `profile` describes the messages of the newest snapshot that the page has read, which may be
    fewer. `handling` has the rules of the newest run that they try first, in table order.
    """

    cause: Cause
    history: CauseHistory
    share: float
    trend: Sparkline
    profile: CauseProfile
    handling: tuple[Handling, ...]

    @property
    def messages(self) -> int:
        """The number of messages in the newest snapshot, less the ones that departed since."""
        return _left_of(self.history, self.profile)

    @property
    def is_unmatched(self) -> bool:
        """Whether no rule matches some of its messages."""
        return any(one.ordinal == NO_RULE for one in self.handling)


@dataclass(frozen=True, slots=True)
class CauseList:
    """A page of causes; `chosen` of `known` causes fit the filters."""

    filters: CauseFilters
    queues: tuple[HandledQueue, ...]
    state: QueueState
    rows: tuple[CauseRow, ...]
    chosen: int
    known: int
    messages: int
    pages: int
    applications: tuple[tuple[str, int], ...]
    """The applications with most messages of these causes in the last snapshot."""


def list_causes(
    handler: str, filters: CauseFilters, *, ledger: Ledger, clock: Callable[[], datetime]
) -> CauseList:
    """Return the causes that fit the filters; raise NotFoundError for an unknown queue."""
    handled, queues = choose_queue(handler, filters.queue_manager, filters.queue, ledger)
    state = read_queue_state(handler, handled, ledger, clock)
    everything = tuple(read_rows(state, ledger))
    rows = sorted(
        (row for row in everything if _fits(row, filters)), key=_ORDERS[filters.sort or "count"]
    )
    pages = max(ceil(len(rows) / ON_A_PAGE), 1)
    start = (min(filters.page_number, pages) - 1) * ON_A_PAGE
    return CauseList(
        filters=filters,
        queues=tuple(queues),
        state=state,
        rows=tuple(rows[start : start + ON_A_PAGE]),
        chosen=len(rows),
        known=len(everything),
        messages=sum(row.messages for row in rows),
        pages=pages,
        applications=_busiest_applications(rows),
    )


def _busiest_applications(rows: Iterable[CauseRow]) -> tuple[tuple[str, int], ...]:
    counted: Counter[str] = Counter()
    for row in rows:
        counted.update(row.profile.applications)
    return tuple(counted.most_common(MOST_APPLICATIONS))


def read_rows(state: QueueState, ledger: Ledger) -> Iterator[CauseRow]:
    """Yield the causes that runs met on a queue.

    The ledger does not know the destinations of a snapshot that an earlier version recorded; then
    the page takes the causes that it finds in the snapshot itself.
    """
    over_time = ledger.causes.of_queue(state.queue_manager, state.queue)
    histories = list(_with_found_causes(over_time, state))
    known = state.profile.causes
    found = [(one, known.get(one.cause.cause_id) or CauseProfile(one.cause)) for one in histories]
    total = sum(_left_of(*pair) for pair in found)
    for history, profile in found:
        yield CauseRow(
            cause=history.cause,
            history=history,
            share=_left_of(history, profile) / total if total else 0.0,
            trend=_trend(history, over_time),
            profile=profile,
            handling=tuple(handling_of(profile, state.rules)),
        )


def _left_of(history: CauseHistory, profile: CauseProfile) -> int:
    return max(history.messages - profile.gone.total(), 0)


def _with_found_causes(over_time: CausesOverTime, state: QueueState) -> Iterator[CauseHistory]:
    """Yield the causes of the ledger, and those of the snapshot that the ledger lacks."""
    known = {one.cause.cause_id for one in over_time.causes}
    taken = state.taken
    missing = [one for cause_id, one in state.profile.causes.items() if cause_id not in known]
    if taken is not None:
        for profile in sorted(missing, key=lambda one: -one.messages):
            times = (profile.oldest, profile.newest)
            taken_of_it = profile.messages + profile.gone.total()
            found = CauseSighting(
                taken.run_id, taken.taken_at, taken_of_it, 0, len(profile.destinations), *times
            )
            yield CauseHistory(profile.cause, (found,), taken.taken_at, CauseState.KNOWN, 0)
    for one in over_time.causes:
        is_found = taken is not None and one.sightings[-1].run_id == taken.run_id
        if one.cause.cause_id or not (missing and is_found):
            yield one


def _trend(history: CauseHistory, over_time: CausesOverTime) -> Sparkline:
    met = {sighting.run_id: sighting.messages for sighting in history.sightings}
    last = over_time.runs[-TREND_RUNS:]
    return sparkline([Point(run.at, met.get(run.run_id, 0)) for run in last])


def handling_of(profile: CauseProfile, rules: Mapping[int, WrittenRule]) -> Iterator[Handling]:
    """Yield the rules that messages of a cause try first, in table order, and no rule last."""
    last = max(rules, default=0) + 1
    for ordinal in sorted(profile.handled_by, key=lambda ordinal: ordinal or last):
        yield Handling(ordinal, rules.get(ordinal), profile.handled_by[ordinal])


def _fits(row: CauseRow, filters: CauseFilters) -> bool:
    cause, profile, history = row.cause, row.profile, row.history
    names = (cause.dest_q_name or "", cause.dest_q_mgr_name, *profile.destinations)
    return (
        filters.kind in ("", cause.kind.value)
        and _has((cause.reason_text, str(cause.reason), cause.meaning), filters.reason)
        and _has(names, filters.destination)
        and _has(profile.applications, filters.application)
        and not (filters.since_at and history.last_seen < filters.since_at)
        and not (filters.until_at and history.first_seen >= filters.until_at)
        and (filters.only != "new" or history.state is CauseState.NEW)
        and (filters.only != "attention" or profile.needs_attention > 0)
    )


def _has(names: Iterable[str], part: str) -> bool:
    return not part or any(part.casefold() in name.casefold() for name in names)


def _first_seen(row: CauseRow) -> float:
    return row.history.first_seen.timestamp()


_ORDERS: Final[Mapping[str, Callable[[CauseRow], tuple[float, str]]]] = {
    "count": lambda row: (-row.messages, row.cause.cause_id),
    "newest": lambda row: (-_first_seen(row), row.cause.cause_id),
    "oldest": lambda row: (_first_seen(row), row.cause.cause_id),
}
