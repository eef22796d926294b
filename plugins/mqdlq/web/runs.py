"""Runs of a handler: their list, one run, and its report; lists also as files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from itertools import groupby
from threading import Lock
from typing import Annotated, Any, Final

import pyarrow as pa
from fastapi import APIRouter, Depends
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from mqdlq.airflow.run_ids import possible_dag_run_ids
from mqdlq.errors import ExecutionError
from mqdlq.failures import Failure
from mqdlq.lake import filters
from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.runs import NO_REPORT, EntryKind, RunFacts, RunFilter
from mqdlq.ledger.tables import Approval, Restoration, Run
from mqdlq.model import Outcome, RestorationState, Verdict
from mqdlq.reading.exports import Export, FileForm, schema_of
from mqdlq.reading.outcome_files import outcomes_of
from mqdlq.reading.page_paths import Paths
from mqdlq.reading.progress import read_progress
from mqdlq.reading.report.building import Report, RunReading, summarize_run
from mqdlq.reading.report.files import failures_behind, read_ended_report, written_stages
from mqdlq.reading.report.html_report import (
    account_bar,
    lanes,
    render_html,
    security_policy,
    segments,
)
from mqdlq.reading.run import PlanMatrix, plan_matrix, read_sources
from mqdlq.reading.run_messages import Message, MessageList
from mqdlq.stages.stopping import ask_to_stop
from mqdlq.tools.acting import Sources
from mqdlq.web.acting import FINAL, PostedForm, find_dag_run, open_question, read_stages
from mqdlq.web.rendering import NotFoundError, pages_of
from mqdlq.web.requests import HandlerView, View, acting_handler
from mqdlq.web.serving import PageRoute
from mqdlq.words import count, moment, plan_in_words, span

router: Final = APIRouter(route_class=PageRoute)

# The list of a handler's runs.

STATES: Final = {
    **{verdict.value: verdict.words for verdict in Verdict},
    NO_REPORT: "No report",
    EntryKind.REFUSED.value: "Refused",
    EntryKind.RESTORATION.value: "Restoration",
    EntryKind.PRUNED.value: "Pruned",
}
"""The states of a list's entries in words: verdicts of reports, and kinds."""

RUNS_TO_A_PAGE: Final = 50


class RunListQuery(filters.Period):
    """The runs that started in a time, by state, type and a part of who started them."""

    state: Annotated[str, filters.choice(STATES)] = ""
    type: filters.Text = ""
    started_by: filters.Text = ""
    page: filters.PageNumber = 1
    download: FileForm = ""


SCHEMA: Final = schema_of(
    *("run_id", "kind", "started_at", "ended_at", "state", "sentence", "run_type", "dry_run"),
    *("started_by", "why", "queue_manager", "queue", "messages", "without_outcome", *Outcome),
    **dict.fromkeys(Outcome, pa.int64()),
)
"""The columns of the runs as a file: the outcomes of a run have a column each."""


@router.get(Paths.runs)
def runs(view: HandlerView) -> Response:
    query = view.parse(RunListQuery)
    chosen = RunFilter(query.since, query.until, query.state, query.type, query.started_by)
    lists = view.ledger.run_lists
    found = lists.count(view.handler, chosen)
    pages = pages_of(found, RUNS_TO_A_PAGE)
    if query.download:
        rows = (row for page in range(1, pages + 1) for row in list_runs(view, chosen, page))
        listed = Export(f"runs-{view.handler}", SCHEMA, map(_record, rows))
        return view.download(listed, query.download)
    return view.render(
        "runs/list.html",
        query=query,
        rows=list_runs(view, chosen, query.page),
        found=found,
        pages=pages,
        types=lists.run_types(view.handler),
        states=STATES,
        segments=segments,
    )


