"""Find messages in the snapshots of handlers by a filter, with what the ledger knows of them."""

from __future__ import annotations

from mqdlq.stages.finding.finding import (
    DOWNLOADED,
    count_by_application,
    count_messages,
    find_by_keys,
    find_messages,
    find_row,
    iterate_messages,
)
from mqdlq.stages.finding.found import COUNTED, PAGE_ROWS, FoundMessage, FoundPage, Total
from mqdlq.stages.finding.message_filter import (
    PARAMETERS,
    PRESENCE_WORDS,
    FilterError,
    MessageFilter,
    Presence,
)

__all__ = [
    "COUNTED",
    "DOWNLOADED",
    "PAGE_ROWS",
    "PARAMETERS",
    "PRESENCE_WORDS",
    "FilterError",
    "FoundMessage",
    "FoundPage",
    "MessageFilter",
    "Presence",
    "Total",
    "count_by_application",
    "count_messages",
    "find_by_keys",
    "find_messages",
    "find_row",
    "iterate_messages",
]
