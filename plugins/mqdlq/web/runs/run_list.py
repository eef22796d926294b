"""The list of a handler's runs, and the filters of runs and of a run's messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Final

from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.runs import NO_REPORT, EntryKind, RunFacts, RunFilter
from mqdlq.model import Outcome
from mqdlq.reading.filters import (
    PRESENCE_WORDS,
    PageNumber,
    Period,
    Presence,
    RunMessageFilter,
    Text,
    choice,
)
from mqdlq.words import VERDICTS, moment, span

STATES: Final = {
    **{verdict.value: words for verdict, words in VERDICTS.items()},
    NO_REPORT: "No report",
    EntryKind.REFUSED.value: "Refused",
    EntryKind.RESTORATION.value: "Restoration",
    EntryKind.PRUNED.value: "Pruned",
}
"""The states of a list's entries in words: verdicts of reports, and kinds."""

OUTCOMES: Final = {
    **{outcome.value: outcome.words for outcome in Outcome if outcome is not Outcome.NOT_SELECTED},
    Presence.NO_OUTCOME.value: PRESENCE_WORDS[Presence.NO_OUTCOME],
}


class RunListQuery(Period):
    """The runs that started in a time, by state, type and a part of who started them."""

    state: Annotated[str, choice(STATES)] = ""
    type: Text = ""
    started_by: Text = ""
    page: PageNumber = 1


class MessageQuery(RunMessageFilter):
    """The messages of a run to list, and the page of the list."""

    page: PageNumber = 1


# The list of a handler's runs.

TO_A_PAGE: Final = 50


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


@dataclass(frozen=True, slots=True)
class RunListPage:
    """One page of the list; `found` runs fit the filter."""

    query: RunListQuery
    rows: tuple[RunRow, ...]
    found: int
    types: tuple[str, ...]

    @property
    def pages(self) -> int:
        """How many pages the list has."""
        return max(1, -(-self.found // TO_A_PAGE))


def list_runs(handler: str, query: RunListQuery, *, ledger: Ledger, now: datetime) -> RunListPage:
    """Return a page of a handler's runs: also refused and pruned ones, and restorations."""
    lists = ledger.run_lists
    chosen = RunFilter(query.since, query.until, query.state, query.type, query.started_by)
    entries = lists.page(handler, chosen, offset=(query.page - 1) * TO_A_PAGE, limit=TO_A_PAGE)
    runs = [entry.run_id for entry in entries if entry.kind is EntryKind.RUN]
    unreported = [entry.run_id for entry in entries if not entry.verdict]
    counted = lists.outcomes(runs)
    leased = lists.leased_until(unreported, now)
    rows = []
    for entry in entries:
        state, tone, sentence = describe_state(entry, leased.get(entry.run_id), now)
        outcomes: Mapping[Outcome, int] = counted.get(entry.run_id, {})
        ordered = {outcome: outcomes[outcome] for outcome in Outcome if outcome in outcomes}
        rows.append(RunRow(entry, state, tone, sentence, ordered))
    return RunListPage(
        query, tuple(rows), lists.count(handler, chosen), tuple(lists.run_types(handler))
    )


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
