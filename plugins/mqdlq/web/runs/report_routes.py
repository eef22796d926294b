"""Reports of ended runs, kept in memory because a report reads every message of its run.

A run whose account is closed books nothing more, and its snapshot never changes. A later run can
learn how its messages ended, prunes remove its snapshot, and its task `report` can run again: such
facts are compared before a kept report is returned.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime
from threading import Lock
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from mqdlq.ledger import Ledger
from mqdlq.reading.report import Report, read_ended_report, read_sources, written_stages
from mqdlq.reading.report.rendering.html_report import render_html, security_policy
from mqdlq.web.access import HandlerDep
from mqdlq.web.rendering import NotFoundError, paths_of
from mqdlq.web.requests import ClockDep, LakeRoot, LedgerDep
from mqdlq.web.threads import PageRoute
from mqdlq.words import moment

_MOST: Final = 16


class KeptReports:
    """The reports of a process that were read last, at most a number of them."""

    def __init__(self, most: int = _MOST) -> None:
        """Keep no report yet."""
        self._most = most
        self._lock = Lock()
        self._kept: OrderedDict[str, tuple[tuple[Any, ...], Report]] = OrderedDict()

    def read(self, run_id: str, *, ledger: Ledger, lake_root: str, now: datetime) -> Report:
        """Return the report of a run, kept or read now; a kept one has the time of its reading."""
        facts = _facts(run_id, ledger, lake_root)
        if facts is not None:
            with self._lock:
                known, report = self._kept.get(run_id, (None, None))
                if report is not None and known == facts:
                    self._kept.move_to_end(run_id)
                    return report
        report = read_ended_report(run_id, ledger=ledger, lake_root=lake_root, now=now)
        if facts is not None:
            with self._lock:
                self._kept[run_id] = (facts, report)
                self._kept.move_to_end(run_id)
                while len(self._kept) > self._most:
                    self._kept.popitem(last=False)
        return report


def _facts(run_id: str, ledger: Ledger, lake_root: str) -> tuple[Any, ...] | None:
    """Return what changes if the report changes, None while the run's account is open."""
    sources = read_sources(run_id, ledger, lake_root)
    if sources.sighting is None:
        return None
    learned = ledger.outcomes.learned_counts(run_id)
    verdict = ledger.accounts.verdict_of(run_id)
    place = (str(ledger.engine.url), lake_root)
    return (*place, sources, learned, verdict, written_stages(run_id))


# Route: the HTML report of a run, rendered again from ledger and lake.

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
