"""A drafted rule for a cause: its place in the table, its findings, and its backtest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from mqdlq.errors import LakeError
from mqdlq.model import QueueKind
from mqdlq.reading.filters import Period, Text, longest, number
from mqdlq.rules import Diagnostic, RulesError, RulesTable, Severity
from mqdlq.tools.acting import Sources, action_of_rule
from mqdlq.tools.rule_drafts import (
    MOST_MESSAGES,
    Backtest,
    Proposal,
    TableInUse,
    backtest,
    choose_snapshots,
    describe_change,
    propose,
)
from mqdlq.tools.rule_suggestions import draft_rule, parking_queue_of
from mqdlq.web.causes import CauseRow, QueueState, find_row, read_queue_state
from mqdlq.web.rendering import PageError, printable, render
from mqdlq.web.requests import SourcesDep
from mqdlq.web.serving import PageRoute

router: Final = APIRouter(route_class=PageRoute)

MOST_CHARACTERS: Final = 4000
"""The longest text of added rules: the URL of the page holds it."""
MOST_SNAPSHOTS: Final = 100
SNAPSHOTS: Final = 5
_FILES: Final = {"rules": "text/plain; charset=utf-8", "diff": "text/x-diff; charset=utf-8"}
PRINTED: Final = ".yaml, as printed"
"""The end of a rules source that is the table of a handler's own file."""


class DraftRequest(Period):
    """The choices on the page; the time is that of the snapshots of the backtest.

    `rule` is the text of the added rules, `before` the ordinal of the rule after them (0 for the
    end of the table, None if the messages decide), `snapshots` how many snapshots are read at most.
    """

    queue_manager: Text = ""
    queue: Text = ""
    rule: Annotated[str, longest(MOST_CHARACTERS)] = ""
    before: Annotated[int | None, number(0)] = None
    snapshots: Annotated[int, number(1, MOST_SNAPSHOTS)] = SNAPSHOTS


@dataclass(frozen=True, slots=True)
class DraftPage:
    """A drafted rule: `text` is what the form has.

    `today` is the table of the newest run, and `name` its file. There is no proposal if the rules
    are `rejected` for their errors, or for another `trouble`.
    """

    request: DraftRequest
    state: QueueState
    row: CauseRow
    text: str
    today: RulesTable
    name: str
    is_printed: bool
    proposal: Proposal | None
    rejected: tuple[Diagnostic, ...]
    backtest: Backtest | None
    trouble: str

    @property
    def added(self) -> int:
        """How many messages of the snapshots the added rules match first or after other rules."""
        proposal, tested = self.proposal, self.backtest
        if proposal is None or tested is None:
            return 0
        return sum(
            messages
            for rule, messages in tested.treatments.matched_new
            if proposal.first <= rule.line <= proposal.last
        )


def draft_page(cause_id: str, request: DraftRequest, sources: Sources) -> DraftPage:
    """Draft a rule for a cause, or take the given text; check it and backtest it.

    Raises NotFoundError for a cause that no run met, and PageError for a table that this version
    cannot read.
    """
    ledger, handler = sources.ledger, sources.handler
    state = read_queue_state(request.queue_manager, request.queue, sources)
    row, run = find_row(cause_id, state, ledger), state.run
    table = _table_for(row, state)
    name, is_printed = table_name(handler, run.rules_source)
    if table.extensions:
        name = f"{handler}.yaml"
    place, is_blank = (run.queue_manager, run.queue), run.nul_as_blank
    today = TableInUse(name, run.rules_text, table, *place, nul_as_blank=is_blank)
    text = request.rule
    if not text.strip():
        text = draft_rule(row.cause, row.messages, parking_queue_of(table))
    snapshots = ledger.handled_queues.snapshots(
        handler, *place, limit=request.snapshots, since=request.since, until=request.until
    )
    chosen = choose_snapshots(snapshots, nul_as_blank=is_blank)
    proposal, tested, trouble = None, None, ""
    rejected: tuple[Diagnostic, ...] = ()
    try:
        proposal = propose(today, text, chosen.used, before=request.before)
        tested = backtest(table, proposal.table, chosen)
    except RulesError as error:
        rejected = tuple(one for one in error.diagnostics if one.severity is Severity.ERROR)
    except LakeError as error:
        trouble = error.text
    return DraftPage(
        request=request,
        state=state,
        row=row,
        text=text,
        today=table,
        name=name,
        is_printed=is_printed,
        proposal=proposal,
        rejected=rejected,
        backtest=tested,
        trouble=trouble,
    )


