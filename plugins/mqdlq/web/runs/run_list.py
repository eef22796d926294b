"""Filters of runs and of a run's messages, parsed from the query of a URL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from mqdlq.lake.row_filter import RowFilter
from mqdlq.ledger import NO_REPORT, EntryKind, Ledger, ListedRun, OutcomeFilter, RunFilter
from mqdlq.model import Outcome
from mqdlq.reading.run.message_list import MessageFilter
from mqdlq.web.rendering import PageError
from mqdlq.words import VERDICTS, moment, span

Query = Mapping[str, str]

STATES: Final = {
    **{verdict.value: words for verdict, words in VERDICTS.items()},
    NO_REPORT: "No report",
    EntryKind.REFUSED.value: "Refused",
    EntryKind.RESTORATION.value: "Restoration",
    EntryKind.PRUNED.value: "Pruned",
}
"""The states of a list's entries in words: verdicts of reports, and kinds."""

WITHOUT_OUTCOME: Final = "none"
OUTCOMES: Final = {
    **{outcome.value: outcome.words for outcome in Outcome if outcome is not Outcome.NOT_SELECTED},
    WITHOUT_OUTCOME: "without an outcome",
}
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_DIGITS: Final = re.compile(r"[0-9a-fA-F]+")
_MOST_PAGES: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class RunListQuery:
    """The query of a list of runs: its parameters as they are in the URL, and what they choose."""

    given: Mapping[str, str]
    chosen: RunFilter
    page: int

    @classmethod
    def parse(cls, query: Query) -> RunListQuery:
        """Parse a query; raise PageError, which names the parameter, if a value is not valid."""
        given = _given(query, ("since", "until", "state", "type", "started_by"))
        state = given.get("state", "")
        if state and state not in STATES:
            raise _error("state", state, f"one of {', '.join(STATES)}")
        chosen = RunFilter(
            since=_day(given, "since"),
            until=_day_after(given, "until"),
            state=state,
            run_type=given.get("type", ""),
            started_by=given.get("started_by", ""),
        )
        return cls(given, chosen, _number(query, "page", 1))


@dataclass(frozen=True, slots=True)
class MessageQuery:
    """The query of a run's messages: its parameters as they are in the URL, and their meaning."""

    given: Mapping[str, str]
    chosen: MessageFilter
    page: int

    @classmethod
    def parse(cls, query: Query) -> MessageQuery:
        """Parse a query; raise PageError, which names the parameter, if a value is not valid."""
        names = ("key", "msg_id", "application", "destination", "outcome", "rule", "since", "until")
        given = _given(query, names)
        rows = RowFilter(
            message_key=_digits(given, "key", 64),
            msg_id=_digits(given, "msg_id", 48),
            application=given.get("application", ""),
            destination=given.get("destination", ""),
            since=_day(given, "since"),
            until=_day_after(given, "until"),
        )
        outcome = given.get("outcome", "")
        if outcome and outcome not in OUTCOMES:
            raise _error("outcome", outcome, f"one of {', '.join(OUTCOMES)}")
        is_unbooked = outcome == WITHOUT_OUTCOME
        outcomes = OutcomeFilter(
            outcome=Outcome(outcome) if outcome and not is_unbooked else None,
            is_unbooked=is_unbooked,
            rule=_number(given, "rule", 0) if given.get("rule") else None,
        )
        return cls(given, MessageFilter(rows, outcomes), _number(query, "page", 1))


def _given(query: Query, names: tuple[str, ...]) -> dict[str, str]:
    return {name: query[name].strip() for name in names if query.get(name, "").strip()}


def _digits(given: Query, name: str, most: int) -> str:
    text = given.get(name, "")
    if text and (not _DIGITS.fullmatch(text) or len(text) > most):
        raise _error(name, text, f"at most {most} hexadecimal digits")
    return text.lower()


def _day(given: Query, name: str) -> datetime | None:
    text = given.get(name, "")
    if not text:
        return None
    if _DAY.fullmatch(text):
        with suppress(ValueError):  # such as 2026-02-30
            return datetime.fromisoformat(text).replace(tzinfo=UTC)
    raise _error(name, text, "a day such as 2026-11-21")


