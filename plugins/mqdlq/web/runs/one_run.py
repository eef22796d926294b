"""One run: its verdict, plan, messages and course."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from mqdlq.causes import CountedCause
from mqdlq.failures import Failure
from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.runs import RunFacts
from mqdlq.ledger.retention import PrunedOutcome
from mqdlq.ledger.tables.messages import Restoration
from mqdlq.ledger.tables.runs import Approval, Run
from mqdlq.model import Outcome, RestorationState
from mqdlq.reading.report import Verdict, read_sources
from mqdlq.reading.report.rendering.components import Lane, Segment, account_bar, lanes
from mqdlq.reading.run.message_list import MessageList, OutcomeRow
from mqdlq.reading.run.plan_matrix import PlanMatrix, plan_matrix
from mqdlq.reading.run.summary import RunSummary, summarize_run
from mqdlq.web.rendering import NotFoundError
from mqdlq.web.runs.run_list import MessageQuery
from mqdlq.words import VERDICTS, count, plan_in_words

TO_A_PAGE: Final = 100


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: its passes, the next one, its leases, and the question about its plan.

    `next_pass_at` is when the next pass is due, None if none is, `limit_at` when the run stops
    retrying.
    """

    passes: tuple[datetime, ...]
    next_pass_at: datetime | None
    limit_at: datetime
    leased_until: datetime | None
    approval: Approval | None

    @property
    def is_asked(self) -> bool:
        """Whether the plan waits for an approval."""
        return self.approval is not None and self.approval.decision == "asked"


