"""A drafted rule for a cause: its place in the table, its findings, and its backtest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath
from typing import Annotated, Final

from mqdlq.errors import LakeError
from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.runs import HandledQueue
from mqdlq.model import QueueKind
from mqdlq.reading.filters import Period, Text, longest, number
from mqdlq.rules import Diagnostic, RulesError, RulesTable, Severity
from mqdlq.tools.rule_drafts import (
    Backtest,
    Proposal,
    TableInUse,
    backtest,
    choose_snapshots,
    propose,
)
from mqdlq.tools.rule_suggestions import draft_rule, parking_queue_of
from mqdlq.web.causes.listing import CauseRow
from mqdlq.web.causes.queue_state import QueueState, choose_queue, read_queue_state
from mqdlq.web.causes.single import find_row
from mqdlq.web.rendering import PageError

MOST_CHARACTERS: Final = 4000
"""The longest text of added rules: the URL of the page holds it."""
MOST_SNAPSHOTS: Final = 100
SNAPSHOTS: Final = 5
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
    """A drafted rule: `text` is what the form has, `trouble` why there is no proposal."""

    request: DraftRequest
    state: QueueState
    queues: tuple[HandledQueue, ...]
    row: CauseRow
    text: str
    today: RulesTable
    name: str
    is_printed: bool
    proposal: Proposal | None
    rejected: tuple[Diagnostic, ...]
    backtest: Backtest | None
    added: int
    """How many messages of the snapshots the added rules match first or after other rules."""
    trouble: str


def draft_page(
    handler: str,
    cause_id: str,
    request: DraftRequest,
    *,
    ledger: Ledger,
    clock: Callable[[], datetime],
) -> DraftPage:
    """Draft a rule for a cause, or take the given text; check it and backtest it.

    Raises NotFoundError for a cause that no run met, and PageError for a table that this version
    cannot read.
    """
    handled, queues = choose_queue(handler, request.queue_manager, request.queue, ledger)
    state = read_queue_state(handler, handled, ledger, clock)
    row = find_row(cause_id, state, ledger)
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
    name, is_printed = table_name(handler, state.run.rules_source)
    if table.extensions:
        name = f"{handler}.yaml"
    today = TableInUse(
        name,
        state.run.rules_text,
        table,
        state.queue_manager,
        state.queue,
        nul_as_blank=state.run.nul_as_blank,
    )
    text, trouble = request.rule, ""
    if not text.strip():
        text = draft_rule(row.cause, row.messages, parking_queue_of(table))
    chosen = choose_snapshots(
        ledger.handled_queues.snapshots(
            handler,
            state.queue_manager,
            state.queue,
            limit=request.snapshots,
            since=request.since,
            until=request.until,
        ),
        nul_as_blank=state.run.nul_as_blank,
    )
    proposal: Proposal | None = None
    tested: Backtest | None = None
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
        queues=tuple(queues),
        row=row,
        text=text,
        today=table,
        name=name,
        is_printed=is_printed,
        proposal=proposal,
        rejected=rejected,
        backtest=tested,
        added=_count_added(proposal, tested),
        trouble=trouble,
    )


def table_name(handler: str, source: str) -> tuple[str, bool]:
    """Return the file name of a run's table, and whether it stands in the handler's own file."""
    if source.endswith(PRINTED):
        return f"{handler}.rules", True
    return PurePath(source).name or f"{handler}.rules", False


def _count_added(proposal: Proposal | None, tested: Backtest | None) -> int:
    if proposal is None or tested is None:
        return 0
    return sum(
        messages
        for rule, messages in tested.treatments.matched_new
        if proposal.first <= rule.line <= proposal.last
    )
