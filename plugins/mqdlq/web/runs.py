"""Runs of a handler: their list, one run, its outcomes as files, and its report."""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from threading import Lock
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from mqdlq.airflow.run_ids import possible_dag_run_ids
from mqdlq.failures import Failure
from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.runs import NO_REPORT, EntryKind, RunFacts, RunFilter
from mqdlq.ledger.tables import Approval, Restoration, Run
from mqdlq.model import Outcome, RestorationState, Verdict
from mqdlq.reading.filters import (
    PRESENCE_WORDS,
    PageNumber,
    Period,
    Presence,
    RunMessageFilter,
    Text,
    choice,
)
from mqdlq.reading.outcome_files import FORMS, outcome_file
from mqdlq.reading.report.building import Report, RunReading, summarize_run
from mqdlq.reading.report.files import failures_behind, read_ended_report, written_stages
from mqdlq.reading.report.html_report import (
    account_bar,
    lanes,
    render_html,
    security_policy,
    segments,
)
from mqdlq.reading.run import read_sources
from mqdlq.reading.run_messages import Message, MessageList
from mqdlq.reading.run_page import PlanMatrix, plan_matrix
from mqdlq.tools.acting import Sources
from mqdlq.web.access import AskedHandler, HandlerDep, Person, PersonDep
from mqdlq.web.acting import open_question
from mqdlq.web.airflow_api import find_dag_run
from mqdlq.web.rendering import NotFoundError, paths_of, render
from mqdlq.web.requests import SourcesDep
from mqdlq.web.serving import Download, PageRoute
from mqdlq.words import VERDICTS, count, moment, plan_in_words, span

router: Final = APIRouter(route_class=PageRoute)

# The list of a handler's runs.

STATES: Final = {
    **{verdict.value: words for verdict, words in VERDICTS.items()},
    NO_REPORT: "No report",
    EntryKind.REFUSED.value: "Refused",
    EntryKind.RESTORATION.value: "Restoration",
    EntryKind.PRUNED.value: "Pruned",
}
"""The states of a list's entries in words: verdicts of reports, and kinds."""

RUNS_TO_A_PAGE: Final = 50


class RunListQuery(Period):
    """The runs that started in a time, by state, type and a part of who started them."""

    state: Annotated[str, choice(STATES)] = ""
    type: Text = ""
    started_by: Text = ""
    page: PageNumber = 1


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in the list: its state as a word and a class, and a sentence about it.

    `outcomes` are the counts of its report.
    """

    entry: RunFacts
    state: str
    tone: str
    sentence: str
    outcomes: Mapping[Outcome, int]

    @property
    def duration_s(self) -> float | None:
        """Seconds from the start to the last browse or the report, None before."""
        if self.entry.ended_at is None or self.entry.kind is not EntryKind.RUN:
            return None
        return (self.entry.ended_at - self.entry.started_at).total_seconds()

    @property
    def without_outcome(self) -> int:
        """How many messages of the snapshot the report counted without an outcome."""
        counted = sum(self.outcomes.values())
        return max(0, (self.entry.messages or 0) - counted) if self.outcomes else 0


@router.get("/dags/{dag_id}/runs")
def runs(request: Request, sources: SourcesDep) -> HTMLResponse:
    """Show the runs of this handler: also refused and pruned ones, and restorations."""
    query = RunListQuery.parse(request.query_params.multi_items())
    chosen = RunFilter(query.since, query.until, query.state, query.type, query.started_by)
    lists = sources.ledger.run_lists
    found = lists.count(sources.handler, chosen)
    return render(
        request,
        "runs/list.html",
        query=query,
        rows=list_runs(sources, chosen, query.page),
        found=found,
        pages=_pages(found, RUNS_TO_A_PAGE),
        types=lists.run_types(sources.handler),
        states=STATES,
        segments=segments,
    )


def _pages(found: int, to_a_page: int) -> int:
    return max(1, -(-found // to_a_page))


def list_runs(sources: Sources, chosen: RunFilter, page: int) -> list[RunRow]:
    """Return a page of a handler's runs, the newest first."""
    lists, now = sources.ledger.run_lists, sources.clock()
    offset = (page - 1) * RUNS_TO_A_PAGE
    entries = lists.page(sources.handler, chosen, offset=offset, limit=RUNS_TO_A_PAGE)
    unreported = [entry.run_id for entry in entries if not entry.verdict]
    counted = lists.outcomes([one.run_id for one in entries if one.kind is EntryKind.RUN])
    leased = lists.leased_until(unreported, now)
    rows = []
    for entry in entries:
        outcomes: Mapping[Outcome, int] = counted.get(entry.run_id, {})
        ordered = {outcome: outcomes[outcome] for outcome in Outcome if outcome in outcomes}
        state = describe_state(entry, leased.get(entry.run_id), now)
        rows.append(RunRow(entry, *state, ordered))
    return rows


