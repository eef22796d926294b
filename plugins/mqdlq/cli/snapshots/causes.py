"""Causes as a table for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.table import Table
from rich.text import Text

from mqdlq.model import MessageClass
from mqdlq.stages.report.wording import CLASSES, period, place, reason_in_words
from mqdlq.stages.snapshot.cause_counts import Cause

_MOST: Final = 12


def causes_table(causes: Sequence[Cause], most: int = _MOST) -> Table:
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
            Text(_words(cause)),
            Text(place(cause.dest_q_name, cause.dest_q_mgr_name) if cause.dest_q_name else ""),
            period(cause.first_at, cause.last_at),
        )
    if rest := causes[most:]:
        messages = sum(cause.messages for cause in rest)
        table.add_row(f"{messages:,}", f"{len(rest):,} more causes", "", "")
    return table


def _words(cause: Cause) -> str:
    if cause.cls is not MessageClass.DEAD_LETTER:
        return CLASSES[cause.cls]
    return reason_in_words(cause.reason)
