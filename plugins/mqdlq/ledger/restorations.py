"""Restorations: who asked for which archived copies to be put where, and what they came to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, RowMapping, Select, insert, select

from mqdlq.errors import LedgerError
from mqdlq.ledger.archive import ArchivedCopy, CopyId
from mqdlq.ledger.database import Repository, add, columns_of, in_parts, in_turn
from mqdlq.ledger.tables.messages import restoration_states, restorations
from mqdlq.model import RestorationState
from mqdlq.reasons import Reason

PUT: Final = (RestorationState.INTENDED, RestorationState.RESTORED, RestorationState.UNKNOWN)
"""The states in which a copy is put, about to be, or may have been."""

_UNSETTLED: Final = (RestorationState.INTENDED, RestorationState.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Restoration:
    """A request to restore archived copies: its user, its selection and its target.

    `queue` is the dead-letter queue they were on, and `state_queue` the one whose markers tell
    what was put. `run_id` is "" for all runs, `message_keys` (hex) empty for all messages,
    `reason` 0 for every reason. `to_queue_manager` is "" where name resolution is to find it. `why`
    is the reason or ticket that the user gave.
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
    why: str = ""

    @property
    def puts_back(self) -> bool:
        """Whether the messages go back to the queue they were discarded from."""
        is_here = self.to_queue_manager in {"", self.queue_manager}
        return is_here and self.to_queue == self.queue


@dataclass(frozen=True, slots=True)
class CopyState:
    """The state of one copy in a restoration; `mqrc` is the reason of a failed put, or 0."""

    run_id: str
    message_id: int
    state: RestorationState
    at: datetime
    unit: str = ""
    mqrc: int = 0
    why: Reason | None = None

    @property
    def key(self) -> CopyId:
        """Return the copy."""
        return self.run_id, self.message_id


