"""Routes: runs of a handler, one run, and its outcomes as a file."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import groupby
from typing import Any, Final, Literal

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from mqdlq.airflow.run_ids import possible_dag_run_ids
from mqdlq.reading.report.rendering.components import segments
from mqdlq.reading.run.outcome_files import FORMS, outcome_file
from mqdlq.web.access import HandlerDep, PersonDep
from mqdlq.web.acting.airflow_api import find_dag_run, read_question
from mqdlq.web.acting.forms import open_question
from mqdlq.web.rendering import render
from mqdlq.web.requests import ClockDep, LakeRoot, LedgerDep
from mqdlq.web.runs.one_run import (
    PrunedRunPage,
    RefusedRun,
    RestorationPage,
    RunPage,
    messages_of_run,
    show_run,
)
from mqdlq.web.runs.run_list import OUTCOMES, STATES, MessageQuery, RunListQuery, list_runs
from mqdlq.web.threads import Download, PageRoute

router: Final = APIRouter(route_class=PageRoute)
_UNFIT: Final = re.compile(r"[^A-Za-z0-9._-]")
_TEMPLATES: Final = {
    RefusedRun: "runs/refused.html",
    PrunedRunPage: "runs/pruned.html",
    RestorationPage: "runs/restoration.html",
}


@router.get("/dags/{dag_id}/runs")
def runs(request: Request, handler: HandlerDep, ledger: LedgerDep, clock: ClockDep) -> HTMLResponse:
    """Show the runs of this handler: also refused and pruned ones, and restorations."""
    query = RunListQuery.parse(request.query_params.multi_items())
    page = list_runs(handler.name, query, ledger=ledger, now=clock())
    return render(request, "runs/list.html", page=page, states=STATES, segments=segments)


@router.get("/dags/{dag_id}/runs/{run_id}")
def run(  # noqa: PLR0917 (the parts of the path, and what a page gets)
    request: Request,
    run_id: str,
    handler: HandlerDep,
    person: PersonDep,
    ledger: LedgerDep,
    lake_root: LakeRoot,
    clock: ClockDep,
) -> HTMLResponse:
    """Show one run, and the messages of it that the filter chooses."""
    query = MessageQuery.parse(request.query_params.multi_items())
    now = clock()
    page = show_run(handler.name, run_id, query, ledger=ledger, lake_root=lake_root, now=now)
    template = _TEMPLATES.get(type(page), "runs/run.html")
    values: dict[str, Any] = {"outcomes": OUTCOMES, "forms": FORMS, "now": now}
    if isinstance(page, RunPage):
        values["rules"] = [list(rows) for _, rows in groupby(page.matrix.rows, lambda r: r.rule)]
        values["question"] = None
        if asked := page.open_approval:
            found = read_question(request, handler.dag_id, page.run.dag_run_id)
            values["question"] = open_question(
                page.run, asked, handler, person, ledger, asked=found
            )
            if found.answer:
                page = replace(page, state="Answered", tone="unfinished")
    elif isinstance(page, RefusedRun):
        among = possible_dag_run_ids(handler.name, run_id)
        values["dag_run_id"] = find_dag_run(request, handler.dag_id, among)
    return render(request, template, page=page, **values)


@router.get("/dags/{dag_id}/runs/{run_id}/outcomes.{form}")
def run_outcomes(  # noqa: PLR0917 (the same)
    request: Request,
    run_id: str,
    form: Literal["csv", "jsonl", "parquet"],
    handler: HandlerDep,
    ledger: LedgerDep,
    lake_root: LakeRoot,
) -> Download:
    """Return the outcomes of the messages that the filter chooses as a file, without bodies."""
    query = MessageQuery.parse(request.query_params.multi_items())
    messages = messages_of_run(handler.name, run_id, ledger, lake_root)
    chosen = messages.select(query).browse_seqs
    return Download(
        outcome_file(form, run_id, messages, chosen),
        media_type=FORMS[form].media_type,
        headers={"Content-Disposition": f'attachment; filename="{_UNFIT.sub("-", run_id)}.{form}"'},
    )
