"""What the ledger knows of archived copies and their restorations: selections in, facts out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, case, func, insert, select

from mqdlq.errors import LedgerError
from mqdlq.ledger import tables
from mqdlq.ledger.database import in_turn
from mqdlq.ledger.reading import LedgerReader
from mqdlq.ledger.tables import restoration_states, restorations
from mqdlq.model import Action, AttemptState, RestorationState

KEYS_AT_ONCE = 500  # below every database's limit of bound parameters

CopyId = tuple[str, int]
"""An archived copy: the run that made it, and the message it is of."""

PUT = (RestorationState.INTENDED, RestorationState.RESTORED, RestorationState.UNKNOWN)
"""The states in which a copy is put, about to be, or may have been."""


@dataclass(frozen=True, slots=True)
class ArchivedCopy:
    """A copy that a run made of a message before it was to discard it.

    `occurrence` tells messages with the same key apart (see `RunMessage`). `discard` is what the
    run's DISCARD has come to, None where none was begun; `rule` is that rule's ordinal and
    `discarded_at` when it was written, else 0 and None.
    """

    run_id: str
    message_id: int
    handler: str
    queue_manager: str
    queue: str
    message_key: bytes
    occurrence: int
    location: str
    digest: str
    at: datetime
    discard: AttemptState | None = None
    rule: int = 0
    discarded_at: datetime | None = None

    @property
    def key(self) -> CopyId:
        """Return what tells it from all others."""
        return self.run_id, self.message_id

    @property
    def is_provisional(self) -> bool:
        """Whether the message may still be on its queue: its unit of work is not confirmed."""
        return self.discard is not AttemptState.CONFIRMED


@dataclass(frozen=True, slots=True)
class Restoration:
    """Who asked for which copies to be put where.

    `queue` is the dead-letter queue they were on, and `state_queue` the one whose markers tell
    what was put. `run_id` is "" for all runs, `message_keys` (hex) empty for all messages,
    `reason` 0 for every reason. `to_queue_manager` is "" where name resolution is to find it.
    """

    restoration_id: str
    handler: str
    who: str
    queue_manager: str
    queue: str
    state_queue: str
    run_id: str
    message_keys: tuple[str, ...]
    reason: int
    to_queue: str
    to_queue_manager: str
    header: bool
    again: bool
    dry_run: bool
    started_at: datetime

    @property
    def puts_back(self) -> bool:
        """Whether the messages go back to the queue they were discarded from."""
        is_here = self.to_queue_manager in {"", self.queue_manager}
        return is_here and self.to_queue == self.queue


@dataclass(frozen=True, slots=True)
class CopyState:
    """What a restoration has come to with one copy; `mqrc` is the reason of a failed put, or 0."""

    run_id: str
    message_id: int
    state: RestorationState
    at: datetime
    unit: str = ""
    mqrc: int = 0
    why: str = ""

    @property
    def key(self) -> CopyId:
        """Return the copy."""
        return self.run_id, self.message_id


def archived(
    ledger: LedgerReader,
    *,
    handler: str = "",
    run_id: str = "",
    place: tuple[str, str] | None = None,
    message_keys: Collection[str] = (),
) -> list[ArchivedCopy]:
    """Return the copies in the archive, oldest first; what is not said does not narrow them.

    `place` is a queue manager and a queue, `message_keys` are hex.
    """
    table, message, run = tables.archive, tables.messages, tables.runs
    query = (
        select(
            table,
            *(run.c.handler, run.c.queue_manager, run.c.queue),
            *(message.c.message_key, message.c.occurrence),
        )
        .join(run, run.c.run_id == table.c.run_id)
        .join(message, message.c.message_id == table.c.message_id)
        .order_by(table.c.at, table.c.location, table.c.message_id)
    )
    if handler:
        query = query.where(run.c.handler == handler)
    if run_id:
        query = query.where(table.c.run_id == run_id)
    if place:
        query = query.where(run.c.queue_manager == place[0], run.c.queue == place[1])
    keys = [bytes.fromhex(key) for key in message_keys]
    with ledger.engine.connect() as connection:
        rows = [
            row
            for narrowed in _narrowed(query, message.c.message_key, keys)
            for row in connection.execute(narrowed).mappings()
        ]
        discards = _discards(connection, {row["run_id"] for row in rows})
    copies = [ArchivedCopy(**row, **discards.get(_key(row), {})) for row in rows]
    return sorted(copies, key=lambda copy: (copy.at, copy.location))


def _narrowed(query: Select[Any], column: Any, keys: Sequence[bytes]) -> Iterator[Select[Any]]:
    if not keys:
        yield query
    for start in range(0, len(keys), KEYS_AT_ONCE):
        yield query.where(column.in_(keys[start : start + KEYS_AT_ONCE]))


def _discards(connection: Connection, run_ids: Collection[str]) -> dict[CopyId, dict[str, Any]]:
    """Return by copy what the DISCARD of its message came to; a confirmed one holds."""
    table = tables.attempts
    confirmed = case((table.c.state == AttemptState.CONFIRMED.value, table.c.seq))
    found = {}
    for run_id in run_ids:
        decisive = (
            select(func.coalesce(func.max(confirmed), func.max(table.c.seq)))
            .where(table.c.run_id == run_id, table.c.action == Action.DISCARD.value)
            .group_by(table.c.message_id)
        )
        query = select(table).where(table.c.seq.in_(decisive))
        for row in connection.execute(query).mappings():
            found[_key(row)] = {
                "discard": AttemptState(row["state"]),
                "rule": row["rule"],
                "discarded_at": row["at"],
            }
    return found


def _key(row: Any) -> CopyId:
    return row["run_id"], row["message_id"]


def restoration(ledger: LedgerReader, restoration_id: str) -> Restoration | None:
    """Return a restoration, or None."""
    query = select(restorations).where(restorations.c.restoration_id == restoration_id)
    return next(_restorations(ledger, query), None)


def newest_restoration(
    ledger: LedgerReader, queue_manager: str, state_queue: str
) -> Restoration | None:
    """Return the restoration by a state queue that was asked for last, dry runs aside."""
    table = restorations
    query = (
        select(table)
        .where(
            table.c.queue_manager == queue_manager,
            table.c.state_queue == state_queue,
            table.c.dry_run.is_(False),
        )
        .order_by(table.c.started_at.desc())
        .limit(1)
    )
    return next(_restorations(ledger, query), None)


def _restorations(ledger: LedgerReader, query: Select[Any]) -> Iterator[Restoration]:
    with ledger.engine.connect() as connection:
        rows = connection.execute(query).mappings().all()
    return (Restoration(**row) for row in rows)


def record_restoration(
    ledger: LedgerReader, new: Restoration, copies: Iterable[ArchivedCopy]
) -> None:
    """Record a restoration with the copies it selects; both hold from then on."""
    rows = [
        _row(new.restoration_id, CopyState(*copy.key, RestorationState.SELECTED, new.started_at))
        for copy in copies
    ]
    with ledger.engine.begin() as connection:
        connection.execute(insert(restorations), asdict(new))
        connection.execute(insert(restoration_states), rows)


def states_of(ledger: LedgerReader, restoration_id: str) -> dict[CopyId, CopyState]:
    """Return what a restoration has come to with each of its copies, in the order selected."""
    with ledger.engine.connect() as connection:
        return _states(connection, restoration_id)


def _states(connection: Connection, restoration_id: str) -> dict[CopyId, CopyState]:
    table = restoration_states
    query = select(table).where(table.c.restoration_id == restoration_id).order_by(table.c.seq)
    found: dict[CopyId, CopyState] = {}
    for row in connection.execute(query).mappings():
        found[_key(row)] = _state(row)  # where a copy has several, the last one
    return found


def add_states(ledger: LedgerReader, restoration_id: str, states: Iterable[CopyState]) -> None:
    """Add what copies have come to, all in one transaction; durable when this returns."""
    rows = [_row(restoration_id, state) for state in states]
    if rows:
        with ledger.engine.begin() as connection:
            connection.execute(insert(restoration_states), rows)


def intend(ledger: LedgerReader, restoring: Restoration, states: Sequence[CopyState]) -> None:
    """Add what a unit of work is about to put, if nothing of it is put or about to be otherwise.

    Raises LedgerError, and writes nothing, where another task has a hand in it: one that was
    frozen must not go on with what the task in its place has done meanwhile.
    """
    name = restoring.restoration_id
    with in_turn(ledger.engine) as connection:
        own = _latest(connection, [state.key for state in states])
        for (restoration_id, _), other in own.items():
            is_ours = restoration_id == name
            if other.state in PUT and (is_ours or not restoring.again):
                by = "another task of it" if is_ours else f"restoration {restoration_id}"
                raise LedgerError(
                    f"restoration {name}: {by} puts the same messages at this moment, or has put"
                    " them; nothing was put twice, and this one ends here"
                )
        connection.execute(insert(restoration_states), [_row(name, state) for state in states])


def put_by_others(
    ledger: LedgerReader, restoration_id: str, copies: Sequence[CopyId]
) -> dict[CopyId, tuple[Restoration, CopyState]]:
    """Return which copies other restorations have put, or may have, or are about to put.

    Of several that have, the last one is named.
    """
    wanted = set(copies)
    with ledger.engine.connect() as connection:
        latest = _latest(connection, copies)
    found: dict[CopyId, tuple[str, CopyState]] = {}
    for (other, key), state in latest.items():
        if other != restoration_id and key in wanted and state.state in PUT:
            before = found.get(key)
            if before is None or before[1].at <= state.at:
                found[key] = other, state
    known = {name: restoration(ledger, name) for name in {name for name, _ in found.values()}}
    return {
        key: (by, state) for key, (name, state) in found.items() if (by := known[name]) is not None
    }


def _latest(
    connection: Connection, copies: Sequence[CopyId]
) -> dict[tuple[str, CopyId], CopyState]:
    """Return the states of copies by restoration and copy, in whatever restoration."""
    table = restoration_states
    by_run: dict[str, list[int]] = {}
    for run_id, message_id in copies:
        by_run.setdefault(run_id, []).append(message_id)
    found: dict[tuple[str, CopyId], CopyState] = {}
    for run_id, numbers in by_run.items():
        for start in range(0, len(numbers), KEYS_AT_ONCE):
            query = (
                select(table)
                .where(
                    table.c.run_id == run_id,
                    table.c.message_id.in_(numbers[start : start + KEYS_AT_ONCE]),
                )
                .order_by(table.c.seq)
            )
            for row in connection.execute(query).mappings():
                found[row["restoration_id"], _key(row)] = _state(row)
    return found


def open_units(
    ledger: LedgerReader, queue_manager: str, state_queue: str
) -> list[tuple[Restoration, list[CopyState]]]:
    """Return the restorations by a state queue with the states that only markers can settle."""
    table, states = restorations, restoration_states
    unsettled = [RestorationState.INTENDED.value, RestorationState.UNKNOWN.value]
    ever = select(states.c.seq).where(
        states.c.restoration_id == table.c.restoration_id, states.c.state.in_(unsettled)
    )
    query = select(table).where(
        table.c.queue_manager == queue_manager, table.c.state_queue == state_queue, ever.exists()
    )
    found = []
    for each in _restorations(ledger, query.order_by(table.c.started_at)):
        latest = states_of(ledger, each.restoration_id).values()
        if still := [state for state in latest if state.state.value in unsettled]:
            found.append((each, still))
    return found


def known_restorations(ledger: LedgerReader, names: Collection[str]) -> set[str]:
    """Return which of these are restorations of this ledger."""
    query = select(restorations).where(restorations.c.restoration_id.in_(names))
    return {each.restoration_id for each in _restorations(ledger, query)}


def put_back(ledger: LedgerReader, run_id: str) -> set[int]:
    """Return which messages a run discarded are put on its queue again, or may be."""
    table = restorations
    query = select(table).where(
        table.c.restoration_id.in_(
            select(restoration_states.c.restoration_id).where(restoration_states.c.run_id == run_id)
        )
    )
    return {
        state.message_id
        for each in _restorations(ledger, query)
        if each.puts_back
        for state in states_of(ledger, each.restoration_id).values()
        if state.run_id == run_id and state.state in PUT
    }


_STATE = tuple(field.name for field in fields(CopyState))


def _state(row: Any) -> CopyState:
    return CopyState(**{n: row[n] for n in _STATE} | {"state": RestorationState(row["state"])})


def _row(restoration_id: str, state: CopyState) -> dict[str, Any]:
    return {"restoration_id": restoration_id, **asdict(state)}