def _record(row: Mapping[str, Any]) -> dict[str, Any]:
    names = ("run_id", "kind", "started_at", "run_type", "dry_run", "started_by")
    entry: RunFacts = row["entry"]
    own = {name: getattr(entry, name) for name in (*names, "queue_manager", "queue", "messages")}
    ended_at = entry.ended_at if entry.kind is EntryKind.RUN else None
    found = {name: row[name] for name in ("state", "sentence", "without_outcome")}
    outcomes = {outcome: row["outcomes"].get(outcome, 0) for outcome in Outcome}
    return own | found | outcomes | {"ended_at": ended_at, "why": entry.asked_why}


def list_runs(sources: Sources, chosen: RunFilter, page: int) -> list[dict[str, Any]]:
    """Return a page of a handler's runs, the newest first.

    The `state` of each is a word, its `tone` a class, and `sentence` says more. `outcomes` are the
    counts of its report, and `without_outcome` counts the other messages of its snapshot.
    `duration_s` is from the start to the last browse or the report, None before.
    """
    lists, now = sources.ledger.run_lists, sources.clock()
    offset = (page - 1) * RUNS_TO_A_PAGE
    entries = lists.page(sources.handler, chosen, offset=offset, limit=RUNS_TO_A_PAGE)
    unreported = [entry.run_id for entry in entries if not entry.verdict]
    counted = lists.outcomes([one.run_id for one in entries if one.kind is EntryKind.RUN])
    leased = lists.leased_until(unreported, now)
    rows = []
    for entry in entries:
        found: Mapping[Outcome, int] = counted.get(entry.run_id, {})
        state, tone, sentence = describe_state(entry, leased.get(entry.run_id), now)
        ended_at = entry.ended_at if entry.kind is EntryKind.RUN else None
        row = {
            "entry": entry,
            "state": state,
            "tone": tone,
            "sentence": sentence,
            "outcomes": {outcome: found[outcome] for outcome in Outcome if outcome in found},
            "without_outcome": max(0, (entry.messages or 0) - sum(found.values())) if found else 0,
            "duration_s": (ended_at - entry.started_at).total_seconds() if ended_at else None,
        }
        rows.append(row)
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
    if now <= entry.started_at + timedelta(seconds=entry.max_run_time_s):
        return STATES[NO_REPORT], "unfinished", "No report yet; its tasks may still run"
    over = f"No report, and its time limit of {span(entry.max_run_time_s)} is over"
    return STATES[NO_REPORT], "attention", f"{over}: it may have broken off; see its tasks"


# One run: its verdict, plan, messages and course.

OUTCOMES: Final = {
    **{outcome.value: outcome.words for outcome in Outcome if outcome is not Outcome.NOT_SELECTED},
    filters.Presence.NO_OUTCOME.value: filters.Presence.NO_OUTCOME.words,
}
MESSAGES_TO_A_PAGE: Final = 100


class MessageQuery(filters.RunMessageFilter):
    """The messages of a run to list, and the page of the list."""

    page: filters.PageNumber = 1
    download: FileForm = ""


