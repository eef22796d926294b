"""Causes as a table for a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from mqdlq.causes import Cause, CountedCause
from mqdlq.words import cause_in_words, destination_of, period, reason_in_words

_MOST: Final = 12


def causes_table(causes: Sequence[CountedCause], most: int = _MOST) -> Table:
    """Return the largest causes, a row to each; the rest are counted in one."""
    table = Table(
        title="Why they are here",
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        header_style="dim",
    )
    table.add_column("Messages", justify="right")
    table.add_column("Reason", overflow="fold")
    table.add_column("Destination", overflow="fold")
    table.add_column("Dead-lettered", overflow="fold")
    for cause in causes[:most]:
        table.add_row(
            f"{cause.messages:,}",
            Text(_words(cause.cause)),
            Text(destination_of(cause.cause, cause.queues)),
            period(cause.first_at, cause.last_at),
        )
    if rest := causes[most:]:
        messages = sum(cause.messages for cause in rest)
        table.add_row(f"{messages:,}", f"{len(rest):,} more causes", "", "")
    return table


def causes_as_json(causes: Sequence[CountedCause]) -> list[dict[str, Any]]:
    """Return causes as JSON values."""
    return [_as_json(counted) for counted in causes]


def _as_json(counted: CountedCause) -> dict[str, Any]:
    cause, times = counted.cause, (counted.first_at, counted.last_at)
    first, last = (at.isoformat() if at else None for at in times)
    return {
        "cause_id": cause.cause_id,
        "class": cause.cls,
        "reason": cause.reason,
        "reason_text": cause.reason_text,
        "kind": cause.kind.value,
        "dest_q_name": cause.dest_q_name,
        "dest_q_mgr_name": cause.dest_q_mgr_name,
        "queues": counted.queues,
        "messages": counted.messages,
        "first_at": first,
        "last_at": last,
    }


def _words(cause: Cause) -> str:
    is_of_dead_letters = cause.is_of_dead_letters
    return reason_in_words(cause.reason) if is_of_dead_letters else cause_in_words(cause)
