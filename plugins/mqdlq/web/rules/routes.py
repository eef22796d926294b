"""Route: the rules of a handler."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from mqdlq.web.access import HandlerDep
from mqdlq.web.rendering import render
from mqdlq.web.requests import LedgerDep
from mqdlq.web.rules.view import HEIGHT, is_error, show_rules
from mqdlq.web.threads import PageRoute

router: Final = APIRouter(route_class=PageRoute)


@router.get("/dags/{dag_id}/rules")
def rules(request: Request, handler: HandlerDep, ledger: LedgerDep) -> HTMLResponse:
    """Show the rules of a run of this handler, and what each rule did."""
    page = show_rules(handler.name, request.query_params, ledger)
    return render(request, "rules/rules.html", page=page, chart_height=HEIGHT, is_error=is_error)
