"""The filters of the list of causes, as its URL has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from mqdlq.causes import Kind
from mqdlq.web.page_errors import PageError

SORTS: Final = {"count": "most messages", "newest": "newest first", "oldest": "oldest first"}
ONLY: Final = {"new": "new causes", "attention": "causes that need attention"}
KINDS: Final = {kind.value: kind.words for kind in Kind if kind.value}
_CHOICES: Final = {"sort": SORTS, "only": ONLY, "kind": KINDS}


@dataclass(frozen=True, slots=True)
class CauseFilters:
    """The chosen causes; an empty field chooses all.

    `reason` and `destination` and `application` are parts of names, in any case; `reason` may be a
    number. `since` and `until` are days (UTC), both included.
    """

    queue_manager: str = ""
    queue: str = ""
    kind: str = ""
    reason: str = ""
    destination: str = ""
    application: str = ""
    since: str = ""
    until: str = ""
    only: str = ""
    sort: str = ""
    page: str = ""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> CauseFilters:
        """Take the fields from query parameters; raise `PageError` for an invalid one."""
        known = {field.name for field in fields(cls)}
        values = {name: text.strip() for name, text in given.items() if name in known}
        filters = cls(**values)
        for name, choices in _CHOICES.items():
            chosen = getattr(filters, name)
            if chosen and chosen not in choices:
                raise invalid(name, chosen, f"one of {', '.join(choices)}")
        for name in ("since", "until"):
            _day(name, getattr(filters, name))
        if filters.page and not (filters.page.isdecimal() and int(filters.page)):
            raise invalid("page", filters.page, "a number from 1")
        return filters

    @property
    def page_number(self) -> int:
        """The page of the list, from 1."""
        return int(self.page or 1)

    @property
    def since_at(self) -> datetime | None:
        """The beginning of the period, or None."""
        return _day("since", self.since)

    @property
    def until_at(self) -> datetime | None:
        """The end of the period, which is not in it, or None."""
        day = _day("until", self.until)
        return None if day is None else day + timedelta(days=1)

    @property
    def narrows(self) -> bool:
        """Whether some causes of the queue may be left out."""
        chosen = replace(self, queue_manager="", queue="", sort="", page="")
        return chosen != CauseFilters()

    def query(self, **changes: Any) -> dict[str, str]:
        """Return the query parameters of the list with some changes."""
        return {name: str(value) for name, value in {**asdict(self), **changes}.items() if value}


def _day(name: str, text: str) -> datetime | None:
    if not text:
        return None
    try:
        day = date.fromisoformat(text)
        end = datetime(day.year, day.month, day.day, tzinfo=UTC)
        end + timedelta(days=1)
    except (ValueError, OverflowError):
        raise invalid(name, text, "a day such as 2026-11-22") from None
    return end


def invalid(name: str, text: str, expected: str) -> PageError:
    """Return the error for a query parameter."""
    return PageError("MQDLQ-963", f"parameter {name} is {text[:60]!r}; expected {expected}")
