"""A cause of dead letters on a queue, and a drafted rule for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from http import HTTPStatus
from pathlib import PurePath
from typing import Annotated, Any, Final, Literal, NamedTuple

from airflow.models.connection import Connection
from airflow.sdk.exceptions import AirflowNotFoundException
from fastapi import APIRouter, Depends
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from mqdlq.airflow.hooks.ibmmq import settings_of
from mqdlq.causes import Cause
from mqdlq.diagnosis.keeping import Place, with_changes
from mqdlq.diagnosis.subjects import read_subjects
from mqdlq.errors import (
    ClientNotFoundError,
    ConnectionSettingsError,
    LakeError,
    QueueManagerError,
)
from mqdlq.handlers import load_handler
from mqdlq.lake.filters import Period, Query, Text, longest, number
from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.history import CauseHistory, CauseSighting, CausesOverTime, CauseState
from mqdlq.ledger.reading.later_outcomes import SettledSince
from mqdlq.ledger.tables import CauseNumbers, Run, Sighting, TakenSnapshot
from mqdlq.model import QueueKind
from mqdlq.reading.cause_profiles import (
    MORNING,
    NO_RULE,
    CauseProfile,
    SnapshotProfile,
    end_of_night,
    profile_causes,
)
from mqdlq.reading.page_paths import Paths
from mqdlq.reading.run import WrittenRule, written_rules
from mqdlq.rules import RulesError, RulesTable, Severity, check
from mqdlq.rules.wildcards import fits
from mqdlq.stages.diagnosing import diagnose_causes, keep_diagnoses
from mqdlq.stages.sense import select_queue_manager
from mqdlq.tools import rule_drafts
from mqdlq.tools.acting import Sources, action_of_rule
from mqdlq.tools.rule_suggestions import draft_rule, parking_queue_of
from mqdlq.web import rendering
from mqdlq.web.acting import PostedForm
from mqdlq.web.requests import HandlerView, acting_handler
from mqdlq.web.serving import PageRoute

router: Final = APIRouter(route_class=PageRoute)

# The state of one queue of a handler.

NOTHING: Final = SnapshotProfile({}, 0, 0)


@dataclass(frozen=True, slots=True)
class QueueState:
    """The newest run, table and snapshot of one of a handler's `queues`, each after its manager.

    `run` has the handler's table, and `taken` is the newest snapshot, which may be of an earlier
    run, `taken_by`. `profile` describes the causes in the snapshot, and `trouble` says why there is
    none. `sighting` has the counts of the last browse of the snapshot's run, None if the run has
    not finished.
    """

    queues: Sequence[tuple[str, str]]
    run: Run
    taken: TakenSnapshot | None
    taken_by: Run | None
    sighting: Sighting | None
    rules: Mapping[int, WrittenRule]
    profile: SnapshotProfile = NOTHING
    trouble: str = ""

    @property
    def gone(self) -> list[SettledSince]:
        return self.gone_by(self.profile.gone)

    def gone_by(self, number: Mapping[str, int]) -> list[SettledSince]:
        """Return these later runs, each with a number of messages, newest first."""
        runs = self.profile.since.runs
        found = (replace(runs[run_id], messages=messages) for run_id, messages in number.items())
        return sorted(found, key=lambda one: one.at, reverse=True)

    @property
    def table(self) -> RulesTable | None:
        """The table of the newest run; None if it cannot be read by this version."""
        return check(self.run.rules_text, queue_kind=self.run.queue_kind, frozen=True).table


def read_queue_state(queue_manager: str, queue: str, sources: Sources) -> QueueState:
    """Read the state of the queue that a page is about.

    The names may have wildcards; without them it is the queue that was handled last. Raises
    NoRunYetError if the handler had no run, or none with its table, and NotFoundError if it had
    none on this queue.
    """
    ledger, handler = sources.ledger, sources.handler
    queues = ledger.handled_queues.of_handler(handler)
    if not queues:
        text = f"no run of handler {handler} is recorded; start its DAG, with dry_run at first"
        raise rendering.NoRunYetError("MQDLQ-964", text)
    patterns = (queue_manager or "*", queue or "*")
    handled = next((names for names in queues if all(map(fits, patterns, names))), None)
    if handled is None:
        asked = f"{queue} @ {queue_manager}"
        known = ", ".join(f"{name} @ {manager}" for manager, name in queues)
        raise rendering.NotFoundError(
            "MQDLQ-964", f"no run of handler {handler} handled {asked}; its queues are {known}"
        )
    name = (handler, *handled)
    run = ledger.handled_queues.newest_run(*name)
    if run is None:
        raise rendering.NoRunYetError(
            "MQDLQ-964",
            f"no run of handler {handler} used its rules table; start its DAG without"
            " message_keys, with dry_run at first",
        )
    taken = ledger.handled_queues.newest_snapshot(*name)
    taken_by = ledger.runs.get(taken.run_id) if taken else None
    sighting = ledger.accounts.of_run(taken.run_id) if taken else None
    rules = written_rules(run.rules_text)
    state = QueueState(queues, run, taken, taken_by, sighting, rules)
    if taken is None or taken_by is None:
        trouble = "No run has a snapshot of this queue: the runs found it empty, or were pruned."
        return replace(state, trouble=trouble)
    now, since = sources.clock(), ledger.later.of_run(taken_by.run_id)
    try:
        if sighting is None:
            profile = profile_causes(taken_by, taken, now, ledger=ledger, since=since)
        else:
            minute = now.replace(second=0, microsecond=0)
            profile = _profile_of_minute(taken_by, taken, minute, ledger=ledger, since=since)
    except LakeError as error:
        return replace(state, trouble=f"The snapshot cannot be read: {error.text}")
    return replace(state, profile=profile)


_profile_of_minute: Final = lru_cache(maxsize=8)(profile_causes)
"""The profile of a finished run: once in a minute, and when later runs acted."""


# A cause on this queue.


class CauseRow(NamedTuple):
    """A cause on a queue; `share` is that of its messages in all of the queue.

    `messages` are those in the newest snapshot, less the ones that departed since. `profile`
    describes the messages of the newest snapshot that the page has read, which may be fewer.
    `numbers` are those of the inbox, if it has the cause.
    """

    history: CauseHistory
    messages: int
    share: float
    profile: CauseProfile
    numbers: CauseNumbers | None = None

    @property
    def cause(self) -> Cause:
        return self.history.cause

    @property
    def handling(self) -> list[tuple[int, int]]:
        """The ordinals of the rules that its messages match first, and how many messages do.

        The rules of the newest run are in table order, `NO_RULE` is the last.
        """
        return sorted(self.profile.handled_by.items(), key=lambda one: (one[0] == NO_RULE, one[0]))


def read_rows(state: QueueState, ledger: Ledger) -> Iterator[CauseRow]:
    """Yield the causes that runs met on a queue.

    The ledger does not know the destinations of a run that met too many causes; then the page takes
    the causes that it finds in the snapshot itself.
    """
    over_time = ledger.causes.of_queue(state.run.queue_manager, state.run.queue)
    known = state.profile.causes
    found = [
        (one, known.get(one.cause.cause_id) or CauseProfile(one.cause))
        for one in _with_found_causes(over_time, state)
    ]
    left = [max(one.messages - sum(profile.gone.values()), 0) for one, profile in found]
    total = sum(left)
    booked = {row.key: row.numbers for row in ledger.inbox.of_queue(state.run) if row.is_whole}
    for (history, profile), messages in zip(found, left, strict=True):
        share = messages / total if total else 0.0
        numbers = booked.get((history.cause.reason, history.cause.cause_id))
        yield CauseRow(history, messages, share, profile, numbers)


def find_row(cause_id: str, state: QueueState, ledger: Ledger) -> CauseRow:
    """Return a cause that runs met on a queue; raise NotFoundError for an unknown one."""
    for row in read_rows(state, ledger):
        if row.cause.cause_id == cause_id:
            return row
    raise rendering.NotFoundError(
        "MQDLQ-965",
        f"no run met the cause {cause_id[:60]!r} on {state.run.queue} @ {state.run.queue_manager};"
        " choose one from the list of causes",
    )


def _with_found_causes(over_time: CausesOverTime, state: QueueState) -> Iterator[CauseHistory]:
    known, taken = {one.cause.cause_id for one in over_time.causes}, state.taken
    missing = [one for cause_id, one in state.profile.causes.items() if cause_id not in known]
    if taken is not None:
        for profile in sorted(missing, key=lambda one: -one.messages):
            messages = profile.messages + profile.gone.total()
            found = CauseSighting(taken.run_id, taken.taken_at, messages, settled=0)
            yield CauseHistory(profile.cause, (found,), taken.taken_at, CauseState.KNOWN, 0)
    for one in over_time.causes:
        is_found = taken is not None and one.sightings[-1].run_id == taken.run_id
        if one.cause.cause_id or not (missing and is_found):
            yield one


# One cause: its messages, its runs, its rules and its outcomes.

TOP: Final = 5
MOST_RUNS: Final = 50


class QueueQuery(Query):
    """The queue of a handler that the page is about, by names with wildcards; "" for the last."""

    queue_manager: Text = ""
    queue: Text = ""


@router.get(Paths.cause)
def cause(view: HandlerView, cause_id: str) -> HTMLResponse:
    chosen = view.parse(QueueQuery)
    state = read_queue_state(chosen.queue_manager, chosen.queue, view)
    row, now = find_row(cause_id, state, view.ledger), view.clock()
    profile = row.profile
    rules = written_rules(state.taken_by.rules_text) if state.taken_by else {}
    return view.render(
        "causes/cause.html",
        state=state,
        row=row,
        tops=profile.tops.items(),
        top=TOP,
        endings=sorted(
            profile.endings.items(), key=lambda one: (one[0][0] or len(rules) + 1, -one[1])
        ),
        rules=rules,
        sightings=row.history.sightings[-MOST_RUNS:][::-1],
        diagnoses=with_changes(_place(view, state), cause_id, view.ledger),
        now=now,
        expiries=_expiries(profile.expiries, now),
    )


def _place(view: HandlerView, state: QueueState) -> Place:
    return Place(view.handler, state.run.queue_manager, state.run.queue)


@router.post(Paths.diagnosis, dependencies=[Depends(acting_handler)])
def diagnose_cause(view: HandlerView, cause_id: str, pairs: PostedForm) -> Response:
    """Diagnose a cause by inquiries that only read, over the handler's connection; keep the result.

    Raises PageError with what prevents it, such as a queue manager that is not reached from here.
    """
    chosen = QueueQuery.parse(pairs)
    state = read_queue_state(chosen.queue_manager, chosen.queue, view)
    place, handler, why = _place(view, state), load_handler(view.handler), ""
    if state.taken is not None:
        found = read_subjects(state.taken.location, place.queue, cause_id=cause_id)
        try:
            settings = settings_of(Connection.get_connection_from_secrets(handler.connection))
            there = select_queue_manager(settings, place.queue_manager)
            keep_diagnoses(place, diagnose_causes(there, found, view.clock), view.ledger)
        except (AirflowNotFoundException, ConnectionSettingsError) as error:
            why = str(error)
        except (QueueManagerError, ClientNotFoundError) as error:
            why = error.text
    if why:
        raise rendering.PageError(
            "MQDLQ-971",
            f"{why}; nothing was asked from here: mqdlq diagnose {view.handler} asks from the"
            " command line",
        )
    leads_to = view.paths.cause(view.handler, cause_id, chosen.parameters())
    return RedirectResponse(leads_to, HTTPStatus.SEE_OTHER)


def _expiries(expiries: Mapping[str, int], now: datetime) -> list[tuple[str, int, str]]:
    """Return words, messages and end of each time in which messages expire."""
    ends = (
        ("In the next hour", expiries["hour"], now + timedelta(hours=1)),
        (f"Tonight (until {MORNING}:00 UTC)", expiries["night"], end_of_night(now)),
        ("In 24 hours", expiries["day"], now + timedelta(days=1)),
    )
    return [
        (words, messages, f"{end.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}")
        for words, messages, end in ends
    ]


# A drafted rule for a cause: its place in the table, its findings, and its backtest.

MOST_CHARACTERS: Final = 4000
"""The longest text of added rules: the URL of the page holds it."""
MOST_SNAPSHOTS: Final = 100
SNAPSHOTS: Final = 5
_FILES: Final = {"rules": "text/plain; charset=utf-8", "diff": "text/x-diff; charset=utf-8"}
PRINTED: Final = ".yaml, as printed"
"""The end of a rules source that is the table of a handler's own file."""


