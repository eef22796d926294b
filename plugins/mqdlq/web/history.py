"""History of a handler: charts of a queue over a range of dates, each as a table."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Final

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse

from mqdlq.constants import reason_text
from mqdlq.errors import LakeError
from mqdlq.lake.filters import MessageFilter
from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.history import Span
from mqdlq.reading.find import Search
from mqdlq.reading.page_paths import Paths
from mqdlq.tools.acting import Sources
from mqdlq.web.rendering import InvalidRequestError
from mqdlq.web.requests import HandlerView
from mqdlq.web.serving import PageRoute
from mqdlq.words import visible

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
        found = [
            (label, [values[at] for _, values in self.series])
            for at, label in enumerate(self.labels)
        ]
        return [(label, values) for label, values in found if any(v is not None for v in values)]


class Bins:
    """Equal periods of the days from `since` to `until`, both included, each with its label."""

    def __init__(self, since: date, until: date) -> None:
        self.start = datetime.combine(since, time(), UTC)
        whole = datetime.combine(until, time(), UTC) + timedelta(days=1) - self.start
        self.step = next((one for one in STEPS if whole / one <= MOST_BINS), STEPS[-1])
        self.number = -(-whole // self.step)
        self.end = self.start + self.number * self.step
        form = "%Y-%m-%d %H:%M" if self.step < timedelta(days=1) else "%Y-%m-%d"
        self.labels = [f"{self.start + n * self.step:{form}}" for n in range(self.number)]

    def join(
        self, points: Iterable[tuple[datetime, float | None]], how: Callable[[list[float]], float]
    ) -> Values:
        """Join the known values of each period; None where it has none."""
        found: dict[int, list[float]] = defaultdict(list)
        for at, value in points:
            if value is not None:
                found[(at - self.start) // self.step].append(value)
        return [how(found[n]) if n in found else None for n in range(self.number)]


def read_charts(ledger: Ledger, span: Span, bins: Bins) -> list[Chart]:
    """Return the charts of a queue; the first has depths of all runs, dry runs included."""
    depths, accounts = ledger.histories.depths(span), ledger.histories.accounts(span)
    ages = (
        (one.at, (one.at - one.oldest_left).total_seconds() / 3600 if one.oldest_left else 0.0)
        for one in accounts
    )
    return [
        Chart(
            "Depth",
            "The greatest depth that a run saw in each period, and MAXDEPTH.",
            "line",
            bins.labels,
            [
                ("depth", bins.join(((one.at, one.depth) for one in depths), max)),
                ("maximum depth", bins.join(((one.at, one.max_depth) for one in depths), max)),
            ],
        ),
        Chart(
            "Arrivals by reason",
            "The messages of each snapshot that no earlier run had settled. A message that waits"
            " for a retry counts in each snapshot until then.",
            "stacked",
            bins.labels,
            _arrivals(ledger, span, bins),
        ),
        Chart(
            "Age of the oldest message",
            "In hours, when a run had ended: the oldest message that remained, 0 if none did.",
            "line",
            bins.labels,
            [("hours", bins.join(ages, max))],
        ),
        Chart(
            "Losses by expiry",
            "Messages that expired on the queue before a run acted on them.",
            "bar",
            bins.labels,
            [("expired", bins.join(ledger.histories.expiries(span), sum))],
        ),
    ]


def _arrivals(ledger: Ledger, span: Span, bins: Bins) -> list[tuple[str, Values]]:
    arrived: dict[str, list[tuple[datetime, float | None]]] = defaultdict(list)
    total: Counter[str] = Counter()
    for at, reason, messages in ledger.histories.arrivals(span):
        if messages:
            name = reason_text(reason) if reason else NO_HEADER
            arrived[name].append((at, float(messages)))
            total[name] += messages
    names = sorted(arrived, key=lambda name: (-total[name], name))
    for name in names[SERIES:]:
        arrived[OTHERS] += arrived[name]
    shown = [*names[:SERIES], *([OTHERS] if names[SERIES:] else [])]
    return [(name, bins.join(arrived[name], sum)) for name in shown]


SHOWN: Final = 10
"""How many applications the chart has."""


def chart_of_applications(searched: Mapping[str, str], sources: Sources) -> Chart:
    """Count the messages of a search, whose parameters are given, by application.

    If the lake cannot be searched, the chart has no numbers and says why.
    """
    chosen = MessageFilter.parse(searched.items(), ("handler",))
    found: list[tuple[str, int]] = []
    empty, is_whole = "No message in the snapshots is of this range.", True
    try:
        search = Search(chosen, [sources.handler], sources.ledger, sources.lake_root)
        found, is_whole = search.count_by_application(SHOWN)
    except LakeError as error:
        empty = error.text
    note = (
        "The applications with most messages that were dead-lettered in this range, or put, if the"
        " MQDLH does not say; each message counts once, also if it has left the queue."
    )
    if not is_whole:
        note += " Only the newest snapshots count: shorten the range."
    return Chart(
        "Dead letters by application",
        note,
        "ranking",
        [visible(name) for name, _ in found],
        [("messages", [float(messages) for _, messages in found])],
        "Application",
        {visible(name): {**searched, "application": name} for name, _ in found if name},
        empty,
    )


router: Final = APIRouter(route_class=PageRoute)

DAYS: Final = 30
"""How many days are shown unless the address says otherwise."""
RANGES: Final = (7, DAYS, 365)
"""The ranges that the page offers, in days until today."""


@router.get(Paths.history)
def history(
    view: HandlerView,
    since: date | None = None,
    until: date | None = None,
    queue: Annotated[str, Query(max_length=100)] = "",
) -> HTMLResponse:
    """Show the history of one of a handler's queues; both days are included."""
    ledger, handler, today = view.ledger, view.handler, view.clock().date()
    until = until or today
    since = since or until - timedelta(days=DAYS - 1)
    if since > until:
        raise InvalidRequestError(
            "MQDLQ-970", f"The range begins on {since} and ends on {until}; swap the two dates"
        )
    queues = {f"{q.queue} @ {q.queue_manager}": q for q in ledger.run_lists.queues(handler)}
    started = {name: one.last.started_at for name, one in queues.items() if one.last is not None}
    name = queue if queue in queues else max(started, key=started.__getitem__, default="")
    charts = []
    if name:
        place, bins = (queues[name].queue_manager, queues[name].queue), Bins(since, until)
        charts = read_charts(ledger, Span(handler, place, bins.start, bins.end), bins)
        searched = {"handler": handler, "queue_manager": place[0], "queue": place[1]}
        searched |= {"since": str(since), "until": str(until)}
        charts.insert(2, chart_of_applications(searched, view))
    return view.render(
        "history/history.html",
        charts=charts,
        queues=sorted(queues),
        queue=name,
        since=since,
        until=until,
        ranges={days: today - timedelta(days=days - 1) for days in RANGES},
        today=today,
    )
