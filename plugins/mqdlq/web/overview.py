"""Overview of all handlers, and a handler's home."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field

from mqdlq.causes import find_cause
from mqdlq.errors import LakeError
from mqdlq.handlers.operation import Event
from mqdlq.lake.works import RecordedWork
from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.later_outcomes import SinceSnapshot
from mqdlq.ledger.reading.runs import RunFacts
from mqdlq.ledger.retention import Hold
from mqdlq.ledger.tables.retention import Prune
from mqdlq.model import MessageClass, Outcome, Trait
from mqdlq.reading.fleet import (
    FleetFilter,
    FleetRow,
    FleetSummary,
    HandlerFile,
    HandlerFiles,
    QueueState,
    read_fleet,
    sum_up,
)
from mqdlq.reading.report import read_report
from mqdlq.reading.report.needs_attention import destination_in_words, tried_in_words
from mqdlq.reading.report.report_records import MessageGroup
from mqdlq.stages.older_ledger import find_lost_work
from mqdlq.web.access import HandlerDep, PersonDep, ReadableHandlers
from mqdlq.web.rendering import render
from mqdlq.web.requests import ClockDep, LakeRoot, LedgerDep
from mqdlq.web.threads import PageRoute

# View of the overview: one page of the fleet's rows, as chosen by the URL.

ROWS: Final = 50
"""How many rows a page has."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """The rows of a page on one queue manager, or all of them if `queue_manager` is None."""

    queue_manager: str | None
    rows: tuple[FleetRow, ...]
    in_all: FleetSummary | None


@dataclass(frozen=True, slots=True)
class FleetPage:
    """A page of rows: `found` rows fit the filter, `page` of `pages` is shown."""

    groups: tuple[RowGroup, ...]
    summary: FleetSummary
    queue_managers: tuple[str, ...]
    found: int
    page: int
    pages: int

    @property
    def has_files(self) -> bool:
        """Whether this server has the handlers' files."""
        return all(row.has_files for group in self.groups for row in group.rows)