class DraftRequest(Period, QueueQuery):
    """The choices on the page; the time is that of the snapshots of the backtest.

    `rule` is the text of the added rules, `before` the ordinal of the rule after them (0 for the
    end of the table, None if the messages decide), `snapshots` how many snapshots are read at most.
    """

    rule: Annotated[str, longest(MOST_CHARACTERS)] = ""
    before: Annotated[int | None, number(0)] = None
    snapshots: Annotated[int, number(1, MOST_SNAPSHOTS)] = SNAPSHOTS


def _drafted(cause_id: str, asked: DraftRequest, sources: Sources) -> dict[str, Any]:
    """Draft a rule for a cause, or take the given text; check it and backtest it.

    `text` is what the form has, `today` the table of the newest run, and `name` its file. There is
    no proposal if the rules are `rejected` for their errors, or for another `trouble`. Raises
    NotFoundError for a cause that no run met, and PageError for a table that this version cannot
    read.
    """
    ledger, handler = sources.ledger, sources.handler
    state = read_queue_state(asked.queue_manager, asked.queue, sources)
    row, run = find_row(cause_id, state, ledger), state.run
    table = _table_for(row, state)
    is_printed = run.rules_source.endswith(PRINTED)
    name = "" if is_printed else PurePath(run.rules_source).name
    name = f"{handler}.yaml" if table.extensions else name or f"{handler}.rules"
    place, is_blank = (run.queue_manager, run.queue), run.nul_as_blank
    today = rule_drafts.TableInUse(name, run.rules_text, table, *place, nul_as_blank=is_blank)
    text = asked.rule
    if not text.strip():
        text = draft_rule(row.cause, row.messages, parking_queue_of(table))
    snapshots = ledger.handled_queues.snapshots(
        handler, *place, limit=asked.snapshots, since=asked.since, until=asked.until
    )
    chosen = rule_drafts.choose_snapshots(snapshots, nul_as_blank=is_blank)
    page: dict[str, Any] = {
        "asked": asked,
        "state": state,
        "row": row,
        "text": text,
        "today": table,
        "name": name,
        "is_printed": is_printed,
        "proposal": None,
        "backtest": None,
        "rejected": (),
        "trouble": "",
    }
    try:
        proposal = rule_drafts.propose(today, text, chosen[0], before=asked.before)
        return page | {
            "proposal": proposal,
            "backtest": rule_drafts.backtest(table, proposal.table, chosen),
        }
    except RulesError as error:
        rejected = [one for one in error.diagnostics if one.severity is Severity.ERROR]
        return page | {"rejected": rejected}
    except LakeError as error:
        return page | {"trouble": error.text}