def describe_state(
    entry: RunFacts, leased_until: datetime | None, now: datetime
) -> tuple[str, str, str]:
    """Return the state of a run in words, its class, and a sentence.

    `leased_until` is the end of the run's last lease. The ledger does not know whether the tasks of
    a run without a report still run; Airflow does.
    """
    tries = f" ({entry.tries} tries)" if entry.tries > 1 else ""
    others = {
        EntryKind.REFUSED: ("failed", f"The run did not start{tries}: {entry.why}"),
        EntryKind.PRUNED: ("unfinished", f"Only its totals remain: {entry.why}"),
        EntryKind.RESTORATION: ("unfinished", "Archived copies were put back"),
    }
    if entry.kind in others:
        return STATES[entry.kind], *others[entry.kind]
    if entry.report is not None:
        return STATES.get(entry.verdict, entry.verdict), entry.verdict, entry.report.headline
    if entry.asked_at is not None:
        waits = f"Its plan has waited since {moment(entry.asked_at)}"
        return "Waits for approval", "attention", waits
    if leased_until is not None:
        return "In progress", "unfinished", f"It holds messages until {moment(leased_until)}"
    return _unreported(entry, now)


def _unreported(entry: RunFacts, now: datetime) -> tuple[str, str, str]:
    if entry.found_no_work and entry.messages is None:
        return "Nothing to do", "empty", "It found no work, and has no report"
    limit = timedelta(seconds=entry.max_run_time_s)
    if now > entry.started_at + limit:
        text = f"No report, and its time limit of {span(limit.total_seconds())} is over"
        return STATES[NO_REPORT], "attention", f"{text}: it may have broken off; see its tasks"
    return STATES[NO_REPORT], "unfinished", "No report yet; its tasks may still run"


# One run: its verdict, plan, messages and course.

OUTCOMES: Final = {
    **{outcome.value: outcome.words for outcome in Outcome if outcome is not Outcome.NOT_SELECTED},
    Presence.NO_OUTCOME.value: PRESENCE_WORDS[Presence.NO_OUTCOME],
}
MESSAGES_TO_A_PAGE: Final = 100


class MessageQuery(RunMessageFilter):
    """The messages of a run to list, and the page of the list."""

    page: PageNumber = 1


@dataclass(frozen=True, slots=True)
class RunPage:
    """A recorded run, and how far it is: its passes, leases, and the question about its plan."""

    run: Run
    summary: RunReading
    matrix: PlanMatrix
    passes: tuple[datetime, ...]
    leased_until: datetime | None
    approval: Approval | None
    failures: list[tuple[datetime, Failure]]

    @classmethod
    def read(cls, run: Run, sources: Sources) -> RunPage:
        ledger, run_id = sources.ledger, run.run_id
        summary = summarize_run(run_id, ledger, sources.lake_root)
        return cls(
            run=run,
            summary=summary,
            matrix=plan_matrix(summary, ledger, sources.lake_root),
            passes=tuple(ledger.runs.passes(run_id)),
            leased_until=ledger.run_lists.leased_until([run_id], sources.clock()).get(run_id),
            approval=ledger.plans.last_approval(run_id),
            failures=failures_behind(
                ledger.accounts.verdict_of(run_id), ledger.runs.failures(run_id)
            ),
        )

    @property
    def is_open(self) -> bool:
        """Whether it has neither a report nor a last browse, so that its account is incomplete."""
        return not self.summary.is_reported and self.summary.sources.sighting is None

    @property
    def is_asked(self) -> bool:
        """Whether an approval of its plan was asked for, and not given or denied yet."""
        return self.approval is not None and self.approval.decision == "asked"

    @property
    def state(self) -> tuple[str, str]:
        """Its verdict in words, and their class."""
        if self.is_open and self.is_asked:
            return "Waits for approval", "attention"
        if self.is_open and self.leased_until is not None:
            return "In progress", Verdict.UNFINISHED.value
        return VERDICTS[self.summary.verdict], self.summary.verdict.value

    @property
    def headline(self) -> str:
        """The result, or how far an open run is; its account cannot add up yet."""
        account = self.summary.account
        if not self.is_open or account is None or not account.messages:
            return self.summary.headline
        messages = count(account.selected, "message")
        booked = account.booked - account.not_selected
        have = "has" if booked == 1 else "have"
        return f"{messages}, of which {booked:,} {have} an outcome so far."

    @property
    def mode(self) -> str:
        """Whether it acts, and on which messages, in words."""
        run = self.run
        kind = "backfill of stored snapshots" if run.run_type == "backfill" else ""
        acts = "dry run: nothing is moved" if run.dry_run else "acts on messages"
        named = f"only {len(run.message_keys):,} named messages" if run.message_keys else ""
        given = "an action given by hand, not the rules table" if run.has_given_action else ""
        return "; ".join(filter(None, (kind, acts, named, given)))

    @property
    def coverage(self) -> str:
        """Which messages the plan covers, and why it omits the others, in words."""
        if self.matrix.description is None:
            return ""
        settled: Counter[Outcome] = Counter()
        for how, number in self.summary.sources.settled.items():
            if how.outcome is not Outcome.NOT_SELECTED:
                settled[how.outcome] += number
        account = self.summary.account
        others = account.not_selected if account is not None else 0
        return plan_in_words(self.matrix.description.dispositions, settled, others)

    @property
    def next_pass_at(self) -> datetime | None:
        """When the next pass is due, None if none is."""
        if not (self.is_open and self.passes and self.leased_until):
            return None
        return self.passes[-1] + timedelta(seconds=self.run.retry_interval_s + 1)

    @property
    def limit_at(self) -> datetime:
        """When the run stops retrying."""
        return self.run.started_at + timedelta(seconds=self.run.max_run_time_s)


