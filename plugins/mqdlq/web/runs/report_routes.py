"""Route: the HTML report of a run, rendered again from ledger and lake."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from mqdlq.ledger import Ledger
from mqdlq.stages.report.rendering.html_report import render_html, security_policy
from mqdlq.stages.report.wording import moment
from mqdlq.web.access import HandlerDep
from mqdlq.web.page_errors import NotFoundError
from mqdlq.web.rendering import paths_of
from mqdlq.web.requests import ClockDep, LakeRoot, LedgerDep
from mqdlq.web.runs.kept_reports import KeptReports
from mqdlq.web.threads import PageRoute

router: Final = APIRouter(route_class=PageRoute)
_REPORTS: Final = KeptReports()


@router.get("/dags/{dag_id}/runs/{run_id}/report")
def show_report(
    request: Request,
    run_id: str,
    *,
    handler: HandlerDep,
    ledger: LedgerDep,
    lake_root: LakeRoot,
    clock: ClockDep,
) -> HTMLResponse:
    """Show the report of a run of this handler, with links to its messages and causes."""
    require_run(ledger, handler.name, run_id)
    report = _REPORTS.read(run_id, ledger=ledger, lake_root=lake_root, now=clock())
    headers = {"Content-Security-Policy": f"{security_policy()}; frame-ancestors 'self'"}
    return HTMLResponse(render_html(report, paths_of(request)), headers=headers)


def require_run(ledger: Ledger, handler: str, run_id: str) -> None:
    """Raise NotFoundError unless the ledger has this run, and it is one of the handler."""
    run = ledger.runs.get(run_id)
    if run is not None and run.handler == handler:
        return
    pruned = ledger.prunes.pruned_run(run_id)
    if pruned is not None and pruned.handler == handler:
        raise NotFoundError(
            "MQDLQ-967",
            f"The run {run_id} was pruned at {moment(pruned.at)} by {pruned.policy}; its totals are"
            " in the list of runs",
        )
    raise NotFoundError(
        "MQDLQ-968",
        f"The handler {handler} has no run {run_id!r}; choose one from the list of its runs",
    )