class Restorations(Repository):
    """Restorations, and the states of their copies: the last state of a copy holds."""

    def record(self, new: Restoration, copies: Iterable[ArchivedCopy]) -> None:
        """Record a restoration with the copies it selects; both hold from then on.

        Raises sqlalchemy.exc.IntegrityError if the restoration is known.
        """
        selected = [
            CopyState(*copy.key, RestorationState.SELECTED, new.started_at) for copy in copies
        ]
        with self._engine.begin() as connection:
            connection.execute(insert(restorations), asdict(new))
            connection.execute(insert(restoration_states), _rows(new.restoration_id, selected))

    def get(self, restoration_id: str) -> Restoration | None:
        """Return a restoration, or None."""
        query = select(restorations).where(restorations.c.restoration_id == restoration_id)
        return self._one(Restoration, query)

    def newest(self, queue_manager: str, state_queue: str) -> Restoration | None:
        """Return the restoration by a state queue that was asked for last, without dry runs."""
        found = self._select(
            restorations.c.queue_manager == queue_manager,
            restorations.c.state_queue == state_queue,
            restorations.c.dry_run.is_(False),
        )
        return max(found, key=lambda one: one.started_at, default=None)

    def known(self, names: Collection[str]) -> set[str]:
        """Return which of these are restorations of this ledger."""
        found = self._select(restorations.c.restoration_id.in_(names))
        return {one.restoration_id for one in found}

    def states(self, restoration_id: str) -> dict[CopyId, CopyState]:
        """Return what a restoration has come to with each of its copies, in the order selected."""
        query = _STATES.where(restoration_states.c.restoration_id == restoration_id)
        return {_key(row): _state(row) for row in self._all(query)}

    def add_states(self, restoration_id: str, states: Iterable[CopyState]) -> None:
        """Add what copies have come to, all in one transaction; durable when this returns."""
        with self._engine.begin() as connection:
            add(connection, restoration_states, _rows(restoration_id, states))

    def intend(self, restoring: Restoration, states: Sequence[CopyState]) -> None:
        """Add what a unit of work is about to put, if nothing else puts or has put any of it.

        Raises LedgerError, and writes nothing, if another task has put a copy or is about to: a
        task that was frozen must not repeat the work of the task that replaced it.
        """
        name = restoring.restoration_id
        with in_turn(self._engine) as connection:
            latest = _latest(connection, [state.key for state in states])
            for (restoration_id, _), other in latest.items():
                is_ours = restoration_id == name
                if other.state in PUT and (is_ours or not restoring.again):
                    by = "another task of it" if is_ours else f"restoration {restoration_id}"
                    raise LedgerError(
                        "MQDLQ-713",
                        f"restoration {name}: {by} puts the same messages at this moment, or has"
                        " put them, so this one ends; no message was put twice",
                    )
            connection.execute(insert(restoration_states), _rows(name, states))

    def put_by_others(
        self, restoration_id: str, copies: Sequence[CopyId]
    ) -> dict[CopyId, tuple[Restoration, CopyState]]:
        """Return which copies other restorations have put, or may have, or are about to put.

        Of several that have, the last one is named.
        """
        with self._engine.connect() as connection:
            latest = _latest(connection, copies)
        found: dict[CopyId, tuple[str, CopyState]] = {}
        for (other, key), state in latest.items():
            if other != restoration_id and state.state in PUT:
                before = found.get(key)
                if before is None or before[1].at <= state.at:
                    found[key] = other, state
        known = {name: self.get(name) for name in {name for name, _ in found.values()}}
        return {
            key: (by, state)
            for key, (name, state) in found.items()
            if (by := known[name]) is not None
        }

    def open_units(
        self, queue_manager: str, state_queue: str
    ) -> list[tuple[Restoration, list[CopyState]]]:
        """Return the restorations by a state queue with the states that only markers can settle."""
        ever = select(restoration_states.c.seq).where(
            restoration_states.c.restoration_id == restorations.c.restoration_id,
            restoration_states.c.state.in_(_UNSETTLED),
        )
        unsettled = self._select(
            restorations.c.queue_manager == queue_manager,
            restorations.c.state_queue == state_queue,
            ever.exists(),
        )
        found = []
        for each in unsettled:
            latest = self.states(each.restoration_id).values()
            if still := [state for state in latest if state.state in _UNSETTLED]:
                found.append((each, still))
        return found

    def put_back(self, run_id: str) -> set[int]:
        """Return which messages a run discarded are put on its queue again, or may be."""
        states = restoration_states
        with_copies = select(states.c.restoration_id).where(states.c.run_id == run_id)
        return {
            state.message_id
            for each in self._select(restorations.c.restoration_id.in_(with_copies))
            if each.puts_back
            for state in self.states(each.restoration_id).values()
            if state.run_id == run_id and state.state in PUT
        }

    def _select(self, *conditions: Any) -> Iterator[Restoration]:
        query = select(restorations).where(*conditions).order_by(restorations.c.started_at)
        return (Restoration(**row) for row in self._all(query))


_STATES: Final[Select[Any]] = select(
    restoration_states.c.restoration_id, *columns_of(restoration_states, CopyState)
).order_by(restoration_states.c.seq)


def _latest(
    connection: Connection, copies: Sequence[CopyId]
) -> dict[tuple[str, CopyId], CopyState]:
    """Return the states of copies by restoration and copy, in whatever restoration."""
    by_run: dict[str, list[int]] = {}
    for run_id, message_id in copies:
        by_run.setdefault(run_id, []).append(message_id)
    found: dict[tuple[str, CopyId], CopyState] = {}
    for run_id, message_ids in by_run.items():
        for some in in_parts(message_ids):
            query = _STATES.where(
                restoration_states.c.run_id == run_id, restoration_states.c.message_id.in_(some)
            )
            for row in connection.execute(query).mappings():
                found[row["restoration_id"], _key(row)] = _state(row)
    return found


def _key(row: RowMapping) -> CopyId:
    return row["run_id"], row["message_id"]


def _state(row: RowMapping) -> CopyState:
    values: list[Any] = list(row.values())
    return CopyState(*values[1:])  # the first is the id of the restoration


def _rows(restoration_id: str, states: Iterable[CopyState]) -> list[dict[str, Any]]:
    return [{"restoration_id": restoration_id, **asdict(state)} for state in states]
