"""Routes: history of a handler, as charts."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field

from mqdlq.ledger.reading.history import Span
from mqdlq.web.access import HandlerDep
from mqdlq.web.history.applications import chart_of_applications
from mqdlq.web.history.charts import bins_between, read_charts
from mqdlq.web.page_errors import InvalidRequestError
from mqdlq.web.rendering import render
from mqdlq.web.requests import ClockDep, LakeRoot, LedgerDep
from mqdlq.web.threads import PageRoute

router: Final = APIRouter(route_class=PageRoute)

DAYS: Final = 30
"""How many days are shown unless the address says otherwise."""
RANGES: Final = (7, DAYS, 365)
"""The ranges that the page offers, in days until today."""


class HistoryQuery(BaseModel):
    """The query parameters of a history: days, both included, and a queue."""

    since: date | None = None
    until: date | None = None
    queue: Annotated[str, Field(max_length=100)] = ""


@router.get("/dags/{dag_id}/history")
def history(  # noqa: PLR0917 (what a page gets)
    request: Request,
    handler: HandlerDep,
    asked: Annotated[HistoryQuery, Query()],
    ledger: LedgerDep,
    lake_root: LakeRoot,
    clock: ClockDep,
) -> HTMLResponse:
    """Show the history of one of a handler's queues."""
    until = asked.until or clock().date()
    since = asked.since or until - timedelta(days=DAYS - 1)
    if since > until:
        raise InvalidRequestError(
            "MQDLQ-970", f"The range begins on {since} and ends on {until}; swap the two dates"
        )
    queues = {f"{q.queue} @ {q.queue_manager}": q for q in ledger.overview.queues(handler.name)}
    newest = sorted(queues, key=lambda name: queues[name].last.started_at, reverse=True)
    name = asked.queue if asked.queue in queues else next(iter(newest), "")
    charts = []
    bins = bins_between(since, until)
    if name:
        queue = queues[name]
        end = bins.start + bins.number * bins.step
        span = Span(handler.name, queue.queue_manager, queue.queue, bins.start, end)
        searched = {
            "handler": handler.name,
            "queue_manager": queue.queue_manager,
            "queue": queue.queue,
            "since": str(since),
            "until": str(until),
        }
        charts = read_charts(ledger, span, bins)
        charts.insert(2, chart_of_applications(searched, ledger=ledger, lake_root=lake_root))
    return render(
        request,
        "history/history.html",
        charts=charts,
        queues=sorted(queues),
        queue=name,
        since=since,
        until=until,
        ranges={days: clock().date() - timedelta(days=days - 1) for days in RANGES},
        today=clock().date(),
    )
