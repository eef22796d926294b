"""The page Search: one page of the messages that a filter selects, or the fault of the filter."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from mqdlq.ledger import Ledger
from mqdlq.model import Outcome
from mqdlq.reading.filters import PARAMETERS, PRESENCE_WORDS, FilterError, MessageFilter
from mqdlq.reading.find import FoundPage, find_messages

OTHERS: Final = ("handler", "page")
"""Parameters of the page that are not part of the filter."""

STATES: Final = {
    **{str(state): words for state, words in PRESENCE_WORDS.items()},
    **{str(outcome): outcome.words for outcome in Outcome},
}
"""The states that can be chosen, and their words."""

_ALWAYS_OPEN: Final = ("text", "since", "until", "state")


@dataclass(frozen=True, slots=True)
class SearchPage:
    """Found messages, or the fault of the filter; `given` are the parameters as they came.

    `handler` is the only handler that is searched, "" for all that the person may read.
    """

    given: dict[str, str]
    handler: str
    chosen: MessageFilter
    found: FoundPage | None
    fault: FilterError | None = None

    @property
    def has_more_fields(self) -> bool:
        """Whether a field is given that the form hides at first."""
        return any(self.given.get(name) for name in PARAMETERS if name not in _ALWAYS_OPEN)

    def query(self, **more: str | int) -> dict[str, str | int]:
        """Return the query parameters of this search, and others."""
        handler = {"handler": self.handler} if self.handler else {}
        return {**handler, **self.chosen.parameters(), **more}


def search(
    pairs: Iterable[tuple[str, str]],
    handlers: Collection[str],
    *,
    ledger: Ledger,
    lake_root: str,
) -> SearchPage:
    """Return the page for the parameters of a query string; raise `LakeError`.

    `handlers` are the handlers that the person may read; no others are searched.
    """
    given_pairs = list(pairs)
    given = dict(given_pairs)
    handler = given.get("handler", "").strip()
    try:
        chosen = MessageFilter.parse(given_pairs, OTHERS)
        found = find_messages(
            chosen,
            chosen_handlers(handler, handlers),
            ledger=ledger,
            lake_root=lake_root,
            page=_page_number(given.get("page", "")),
        )
    except FilterError as fault:
        return SearchPage(given, handler, MessageFilter(), None, fault)
    return SearchPage(given, handler, chosen, found)


def chosen_handlers(handler: str, handlers: Collection[str]) -> list[str]:
    """Return the handlers to search; raise `FilterError` for one that the person may not read."""
    if not handler:
        return sorted(handlers)
    if handler not in handlers:
        raise FilterError(
            "handler", "it does not exist, or you may not see it", "one of the overview"
        )
    return [handler]


def _page_number(text: str) -> int:
    value = text.strip() or "1"
    if not (value.isascii() and value.isdecimal() and len(value) < 10):  # noqa: PLR2004
        raise FilterError("page", f"found {value[:20]!r}", "a number from 1")
    return int(value)