def _day_after(given: Query, name: str) -> datetime | None:
    at = _day(given, name)
    if at is None:
        return None
    try:
        return at + timedelta(days=1)
    except OverflowError:
        raise _error(name, given[name], "a day such as 2026-11-21") from None


def _number(given: Query, name: str, least: int) -> int:
    text = given.get(name, "") or str(least)
    if not text.isascii() or not text.isdigit() or not least <= int(text[:9]) <= _MOST_PAGES:
        raise _error(name, text, f"a number from {least}")
    return int(text[:9])


def _error(name: str, text: str, expected: str) -> PageError:
    shown = text if len(text) <= 40 else text[:40] + "..."  # noqa: PLR2004 (enough to find it)
    return PageError("MQDLQ-986", f"{name} is {shown!r}; expected {expected}")


# The list of a handler's runs.

TO_A_PAGE: Final = 50


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in the list: its state as a word and a class, and a sentence about it.

    `outcomes` are the counts of its report; `is_asked` says that its plan waits for an approval.
    """

    entry: ListedRun
    state: str
    tone: str
    sentence: str
    outcomes: Mapping[Outcome, int]
    is_asked: bool

    @property
    def duration_s(self) -> float | None:
        """Seconds from the start to the last browse or the report, None before."""
        if self.entry.ended_at is None or self.entry.kind is not EntryKind.RUN:
            return None
        return (self.entry.ended_at - self.entry.at).total_seconds()

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
    entries = lists.page(
        handler, query.chosen, offset=(query.page - 1) * TO_A_PAGE, limit=TO_A_PAGE
    )
    runs = [entry.run_id for entry in entries if entry.kind is EntryKind.RUN]
    unreported = [entry.run_id for entry in entries if not entry.verdict]
    counted = lists.outcomes(runs)
    asked = lists.open_questions(unreported)
    leased = lists.leased_until(unreported, now)
    rows = []
    for entry in entries:
        outcomes: dict[Outcome, int] = {}
        for how, number in counted.get(entry.run_id, {}).items():
            outcomes[how.outcome] = outcomes.get(how.outcome, 0) + number
        state, tone, sentence = describe_state(
            entry, asked.get(entry.run_id), leased.get(entry.run_id), now
        )
        ordered = {outcome: outcomes[outcome] for outcome in Outcome if outcome in outcomes}
        is_asked = entry.run_id in asked
        rows.append(RunRow(entry, state, tone, sentence, ordered, is_asked))
    return RunListPage(
        query, tuple(rows), lists.count(handler, query.chosen), tuple(lists.run_types(handler))
    )


def describe_state(
    entry: ListedRun, asked: datetime | None, leased_until: datetime | None, now: datetime
) -> tuple[str, str, str]:
    """Return the state of a run in words, its class, and a sentence.

    `asked` is since when an approval is open, `leased_until` the end of the run's last lease. The
    ledger does not know whether the tasks of a run without a report still run; Airflow does.
    """
    tries = f" ({entry.tries} tries)" if entry.tries > 1 else ""
    others = {
        EntryKind.REFUSED: ("failed", f"The run did not start{tries}: {entry.why}"),
        EntryKind.PRUNED: ("unfinished", f"Only its totals remain: {entry.why}"),
        EntryKind.RESTORATION: ("unfinished", "Archived copies were put back"),
    }
    if entry.kind in others:
        return STATES[entry.kind], *others[entry.kind]
    if entry.verdict:
        return STATES.get(entry.verdict, entry.verdict), entry.verdict, entry.headline
    if asked is not None:
        return "Waits for approval", "attention", f"Its plan has waited since {moment(asked)}"
    if leased_until is not None:
        return "In progress", "unfinished", f"It holds messages until {moment(leased_until)}"
    return _unreported(entry, now)


def _unreported(entry: ListedRun, now: datetime) -> tuple[str, str, str]:
    if entry.saw_no_work and entry.messages is None:
        return "Nothing to do", "empty", "It found no work, and has no report"
    limit = timedelta(seconds=entry.max_run_time_s)
    if now > entry.at + limit:
        text = f"No report, and its time limit of {span(limit.total_seconds())} is over"
        return STATES[NO_REPORT], "attention", f"{text}: it may have broken off; see its tasks"
    return STATES[NO_REPORT], "unfinished", "No report yet; its tasks may still run"
