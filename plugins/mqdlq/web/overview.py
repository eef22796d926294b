"""Overview of all handlers, and a handler's home."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse
from pydantic import Field

from mqdlq.causes import find_cause
from mqdlq.errors import LakeError
from mqdlq.handlers.operation import Event
from mqdlq.lake.works import RecordedWork
from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.later_outcomes import SinceSnapshot
from mqdlq.model import Outcome, Trait
from mqdlq.reading.fleet import (
    FleetFilter,
    FleetRow,
    FleetSummary,
    HandlerFile,
    HandlerFiles,
    QueueState,
    read_fleet,
)
from mqdlq.reading.report.building import read_report
from mqdlq.reading.report.groups import MessageGroup
from mqdlq.stages.older_ledger import find_lost_work
from mqdlq.tools.acting import Sources
from mqdlq.web.access import HandlerDep, PersonDep, ReadableHandlers
from mqdlq.web.rendering import render
from mqdlq.web.requests import ClockDep, LakeRoot, LedgerDep, SourcesDep
from mqdlq.web.serving import PageRoute

router: Final = APIRouter(route_class=PageRoute)

_FILES: Final = HandlerFiles()
"""The files of handlers that this process has checked."""

# Overview: one page of the fleet's rows, as chosen by the URL.

ROWS: Final = 50
"""How many rows a page has."""

Text = Annotated[str, Field(max_length=100)]


@dataclass(frozen=True, slots=True)
class FleetPage:
    """A page of rows: `found` rows fit the filter, `page` of `pages` is shown.

    A group has a queue manager, its rows on this page, and the summary of all its rows; the only
    group of rows that are not grouped has neither name nor summary.
    """

    groups: list[tuple[str | None, list[FleetRow], FleetSummary | None]]
    summary: FleetSummary
    queue_managers: list[str]
    found: int
    page: int
    pages: int

    @property
    def has_files(self) -> bool:
        """Whether this server has the handlers' files."""
        return all(row.has_files for _, rows, _ in self.groups for row in rows)


def choose(
    rows: Sequence[FleetRow], chosen: FleetFilter, *, page: int, is_grouped: bool
) -> FleetPage:
    """Return a page of the rows that a filter chooses; a page beyond the last is the last one.

    Groups come in the order of the most urgent row of each.
    """
    found = [row for row in rows if chosen.has(row)]
    pages = max(1, -(-len(found) // ROWS))
    page = min(page, pages)
    by_name: dict[str, list[FleetRow]] = {}
    if is_grouped:
        for row in found:
            by_name.setdefault(row.queue_manager, []).append(row)
        found = [row for own in by_name.values() for row in own]
    shown = found[(page - 1) * ROWS : page * ROWS]
    groups: list[tuple[str | None, list[FleetRow], FleetSummary | None]] = [(None, shown, None)]
    if is_grouped:
        groups = [
            (name, list(own), FleetSummary(by_name[name]))
            for name, own in groupby(shown, key=lambda row: row.queue_manager)
        ]
    queue_managers = sorted({row.queue_manager for row in rows} - {""})
    return FleetPage(groups, FleetSummary(rows), queue_managers, len(found), page, pages)


@router.get("/")
def overview(
    request: Request,
    *,
    q: Text = "",
    state: Text = "",
    queue_manager: Text = "",
    group: Literal["", "queue_manager"] = "",
    page: Annotated[int, Query(ge=1)] = 1,
    person: PersonDep,
    handlers: ReadableHandlers,
    ledger: LedgerDep,
    lake_root: LakeRoot,
    clock: ClockDep,
) -> HTMLResponse:
    """Show all handlers that the person may read, the most urgent first."""
    now = clock()
    rows = read_fleet(ledger, _FILES.read(), person.readable_among, now)
    chosen = FleetFilter(text=q.strip(), state=state, queue_manager=queue_manager)
    return render(
        request,
        "overview/overview.html",
        fleet=choose(rows, chosen, page=page, is_grouped=bool(group)),
        filters={"q": q, "state": state, "queue_manager": queue_manager, "group": group},
        states=tuple(QueueState),
        in_airflow=handlers,
        lost_work=_lost_work(ledger, lake_root),
        now=now,
    )


def _lost_work(ledger: Ledger, lake_root: str) -> RecordedWork | None:
    """Return work that the ledger does not know, None also if the lake cannot be read."""
    try:
        return find_lost_work(ledger, lake_root)
    except (OSError, LakeError):
        return None


# A handler's home: its queues, its last account, and the messages that need attention.

MOST_READ: Final = 5_000
"""The largest snapshot whose messages a page reads; for larger ones it counts outcomes only."""

RUNS: Final = 10
"""How many runs are listed."""


@router.get("/dags/{dag_id}")
def home(request: Request, handler: HandlerDep, sources: SourcesDep) -> HTMLResponse:
    """Show a handler's home."""
    files = _FILES.read(shown={handler.name})
    runs = sources.ledger.overview.last_runs(handler.name, RUNS)
    own = {run.run_id for run in runs}
    return render(
        request,
        "overview/handler.html",
        queues=read_queues(sources, files),
        runs=runs,
        holds=[
            hold
            for hold in sources.ledger.holds.all()
            if hold.handler == handler.name or hold.run_id in own
        ],
        prune=sources.ledger.prunes.last(handler.name),
        file=files.get(handler.name),
        cause_id_of=_cause_id,
        now=sources.clock(),
    )


@dataclass(frozen=True, slots=True)
class HandledQueue:
    """A queue of the handler.

    `outcomes` are those of its last account, None without one. `troubles` are the messages that
    need attention, None if the snapshot is too large to be read here.
    """

    row: FleetRow
    outcomes: Mapping[Outcome, int] | None
    troubles: Sequence[MessageGroup] | None
    lasting: list[Event]

    @property
    def attention(self) -> list[tuple[Outcome, int]]:
        """The outcomes that need attention, with the numbers that later runs left of them."""
        if self.outcomes is None:
            return []
        left = Counter(self.outcomes)
        for one in self.row.later:
            if one.before is not None:
                left[one.before] -= one.since.messages
                left[one.outcome] += one.since.messages
        return [
            (one, left[one]) for one in Outcome if Trait.NEEDS_ATTENTION in one.traits and left[one]
        ]


def read_queues(sources: Sources, files: Mapping[str, HandlerFile]) -> list[HandledQueue]:
    """Return the queues of a handler, whose messages that need attention come from the lake."""
    rows = read_fleet(sources.ledger, files, frozenset, sources.clock(), sources.handler)
    return [_queue(row, sources) for row in rows]


def _queue(row: FleetRow, sources: Sources) -> HandledQueue:
    ledger, run, outcomes = sources.ledger, row.counted, None
    if run is not None and run.report is not None and run.report.adds_up is not None:
        counted = ledger.run_lists.outcomes([run.run_id]).get(run.run_id, Counter())
        outcomes = {one: counted[one] for one in Outcome if counted[one]}
    lasting = ledger.alerts.lasting(row.last.run_id) if row.last is not None else set()
    ordered = [event for event in Event if event in lasting]
    return HandledQueue(row, outcomes, _troubles(row, sources), ordered)


def _troubles(row: FleetRow, sources: Sources) -> Sequence[MessageGroup] | None:
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


def _cause_id(group: MessageGroup) -> str:
    first = group.first
    if first.cls is None or group.is_mixed:
        return ""
    names = (first.dest_q_name, first.dest_q_mgr_name)
    return find_cause(first.cls, first.reason, *names).cause_id
