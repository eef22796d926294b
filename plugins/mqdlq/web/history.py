"""History of a handler, as charts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from statistics import median
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from mqdlq.constants import reason_text
from mqdlq.errors import LakeError
from mqdlq.ledger import Ledger
from mqdlq.ledger.database import Row
from mqdlq.ledger.reading.history import Span
from mqdlq.model import Action, Outcome, Trait
from mqdlq.reading.filters import MessageFilter
from mqdlq.reading.find import Search
from mqdlq.tools.acting import Sources
from mqdlq.web.rendering import InvalidRequestError, render
from mqdlq.web.requests import SourcesDep
from mqdlq.web.serving import PageRoute
from mqdlq.words import count, visible

# View of a handler's history: charts of a queue over a range of dates, each as a table.

MOST_BINS: Final = 62
"""How many points a chart has at most."""

SERIES: Final = 8
"""How many reasons have their own series; the others share one."""

OTHERS: Final = "other reasons"
NO_HEADER: Final = "no valid MQDLH"

STEPS: Final = tuple(timedelta(hours=h) for h in (1, 3, 6, 12, 24, 7 * 24, 28 * 24, 364 * 24))


Values = Sequence[float | None]
"""The values of a series, one for each label; None where nothing is known."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart, and the table that has the same numbers; `kind` is line, bar, stacked or ranking.

    Each of the `series` has a name. `filters` has the filter of the search for messages of each
    label, if it has one.
    """

    title: str
    note: str
    kind: str
    labels: Sequence[str]
    series: Sequence[tuple[str, Values]]
    first_column: str = "Period"
    filters: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    empty: str = "No run of this range has such numbers."

    @property
    def rows(self) -> list[tuple[str, list[float | None]]]:
        """The rows of the table that have any value."""
        found = [
            (label, [values[at] for _, values in self.series])
            for at, label in enumerate(self.labels)
        ]
        return [(label, values) for label, values in found if any(v is not None for v in values)]


@dataclass(frozen=True, slots=True)
class Bins:
    """Equal periods of a range of dates, each with its label."""

    start: datetime
    step: timedelta
    number: int

    def of(self, at: datetime) -> int:
        """Return the number of the period that a time is in."""
        return (at - self.start) // self.step

    @property
    def end(self) -> datetime:
        """The end of the last period."""
        return self.start + self.number * self.step

    @property
    def labels(self) -> list[str]:
        """The beginnings of the periods."""
        form = "%Y-%m-%d %H:%M" if self.step < timedelta(days=1) else "%Y-%m-%d"
        return [f"{self.start + n * self.step:{form}}" for n in range(self.number)]

    def join(
        self, points: Iterable[tuple[datetime, float]], how: Callable[[list[float]], float]
    ) -> Values:
        """Join the values of each period; None where it has none."""
        found: dict[int, list[float]] = defaultdict(list)
        for at, value in points:
            found[self.of(at)].append(value)
        return [how(found[n]) if n in found else None for n in range(self.number)]

    def counts(self, counted: Mapping[int, int]) -> Values:
        """Return the numbers of the periods; None where it is 0."""
        return [float(counted.get(n, 0)) or None for n in range(self.number)]


def bins_between(since: date, until: date) -> Bins:
    """Divide the days from `since` to `until`, both included, into periods."""
    start = datetime.combine(since, time(), UTC)
    whole = datetime.combine(until, time(), UTC) + timedelta(days=1) - start
    step = next((one for one in STEPS if whole / one <= MOST_BINS), STEPS[-1])
    return Bins(start, step, -(-whole // step))


def read_charts(ledger: Ledger, span: Span, bins: Bins) -> list[Chart]:
    """Return the charts of a queue; the first has depths of all runs, dry runs included."""
    outcomes = ledger.histories.outcomes(span)
    return [
        _depth(ledger, span, bins),
        _arrivals(ledger, span, bins),
        *_ages(ledger, span, bins),
        _expired(outcomes, bins),
        _success(outcomes),
    ]


def _depth(ledger: Ledger, span: Span, bins: Bins) -> Chart:
    points = ledger.histories.depths(span)
    depths = bins.join(((one.at, one.depth) for one in points), max)
    limits = [(one.at, one.max_depth) for one in points if one.max_depth is not None]
    return Chart(
        "Depth",
        "The greatest depth that a run saw in each period, and MAXDEPTH.",
        "line",
        bins.labels,
        [("depth", depths), ("maximum depth", bins.join(limits, max))],
    )


def _arrivals(ledger: Ledger, span: Span, bins: Bins) -> Chart:
    counted: dict[str, Counter[int]] = defaultdict(Counter)
    for at, reason, messages in ledger.histories.arrivals(span):
        counted[reason_text(reason) if reason else NO_HEADER][bins.of(at)] += messages
    names = sorted(counted, key=lambda name: (-counted[name].total(), name))
    for name in names[SERIES:]:
        counted[OTHERS].update(counted[name])
    shown = [*names[:SERIES], *([OTHERS] if names[SERIES:] else [])]
    return Chart(
        "Arrivals by reason",
        "The messages of each snapshot that no earlier run had settled. A message that waits for a"
        " retry counts in each snapshot until then.",
        "stacked",
        bins.labels,
        [(name, bins.counts(counted[name])) for name in shown],
    )


def _ages(ledger: Ledger, span: Span, bins: Bins) -> list[Chart]:
    points = ledger.histories.accounts(span)
    ages = [
        (one.at, (one.at - one.oldest_left).total_seconds() / 3600 if one.oldest_left else 0.0)
        for one in points
    ]
    medians = [(p.at, s / 60) for p in points if (s := p.resolution_median_s) is not None]
    nineties = [(p.at, s / 60) for p in points if (s := p.resolution_p90_s) is not None]
    return [
        Chart(
            "Age of the oldest message",
            "In hours, when a run had ended: the oldest message that remained, 0 if none did.",
            "line",
            bins.labels,
            [("hours", bins.join(ages, max))],
        ),
        Chart(
            "Time to resolution",
            "In minutes, from arrival to departure. The median of the runs' medians, and the"
            " greatest of their ninetieth percentiles.",
            "line",
            bins.labels,
            [
                ("median", bins.join(medians, median)),
                ("90th percentile", bins.join(nineties, max)),
            ],
        ),
    ]


def _expired(outcomes: Sequence[Row], bins: Bins) -> Chart:
    counted: Counter[int] = Counter()
    for point in outcomes:
        if point.outcome is Outcome.EXPIRED:
            counted[bins.of(point.at)] += point.messages
    return Chart(
        "Losses by expiry",
        "Messages that expired on the queue before a run acted on them.",
        "bar",
        bins.labels,
        [("expired", bins.counts(counted))],
    )


def _success(outcomes: Sequence[Row]) -> Chart:
    """Rate the retries of the last rules in the range; a rule has another number in other rules."""
    digest = outcomes[-1].rules_digest if outcomes else ""
    tried: dict[int, Counter[bool]] = defaultdict(Counter)
    for point in outcomes:
        traits = point.outcome.traits
        is_retry = point.rules_digest == digest and point.action == Action.RETRY
        if is_retry and traits & (Trait.SUCCEEDED | Trait.FAILED):
            tried[point.rule][Trait.SUCCEEDED in traits] += point.messages
    rules = sorted(tried)
    return Chart(
        "Retry success by rule",
        "Of the messages that RETRY rules ended or gave up, the percentage that was delivered;"
        " by the last rules of the range.",
        "bar",
        [f"rule {rule} ({count(tried[rule].total(), 'message')})" for rule in rules],
        [("percent", [100 * tried[r][True] / tried[r].total() for r in rules])],
        first_column="Rule",
    )


# Chart of the applications with most dead letters.

SHOWN: Final = 10
"""How many applications the chart has."""

NOTE: Final = (
    "The applications with most messages that were dead-lettered in this range, or put, if the"
    " MQDLH does not say; each message counts once, also if it has left the queue."
)


def chart_of_applications(searched: Mapping[str, str], sources: Sources) -> Chart:
    """Count the messages of a search, whose parameters are given, by application.

    If the lake cannot be searched, the chart has no numbers and says why.
    """
    chosen = MessageFilter.parse(searched.items(), ("handler",))
    found: list[tuple[str, int]] = []
    note, empty = NOTE, "No message in the snapshots is of this range."
    try:
        search = Search(chosen, [sources.handler], sources.ledger, sources.lake_root)
        found, is_whole = search.count_by_application(SHOWN)
        if not is_whole:
            note += " Only the newest snapshots count: shorten the range."
    except LakeError as error:
        empty = error.text
    filters: dict[str, Mapping[str, str]] = {
        visible(name): {**searched, "application": name} for name, _ in found if name
    }
    return Chart(
        "Dead letters by application",
        note,
        "ranking",
        [visible(name) for name, _ in found],
        [("messages", [float(messages) for _, messages in found])],
        "Application",
        filters,
        empty,
    )


# Route: history of a handler.

router: Final = APIRouter(route_class=PageRoute)

DAYS: Final = 30
"""How many days are shown unless the address says otherwise."""
RANGES: Final = (7, DAYS, 365)
"""The ranges that the page offers, in days until today."""


@router.get("/dags/{dag_id}/history")
def history(
    request: Request,
    sources: SourcesDep,
    since: date | None = None,
    until: date | None = None,
    queue: Annotated[str, Query(max_length=100)] = "",
) -> HTMLResponse:
    """Show the history of one of a handler's queues; both days are included."""
    ledger, handler, today = sources.ledger, sources.handler, sources.clock().date()
    until = until or today
    since = since or until - timedelta(days=DAYS - 1)
    if since > until:
        raise InvalidRequestError(
            "MQDLQ-970", f"The range begins on {since} and ends on {until}; swap the two dates"
        )
    queues = {f"{q.queue} @ {q.queue_manager}": q for q in ledger.overview.queues(handler)}
    newest = sorted(queues, key=lambda name: queues[name].last.started_at, reverse=True)
    name = queue if queue in queues else next(iter(newest), "")
    charts = []
    if name:
        place = (queues[name].queue_manager, queues[name].queue)
        bins = bins_between(since, until)
        charts = read_charts(ledger, Span(handler, place, bins.start, bins.end), bins)
        searched = {
            "handler": handler,
            "queue_manager": place[0],
            "queue": place[1],
            "since": str(since),
            "until": str(until),
        }
        charts.insert(2, chart_of_applications(searched, sources))
    return render(
        request,
        "history/history.html",
        charts=charts,
        queues=sorted(queues),
        queue=name,
        since=since,
        until=until,
        ranges={days: today - timedelta(days=days - 1) for days in RANGES},
        today=today,
    )
