"""View of a handler's home: its queues, its last account, and the messages that need attention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from mqdlq.causes import find_cause
from mqdlq.handlers.operation import Event
from mqdlq.ledger import Hold, Ledger, Prune, SinceSnapshot
from mqdlq.ledger.reading.overview import SeenRun
from mqdlq.model import MessageClass, Outcome, Trait
from mqdlq.stages.fleet.fleet import FleetRow, read_handler
from mqdlq.stages.fleet.handler_files import HandlerFile
from mqdlq.stages.report import read_report
from mqdlq.stages.report.needs_attention import destination_in_words, tried_in_words
from mqdlq.stages.report.report_records import MessageGroup

MOST_READ: Final = 5_000
"""The largest snapshot whose messages a page reads; for larger ones it counts outcomes only."""

RUNS: Final = 10
"""How many runs are listed."""

KEYS: Final = 5
"""How many messages of a group have a link."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Messages that need attention for the same reason.

    `cause_id` is "" if it is not known, `keys` has the keys of some of the messages, and `group`
    is the group of the report.
    """

    outcome: Outcome | None
    messages: int
    cause: str
    cause_id: str
    destination: str
    why: str
    tried: tuple[str, ...]
    next_step: str
    keys: tuple[str, ...]
    group: MessageGroup


@dataclass(frozen=True, slots=True)
class RunAccount:
    """The account of a queue's last run for the whole queue: messages in, and their outcomes."""

    run: SeenRun
    outcomes: Mapping[Outcome, int]

    @property
    def booked(self) -> int:
        """How many messages have an outcome."""
        return sum(self.outcomes.values())


@dataclass(frozen=True, slots=True)
class HandledQueue:
    """A queue of the handler; `troubles` is None if the snapshot is too large to be read here."""

    row: FleetRow
    account: RunAccount | None
    troubles: tuple[Trouble, ...] | None
    lasting: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Home:
    """All parts of the page."""

    queues: tuple[HandledQueue, ...]
    runs: tuple[SeenRun, ...]
    holds: tuple[Hold, ...]
    prune: Prune | None
    file: HandlerFile | None


def read_home(
    ledger: Ledger, lake_root: str, handler: str, files: Mapping[str, HandlerFile], now: datetime
) -> Home:
    """Return the home of a handler, whose messages that need attention come from the lake."""
    rows = read_handler(ledger, handler, files, now)
    runs = ledger.overview.last_runs(handler, RUNS)
    own = {run.run_id for run in runs}
    return Home(
        queues=tuple(_queue(row, ledger, lake_root, now) for row in rows),
        runs=tuple(runs),
        holds=tuple(h for h in ledger.holds.all() if h.handler == handler or h.run_id in own),
        prune=ledger.overview.last_prune(handler),
        file=files.get(handler),
    )


def _queue(row: FleetRow, ledger: Ledger, lake_root: str, now: datetime) -> HandledQueue:
    run = row.counted
    last = row.last
    found = ledger.alerts.lasting(last.run_id) if last is not None else set()
    return HandledQueue(
        row=row,
        account=_account(run, ledger) if run is not None else None,
        troubles=_troubles(row, run, ledger, lake_root, now),
        lasting=tuple(event for event in Event if event in found),
    )


def _account(run: SeenRun, ledger: Ledger) -> RunAccount | None:
    if run.messages is None:
        return None
    counted = ledger.overview.outcomes(run.run_id)
    return RunAccount(run, {one: counted[one] for one in Outcome if counted[one]})


def _troubles(
    row: FleetRow, run: SeenRun | None, ledger: Ledger, lake_root: str, now: datetime
) -> tuple[Trouble, ...] | None:
    if run is None or not row.attention:
        return ()
    if (run.taken or 0) > MOST_READ:
        return None
    since = ledger.later.of_run(run.run_id) if row.later else SinceSnapshot()
    within = {"ledger": ledger, "lake_root": lake_root, "since": since}
    report = read_report(run.run_id, stages={}, now=now, **within)  # type: ignore[arg-type]
    groups = (*report.unaccounted_groups, *report.attention_groups)
    return tuple(map(_trouble, groups))


def _trouble(group: MessageGroup) -> Trouble:
    first = group.first
    is_dead_letter = first.cls is MessageClass.DEAD_LETTER
    return Trouble(
        outcome=first.outcome,
        messages=group.messages,
        cause=first.cause,
        cause_id=_cause_id(group),
        destination=destination_in_words(group) if is_dead_letter else "",
        why=first.why,
        tried=tuple(tried_in_words(tried, group.messages) for tried in group.tried),
        next_step=first.next_step,
        keys=tuple(row.message_key for row in group.rows[:KEYS] if row.message_key),
        group=group,
    )


def _cause_id(group: MessageGroup) -> str:
    first = group.first
    if first.cls is None or group.is_mixed:
        return ""
    names = (first.dest_q_name, first.dest_q_mgr_name)
    return find_cause(first.cls, first.reason, *names).cause_id


def attention_by_outcome(queue: HandledQueue) -> Sequence[tuple[Outcome, int]]:
    """Return the outcomes that need attention, with the numbers that later runs left of them."""
    if queue.account is None:
        return []
    left = Counter(queue.account.outcomes)
    for one in queue.row.later:
        if one.before is not None:
            left[one.before] -= one.since.messages
            left[one.outcome] += one.since.messages
    return [
        (one, left[one]) for one in Outcome if Trait.NEEDS_ATTENTION in one.traits and left[one]
    ]
