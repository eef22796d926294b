"""View of the overview: one page of the fleet's rows, as chosen by the URL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from mqdlq.stages.fleet.fleet import FleetFilter, FleetRow, FleetSummary, sum_up

ROWS: Final = 50
"""How many rows a page has."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """The rows of a page on one queue manager, or all of them if `queue_manager` is None."""

    queue_manager: str | None
    rows: tuple[FleetRow, ...]
    in_all: FleetSummary | None


@dataclass(frozen=True, slots=True)
class FleetPage:
    """A page of rows: `found` rows fit the filter, `page` of `pages` is shown."""

    groups: tuple[RowGroup, ...]
    summary: FleetSummary
    queue_managers: tuple[str, ...]
    found: int
    page: int
    pages: int

    @property
    def has_files(self) -> bool:
        """Whether this server has the handlers' files."""
        return all(row.has_files for group in self.groups for row in group.rows)


def choose(
    rows: Sequence[FleetRow], chosen: FleetFilter, *, page: int, is_grouped: bool
) -> FleetPage:
    """Return a page of the rows that a filter chooses; a page beyond the last is the last one.

    Groups come in the order of the most urgent row of each.
    """
    found = [row for row in rows if chosen.has(row)]
    pages = max(1, -(-len(found) // ROWS))
    page = min(max(1, page), pages)
    by_name: dict[str, list[FleetRow]] = {}
    if is_grouped:
        for row in found:
            by_name.setdefault(row.queue_manager, []).append(row)
        found = [row for own in by_name.values() for row in own]
    shown = found[(page - 1) * ROWS : page * ROWS]
    groups = [RowGroup(None, tuple(shown), None)]
    if is_grouped:
        groups = [
            RowGroup(name, tuple(own), sum_up(by_name[name]))
            for name, own in groupby(shown, key=lambda row: row.queue_manager)
        ]
    return FleetPage(
        groups=tuple(groups),
        summary=sum_up(rows),
        queue_managers=tuple(sorted({row.queue_manager for row in rows} - {""})),
        found=len(found),
        page=page,
        pages=pages,
    )