@dataclass(frozen=True, slots=True)
class MessagesPage:
    """A page of a run's messages; `found` of them fit the filter."""

    query: MessageQuery
    rows: tuple[OutcomeRow, ...]
    found: int
    troubles: tuple[str, ...]

    @property
    def pages(self) -> int:
        """How many pages the list has."""
        return max(1, -(-self.found // TO_A_PAGE))


@dataclass(frozen=True, slots=True)
class RunPage:
    """A recorded run. `state` is its verdict in words, `tone` its class.

    With `is_open`, the run has neither a report nor a last browse, so its account is not complete.
    """

    run: Run
    summary: RunSummary
    state: str
    tone: str
    headline: str
    is_open: bool
    mode: str
    matrix: PlanMatrix
    coverage: str
    progress: Progress
    messages: MessagesPage
    causes: tuple[CountedCause, ...]
    bar: tuple[Segment, ...]
    lanes: tuple[Lane, ...]
    discarded: int
    """How many messages it discarded; each has a copy in the archive."""
    moved: int
    """How many messages it put on other queues; none has a copy."""

    @property
    def open_approval(self) -> Approval | None:
        """The question that the run waits for, None if it waits for none."""
        return self.progress.approval if self.is_open and self.progress.is_asked else None


@dataclass(frozen=True, slots=True)
class RefusedRun:
    """A run that did not start; the reasons, oldest first."""

    run_id: str
    failures: tuple[tuple[datetime, Failure], ...]


@dataclass(frozen=True, slots=True)
class PrunedRunPage:
    """A run of which only the totals remain."""

    entry: RunFacts
    pruned_at: datetime
    totals: tuple[PrunedOutcome, ...]


@dataclass(frozen=True, slots=True)
class RestorationPage:
    """A restoration, and how many of its copies are in which state."""

    restoration: Restoration
    states: Mapping[RestorationState, int]
    last_at: datetime | None
    failures: tuple[tuple[datetime, Failure], ...]
    """When and why its tasks failed, unless a copy has come to its state since."""


def show_run(
    handler: str,
    run_id: str,
    query: MessageQuery,
    *,
    ledger: Ledger,
    lake_root: str,
    now: datetime,
) -> RunPage | RefusedRun | PrunedRunPage | RestorationPage:
    """Return a run or restoration of a handler; raise NotFoundError if there is none."""
    pruned = _pruned(handler, run_id, ledger)
    if pruned is not None:
        return pruned
    run = ledger.runs.get(run_id)
    if run is not None and run.handler == handler:
        return _recorded(run, query, ledger, lake_root, now)
    if run is None and ledger.run_lists.refused_handler(run_id) == handler:
        return RefusedRun(run_id, tuple(ledger.runs.failures(run_id)))
    restoration = ledger.run_lists.restoration(run_id)
    if restoration is not None and restoration.handler == handler:
        return _restored(restoration, ledger)
    raise no_such_run(handler, run_id)


def messages_of_run(handler: str, run_id: str, ledger: Ledger, lake_root: str) -> MessageList:
    """Return the messages of a recorded run; raise NotFoundError if there is none."""
    run = ledger.runs.get(run_id)
    if run is None or run.handler != handler:
        raise no_such_run(handler, run_id)
    return MessageList(read_sources(run_id, ledger, lake_root), ledger)


def no_such_run(handler: str, run_id: str) -> NotFoundError:
    """Return the error for a run that the handler does not have."""
    return NotFoundError(
        "MQDLQ-968",
        f"The handler {handler} has no run {run_id!r}; choose one from the list of its runs",
    )


def _recorded(
    run: Run, query: MessageQuery, ledger: Ledger, lake_root: str, now: datetime
) -> RunPage:
    summary = summarize_run(run.run_id, ledger, lake_root)
    progress = _progress(run, summary, ledger, now)
    state, tone = _state(summary, progress)
    is_open = _is_open(summary)
    matrix = plan_matrix(summary, ledger, lake_root)
    ended: Counter[Outcome] = Counter()
    for row in summary.rules:
        ended[row.outcome] += row.messages
    return RunPage(
        run=run,
        summary=summary,
        state=state,
        tone=tone,
        headline=_headline(summary) if is_open else summary.headline,
        is_open=is_open,
        mode=_mode(run),
        matrix=matrix,
        coverage=_coverage(summary, matrix),
        progress=progress,
        messages=_messages(MessageList(summary.sources, ledger), query),
        causes=tuple(ledger.snapshots.causes(run.run_id)),
        bar=account_bar(summary.account) if summary.account else (),
        lanes=lanes(summary.timeline),
        discarded=ended[Outcome.DISCARDED],
        moved=ended[Outcome.FORWARDED] + ended[Outcome.DELIVERED],
    )


def _messages(messages: MessageList, query: MessageQuery) -> MessagesPage:
    selection = messages.select(query)
    start = (query.page - 1) * TO_A_PAGE
    rows = tuple(messages.rows(selection.browse_seqs[start : start + TO_A_PAGE]))
    return MessagesPage(query, rows, len(selection.browse_seqs), selection.troubles)


def _progress(run: Run, summary: RunSummary, ledger: Ledger, now: datetime) -> Progress:
    passes = tuple(ledger.run_lists.passes(run.run_id))
    leased = ledger.run_lists.leased_until([run.run_id], now).get(run.run_id)
    due = None
    if _is_open(summary) and passes and leased is not None:
        due = passes[-1] + timedelta(seconds=run.retry_interval_s + 1)
    return Progress(
        passes=passes,
        next_pass_at=due,
        limit_at=run.started_at + timedelta(seconds=run.max_run_time_s),
        leased_until=leased,
        approval=ledger.plans.last_approval(run.run_id),
    )


def _state(summary: RunSummary, progress: Progress) -> tuple[str, str]:
    if _is_open(summary):
        if progress.is_asked:
            return "Waits for approval", "attention"
        if progress.leased_until is not None:
            return "In progress", Verdict.UNFINISHED.value
    return VERDICTS[summary.verdict], summary.verdict.value


def _is_open(summary: RunSummary) -> bool:
    return not summary.is_reported and summary.sources.sighting is None


def _headline(summary: RunSummary) -> str:
    """Return how far an open run is; its account cannot add up yet."""
    account = summary.account
    if account is None or not account.messages:
        return summary.headline
    messages = count(account.selected, "message")
    booked = account.booked - account.not_selected
    have = "has" if booked == 1 else "have"
    return f"{messages}, of which {booked:,} {have} an outcome so far."


def _coverage(summary: RunSummary, matrix: PlanMatrix) -> str:
    """Return in words which messages the plan covers, and why it omits the others."""
    if matrix.description is None:
        return ""
    settled: Counter[Outcome] = Counter()
    for how, number in summary.sources.settled.items():
        if how.outcome is not Outcome.NOT_SELECTED:
            settled[how.outcome] += number
    others = summary.account.not_selected if summary.account is not None else 0
    return plan_in_words(matrix.description.dispositions, settled, others)


def _mode(run: Run) -> str:
    """Return in words whether a run acts, and on which messages."""
    kind = "backfill of stored snapshots" if run.run_type == "backfill" else ""
    acts = "dry run: nothing is moved" if run.dry_run else "acts on messages"
    named = f"only {len(run.message_keys):,} named messages" if run.message_keys else ""
    given = "an action given by hand, not the rules table" if run.has_given_action else ""
    return "; ".join(filter(None, (kind, acts, named, given)))


def _pruned(handler: str, run_id: str, ledger: Ledger) -> PrunedRunPage | None:
    pruned = ledger.prunes.pruned_run(run_id)
    entry = ledger.run_lists.pruned(run_id) if pruned is not None else None
    if pruned is None or entry is None or pruned.handler != handler:
        return None
    return PrunedRunPage(entry, pruned.at, tuple(ledger.prunes.outcomes_of(run_id)))


def _restored(restoration: Restoration, ledger: Ledger) -> RestorationPage:
    found: dict[RestorationState, int] = {}
    last = None
    for copy in ledger.restorations.states(restoration.restoration_id).values():
        found[copy.state] = found.get(copy.state, 0) + 1
        last = max(last or copy.at, copy.at)
    ordered = {state: found[state] for state in RestorationState if state in found}
    failures = ledger.runs.failures(restoration.restoration_id)
    since = tuple((at, one) for at, one in failures if last is None or at >= last)
    return RestorationPage(restoration, ordered, last, since)
