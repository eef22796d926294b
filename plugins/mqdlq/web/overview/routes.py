"""Routes: overview of all handlers, and a handler's home."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from mqdlq.web.access import HandlerDep, ReadableHandlers
from mqdlq.web.rendering import render

router: Final = APIRouter()


@router.get("/")
def overview(request: Request, handlers: ReadableHandlers) -> HTMLResponse:
    """Show all handlers that the person may read."""
    return render(request, "overview/overview.html", handlers=sorted(handlers))


@router.get("/dags/{dag_id}")
def home(request: Request, handler: HandlerDep) -> HTMLResponse:
    """Show a handler's home."""
    return render(request, "overview/handler.html", handler=handler)
