"""The engine of units of work: moves that commit together, each booked before and after."""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Generic, Self, TypeVar

from mqdlq.constants import MQRC
from mqdlq.errors import QueueManagerError
from mqdlq.mqi.connect import CONNECTION_GONE_REASONS
from mqdlq.mqi.state_queue import Markers
from mqdlq.mqi.unit_of_work import Syncpoint
from mqdlq.stages.units.destinations import Destination, Destinations
from mqdlq.stages.units.moves import (
    Booking,
    GoneError,
    Move,
    Source,
    WithdrawnError,
    uncommitted_messages,
)

M = TypeVar("M", bound=Move)

BACKED_OUT = MQRC["MQRC_BACKED_OUT"]
SYNCPOINT_LIMIT_REACHED = MQRC["MQRC_SYNCPOINT_LIMIT_REACHED"]
STOPPING = (
    *CONNECTION_GONE_REASONS,
    MQRC["MQRC_Q_MGR_QUIESCING"],
    MQRC["MQRC_Q_MGR_STOPPING"],
    MQRC["MQRC_CONNECTION_QUIESCING"],
    MQRC["MQRC_CONNECTION_STOPPING"],
    MQRC["MQRC_CALL_INTERRUPTED"],
)
"""Reasons of a put that end the task: no connection, or a queue manager about to stop."""
BYTES_IN_A_UNIT = 32 * 1024 * 1024
TRIES_ALONE = 2
"""How often a move is tried in a unit of its own while the queue manager backs that out."""


@dataclass(slots=True)
class _Load(Generic[M]):
    """The open unit of work, and what it holds.

    `uncommitted` is what its moves count for where MAXUMSGS is concerned.
    """

    unit: Syncpoint | None = None
    moves: list[M] = field(default_factory=list)
    destinations: Counter[Destination | None] = field(default_factory=Counter)
    length: int = 0
    uncommitted: int = 0


