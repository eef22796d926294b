"""One cause: its messages, its runs, its rules and its outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.history import CauseSighting
from mqdlq.ledger.reading.runs import HandledQueue
from mqdlq.model import Outcome
from mqdlq.reading.report.report_sources import WrittenRule, written_rules
from mqdlq.web.causes.listing import CauseRow, read_rows
from mqdlq.web.causes.queue_state import QueueState, choose_queue, read_queue_state
from mqdlq.web.rendering import NotFoundError

TOP: Final = 5
MOST_RUNS: Final = 50


@dataclass(frozen=True, slots=True)
class Top:
    """The most frequent names of one kind, each with its messages, and how many names there are."""

    what: str
    names: tuple[tuple[str, int], ...]
    different: int


@dataclass(frozen=True, slots=True)
class Ending:
    """How many messages ended so; `rule` decided, None if none did or its text is not known."""

    ordinal: int
    rule: WrittenRule | None
    outcome: Outcome | None
    messages: int


@dataclass(frozen=True, slots=True)
class CausePage:
    """One cause on one queue of a handler."""

    state: QueueState
    queues: tuple[HandledQueue, ...]
    row: CauseRow
    tops: tuple[Top, ...]
    endings: tuple[Ending, ...]
    sightings: tuple[CauseSighting, ...]
    """The last runs that met it, the newest first."""


def show_cause(
    handler: str,
    cause_id: str,
    queue_manager: str,
    queue: str,
    *,
    ledger: Ledger,
    clock: Callable[[], datetime],
) -> CausePage:
    """Return a cause; raise NotFoundError for a cause that no run met on the queue."""
    handled, queues = choose_queue(handler, queue_manager, queue, ledger)
    state = read_queue_state(handler, handled, ledger, clock)
    row = find_row(cause_id, state, ledger)
    return CausePage(
        state=state,
        queues=tuple(queues),
        row=row,
        tops=tuple(_tops(row)),
        endings=tuple(_endings(row, state)),
        sightings=tuple(reversed(row.history.sightings[-MOST_RUNS:])),
    )


def find_row(cause_id: str, state: QueueState, ledger: Ledger) -> CauseRow:
    """Return the list's row of a cause; raise NotFoundError for an unknown one."""
    for row in read_rows(state, ledger):
        if row.cause.cause_id == cause_id:
            return row
    raise NotFoundError(
        "MQDLQ-965",
        f"no run met the cause {cause_id[:60]!r} on {state.queue} @ {state.queue_manager}; choose"
        " one from the list of causes",
    )


def _tops(row: CauseRow) -> Iterator[Top]:
    profile = row.profile
    counted: tuple[tuple[str, Counter[str]], ...] = (
        ("Applications", profile.applications),
        ("Destinations", profile.destinations),
        ("Users", profile.users),
        ("Formats", profile.formats),
    )
    for what, names in counted:
        yield Top(what, tuple(names.most_common(TOP)), len(names))


def _endings(row: CauseRow, state: QueueState) -> Iterator[Ending]:
    rules = written_rules(state.taken_by.rules_text) if state.taken_by else {}
    ordered = sorted(
        row.profile.endings.items(), key=lambda item: (item[0][0] or len(rules) + 1, -item[1])
    )
    for (ordinal, outcome), messages in ordered:
        yield Ending(ordinal, rules.get(ordinal), outcome, messages)
