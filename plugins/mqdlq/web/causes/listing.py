"""Draw a series of numbers as bars, with the same numbers as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import Annotated, Final

from mqdlq.causes import Cause, Kind
from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.history import CauseHistory, CauseSighting, CausesOverTime, CauseState
from mqdlq.ledger.reading.runs import HandledQueue
from mqdlq.reading.cause_profiles import NO_RULE, CauseProfile
from mqdlq.reading.filters import PageNumber, Period, Reason, Text, choice
from mqdlq.reading.report.report_sources import WrittenRule
from mqdlq.rules.wildcards import fits
from mqdlq.web.causes.queue_state import QueueState, choose_queue, read_queue_state
from mqdlq.words import moment

WIDTH: Final = 100.0
HEIGHT: Final = 20.0
_LEAST: Final = 1.5
"""The height of the smallest bar, so that one message can be seen beside a million."""
_SPOKEN: Final = 8


@dataclass(frozen=True, slots=True)
class Point:
    """A number at a time; None if it is not known."""

    at: datetime
    number: int | None


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle in a drawing of `WIDTH` by `HEIGHT`, and its meaning in words."""

    x: float
    y: float
    width: float
    height: float
    title: str


@dataclass(frozen=True, slots=True)
class Sparkline:
    """Bars, one for each known number, and the last numbers in words."""

    bars: tuple[Bar, ...]
    text: str


def sparkline(points: Sequence[Point]) -> Sparkline:
    """Draw numbers from the oldest to the newest; the tallest bar is the largest number."""
    known = [point.number for point in points if point.number is not None]
    largest = max(known, default=0)
    step = WIDTH / max(len(points), 1)
    bars = []
    for place, point in enumerate(points):
        if point.number is None:
            continue
        height = max(HEIGHT * point.number / largest, _LEAST) if point.number else 0.5
        bars.append(
            Bar(
                round(place * step, 2),
                round(HEIGHT - height, 2),
                round(step * 0.8, 2),
                round(height, 2),
                f"{point.number:,} at {moment(point.at)}",
            )
        )
    return Sparkline(tuple(bars), _say(points))


def _say(points: Sequence[Point]) -> str:
    if not points:
        return "no runs"
    last = points[-_SPOKEN:]
    numbers = ", ".join("?" if one.number is None else f"{one.number:,}" for one in last)
    runs = "the last run" if len(last) == 1 else f"the last {len(last)} runs, oldest first"
    return f"{runs}: {numbers}"


# The filters of the list of causes, as its URL has them.

SORTS: Final = {"count": "most messages", "newest": "newest first", "oldest": "oldest first"}
ONLY: Final = {"new": "new causes", "attention": "causes that need attention"}
KINDS: Final = {kind.value: kind.words for kind in Kind if kind.value}


class CauseFilters(Period):
    """The causes that runs met in a time, by names and reasons of their messages.

    The names of a queue choose the first that fits.
    """

    queue_manager: Text = ""
    queue: Text = ""
    kind: Annotated[str, choice(KINDS)] = ""
    reason: Reason = None
    dest_q_name: Text = ""
    dest_q_mgr_name: Text = ""
    application: Text = ""
    only: Annotated[str, choice(ONLY)] = ""
    sort: Annotated[str, choice(SORTS)] = ""
    page: PageNumber = 1

    @property
    def narrows(self) -> bool:
        """Whether some causes of the queue may be left out."""
        return not {"queue_manager", "queue", "sort"}.issuperset(self.parameters())


# The list of causes: filtered, sorted, and paged.

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
    start = (min(filters.page, pages) - 1) * ON_A_PAGE
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

    The ledger does not know the destinations of a run that met too many causes; then the page takes
    the causes that it finds in the snapshot itself.
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
            messages = profile.messages + profile.gone.total()
            found = CauseSighting(taken.run_id, taken.taken_at, messages, settled=0)
            yield CauseHistory(profile.cause, (found,), taken.taken_at, CauseState.KNOWN, 0)
    for one in over_time.causes:
        is_found = taken is not None and one.sightings[-1].run_id == taken.run_id
        if one.cause.cause_id or not (missing and is_found):
            yield one


def _trend(history: CauseHistory, over_time: CausesOverTime) -> Sparkline:
    met = {sighting.run_id: sighting.messages for sighting in history.sightings}
    last = list(over_time.runs.items())[-TREND_RUNS:]
    return sparkline([Point(at, met.get(run_id, 0)) for run_id, at in last])


def handling_of(profile: CauseProfile, rules: Mapping[int, WrittenRule]) -> Iterator[Handling]:
    """Yield the rules that messages of a cause try first, in table order, and no rule last."""
    last = max(rules, default=0) + 1
    for ordinal in sorted(profile.handled_by, key=lambda ordinal: ordinal or last):
        yield Handling(ordinal, rules.get(ordinal), profile.handled_by[ordinal])


def _fits(row: CauseRow, filters: CauseFilters) -> bool:
    cause, profile, history = row.cause, row.profile, row.history
    queues = (cause.dest_q_name or "", *profile.destinations)
    return (
        filters.kind in ("", cause.kind.value)
        and filters.reason in (None, cause.reason)
        and _has(queues, filters.dest_q_name)
        and _has([cause.dest_q_mgr_name], filters.dest_q_mgr_name)
        and _has(profile.applications, filters.application)
        and not (filters.since and history.last_seen < filters.since)
        and not (filters.until and history.first_seen >= filters.until)
        and (filters.only != "new" or history.state is CauseState.NEW)
        and (filters.only != "attention" or profile.needs_attention > 0)
    )


def _has(names: Iterable[str], pattern: str) -> bool:
    return not pattern or any(fits(pattern, name) for name in names)


def _first_seen(row: CauseRow) -> float:
    return row.history.first_seen.timestamp()


_ORDERS: Final[Mapping[str, Callable[[CauseRow], tuple[float, str]]]] = {
    "count": lambda row: (-row.messages, row.cause.cause_id),
    "newest": lambda row: (-_first_seen(row), row.cause.cause_id),
    "oldest": lambda row: (_first_seen(row), row.cause.cause_id),
}
