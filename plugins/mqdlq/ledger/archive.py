"""The archive: which messages have a copy, where it is, and what its restorations came to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, RowMapping, Select, case, func, insert, or_, select

from mqdlq.errors import LedgerError
from mqdlq.ledger.database import Repository, add, columns_of, in_parts, in_turn
from mqdlq.ledger.tables import (
    CopyId,
    CopyState,
    MessageRepair,
    Restoration,
    archive,
    attempts,
    messages,
    pruned_copies,
    prunes,
    repairs,
    restoration_states,
    restorations,
    runs,
)
from mqdlq.model import Action, AttemptState, RestorationState


@dataclass(frozen=True, slots=True)
class ArchivedCopy:
    """A copy that a run made of a message before it was to discard it, or to deliver it repaired.

    `occurrence` tells messages with the same key apart (see `RunMessage`). `move` is the state of
    the attempt that was to move the message, None if none was begun; `rule` is its rule's ordinal
    and `moved_at` when the state was recorded, else 0 and None. `pruned_at` is when a prune removed
    the copy, None if none did, and `pruned_by` is its policy. `repair` has the changes with which
    the run was to deliver the message, None for a DISCARD.
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
    pruned_at: datetime | None = None
    pruned_by: str | None = None
    move: AttemptState | None = None
    rule: int = 0
    moved_at: datetime | None = None
    repair: MessageRepair | None = None

    @property
    def key(self) -> CopyId:
        """Return what tells it from all others."""
        return self.run_id, self.message_id

    @property
    def is_provisional(self) -> bool:
        """Whether the message may still be on its queue: its unit of work is not confirmed."""
        return self.move is not AttemptState.CONFIRMED

    @property
    def can_be_restored(self) -> bool:
        """Whether the archive has the only copy of a message that has left its queue."""
        is_only_copy = not self.is_provisional and self.repair is None
        return self.pruned_at is None and is_only_copy


class Archive(Repository):
    """Archived copies of messages that runs have discarded or repaired, or were about to."""

    def record(
        self,
        run_id: str,
        location: str,
        digests: Mapping[int, str],
        at: datetime,
        changes: Collection[MessageRepair] = (),
    ) -> None:
        """Record copies that were read back: message id to SHA-256 of key and body.

        `changes` are those of messages to be delivered repaired, and of messages whose repair is
        refused; changes that are recorded already stay. Raises sqlalchemy.exc.IntegrityError, and
        records none, if a copy is recorded already.
        """
        copies = {"run_id": run_id, "location": location, "at": at}
        rows = [{**copies, "message_id": one, "digest": digest} for one, digest in digests.items()]
        known = self.repairs(run_id) if changes else {}
        changed = [
            {**asdict(one), "run_id": run_id, "at": at}
            for one in changes
            if one.message_id not in known
        ]
        with self._engine.begin() as connection:
            add(connection, archive, rows)
            add(connection, repairs, changed)

    def repairs(self, run_id: str) -> dict[int, MessageRepair]:
        """Return the recorded changes of a run's messages by message id."""
        query = select(*columns_of(repairs, MessageRepair)).where(repairs.c.run_id == run_id)
        return {row["message_id"]: MessageRepair(**row) for row in self._all(query)}

    def digests(self, run_id: str) -> dict[int, str]:
        """Return the digests of a run's copies by message id."""
        query = select(archive.c.message_id, archive.c.digest).where(archive.c.run_id == run_id)
        return self._map(query)

    def locations(self, run_id: str) -> list[str]:
        """Return where a run's copies are, oldest first."""
        query = select(archive.c.location).where(archive.c.run_id == run_id)
        ordered = query.group_by(archive.c.location).order_by(func.min(archive.c.at))
        return list(self._values(ordered))

    def copies(
        self,
        *,
        handler: str = "",
        run_id: str = "",
        place: tuple[str, str] | None = None,
        message_keys: Collection[str] = (),
    ) -> list[ArchivedCopy]:
        """Return the copies in the archive, oldest first; an argument left out narrows nothing.

        `place` is a queue manager and a queue, `message_keys` are hex.
        """
        query = (
            select(
                archive,
                *(runs.c.handler, runs.c.queue_manager, runs.c.queue),
                *(messages.c.message_key, messages.c.occurrence),
                *(prunes.c.at.label("pruned_at"), prunes.c.policy.label("pruned_by")),
            )
            .select_from(
                archive.join(runs).join(messages).outerjoin(pruned_copies).outerjoin(prunes)
            )
            .order_by(archive.c.at, archive.c.location, archive.c.message_id)
        )
        if handler:
            query = query.where(runs.c.handler == handler)
        if run_id:
            query = query.where(archive.c.run_id == run_id)
        if place:
            query = query.where(runs.c.queue_manager == place[0], runs.c.queue == place[1])
        keys = [bytes.fromhex(key) for key in message_keys]
        narrowed = [query.where(messages.c.message_key.in_(some)) for some in in_parts(keys)]
        rows = [row for each in narrowed or [query] for row in self._all(each)]
        run_ids = {row["run_id"] for row in rows}
        moves, repaired = self._moves(run_ids), {one: self.repairs(one) for one in run_ids}
        copies = [
            ArchivedCopy(
                **row,
                **moves.get((row["run_id"], row["message_id"]), {}),
                repair=repaired[row["run_id"]].get(row["message_id"]),
            )
            for row in rows
        ]
        return sorted(copies, key=lambda copy: (copy.at, copy.location))

    def _moves(self, run_ids: Collection[str]) -> dict[CopyId, dict[str, Any]]:
        """Return by copy the state of the attempt to move its message; a confirmed one wins.

        It is a DISCARD, or the delivery of a repaired message; rule 0 is a quarantine.
        """
        repaired = select(repairs.c.message_id).where(
            repairs.c.run_id == attempts.c.run_id, repairs.c.message_id == attempts.c.message_id
        )
        confirmed = case((attempts.c.state == AttemptState.CONFIRMED, attempts.c.seq))
        found = {}
        for run_id in run_ids:
            decisive = (
                select(func.coalesce(func.max(confirmed), func.max(attempts.c.seq)))
                .where(
                    attempts.c.run_id == run_id,
                    or_(
                        attempts.c.action == Action.DISCARD,
                        repaired.exists() & (attempts.c.rule != 0),
                    ),
                )
                .group_by(attempts.c.message_id)
            )
            for row in self._all(select(attempts).where(attempts.c.seq.in_(decisive))):
                found[row["run_id"], row["message_id"]] = {
                    "move": row["state"],
                    "rule": row["rule"],
                    "moved_at": row["at"],
                }
        return found


PUT: Final = (RestorationState.INTENDED, RestorationState.RESTORED, RestorationState.UNKNOWN)
"""The states in which a copy is put, about to be, or may have been."""

_UNSETTLED: Final = (RestorationState.INTENDED, RestorationState.UNKNOWN)


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