def _table_for(row: CauseRow, state: QueueState) -> RulesTable:
    """Return the table to add rules to; raise PageError if no rule can be added for the cause."""
    table, run = state.table, state.run
    if table is None:
        raise rendering.PageError(
            "MQDLQ-957",
            f"the rules of run {run.run_id} are not a valid table for this version; check"
            f" {run.rules_source} with mqdlq rules check",
        )
    if run.queue_kind is QueueKind.BACKOUT:
        raise rendering.PageError(
            "MQDLQ-961",
            "no rules are suggested for a backout queue; write the rule in the handler's table",
        )
    if not row.cause.is_of_dead_letters:
        raise rendering.PageError(
            "MQDLQ-958",
            f"no rule can match these messages ({row.cause.meaning}); act on them by their keys",
        )
    return table


@router.get(Paths.cause_rule)
def rule(view: HandlerView, cause_id: str) -> HTMLResponse:
    """Show a draft of a rule for a cause, with its backtest; nothing is changed."""
    asked = view.parse(DraftRequest)
    page = _drafted(cause_id, asked, view)
    return view.render(
        "causes/rule.html",
        page=page,
        most_characters=MOST_CHARACTERS,
        most_messages=rule_drafts.MOST_MESSAGES,
        most_snapshots=MOST_SNAPSHOTS,
        query=asked.parameters(rule=page["text"]),
        **(_shown(page) if page["proposal"] else {}),
    )


