"""Routes: causes of dead letters, one cause, and a rule for a cause."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from mqdlq.reading.cause_profiles import MORNING, Expiry, end_of_night
from mqdlq.rules import Diagnostic
from mqdlq.tools.acting import action_of_rule
from mqdlq.tools.rule_drafts import MOST_MESSAGES, describe_change
from mqdlq.web.access import HandlerDep
from mqdlq.web.causes import listing
from mqdlq.web.causes.listing import CauseFilters, list_causes
from mqdlq.web.causes.rule_drafts import (
    MOST_CHARACTERS,
    MOST_SNAPSHOTS,
    DraftPage,
    DraftRequest,
    draft_page,
)
from mqdlq.web.causes.single import show_cause
from mqdlq.web.rendering import NoRunYetError, PageError, render
from mqdlq.web.requests import ClockDep, LedgerDep
from mqdlq.web.threads import PageRoute

router: Final = APIRouter(route_class=PageRoute)

_DRAWN: Final[dict[str, Any]] = {"spark_width": listing.WIDTH, "spark_height": listing.HEIGHT}
_FILES: Final = {"rules": "text/plain; charset=utf-8", "diff": "text/x-diff; charset=utf-8"}


@router.get("/dags/{dag_id}/causes")
def causes(
    request: Request, handler: HandlerDep, ledger: LedgerDep, clock: ClockDep
) -> HTMLResponse:
    """Show the causes on a queue of a handler."""
    chosen = CauseFilters.parse(request.query_params.multi_items())
    try:
        page = list_causes(handler.name, chosen, ledger=ledger, clock=clock)
    except NoRunYetError:
        return render(request, "causes/none.html")
    return render(
        request,
        "causes/list.html",
        page=page,
        kinds=listing.KINDS,
        only=listing.ONLY,
        sorts=listing.SORTS,
        week_ago=f"{clock() - timedelta(days=6):%Y-%m-%d}",
        **_DRAWN,
    )


@router.get("/dags/{dag_id}/causes/{cause_id}")
def cause(
    request: Request, cause_id: str, handler: HandlerDep, ledger: LedgerDep, clock: ClockDep
) -> HTMLResponse:
    """Show one cause."""
    chosen = CauseFilters.parse(request.query_params.multi_items())
    page = show_cause(
        handler.name, cause_id, chosen.queue_manager, chosen.queue, ledger=ledger, clock=clock
    )
    now = clock()
    return render(
        request,
        "causes/cause.html",
        page=page,
        now=now,
        expiries=_expiries(page.row.profile.expiry, now),
        **_DRAWN,
    )


@router.get("/dags/{dag_id}/causes/{cause_id}/rule")
def rule(
    request: Request, cause_id: str, handler: HandlerDep, ledger: LedgerDep, clock: ClockDep
) -> HTMLResponse:
    """Show a draft of a rule for a cause, with its backtest; nothing is changed."""
    asked = DraftRequest.parse(request.query_params.multi_items())
    page = draft_page(handler.name, cause_id, asked, ledger=ledger, clock=clock)
    return render(
        request,
        "causes/rule.html",
        page=page,
        most_characters=MOST_CHARACTERS,
        most_messages=MOST_MESSAGES,
        most_snapshots=MOST_SNAPSHOTS,
        query=asked.parameters(rule=page.text),
        shown_source=_shown_source,
        **_shown(page),
    )


@router.get("/dags/{dag_id}/causes/{cause_id}/rule.{form}")
def rule_file(  # noqa: PLR0917 (the parts of the path, and what a page gets)
    request: Request,
    cause_id: str,
    form: Literal["rules", "diff"],
    handler: HandlerDep,
    ledger: LedgerDep,
    clock: ClockDep,
) -> Response:
    """Return the table with the drafted rule, or the difference, as a file.

    Of a table with extensions, return the added rules only: no rules file may have extensions.
    """
    asked = DraftRequest.parse(request.query_params.multi_items())
    page = draft_page(handler.name, cause_id, asked, ledger=ledger, clock=clock)
    if page.proposal is None:
        raise PageError(
            "MQDLQ-959", "the rules have errors, so no table has them; correct them on the page"
        )
    if page.today.extensions:
        if form == "diff":
            raise PageError(
                "MQDLQ-960",
                f"the rules of {page.name} have extensions, so there is no difference of rules"
                " files; add the rules to the handler's file",
            )
        text = page.proposal.added_text
    else:
        text = page.proposal.text if form == "rules" else page.proposal.diff
    name = f"{handler.name}-new.{form}"
    return Response(
        text.encode("utf-8", "surrogateescape"),
        media_type=_FILES[form],
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _expiries(expiry: Expiry, now: datetime) -> tuple[tuple[str, int, str], ...]:
    """Return words, messages and end of each time in which messages expire."""
    ends = (
        ("In the next hour", expiry.hour, now + timedelta(hours=1)),
        (f"Tonight (until {MORNING}:00 UTC)", expiry.night, end_of_night(now)),
        ("In 24 hours", expiry.day, now + timedelta(days=1)),
    )
    return tuple(
        (words, messages, f"{end.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}")
        for words, messages, end in ends
    )


def _shown(page: DraftPage) -> dict[str, Any]:
    """Return the parts of a proposal as the template shows them."""
    if page.proposal is None or page.backtest is None:
        return {}
    proposal, found = page.proposal, page.backtest.treatments
    lines = [
        (number, _printable(line), proposal.first <= number <= proposal.last)
        for number, line in enumerate(proposal.text.removesuffix("\n").split("\n"), start=1)
    ]
    added = [r for r in proposal.table.rules if proposal.first <= r.line <= proposal.last]
    return {
        "trials": [action for action in map(action_of_rule, added) if action],
        "lines": lines,
        "rows": list(dict.fromkeys(cell.old for cell in found.cells)),
        "columns": list(dict.fromkeys(cell.new for cell in found.cells)),
        "cells": {(cell.old, cell.new): cell for cell in found.cells},
        "shown_diff": "\n".join(_printable(line) for line in proposal.diff.split("\n")),
        "merge_text": describe_change(page.name, page.row.cause, proposal, page.backtest),
    }


def _shown_source(diagnostic: Diagnostic) -> str:
    """Return the line of a fault with a mark under its place, as on a terminal."""
    _, _, source = str(diagnostic).partition("\n")
    return source


def _printable(text: str) -> str:
    """Return a line of a table without characters that act on a page."""
    return "".join(
        char if char.isprintable() or char == "\t" else char.encode("unicode_escape").decode()
        for char in text.rstrip("\r")
    )