def _table_for(row: CauseRow, state: QueueState) -> RulesTable:
    """Return the table to add rules to; raise PageError if no rule can be added for the cause."""
    table = state.table
    if table is None:
        raise PageError(
            "MQDLQ-957",
            f"the rules of run {state.run.run_id} are not a valid table for this version; check"
            f" {state.run.rules_source} with mqdlq rules check",
        )
    if state.run.queue_kind is QueueKind.BACKOUT:
        raise PageError(
            "MQDLQ-961",
            "no rules are suggested for a backout queue; write the rule in the handler's table",
        )
    if not row.cause.is_of_dead_letters:
        raise PageError(
            "MQDLQ-958",
            f"no rule can match these messages ({row.cause.meaning}); act on them by their keys",
        )
    return table


def table_name(handler: str, source: str) -> tuple[str, bool]:
    """Return the file name of a run's table, and whether it stands in the handler's own file."""
    if source.endswith(PRINTED):
        return f"{handler}.rules", True
    return PurePath(source).name or f"{handler}.rules", False


@router.get("/dags/{dag_id}/causes/{cause_id}/rule")
def rule(request: Request, cause_id: str, sources: SourcesDep) -> HTMLResponse:
    """Show a draft of a rule for a cause, with its backtest; nothing is changed."""
    asked = DraftRequest.parse(request.query_params.multi_items())
    page = draft_page(cause_id, asked, sources)
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
def rule_file(
    request: Request, cause_id: str, form: Literal["rules", "diff"], sources: SourcesDep
) -> Response:
    """Return the table with the drafted rule, or the difference, as a file.

    Of a table with extensions, return the added rules only: no rules file may have extensions.
    """
    asked = DraftRequest.parse(request.query_params.multi_items())
    page = draft_page(cause_id, asked, sources)
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
    name = f"{sources.handler}-new.{form}"
    return Response(
        text.encode("utf-8", "surrogateescape"),
        media_type=_FILES[form],
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _shown(page: DraftPage) -> dict[str, Any]:
    """Return the parts of a proposal as the template shows them."""
    if page.proposal is None or page.backtest is None:
        return {}
    proposal, found = page.proposal, page.backtest.treatments
    lines = [
        (number, printable(line.rstrip("\r")), proposal.first <= number <= proposal.last)
        for number, line in enumerate(proposal.text.removesuffix("\n").split("\n"), start=1)
    ]
    added = [r for r in proposal.table.rules if proposal.first <= r.line <= proposal.last]
    return {
        "trials": [action for action in map(action_of_rule, added) if action],
        "lines": lines,
        "rows": list(dict.fromkeys(cell.old for cell in found.cells)),
        "columns": list(dict.fromkeys(cell.new for cell in found.cells)),
        "cells": {(cell.old, cell.new): cell for cell in found.cells},
        "shown_diff": "\n".join(printable(line.rstrip("\r")) for line in proposal.diff.split("\n")),
        "merge_text": describe_change(page.name, page.row.cause, proposal, page.backtest),
    }


def _shown_source(diagnostic: Diagnostic) -> str:
    """Return the line of a fault with a mark under its place, as on a terminal."""
    _, _, source = str(diagnostic).partition("\n")
    return source