@router.get(Paths.cause_rule_file)
def rule_file(view: HandlerView, cause_id: str, form: Literal["rules", "diff"]) -> Response:
    """Return the table with the drafted rule, or the difference, as a file.

    Of a table with extensions, return the added rules only: no rules file may have extensions.
    """
    asked = view.parse(DraftRequest)
    page = _drafted(cause_id, asked, view)
    proposal: rule_drafts.Proposal | None = page["proposal"]
    if proposal is None:
        raise rendering.PageError(
            "MQDLQ-959", "the rules have errors, so no table has them; correct them on the page"
        )
    if not page["today"].extensions:
        text = proposal.text if form == "rules" else proposal.diff
    elif form == "rules":
        text = proposal.added_text
    else:
        raise rendering.PageError(
            "MQDLQ-960",
            f"the rules of {page['name']} have extensions, so there is no difference of rules"
            " files; add the rules to the handler's file",
        )
    name = f"{view.handler}-new.{form}"
    return Response(
        text.encode("utf-8", "surrogateescape"),
        media_type=_FILES[form],
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _shown(page: Mapping[str, Any]) -> dict[str, Any]:
    proposal: rule_drafts.Proposal = page["proposal"]
    tested: rule_drafts.Backtest = page["backtest"]
    found, new = tested.treatments, range(proposal.first, proposal.last + 1)
    lines = proposal.text.removesuffix("\n").split("\n")
    added = [rule for rule in proposal.table.rules if rule.line in new]
    return {
        # How many messages the added rules match first, or after other rules.
        "matched": sum(messages for rule, messages in found.matched_new if rule.line in new),
        "trials": [action for action in map(action_of_rule, added) if action],
        "lines": [(n, _printable_line(line), n in new) for n, line in enumerate(lines, start=1)],
        "rows": list(dict.fromkeys(cell.old for cell in found.cells)),
        "columns": list(dict.fromkeys(cell.new for cell in found.cells)),
        "cells": {(cell.old, cell.new): cell for cell in found.cells},
        "shown_diff": "\n".join(map(_printable_line, proposal.diff.split("\n"))),
        "merge_text": rule_drafts.describe_change(
            page["name"], page["row"].cause, proposal, tested
        ),
    }


def _printable_line(line: str) -> str:
    return rendering.printable(line.rstrip("\r"))
