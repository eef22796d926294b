"""Routes: overview of all handlers, and a handler's home."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field

from mqdlq.errors import LakeError
from mqdlq.lake.works import RecordedWork
from mqdlq.ledger import Ledger
from mqdlq.stages.fleet.fleet import FleetFilter, read_fleet
from mqdlq.stages.fleet.handler_files import HandlerFiles
from mqdlq.stages.fleet.queue_states import QueueState
from mqdlq.stages.older_ledger.recognising import find_lost_work
from mqdlq.web.access import HandlerDep, PersonDep, ReadableHandlers
from mqdlq.web.overview.fleet_page import choose
from mqdlq.web.overview.home_page import attention_by_outcome, read_home
from mqdlq.web.rendering import render
from mqdlq.web.requests import ClockDep, LakeRoot, LedgerDep
from mqdlq.web.threads import PageRoute

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
