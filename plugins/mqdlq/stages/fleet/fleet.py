"""The fleet: a row for each handler and queue, sorted by need, filtered, and summed up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath
from typing import Final

from mqdlq.ledger import LaterCount, Ledger, SettledSince
from mqdlq.ledger.reading.overview import OpenApproval, SeenQueue, SeenRefusal, SeenRun
from mqdlq.model import GIVEN_ACTION
from mqdlq.stages.fleet.handler_files import HandlerFile
from mqdlq.stages.fleet.queue_states import (
    ORDER,
    Finding,
    Known,
    QueueState,
    attention_of,
    checked_at,
    depth_now,
    depth_of,
    find_states,
    last_sight_of,
    oldest_of,
    settled_since,
)

DIGEST_SHOWN: Final = 12
"""How many digits of the rules digest a page shows."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Messages that arrived on a queue and departed from it since the end of the run before.

    The last run booked the departures. Arrivals follow from the two depths, so messages
    that other programs put and got in between count in neither.
    """

    arrived: int
    departed: int


@dataclass(frozen=True, slots=True)
class FleetRow:
    """A handler on one of its queues; `queue` is "" if it never had a run.

    `findings` begins with the most urgent one. `depth` was read at `checked_at`. `oldest` is the
    time since when the oldest remaining message is there. A number is None if it is unknown.
    `counted` is the run whose account counts for the whole queue, `later` what later runs did with
    its messages, and `since` which of them settled messages that needed attention.
    """

    handler: str
    queue_manager: str
    queue: str
    findings: tuple[Finding, ...]
    depth: int | None
    max_depth: int | None
    checked_at: datetime | None
    oldest: datetime | None
    traffic: Traffic | None
    attention: int | None
    since: tuple[SettledSince, ...]
    later: tuple[LaterCount, ...]
    last: SeenRun | None
    counted: SeenRun | None
    refusal: SeenRefusal | None
    approvals: tuple[OpenApproval, ...]
    file: HandlerFile | None
    has_files: bool

    @property
    def state(self) -> QueueState:
        """The most urgent state."""
        return self.findings[0].state

    @property
    def rules_name(self) -> str:
        """The file name of the rules of the last run with a table, or of the handler's file."""
        if (run := self._ruled) is not None:
            return PurePath(run.rules_source).name
        handler = self.file.handler if self.file is not None else None
        return (handler.rules or f"{handler.name}.yaml") if handler is not None else ""

    @property
    def rules_digest(self) -> str:
        """The beginning of the digest of these rules."""
        return self._ruled.rules_digest[:DIGEST_SHOWN] if self._ruled is not None else ""

    @property
    def _ruled(self) -> SeenRun | None:
        """The last run, or that of the account where the last one was given an action."""
        last = self.last
        return self.counted if last is not None and last.rules_source == GIVEN_ACTION else last

    @property
    def fill(self) -> float | None:
        """The depth as a part of the maximum depth."""
        if self.depth is None or not self.max_depth:
            return None
        return self.depth / self.max_depth


@dataclass(frozen=True, slots=True)
class FleetFilter:
    """The rows to show; an empty field narrows nothing. `text` is a part of a name."""

    text: str = ""
    state: str = ""
    queue_manager: str = ""

    def has(self, row: FleetRow) -> bool:
        """Return whether a row is shown."""
        names = (row.handler, row.queue_manager, row.queue)
        return (
            (not self.text or any(self.text.lower() in name.lower() for name in names))
            and self.state in {"", row.state}
            and self.queue_manager in {"", row.queue_manager}
        )


@dataclass(frozen=True, slots=True)
class FleetSummary:
    """The numbers of a fleet."""

    handlers: int
    queue_managers: int
    attention: int
    unknown: int
    """On how many queues no account says how many messages need attention."""
    approvals: int
    states: Mapping[QueueState, int]
    unchecked: int
    """How many handlers' rules are not checked yet."""


def read_fleet(
    ledger: Ledger,
    files: Mapping[str, HandlerFile],
    may_read: Callable[[Iterable[str]], frozenset[str]],
    now: datetime,
) -> list[FleetRow]:
    """Return a row for each handler and queue that a person may read, the most urgent first.

    `may_read` returns which of some handlers the person may read. Handlers come from the rules
    directory and from the ledger; a fixed number of SQL statements is executed.
    """
    seen, refusals = ledger.overview.queues(), ledger.overview.refusals()
    names = {*files, *refusals, *(one.handler for one in seen)}
    allowed = may_read(names)
    approvals = ledger.overview.open_approvals()
    rows = build_rows(seen, refusals, approvals, files, now=now)
    return sort_by_need(row for row in rows if row.handler in allowed)