@router.get("/dags/{dag_id}/runs/{run_id}")
def run(
    request: Request, run_id: str, handler: HandlerDep, person: PersonDep, sources: SourcesDep
) -> HTMLResponse:
    """Show one run, and the messages of it that the filter chooses, or a restoration."""
    query = MessageQuery.parse(request.query_params.multi_items())
    ledger, lists = sources.ledger, sources.ledger.run_lists
    pruned = ledger.prunes.pruned_run(run_id)
    entry = lists.pruned(run_id) if pruned is not None else None
    if pruned is not None and entry is not None and pruned.handler == handler.name:
        totals = ledger.prunes.outcomes_of(run_id)
        return render(request, "runs/pruned.html", entry=entry, pruned=pruned, totals=totals)
    found = ledger.runs.get(run_id)
    if found is not None and found.handler == handler.name:
        return _show_recorded(
            request, RunPage.read(found, sources), query, handler, person, sources
        )
    if found is None and lists.refused_handler(run_id) == handler.name:
        among = possible_dag_run_ids(handler.name, run_id)
        return render(
            request,
            "runs/refused.html",
            run_id=run_id,
            dag_run_id=find_dag_run(request, handler.dag_id, among),
            failures=ledger.runs.failures(run_id),
        )
    restoration = ledger.restorations.get(run_id)
    if restoration is not None and restoration.handler == handler.name:
        return _show_restoration(request, restoration, ledger)
    raise _no_such_run(handler.name, run_id)


def _no_such_run(handler: str, run_id: str) -> NotFoundError:
    return NotFoundError(
        "MQDLQ-968",
        f"The handler {handler} has no run {run_id!r}; choose one from the list of its runs",
    )


def _show_recorded(  # noqa: PLR0917 (what the page shows, and who reads it)
    request: Request,
    page: RunPage,
    query: MessageQuery,
    handler: AskedHandler,
    person: Person,
    sources: Sources,
) -> HTMLResponse:
    run, summary, state, question = page.run, page.summary, page.state, None
    if page.is_open and page.is_asked and page.approval is not None:
        question = open_question(request, run, page.approval, handler, person, sources.ledger)
        if question.answer:
            state = ("Answered", "unfinished")
    rows, found, troubles = page_of_messages(MessageList(summary.sources, sources.ledger), query)
    ended: Counter[Outcome] = Counter()
    for row in summary.rules:
        ended[row.outcome] += row.messages
    return render(
        request,
        "runs/run.html",
        page=page,
        run=run,
        summary=summary,
        state=state,
        rules=[list(own) for _, own in groupby(page.matrix.rows, lambda row: row.rule)],
        question=question,
        causes=sources.ledger.snapshots.causes(run.run_id),
        bar=account_bar(summary.account) if summary.account else (),
        lanes=lanes(summary.timeline),
        # A discarded message has a copy in the archive; one on another queue has none.
        discarded=ended[Outcome.DISCARDED],
        moved=ended[Outcome.FORWARDED] + ended[Outcome.DELIVERED],
        query=query,
        messages=rows,
        found=found,
        pages=_pages(found, MESSAGES_TO_A_PAGE),
        troubles=troubles,
        outcomes=OUTCOMES,
        forms=FORMS,
    )