class Units(Generic[M]):
    """Makes moves, many to a unit of work as long as their puts succeed.

    The order is that of the crash rule: a unit's moves are intended in the ledger before MQCMIT
    and settled after it, and the unit's marker commits with the unit, so that recovery knows after
    a crash what happened. A put that fails backs its unit out; the failed move is booked, and the
    others are made again at once, each alone, before any move behind them, which keeps the order
    of messages to one destination.

    Used in a `with` block, which backs out what is uncommitted when it ends by an exception.
    """

    def __init__(
        self,
        source: Source[M],
        booking: Booking[M],
        *,
        markers: Markers,
        destinations: Destinations,
    ) -> None:
        """Move messages of `source`; no unit of work is under way on the connection."""
        self._source = source
        self._booking = booking
        self._markers = markers
        self._destinations = destinations
        queue_manager = destinations.queue_manager
        selector = queue_manager.client.CMQC.MQIA_MAX_UNCOMMITTED_MSGS
        self._uncommitted_limit = int(queue_manager.inquire(selector))
        self._load = _Load[M]()
        self._settled_markers: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._commit()
        finally:
            if self._load.unit is not None:
                self._load.unit.__exit__(kind, error, trace)
            self._booking.flush()

    def clear_later(self, markers: Sequence[str]) -> None:
        """Take settled units' markers off the state queue in the next unit of work."""
        self._settled_markers.extend(markers)

    def put_marker(self) -> None:
        """Put a marker in a unit of work that moves nothing, and clear those of settled units.

        Each unit clears the marker of the one before it, so from now on until `clear_markers` the
        state queue holds one of ours.
        """
        name = _new_unit()
        with self._source.open() as unit:
            self._mark(name, [])
            unit.commit()
        self._settled_markers = [name]

    def clear_markers(self) -> None:
        """Clear the markers of settled units now, in a unit of work that moves nothing."""
        if not self._settled_markers:
            return
        with self._source.open() as unit:
            for marker in self._settled_markers:
                self._markers.clear(marker)
            unit.commit()
        self._settled_markers = []

    def offer(self, move: M) -> None:
        """Make a move, unless its put cannot succeed.

        It cannot where the destination is blocked, or takes no message that long. Raises
        QueueManagerError where the connection or a commit fails: what the unit holds then stays
        intended, and the next execution or restoration settles it.
        """
        destination = move.destination
        reason = self._destinations.reason_blocked(destination, move.authority)
        if not reason and self._destinations.is_too_long(destination, move.length):
            reason = MQRC["MQRC_MSG_TOO_BIG_FOR_Q"]
        if reason and self._booking.skip(move, reason):
            return
        if not self._has_room(move) and self._commit() and not self._source.find(move):
            return
        self._add(move)

    def _commit(self) -> bool:
        """Commit the open unit of work, if it holds a move.

        Where the queue manager backs it out, its moves are made again, each alone; True is
        returned then, since a browse cursor has moved.
        """
        load = self._load
        if load.unit is None or not load.moves:
            return False
        self._load = _Load()
        with load.unit as unit:
            committed = self._conclude(unit, load.moves)
        if committed:
            for destination, count in load.destinations.items():
                if count >= self._destinations.level(destination):
                    self._destinations.succeeded(destination)
        else:
            self._redo_all(load.moves)
        return not committed

    def _add(self, move: M) -> None:
        """Make a move within the open unit of work."""
        load = self._load
        unit = load.unit = load.unit or self._source.open()
        try:
            reason = self._make(move, alone=not load.moves)
        except GoneError:
            return
        except WithdrawnError:
            self._take_apart(unit, move, 0)
            return
        if reason:
            self._take_apart(unit, move, reason)
            return
        load.moves.append(move)
        load.destinations[move.destination] += 1
        load.length += move.length
        load.uncommitted += uncommitted_messages(move, self._destinations)
        if load.destinations[move.destination] >= self._destinations.level(move.destination):
            self._commit()

    def _has_room(self, move: M) -> bool:
        """Whether the open unit can take one more move, and its marker."""
        load = self._load
        markers = 1 + len(self._settled_markers)
        more = uncommitted_messages(move, self._destinations) + markers
        has_room = load.uncommitted + more <= self._uncommitted_limit
        return has_room and load.length + move.length <= BYTES_IN_A_UNIT

    def _make(self, move: M, *, alone: bool) -> int:
        """Get the message and put it; return the reason why that failed, or 0."""
        try:
            put = self._source.get(move)
        except QueueManagerError as error:
            if not _is_of_the_unit(error.reason, alone=alone):
                raise
            return error.reason
        try:
            put()
        except QueueManagerError as error:
            if error.reason in STOPPING:
                raise
            return error.reason
        return 0

    def _conclude(self, unit: Syncpoint, moves: Sequence[M]) -> bool:
        """Put the marker, write the intentions, commit, and write what became of them.

        Returns whether the unit took effect. Raises QueueManagerError where nobody knows.
        """
        name = _new_unit()
        try:
            self._mark(name, moves)
        except QueueManagerError as error:
            if not _is_of_the_unit(error.reason, alone=len(moves) == 1):
                raise
            self._booking.back_out(name, moves, error.reason)
            return False
        self._booking.intend(name, moves)
        try:
            unit.commit()
        except QueueManagerError as error:
            if error.reason != BACKED_OUT:
                raise
            self._booking.back_out(name, moves, error.reason)
            return False
        self._settled_markers = [name] if self._markers.prove_commits else []
        self._booking.confirm(name, moves)
        return True

    def _mark(self, name: str, moves: Sequence[M]) -> None:
        """Put the unit's marker, and clear those of settled units."""
        keys = b"".join(move.message_key for move in moves)
        self._markers.put(self._booking.marker(name, hashlib.sha256(keys).hexdigest()))
        for marker in self._settled_markers:
            self._markers.clear(marker)

    def _take_apart(self, unit: Syncpoint, move: M, reason: int) -> None:
        """Back out the unit in which a move failed, and make the other moves again.

        `reason` is 0 where the message is only to be left alone. Where the unit is to blame, the
        move itself is made again, too.
        """
        others, self._load = self._load.moves, _Load()
        unit.back_out()
        if others:
            self._booking.back_out(_new_unit(), others, reason)
        if _is_of_the_unit(reason, alone=not others):
            self._redo_all([*others, move])
        else:
            if reason:
                self._fail(move, reason)
            for other in others:
                self._redo(other)
        if others:
            self._source.resume(move)

    def _redo_all(self, moves: Sequence[M]) -> None:
        """Make the moves again of a unit that failed as a whole, each alone."""
        for move in moves:
            self._destinations.failed(move.destination, BACKED_OUT)
            self._redo(move)

    def _redo(self, move: M) -> None:
        """Make a move in a unit of its own; where that is backed out, make it once more."""
        for _ in range(TRIES_ALONE):
            if not self._source.find(move):
                return
            with self._source.open() as unit:
                try:
                    reason = self._make(move, alone=True)
                except (GoneError, WithdrawnError):
                    return
                if not reason and self._conclude(unit, [move]):
                    return
            if reason not in {0, BACKED_OUT}:
                self._fail(move, reason)
                return
        self._fail(move, BACKED_OUT)

    def _fail(self, move: M, reason: int) -> None:
        self._destinations.failed(move.destination, reason, move.authority)
        self._booking.fail(move, reason)


def _is_of_the_unit(reason: int, *, alone: bool) -> bool:
    """Whether a call failed because of the unit of work, and no message in it is to blame.

    MQRC_BACKED_OUT says that the queue manager has given the unit up. MQRC_SYNCPOINT_LIMIT_REACHED
    says that the unit is too large, unless it holds one move `alone`.
    """
    return reason == BACKED_OUT or (reason == SYNCPOINT_LIMIT_REACHED and not alone)


def _new_unit() -> str:
    return secrets.token_hex(24)