def read_handler(
    ledger: Ledger, handler: str, files: Mapping[str, HandlerFile], now: datetime
) -> list[FleetRow]:
    """Return a row for each queue of one handler, the most urgent first."""
    seen = ledger.overview.queues(handler)
    refusals = ledger.overview.refusals(handler)
    approvals = ledger.overview.open_approvals(handler)
    own = {name: file for name, file in files.items() if name == handler}
    rows = build_rows(seen, refusals, approvals, own, now=now, only=handler, has_files=bool(files))
    return sort_by_need(rows)


def build_rows(
    seen: Sequence[SeenQueue],
    refusals: Mapping[str, SeenRefusal],
    approvals: Sequence[OpenApproval],
    files: Mapping[str, HandlerFile],
    *,
    now: datetime,
    only: str = "",
    has_files: bool | None = None,
) -> list[FleetRow]:
    """Return a row for each handler and queue, in no order; `only` names a handler to be listed."""
    is_there = bool(files) if has_files is None else has_files
    asked: dict[tuple[str, str, str], list[OpenApproval]] = {}
    for one in approvals:
        asked.setdefault((one.handler, one.queue_manager, one.queue), []).append(one)
    newest: dict[str, datetime] = {}
    for queue in seen:
        began = queue.last.started_at
        newest[queue.handler] = max(newest.get(queue.handler, began), began)
    rows = []
    for queue in seen:
        refusal = refusals.get(queue.handler)
        if refusal is not None and refusal.at <= newest[queue.handler]:
            refusal = None
        own = tuple(asked.get((queue.handler, queue.queue_manager, queue.queue), ()))
        known = Known(queue, refusal, own, files.get(queue.handler), is_there)
        rows.append(_row(queue.handler, known, now))
    for name in sorted({*files, *refusals, *filter(None, [only])} - set(newest)):
        known = Known(None, refusals.get(name), (), files.get(name), is_there)
        rows.append(_row(name, known, now))
    return rows


def sort_by_need(rows: Iterable[FleetRow]) -> list[FleetRow]:
    """Sort rows: the most urgent state, then the most messages, then the fullest queue."""

    def need(row: FleetRow) -> tuple[object, ...]:
        names = (row.handler, row.queue_manager, row.queue)
        return ORDER[row.state], -(row.attention or 0), -(row.fill or 0), *names

    return sorted(rows, key=need)


def sum_up(rows: Sequence[FleetRow]) -> FleetSummary:
    """Return the numbers of a fleet."""
    counted = Counter(row.state for row in rows)
    files = {row.handler: row.file for row in rows if row.file is not None}
    return FleetSummary(
        handlers=len({row.handler for row in rows}),
        queue_managers=len({row.queue_manager for row in rows} - {""}),
        attention=sum(row.attention or 0 for row in rows),
        unknown=sum(bool(row.queue) and row.attention is None for row in rows),
        approvals=sum(len(row.approvals) for row in rows),
        states={state: counted[state] for state in QueueState if counted[state]},
        unchecked=sum(file.rules is None for file in files.values()),
    )


def _row(handler: str, known: Known, now: datetime) -> FleetRow:
    seen = known.seen
    whole, last = (seen.whole, seen.last) if seen is not None else (None, None)
    newest = last_sight_of(seen) if seen is not None else None
    limits = (run.max_depth for run in (newest, whole) if run is not None)
    return FleetRow(
        handler=handler,
        queue_manager=seen.queue_manager if seen is not None else "",
        queue=seen.queue if seen is not None else "",
        findings=tuple(find_states(known, now)),
        depth=depth_now(seen) if seen is not None else None,
        max_depth=next((limit for limit in limits if limit is not None), None),
        checked_at=checked_at(newest) if newest is not None else None,
        oldest=oldest_of(seen) if seen is not None else None,
        traffic=traffic_of(seen) if seen is not None else None,
        attention=attention_of(seen) if seen is not None else None,
        since=settled_since(seen) if seen is not None else (),
        later=seen.later if seen is not None else (),
        last=last,
        counted=seen.counted if seen is not None else None,
        refusal=known.refusal,
        approvals=known.approvals,
        file=known.file,
        has_files=known.has_files,
    )


def traffic_of(seen: SeenQueue) -> Traffic | None:
    """Return what came and went since the run before; None if a depth or the report is missing."""
    if seen.whole is None or seen.before is None:
        return None
    now, then = depth_of(seen.whole), depth_of(seen.before)
    has_booked = bool(seen.whole.verdict) or seen.whole.look_is_work is False
    if now is None or then is None or not has_booked:
        return None
    departed = max(seen.whole.departed, then - now)
    return Traffic(now - then + departed, departed)
