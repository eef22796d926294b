"""The archive: which messages have a copy, where it is, and what its restorations came to."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from mqdlq.errors import LedgerError
from mqdlq.ledger import tables as t
from mqdlq.ledger.database import (
    Condition,
    Repository,
    add,
    columns_of,
    in_parts,
    in_turn,
    is_on,
    select_records,
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
    repair: t.MessageRepair | None = None

    @property
    def key(self) -> t.CopyId:
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
        changes: Collection[t.MessageRepair] = (),
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
            add(connection, t.archive, rows)
            add(connection, t.repairs, changed)

    def repairs(self, run_id: str) -> dict[int, t.MessageRepair]:
        """Return the recorded changes of a run by message id."""
        query = select_records(t.repairs, t.MessageRepair).where(t.repairs.c.run_id == run_id)
        return {one.message_id: one for one in self._list(t.MessageRepair, query)}

    def digests(self, run_id: str) -> dict[int, str]:
        """Return the digests of a run's copies by message id."""
        query = sa.select(t.archive.c.message_id, t.archive.c.digest)
        return self._map(query.where(t.archive.c.run_id == run_id))

    def locations(self, run_id: str) -> Sequence[str]:
        """Return where a run's copies are, oldest first."""
        location = t.archive.c.location
        query = sa.select(location).where(t.archive.c.run_id == run_id).group_by(location)
        return self._values(query.order_by(sa.func.min(t.archive.c.at)))

    def copies(
        self,
        *,
        handler: str = "",
        run_id: str = "",
        place: tuple[str, str] | None = None,
        message_keys: Collection[str] = (),
    ) -> list[ArchivedCopy]:
        """Return copies, oldest first; `place` is queue manager and queue, keys are hex."""
        query = (
            sa.select(
                t.archive,
                *t.runs.c["handler", "queue_manager", "queue"],
                *t.messages.c["message_key", "occurrence"],
                t.prunes.c.at.label("pruned_at"),
                t.prunes.c.policy.label("pruned_by"),
            )
            .select_from(t.archive.join(t.runs).join(t.messages))
            .outerjoin(t.pruned_copies)
            .outerjoin(t.prunes)
            .order_by(t.archive.c.at, t.archive.c.location, t.archive.c.message_id)
        )
        if handler:
            query = query.where(t.runs.c.handler == handler)
        if run_id:
            query = query.where(t.archive.c.run_id == run_id)
        if place:
            query = query.where(is_on(t.runs, *place))
        keys = [bytes.fromhex(key) for key in message_keys]
        found = self._among(query, t.messages.c.message_key, keys) if keys else self._rows(query)
        rows = [row._asdict() for row in found]
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

    def _moves(self, run_ids: Collection[str]) -> dict[t.CopyId, dict[str, Any]]:
        """Return by copy the last state of DISCARD or repaired delivery; a confirmed one wins."""
        made = t.attempts.c
        is_repaired = sa.exists().where(
            t.repairs.c.run_id == made.run_id, t.repairs.c.message_id == made.message_id
        )
        is_move = (made.action == Action.DISCARD) | (is_repaired & (made.rule != 0))
        confirmed = sa.func.max(sa.case((made.state == AttemptState.CONFIRMED, made.seq)))
        last = sa.func.coalesce(confirmed, sa.func.max(made.seq)).label("seq")
        decisive = sa.select(made.message_id, last).where(is_move)
        found = {}
        for run_id in run_ids:
            own = decisive.where(made.run_id == run_id).group_by(made.message_id).subquery()
            is_it = (made.message_id == own.c.message_id) & (made.seq == own.c.seq)
            query = sa.select(t.attempts).join(own, is_it).where(made.run_id == run_id)
            for row in self._rows(query):
                move = {"move": row.state, "rule": row.rule, "moved_at": row.at}
                found[row.run_id, row.message_id] = move
        return found


PUT: Final = (RestorationState.INTENDED, RestorationState.RESTORED, RestorationState.UNKNOWN)
"""The states in which a copy is put, about to be, or may have been."""

_UNSETTLED: Final = (RestorationState.INTENDED, RestorationState.UNKNOWN)