def page_of_messages(
    messages: MessageList, query: MessageQuery
) -> tuple[list[Message], int, tuple[str, ...]]:
    """Return a page of messages, how many fit the filter, and what could not be read."""
    found, troubles = messages.select(query)
    start = (query.page - 1) * MESSAGES_TO_A_PAGE
    rows = messages.rows(found[start : start + MESSAGES_TO_A_PAGE])
    return list(rows), len(found), troubles


def _show_restoration(request: Request, restoration: Restoration, ledger: Ledger) -> HTMLResponse:
    """Show a restoration, and how many of its copies are in which state."""
    copies = ledger.restorations.states(restoration.restoration_id).values()
    counted = Counter(copy.state for copy in copies)
    last = max((copy.at for copy in copies), default=None)
    failures = ledger.runs.failures(restoration.restoration_id)
    return render(
        request,
        "runs/restoration.html",
        restoration=restoration,
        states={state: counted[state] for state in RestorationState if state in counted},
        last_at=last,
        # A copy that has come to its state since shows that a task has succeeded after all.
        failures=[(at, one) for at, one in failures if last is None or at >= last],
    )


# The outcomes of a run as a file.

_UNFIT: Final = re.compile(r"[^A-Za-z0-9._-]")


@router.get("/dags/{dag_id}/runs/{run_id}/outcomes.{form}")
def run_outcomes(
    request: Request, run_id: str, form: Literal["csv", "jsonl", "parquet"], sources: SourcesDep
) -> Download:
    """Return the outcomes of the messages that the filter chooses as a file, without bodies."""
    query = MessageQuery.parse(request.query_params.multi_items())
    found = sources.ledger.runs.get(run_id)
    if found is None or found.handler != sources.handler:
        raise _no_such_run(sources.handler, run_id)
    of_run = read_sources(run_id, sources.ledger, sources.lake_root)
    messages = MessageList(of_run, sources.ledger)
    chosen, _ = messages.select(query)
    parts = outcome_file(form, run_id, messages, chosen)
    return Download(parts, f"{_UNFIT.sub('-', run_id)}.{form}", FORMS[form].media_type)


# The HTML report of a run, rendered again from ledger and lake.
#
# Reports of ended runs are kept in memory, because a report reads every message of its run. A run
# whose account is closed books nothing more, and its snapshot never changes. A later run can learn
# how its messages ended, prunes remove its snapshot, and its task `report` can run again: such
# facts are compared before a kept report is returned.


class KeptReports:
    """The reports of a process that were read last, at most a number of them."""

    def __init__(self, most: int = 16) -> None:
        self._most = most
        self._lock = Lock()
        self._kept: OrderedDict[str, tuple[tuple[Any, ...], Report]] = OrderedDict()

    def read(self, run_id: str, *, ledger: Ledger, lake_root: str, now: datetime) -> Report:
        """Return the report of a run, kept or read now; a kept one has the time of its reading."""
        facts = _facts(run_id, ledger, lake_root)
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


_REPORTS: Final = KeptReports()


@router.get("/dags/{dag_id}/runs/{run_id}/report")
def show_report(request: Request, run_id: str, sources: SourcesDep) -> HTMLResponse:
    """Show the report of a run of this handler, with links to its messages and causes."""
    ledger, handler = sources.ledger, sources.handler
    found = ledger.runs.get(run_id)
    if found is None or found.handler != handler:
        pruned = ledger.prunes.pruned_run(run_id)
        if pruned is None or pruned.handler != handler:
            raise _no_such_run(handler, run_id)
        raise NotFoundError(
            "MQDLQ-967",
            f"The run {run_id} was pruned at {moment(pruned.at)} by {pruned.policy}; its totals are"
            " in the list of runs",
        )
    lake_root, now = sources.lake_root, sources.clock()
    report = _REPORTS.read(run_id, ledger=ledger, lake_root=lake_root, now=now)
    headers = {"Content-Security-Policy": f"{security_policy()}; frame-ancestors 'self'"}
    return HTMLResponse(render_html(report, paths_of(request)), headers=headers)