def choose(
    rows: Sequence[FleetRow], chosen: FleetFilter, *, page: int, is_grouped: bool
) -> FleetPage:
    """Return a page of the rows that a filter chooses; a page beyond the last is the last one.

    Groups come in the order of the most urgent row of each.
    """
    found = [row for row in rows if chosen.has(row)]
    pages = max(1, -(-len(found) // ROWS))
    page = min(max(1, page), pages)
    by_name: dict[str, list[FleetRow]] = {}
    if is_grouped:
        for row in found:
            by_name.setdefault(row.queue_manager, []).append(row)
        found = [row for own in by_name.values() for row in own]
    shown = found[(page - 1) * ROWS : page * ROWS]
    groups = [RowGroup(None, tuple(shown), None)]
    if is_grouped:
        groups = [
            RowGroup(name, tuple(own), sum_up(by_name[name]))
            for name, own in groupby(shown, key=lambda row: row.queue_manager)
        ]
    return FleetPage(
        groups=tuple(groups),
        summary=sum_up(rows),
        queue_managers=tuple(sorted({row.queue_manager for row in rows} - {""})),
        found=len(found),
        page=page,
        pages=pages,
    )


# View of a handler's home: its queues, its last account, and the messages that need attention.

MOST_READ: Final = 5_000
"""The largest snapshot whose messages a page reads; for larger ones it counts outcomes only."""

RUNS: Final = 10
"""How many runs are listed."""

KEYS: Final = 5
"""How many messages of a group have a link."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Messages that need attention for the same reason.

    `cause_id` is "" if it is not known, `keys` has the keys of some of the messages, and `group`
    is the group of the report.
    """

    outcome: Outcome | None
    messages: int
    cause: str
    cause_id: str
    destination: str
    why: str
    tried: tuple[str, ...]
    next_step: str
    keys: tuple[str, ...]
    group: MessageGroup


@dataclass(frozen=True, slots=True)
class RunAccount:
    """The account of a queue's last run for the whole queue: messages in, and their outcomes."""

    run: RunFacts
    outcomes: Mapping[Outcome, int]

    @property
    def booked(self) -> int:
        """How many messages have an outcome."""
        return sum(self.outcomes.values())


@dataclass(frozen=True, slots=True)
class HandledQueue:
    """A queue of the handler; `troubles` is None if the snapshot is too large to be read here."""

    row: FleetRow
    account: RunAccount | None
    troubles: tuple[Trouble, ...] | None
    lasting: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Home:
    """All parts of the page."""

    queues: tuple[HandledQueue, ...]
    runs: tuple[RunFacts, ...]
    holds: tuple[Hold, ...]
    prune: Prune | None
    file: HandlerFile | None


def read_home(
    ledger: Ledger, lake_root: str, handler: str, files: Mapping[str, HandlerFile], now: datetime
) -> Home:
    """Return the home of a handler, whose messages that need attention come from the lake."""
    rows = read_fleet(ledger, files, frozenset, now, handler)
    runs = ledger.overview.last_runs(handler, RUNS)
    own = {run.run_id for run in runs}
    return Home(
        queues=tuple(_queue(row, ledger, lake_root, now) for row in rows),
        runs=tuple(runs),
        holds=tuple(h for h in ledger.holds.all() if h.handler == handler or h.run_id in own),
        prune=ledger.overview.last_prune(handler),
        file=files.get(handler),
    )


def _queue(row: FleetRow, ledger: Ledger, lake_root: str, now: datetime) -> HandledQueue:
    run = row.counted
    last = row.last
    found = ledger.alerts.lasting(last.run_id) if last is not None else set()
    return HandledQueue(
        row=row,
        account=_account(run, ledger) if run is not None else None,
        troubles=_troubles(row, run, ledger, lake_root, now),
        lasting=tuple(event for event in Event if event in found),
    )


def _account(run: RunFacts, ledger: Ledger) -> RunAccount | None:
    if run.report is None or run.report.adds_up is None:
        return None
    counted = ledger.run_lists.outcomes([run.run_id]).get(run.run_id, Counter())
    return RunAccount(run, {one: counted[one] for one in Outcome if counted[one]})


def _troubles(
    row: FleetRow, run: RunFacts | None, ledger: Ledger, lake_root: str, now: datetime
) -> tuple[Trouble, ...] | None:
    if run is None or not row.attention:
        return ()
    if (run.messages or 0) > MOST_READ:
        return None
    since = ledger.later.of_run(run.run_id) if row.later else SinceSnapshot()
    within = {"ledger": ledger, "lake_root": lake_root, "since": since}
    report = read_report(run.run_id, stages={}, now=now, **within)  # type: ignore[arg-type]
    groups = (*report.unaccounted_groups, *report.attention_groups)
    return tuple(map(_trouble, groups))


def _trouble(group: MessageGroup) -> Trouble:
    first = group.first
    is_dead_letter = first.cls is MessageClass.DEAD_LETTER
    return Trouble(
        outcome=first.outcome,
        messages=group.messages,
        cause=first.cause,
        cause_id=_cause_id(group),
        destination=destination_in_words(group) if is_dead_letter else "",
        why=first.why,
        tried=tuple(tried_in_words(tried, group.messages) for tried in group.tried),
        next_step=first.next_step,
        keys=tuple(row.message_key for row in group.rows[:KEYS] if row.message_key),
        group=group,
    )


def _cause_id(group: MessageGroup) -> str:
    first = group.first
    if first.cls is None or group.is_mixed:
        return ""
    names = (first.dest_q_name, first.dest_q_mgr_name)
    return find_cause(first.cls, first.reason, *names).cause_id


def attention_by_outcome(queue: HandledQueue) -> Sequence[tuple[Outcome, int]]:
    """Return the outcomes that need attention, with the numbers that later runs left of them."""
    if queue.account is None:
        return []
    left = Counter(queue.account.outcomes)
    for one in queue.row.later:
        if one.before is not None:
            left[one.before] -= one.since.messages
            left[one.outcome] += one.since.messages
    return [
        (one, left[one]) for one in Outcome if Trait.NEEDS_ATTENTION in one.traits and left[one]
    ]


# Routes: overview of all handlers, and a handler's home.

router: Final = APIRouter(route_class=PageRoute)

_FILES: Final = HandlerFiles()
"""The files of handlers that this process has checked."""

Text = Annotated[str, Field(max_length=100)]


class FleetQuery(BaseModel):
    """The query parameters of the overview."""

    q: Text = ""
    state: Text = ""
    queue_manager: Text = ""
    group: Literal["", "queue_manager"] = ""
    page: Annotated[int, Field(ge=1)] = 1


@router.get("/")
def overview(
    request: Request,
    asked: Annotated[FleetQuery, Query()],
    *,
    person: PersonDep,
    handlers: ReadableHandlers,
    ledger: LedgerDep,
    lake_root: LakeRoot,
    clock: ClockDep,
) -> HTMLResponse:
    """Show all handlers that the person may read, the most urgent first."""
    now = clock()
    rows = read_fleet(ledger, _FILES.read(), person.readable_among, now)
    chosen = FleetFilter(asked.q.strip(), asked.state, asked.queue_manager)
    fleet = choose(rows, chosen, page=asked.page, is_grouped=bool(asked.group))
    return render(
        request,
        "overview/overview.html",
        fleet=fleet,
        filters=asked.model_dump(exclude={"page"}),
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


@router.get("/dags/{dag_id}")
def home(
    request: Request, handler: HandlerDep, ledger: LedgerDep, lake_root: LakeRoot, clock: ClockDep
) -> HTMLResponse:
    """Show a handler's home."""
    now = clock()
    files = _FILES.read(shown={handler.name})
    return render(
        request,
        "overview/handler.html",
        home=read_home(ledger, lake_root, handler.name, files, now),
        attention_by_outcome=attention_by_outcome,
        now=now,
    )