class Restorations(Repository):
    """Restorations, and the states of their copies: the last state of a copy holds."""

    def record(self, new: t.Restoration, copies: Iterable[ArchivedCopy]) -> None:
        """Record a restoration with the copies it selects; raise IntegrityError if it is known."""
        selected = [
            t.CopyState(*copy.key, RestorationState.SELECTED, new.started_at) for copy in copies
        ]
        with self._engine.begin() as connection:
            connection.execute(sa.insert(t.restorations), asdict(new))
            _add_states(connection, new.restoration_id, selected)

    def get(self, restoration_id: str) -> t.Restoration | None:
        found = self._select(t.restorations.c.restoration_id == restoration_id)
        return next(iter(found), None)

    def newest(self, queue_manager: str, state_queue: str) -> t.Restoration | None:
        """Return the restoration by a state queue that was asked for last, without dry runs."""
        is_real = _is_by(queue_manager, state_queue) & ~t.restorations.c.dry_run
        return next(reversed(self._select(is_real)), None)

    def known(self, names: Collection[str]) -> set[str]:
        """Return which of these are restorations of this ledger."""
        found = self._select(t.restorations.c.restoration_id.in_(names))
        return {one.restoration_id for one in found}

    def states(self, restoration_id: str) -> dict[t.CopyId, t.CopyState]:
        """Return what a restoration has come to with each of its copies, in the order selected."""
        query = _STATES.where(t.restoration_states.c.restoration_id == restoration_id)
        states = (t.CopyState(*row[1:]) for row in self._rows(query))
        return {state.key: state for state in states}

    def add_states(self, restoration_id: str, states: Iterable[t.CopyState]) -> None:
        """Add what copies have come to, all in one transaction; durable when this returns."""
        with self._engine.begin() as connection:
            _add_states(connection, restoration_id, states)

    def intend(self, restoring: t.Restoration, states: Sequence[t.CopyState]) -> None:
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
            _add_states(connection, name, states)

    def put_by_others(
        self, restoration_id: str, copies: Sequence[t.CopyId]
    ) -> dict[t.CopyId, tuple[t.Restoration, t.CopyState]]:
        """Return which copies other restorations have put, may have, or will; the last wins."""
        with self._engine.connect() as connection:
            latest = _latest(connection, copies)
        put = [
            (state, other)
            for (other, _), state in latest.items()
            if other != restoration_id and state.state in PUT
        ]
        known = {name: self.get(name) for name in {other for _, other in put}}
        return {
            state.key: (by, state)
            for state, other in sorted(put, key=lambda one: one[0].at)
            if (by := known[other]) is not None
        }

    def open_units(
        self, queue_manager: str, state_queue: str
    ) -> list[tuple[t.Restoration, list[t.CopyState]]]:
        """Return the restorations by a state queue with the states that only markers can settle."""
        states = t.restoration_states.c
        ever = sa.exists().where(
            states.restoration_id == t.restorations.c.restoration_id, states.state.in_(_UNSETTLED)
        )
        found = []
        for each in self._select(_is_by(queue_manager, state_queue), ever):
            latest = self.states(each.restoration_id).values()
            if still := [state for state in latest if state.state in _UNSETTLED]:
                found.append((each, still))
        return found

    def put_back(self, run_id: str) -> set[int]:
        """Return which messages a run discarded are put on its queue again, or may be."""
        states = t.restoration_states.c
        with_copies = sa.select(states.restoration_id).where(states.run_id == run_id)
        return {
            state.message_id
            for each in self._select(t.restorations.c.restoration_id.in_(with_copies))
            if each.puts_back
            for state in self.states(each.restoration_id).values()
            if state.run_id == run_id and state.state in PUT
        }

    def _select(self, *conditions: Condition) -> list[t.Restoration]:
        query = sa.select(t.restorations).where(*conditions).order_by(t.restorations.c.started_at)
        return self._list(t.Restoration, query)


_STATES: Final[sa.Select[Any]] = sa.select(
    t.restoration_states.c.restoration_id, *columns_of(t.restoration_states, t.CopyState)
).order_by(t.restoration_states.c.seq)


def _is_by(queue_manager: str, state_queue: str) -> Condition:
    restoration = t.restorations.c
    return (restoration.queue_manager == queue_manager) & (restoration.state_queue == state_queue)


def _latest(
    connection: sa.Connection, copies: Sequence[t.CopyId]
) -> dict[tuple[str, t.CopyId], t.CopyState]:
    by_run = defaultdict[str, list[int]](list)
    for run_id, message_id in copies:
        by_run[run_id].append(message_id)
    found: dict[tuple[str, t.CopyId], t.CopyState] = {}
    of_copy = t.restoration_states.c
    for run_id, message_ids in by_run.items():
        for some in in_parts(message_ids):
            query = _STATES.where(of_copy.run_id == run_id, of_copy.message_id.in_(some))
            for restoration_id, *values in connection.execute(query):
                state = t.CopyState(*values)
                found[restoration_id, state.key] = state
    return found


def _add_states(
    connection: sa.Connection, restoration_id: str, states: Iterable[t.CopyState]
) -> None:
    rows = [{"restoration_id": restoration_id, **asdict(state)} for state in states]
    add(connection, t.restoration_states, rows)
