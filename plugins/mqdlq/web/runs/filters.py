"""Filters of runs and of a run's messages, parsed from the query of a URL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from mqdlq.lake.row_filter import RowFilter
from mqdlq.ledger import NO_REPORT, EntryKind, OutcomeFilter, RunFilter
from mqdlq.model import Outcome
from mqdlq.stages.report.wording import VERDICTS
from mqdlq.stages.run_reading.message_list import MessageFilter
from mqdlq.web.page_errors import PageError

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