@dataclass(frozen=True, slots=True)
class RunPage:
    """A recorded run, and how far it is: its passes, leases, and the question about its plan."""

    run: Run
    summary: RunReading
    matrix: PlanMatrix
    passes: Sequence[datetime]
    leased_until: datetime | None
    approval: Approval | None
    failures: list[tuple[datetime, Failure]]

    @classmethod
    def read(cls, run: Run, sources: Sources) -> RunPage:
        ledger, run_id = sources.ledger, run.run_id
        summary = summarize_run(run_id, ledger, sources.lake_root)
        return cls(
            run,
            summary,
            plan_matrix(summary.sources, summary.rules, ledger, sources.lake_root),
            ledger.runs.passes(run_id),
            ledger.run_lists.leased_until([run_id], sources.clock()).get(run_id),
            ledger.plans.last_approval(run_id),
            failures_behind(ledger.accounts.verdict_of(run_id), ledger.runs.failures(run_id)),
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
        return self.summary.verdict.words, self.summary.verdict.value

    @property
    def headline(self) -> str:
        """The result, or how far an open run is; its account cannot add up yet."""
        account = self.summary.account
        if not self.is_open or account is None or not account.messages:
            return self.summary.headline
        booked = account.booked - account.not_selected
        have = "has" if booked == 1 else "have"
        messages = count(account.selected, "message")
        return f"{messages}, of which {booked:,} {have} an outcome so far."

    @property
    def mode(self) -> str:
        run = self.run
        kind = "backfill of stored snapshots" if run.run_type == "backfill" else ""
        acts = "dry run: nothing is moved" if run.dry_run else "acts on messages"
        named = f"only {self.summary.sources.meant}" if run.is_for_some else ""
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
        if not (self.is_open and self.passes and self.leased_until):
            return None
        return self.passes[-1] + timedelta(seconds=self.run.retry_interval_s + 1)


@router.get(Paths.run)
def run(view: HandlerView, run_id: str) -> Response:
    """Show one run, and the messages of it that the filter chooses, or a restoration."""
    query = view.parse(MessageQuery)
    ledger, lists = view.ledger, view.ledger.run_lists
    pruned = ledger.prunes.pruned_run(run_id)
    entry = lists.pruned(run_id) if pruned is not None else None
    if pruned is not None and entry is not None and pruned.handler == view.handler:
        totals = ledger.prunes.outcomes_of(run_id)
        return view.render("runs/pruned.html", entry=entry, pruned=pruned, totals=totals)
    found = ledger.runs.get(run_id)
    if found is not None and found.handler == view.handler:
        if query.download:
            of_run = read_sources(run_id, view.ledger, view.lake_root)
            messages = MessageList(of_run, view.ledger)
            chosen, _ = messages.select(query)
            named = outcomes_of(run_id, run_id, messages, chosen)
            return view.download(named, query.download)
        return _show_recorded(view, RunPage.read(found, view), query)
    if found is None and lists.refused_handler(run_id) == view.handler:
        among = possible_dag_run_ids(view.handler, run_id)
        return view.render(
            "runs/refused.html",
            run_id=run_id,
            dag_run_id=find_dag_run(view, among),
            failures=ledger.runs.failures(run_id),
        )
    restoration = ledger.restorations.get(run_id)
    if restoration is not None and restoration.handler == view.handler:
        return _show_restoration(view, restoration)
    raise _no_such_run(view.handler, run_id)


def _no_such_run(handler: str, run_id: str) -> NotFoundError:
    return NotFoundError(
        "MQDLQ-968",
        f"The handler {handler} has no run {run_id!r}; choose one from the list of its runs",
    )


@router.get(Paths.run_progress)
def run_progress(view: HandlerView, run_id: str, at: str = "") -> HTMLResponse:
    """Show how far a run is, as the part of its page that asks again while it is in progress.

    A page that shows the run `at` an earlier point asks no more, and is loaded again as a whole.
    """
    run = _own_run(view, run_id)
    given = _read_progress(view, run)
    given["is_stale"] = at != given["progress"].at
    return view.render("runs/progress.html", run=run, **given)


def _read_progress(view: View, run: Run) -> dict[str, Any]:
    now = view.clock()
    progress = read_progress(run, view.ledger, now)
    stages = read_stages(view, view.asked.dag_id, run.dag_run_id)
    is_expected = bool(progress.holdings) or now <= run.limit_at
    may_go_on = any(one.state not in FINAL for one in stages) if stages else is_expected
    return {
        "progress": progress,
        "stages": stages,
        "now": now,
        "is_live": may_go_on and not progress.has_ended,
        "is_stale": False,
    }


@router.post(Paths.stop, dependencies=[Depends(acting_handler)])
def stop_run(view: HandlerView, run_id: str, pairs: PostedForm) -> Response:
    """Ask a run to stop after its unit of work; one that has ended shows its result."""
    run, why = _own_run(view, run_id), dict(pairs).get("why", "").strip()[:1000]
    with suppress(ExecutionError):
        ask_to_stop(run, view.ledger, view.person.name, why, view.clock())
    return RedirectResponse(view.paths.run(view.handler, run_id), HTTPStatus.SEE_OTHER)


def _own_run(view: View, run_id: str) -> Run:
    found = view.ledger.runs.get(run_id)
    if found is None or found.handler != view.handler:
        raise _no_such_run(view.handler, run_id)
    return found


def _show_recorded(view: View, page: RunPage, query: MessageQuery) -> HTMLResponse:
    run, summary, state, question = page.run, page.summary, page.state, None
    if page.is_open and page.is_asked and page.approval is not None:
        question = open_question(view, run, page.approval)
        if question["answer"]:
            state = ("Answered", "unfinished")
    rows, found, troubles = page_of_messages(MessageList(summary.sources, view.ledger), query)
    ended: Counter[Outcome] = Counter()
    for row in summary.rules:
        ended[row.outcome] += row.messages
    return view.render(
        "runs/run.html",
        page=page,
        run=run,
        summary=summary,
        state=state,
        rules=[list(own) for _, own in groupby(page.matrix.rows, lambda row: row.rule)],
        question=question,
        causes=view.ledger.snapshots.causes(run.run_id),
        bar=account_bar(summary.account) if summary.account else (),
        lanes=lanes(summary.timeline),
        # A discarded message has a copy in the archive; one on another queue has none.
        discarded=ended[Outcome.DISCARDED],
        moved=ended[Outcome.FORWARDED] + ended[Outcome.DELIVERED],
        query=query,
        messages=rows,
        found=found,
        pages=pages_of(found, MESSAGES_TO_A_PAGE),
        troubles=troubles,
        outcomes=OUTCOMES,
        **({} if summary.is_reported else _read_progress(view, run)),
    )


def page_of_messages(
    messages: MessageList, query: MessageQuery
) -> tuple[list[Message], int, tuple[str, ...]]:
    """Return a page of messages, how many fit the filter, and what could not be read."""
    found, troubles = messages.select(query)
    start = (query.page - 1) * MESSAGES_TO_A_PAGE
    rows = messages.rows(found[start : start + MESSAGES_TO_A_PAGE])
    return list(rows), len(found), troubles


def _show_restoration(view: View, restoration: Restoration) -> HTMLResponse:
    restoration_id = restoration.restoration_id
    copies = view.ledger.restorations.states(restoration_id).values()
    counted = Counter(copy.state for copy in copies)
    last = max((copy.at for copy in copies), default=None)
    return view.render(
        "runs/restoration.html",
        restoration=restoration,
        states={state: counted[state] for state in RestorationState if state in counted},
        last_at=last,
        # A copy that has come to its state since shows that a task has succeeded after all.
        failures=[
            (at, one)
            for at, one in view.ledger.runs.failures(restoration_id)
            if last is None or at >= last
        ],
    )


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
        self._kept: dict[str, tuple[tuple[Any, ...], Report]] = {}  # the last is the newest

    def read(self, run_id: str, *, ledger: Ledger, lake_root: str, now: datetime) -> Report:
        """Return the report of a run, kept or read now; a kept one has the time of its reading."""
        facts = _facts(run_id, ledger, lake_root)
        with self._lock:
            kept = self._kept.pop(run_id, None)
            if kept is not None and kept[0] == facts:
                self._kept[run_id] = kept
                return kept[1]
        report = read_ended_report(run_id, ledger=ledger, lake_root=lake_root, now=now)
        if facts is not None:
            with self._lock:
                self._kept[run_id] = (facts, report)
                for oldest in list(self._kept)[: -self._most]:
                    del self._kept[oldest]
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


@router.get(Paths.run_report)
def show_report(view: HandlerView, run_id: str) -> HTMLResponse:
    ledger, handler = view.ledger, view.handler
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
    lake_root, now = view.lake_root, view.clock()
    report = _REPORTS.read(run_id, ledger=ledger, lake_root=lake_root, now=now)
    headers = {"Content-Security-Policy": f"{security_policy()}; frame-ancestors 'self'"}
    return HTMLResponse(render_html(report, view.paths), headers=headers)
