"""Overview of all handlers, and a handler's home."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Annotated, Any, Final

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, Response

from mqdlq.errors import LakeError
from mqdlq.handlers.operation import Event
from mqdlq.lake.filters import PageNumber, Query, Text, choice
from mqdlq.ledger.reading.later_outcomes import SinceSnapshot
from mqdlq.model import Outcome, Trait
from mqdlq.reading import fleet
from mqdlq.reading.exports import Export, FileForm, schema_of
from mqdlq.reading.page_paths import Paths
from mqdlq.reading.report.building import read_report
from mqdlq.reading.report.groups import MessageGroup
from mqdlq.stages.older_ledger import find_lost_work
from mqdlq.tools.acting import Sources
from mqdlq.web.rendering import pages_of
from mqdlq.web.requests import FleetView, HandlerView
from mqdlq.web.serving import PageRoute

router: Final = APIRouter(route_class=PageRoute)

_FILES: Final = fleet.HandlerFiles()
"""The files of handlers that this process has checked."""

ROWS: Final = 50
"""How many rows a page of the overview has."""


class OverviewQuery(Query):
    """The handlers on their queues to list: `q` is a part of a name."""

    q: Text = ""
    state: Text = ""
    queue_manager: Text = ""
    group: Annotated[str, choice(["queue_manager"])] = ""
    page: PageNumber = 1
    download: FileForm = ""

    def has(self, row: fleet.FleetRow) -> bool:
        text, names = self.q.strip().lower(), (row.handler, row.queue_manager, row.queue)
        return (
            any(text in name.lower() for name in names)
            and self.state in {"", row.state}
            and self.queue_manager in {"", row.queue_manager}
        )


SCHEMA: Final = schema_of(
    *("handler", "queue_manager", "queue", "state", "finding", "depth", "max_depth"),
    *("attention", "oldest_at", "looked_at", "run_id", "started_at", "verdict"),
)
"""The columns of the overview as a file: a handler on a queue, and its last run."""


def _record(row: fleet.FleetRow) -> dict[str, Any]:
    state, finding = row.findings[0]
    names = ("handler", "queue_manager", "queue", "depth", "max_depth", "attention")
    return {name: getattr(row, name) for name in names} | {
        "state": state,
        "finding": finding,
        "oldest_at": row.oldest,
        "looked_at": row.checked_at,
        "run_id": row.last.run_id if row.last else None,
        "started_at": row.last.started_at if row.last else None,
        "verdict": row.last.verdict if row.last else None,
    }


def choose(rows: Sequence[fleet.FleetRow], query: OverviewQuery) -> dict[str, Any]:
    """Return the page of the rows that is asked for; a page beyond the last is the last one.

    A group has a queue manager, its rows on this page, and the summary of all its rows; the only
    group of rows that are not grouped has neither name nor summary. Groups come in the order of the
    most urgent row of each. `has_files` says whether this server has the handlers' files.
    """
    found = [row for row in rows if query.has(row)]
    pages = pages_of(len(found), ROWS)
    page = min(query.page, pages)
    by_name: dict[str, list[fleet.FleetRow]] = {}
    if query.group:
        for row in found:
            by_name.setdefault(row.queue_manager, []).append(row)
        found = [row for own in by_name.values() for row in own]
    shown = found[(page - 1) * ROWS : page * ROWS]
    groups: list[tuple[str | None, list[fleet.FleetRow], fleet.FleetSummary | None]] = [
        (None, shown, None)
    ]
    if query.group:
        groups = [
            (name, list(own), fleet.FleetSummary(by_name[name]))
            for name, own in groupby(shown, key=lambda row: row.queue_manager)
        ]
    return {
        "groups": groups,
        "summary": fleet.FleetSummary(rows),
        "queue_managers": sorted({row.queue_manager for row in rows} - {""}),
        "found": len(found),
        "page": page,
        "pages": pages,
        "has_files": all(row.has_files for row in shown),
    }


@router.get(Paths.overview)
def overview(view: FleetView) -> Response:
    query, now = view.parse(OverviewQuery), view.clock()
    rows = fleet.read_fleet(view.ledger, _FILES.read(), view.person.readable_among, now)
    if query.download:
        listed = Export("overview", SCHEMA, map(_record, filter(query.has, rows)))
        return view.download(listed, query.download)
    try:
        lost_work = find_lost_work(view.ledger, view.lake_root)
    except (OSError, LakeError):
        lost_work = None  # the lake cannot be read
    return view.render(
        "overview/overview.html",
        fleet=choose(rows, query),
        filters=query,
        states=tuple(fleet.QueueState),
        in_airflow=view.handlers,
        lost_work=lost_work,
        now=now,
    )


# A handler's home: its queues, its last account, and the messages that need attention.

MOST_READ: Final = 5_000
"""The largest snapshot whose messages a page reads; for larger ones it counts outcomes only."""

RUNS: Final = 10
"""How many runs are listed."""


@router.get(Paths.handler)
def home(view: HandlerView) -> HTMLResponse:
    files = _FILES.read(shown={view.handler})
    runs = view.ledger.run_lists.last_runs(view.handler, RUNS)
    own = {run.run_id for run in runs}
    return view.render(
        "overview/handler.html",
        queues=read_queues(view, files),
        runs=runs,
        holds=[
            hold
            for hold in view.ledger.holds.all()
            if hold.handler == view.handler or hold.run_id in own
        ],
        prune=view.ledger.prunes.last(view.handler),
        file=files.get(view.handler),
        now=view.clock(),
    )


def read_queues(sources: Sources, files: Mapping[str, fleet.HandlerFile]) -> list[dict[str, Any]]:
    """Return the queues of a handler, each with the `row` of the fleet.

    `outcomes` are those of its last account, None without one, and `attention` those that need
    attention, with the numbers that later runs left of them. `troubles` are the messages that need
    attention, None if the snapshot is too large to be read here. `lasting` are alerts.
    """
    rows = fleet.read_fleet(sources.ledger, files, frozenset, sources.clock(), sources.handler)
    return [_queue(row, sources) for row in rows]


def _queue(row: fleet.FleetRow, sources: Sources) -> dict[str, Any]:
    ledger, run, outcomes = sources.ledger, row.counted, None
    left: Counter[Outcome] = Counter()
    if run is not None and run.report is not None and run.report.adds_up is not None:
        counted = ledger.run_lists.outcomes([run.run_id]).get(run.run_id, Counter())
        outcomes = {one: counted[one] for one in Outcome if counted[one]}
        left.update(outcomes)
        for one in row.later:
            if one.before is not None:
                left[one.before] -= one.since.messages
                left[one.outcome] += one.since.messages
    open_ones = [one for one in Outcome if Trait.NEEDS_ATTENTION in one.traits]
    lasting = ledger.alerts.lasting(row.last.run_id) if row.last is not None else set()
    return {
        "row": row,
        "outcomes": outcomes,
        "attention": [(one, left[one]) for one in open_ones if left[one]],
        "troubles": _troubles(row, sources),
        "lasting": [event for event in Event if event in lasting],
    }


def _troubles(row: fleet.FleetRow, sources: Sources) -> Sequence[MessageGroup] | None:
    run = row.counted
    if run is None or not row.attention:
        return ()
    if (run.messages or 0) > MOST_READ:
        return None
    report = read_report(
        run.run_id,
        ledger=sources.ledger,
        lake_root=sources.lake_root,
        stages={},
        now=sources.clock(),
        since=sources.ledger.later.of_run(run.run_id) if row.later else SinceSnapshot(),
    )
    return (*report.unaccounted_groups, *report.attention_groups)
