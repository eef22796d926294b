"""The engine of units of work: it commits moves in batches and records each before and after."""

import hashlib
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Generic, Protocol, Self, TypeVar

from mqdlq.constants import MQRC
from mqdlq.errors import QueueManagerError
from mqdlq.model import Destination, PutAuthority
from mqdlq.mqi.connect import CONNECTION_GONE_REASONS
from mqdlq.mqi.state_queue import Marker, Markers
from mqdlq.mqi.unit_of_work import MAX_BYTES_IN_A_UNIT, Syncpoint, count_gets_and_puts
from mqdlq.stages.units.destinations import Destinations


class Move(Protocol):
    """One message to be moved to a destination, or several that move together or not at all."""

    @property
    def message_key(self) -> bytes:
        """The key of the message, or the keys of all messages."""

    @property
    def descriptors(self) -> Sequence[bytes]:
        """The packed MQMD of each message."""

    @property
    def is_got(self) -> bool:
        """Whether the unit of work gets the message from a queue."""

    @property
    def destination(self) -> Destination | None:
        """The queue to which the message is put; None if it is put nowhere."""

    @property
    def authority(self) -> PutAuthority:
        """The authority under which the message is put."""

    @property
    def lengths(self) -> Sequence[int]:
        """How many bytes of each message the move puts, or gets if it puts nothing."""


def count_uncommitted_messages(move: Move, destinations: Destinations) -> int:
    """Return the largest number of messages that a move adds to its unit of work.

    The get, the put, reports and a trigger message count. MAXUMSGS limits the number of uncommitted
    messages in a unit of work (IBM MQ docs, "MAXUMSGS").
    """
    is_put, number = move.destination is not None, 0
    for descriptor in move.descriptors:
        number += count_gets_and_puts(descriptor, is_got=move.is_got, is_put=is_put)
        number += is_put and destinations.may_trigger(move.destination)
    return number


M_contra = TypeVar("M_contra", bound=Move, contravariant=True)


class Source(Protocol[M_contra]):
    """The place from which messages are moved."""

    def open(self) -> Syncpoint:
        """Begin a unit of work; a connection has one at a time."""

    def find(self, move: M_contra) -> bool:
        """Prepare to repeat a move; return whether its messages are still present."""

    def resume(self, move: M_contra) -> None:
        """Continue behind the message of a move after other messages were found."""

    def get(self, move: M_contra) -> Iterator[Callable[[], None]]:
        """Get each message within the open unit of work; yield a function that puts it.

        Raises MessageGoneError or MoveWithdrawnError if the messages must not be moved.
        """


class MoveRecorder(Protocol[M_contra]):
    """Records the progress of moves in the ledger and names their markers."""

    def marker(self, unit: str, messages: str, moves: Sequence[M_contra]) -> Marker:
        """Return the marker of a unit; `messages` is the digest of its messages' keys."""

    def may_make(self, move: M_contra) -> bool:
        """Return whether an offered move may be made although moves before it may have failed."""

    def intend(self, unit: str, moves: Sequence[M_contra]) -> None:
        """Record the moves that the unit is about to commit, durably."""

    def confirm(self, unit: str, moves: Sequence[M_contra]) -> None:
        """Record that the unit committed."""

    def back_out(self, unit: str, moves: Sequence[M_contra], reason: int) -> None:
        """Record that the unit was backed out; `reason` is 0 if no call failed."""

    def fail(self, move: M_contra, reason: int) -> None:
        """Record that a move failed.

        MQRC_BACKED_OUT means that its unit was backed out each time the move was tried alone.
        """

    def leave(self, move: M_contra) -> None:
        """Take note that a move was not made, because its message is gone or must stay."""

    def skip(self, move: M_contra, reason: int) -> bool:
        """Record a move whose put cannot succeed for a known `reason`.

        Returns False if the move must be tried nevertheless.
        """

    def flush(self) -> None:
        """Write all records that wait to be written together."""


class MessageGoneError(Exception):
    """The message is no longer on the queue; the unit of work holds nothing of it."""


class MoveWithdrawnError(Exception):
    """The message was got but must not be moved; its unit of work must be backed out."""


M = TypeVar("M", bound=Move)

BACKED_OUT = MQRC["MQRC_BACKED_OUT"]
SYNCPOINT_LIMIT_REACHED = MQRC["MQRC_SYNCPOINT_LIMIT_REACHED"]
TASK_ENDING_REASONS = (
    *CONNECTION_GONE_REASONS,
    MQRC["MQRC_Q_MGR_QUIESCING"],
    MQRC["MQRC_Q_MGR_STOPPING"],
    MQRC["MQRC_CONNECTION_QUIESCING"],
    MQRC["MQRC_CONNECTION_STOPPING"],
    MQRC["MQRC_CALL_INTERRUPTED"],
)
"""Reasons of a failed put that end the task: the connection is lost, or the queue manager stops."""
SINGLE_MOVE_TRIES = 2
"""How often a move is tried in its own unit of work while the queue manager backs that out."""


@dataclass(slots=True)
class _OpenUnit(Generic[M]):
    """The open unit of work and its moves.

    `uncommitted` is the number of messages by which the moves count towards MAXUMSGS.
    """

    unit: Syncpoint | None = None
    moves: list[M] = field(default_factory=list)
    destinations: Counter[Destination | None] = field(default_factory=Counter)
    length: int = 0
    uncommitted: int = 0


class UnitEngine(Generic[M]):
    """Makes moves, many in one unit of work while their puts succeed.

    The order makes a crash recoverable: the ledger records a unit's moves as intended before MQCMIT
    and as settled after it, and the unit's marker commits with the unit. After a crash the marker
    tells whether the unit committed. If a put fails, its unit is backed out and the failed move is
    recorded. The other moves of the unit are repeated at once, each alone, before any later move,
    so that messages to one destination keep their order. The recorder may refuse a move that waits
    for an earlier one. A move of several messages is made in one unit of work, or not at all.

    Use it in a `with` block, which backs out uncommitted moves if it ends with an exception.
    """

    def __init__(
        self,
        source: Source[M],
        recorder: MoveRecorder[M],
        *,
        markers: Markers,
        destinations: Destinations,
    ) -> None:
        """Move messages of `source`; the connection must have no open unit of work."""
        self._source = source
        self._recorder = recorder
        self._markers = markers
        self.destinations = destinations
        queue_manager = destinations.queue_manager
        selector = queue_manager.client.CMQC.MQIA_MAX_UNCOMMITTED_MSGS
        self._uncommitted_limit = int(queue_manager.inquire(selector))
        self._open_unit = _OpenUnit[M]()
        self._markers_to_clear: list[str] = []
        self.turn: AbstractContextManager[object] = nullcontext()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        try:
            if kind is None:
                self.commit()
        finally:
            if self._open_unit.unit is not None:
                self._open_unit.unit.__exit__(kind, *error)
            self._recorder.flush()

    def clear_markers_later(self, markers: Sequence[str]) -> None:
        """Remove the markers of settled units from the state queue in the next unit of work."""
        self._markers_to_clear.extend(markers)

    def put_marker(self) -> None:
        """Commit a unit that moves nothing: it puts a marker and clears those of settled units.

        Each unit clears the marker of the unit before it. So from this call until `clear_markers`
        the state queue always holds a marker of this task.
        """
        name = _new_unit_id()
        with self._source.open() as unit:
            self._put_marker_of_unit(name, [])
            unit.commit()
        self._markers_to_clear = [name]

    def clear_markers(self) -> None:
        """Clear the markers of settled units now, in a unit of work that moves nothing."""
        if not self._markers_to_clear:
            return
        with self._source.open() as unit:
            for marker in self._markers_to_clear:
                self._markers.clear(marker)
            unit.commit()
        self._markers_to_clear = []

    def offer(self, move: M) -> None:
        """Make a move, unless its put cannot succeed.

        A put cannot succeed if the destination is blocked, or if the message is too long for it.
        Raises QueueManagerError if the connection or a commit fails. The moves of the unit then
        stay intended, and the next execution or restoration settles them.
        """
        destination = move.destination
        reason = self.destinations.find_blocking_reason(destination, move.authority)
        if not reason and self.destinations.is_too_long(destination, max(move.lengths)):
            reason = MQRC["MQRC_MSG_TOO_BIG_FOR_Q"]
        if reason and self._recorder.skip(move, reason):
            return
        number = count_uncommitted_messages(move, self.destinations)
        if self._has_room(move, number) or (self.pause(move) and self._recorder.may_make(move)):
            self._add_to_open_unit(move, number)
        else:
            self._recorder.leave(move)

    def pause(self, move: M) -> bool:
        """Commit the open unit of work before `move` is offered, for a caller that wants to wait.

        Returns False if the message of the move is gone; then the move is not offered.
        """
        return not self.commit() or self._source.find(move)

    def await_results(self) -> None:
        """Return at once: the result of each move that was offered is known."""

    def commit(self) -> bool:
        """Commit the open unit of work if it holds a move; return whether it was backed out.

        If the queue manager backs the unit out, its moves are repeated, each alone. The browse
        cursor has moved then.
        """
        open_unit = self._open_unit
        if open_unit.unit is None or not open_unit.moves:
            return False
        self._open_unit = _OpenUnit()
        with open_unit.unit as unit:
            failure = self._commit_moves(unit, open_unit.moves)
        if not failure:
            for destination, count in open_unit.destinations.items():
                if count >= self.destinations.allowed_messages(destination):
                    self.destinations.raise_allowance(destination)
        else:
            self._redo_all(open_unit.moves)
        return bool(failure)

    def _add_to_open_unit(self, move: M, number: int) -> None:
        open_unit = self._open_unit
        unit = open_unit.unit = open_unit.unit or self._source.open()
        try:
            reason = self._make_move(move, alone=not open_unit.moves)
        except MessageGoneError:
            self._recorder.leave(move)
            return
        except MoveWithdrawnError:
            self._back_out_and_redo(unit, move, 0)
            return
        if reason:
            self._back_out_and_redo(unit, move, reason)
            return
        destination, lengths = move.destination, move.lengths
        open_unit.moves.append(move)
        open_unit.destinations[destination] += len(lengths)
        open_unit.length += sum(lengths)
        open_unit.uncommitted += number
        allowed = self.destinations.allowed_messages(destination)
        if open_unit.destinations[destination] >= allowed:
            self.commit()

    def _has_room(self, move: M, number: int) -> bool:
        """Return whether the open unit of work has room for a move of so many messages."""
        open_unit, lengths = self._open_unit, move.lengths
        more = number + 1 + len(self._markers_to_clear)
        messages = open_unit.destinations[move.destination] + len(lengths)
        return (
            open_unit.uncommitted + more <= self._uncommitted_limit
            and open_unit.length + sum(lengths) <= MAX_BYTES_IN_A_UNIT
            and messages <= self.destinations.limit
        )

    def _make_move(self, move: M, *, alone: bool) -> int:
        """Get each message and put it; return the reason of a failure, or 0."""
        puts = self._source.get(move)
        while True:
            try:
                put = next(puts, None)
            except QueueManagerError as error:
                if not is_unit_failure(error.reason, alone=alone and len(move.lengths) == 1):
                    raise
                return error.reason
            if put is None:
                return 0
            try:
                put()
            except QueueManagerError as error:
                if error.reason in TASK_ENDING_REASONS:
                    raise
                return error.reason

    def _commit_moves(self, unit: Syncpoint, moves: Sequence[M]) -> int:
        """Put the marker, record the moves as intended, commit, and record the result.

        Returns the reason why the unit was backed out, or 0 if it committed. Raises
        QueueManagerError if the result is unknown.
        """
        name = _new_unit_id()
        try:
            self._put_marker_of_unit(name, moves)
        except QueueManagerError as error:
            if not is_unit_failure(error.reason, alone=sum(len(m.lengths) for m in moves) == 1):
                raise
            self._recorder.back_out(name, moves, error.reason)
            return error.reason
        self._recorder.intend(name, moves)
        try:
            unit.commit()
        except QueueManagerError as error:
            if error.reason != BACKED_OUT:
                raise
            self._recorder.back_out(name, moves, error.reason)
            return BACKED_OUT
        self._markers_to_clear = [name] if self._markers.prove_commits else []
        self._recorder.confirm(name, moves)
        return 0

    def _put_marker_of_unit(self, name: str, moves: Sequence[M]) -> None:
        keys = b"".join(move.message_key for move in moves)
        messages = hashlib.sha256(keys).hexdigest()
        self._markers.put(self._recorder.marker(name, messages, moves))
        for marker in self._markers_to_clear:
            self._markers.clear(marker)

    def _back_out_and_redo(self, unit: Syncpoint, move: M, reason: int) -> None:
        """Back out the unit in which a move failed, and repeat its other moves.

        `reason` is 0 if the message must stay where it is. If the failure concerns the whole unit,
        the failed move is repeated, too.
        """
        others, self._open_unit = self._open_unit.moves, _OpenUnit()
        unit.back_out()
        if others:
            self._recorder.back_out(_new_unit_id(), others, reason)
        if is_unit_failure(reason, alone=not others):
            self._redo_all([*others, move])
        else:
            if reason:
                self._fail(move, reason)
            else:
                self._recorder.leave(move)
            for other in others:
                self._redo(other)
        if others:
            self._source.resume(move)

    def _redo_all(self, moves: Sequence[M]) -> None:
        for move in moves:
            self.destinations.record_failure(move.destination, BACKED_OUT)
            self._redo(move)

    def _redo(self, move: M) -> None:
        """Make a move in its own unit of work; try once more if that unit is backed out."""
        for _ in range(SINGLE_MOVE_TRIES):
            if not (self._recorder.may_make(move) and self._source.find(move)):
                self._recorder.leave(move)
                return
            with self._source.open() as unit:
                try:
                    reason = self._make_move(move, alone=True)
                except (MessageGoneError, MoveWithdrawnError):
                    self._recorder.leave(move)
                    return
                reason = reason or self._commit_moves(unit, [move])
            if not reason:
                return
            if reason != BACKED_OUT:
                self._fail(move, reason)
                return
        self._fail(move, BACKED_OUT)

    def _fail(self, move: M, reason: int) -> None:
        self.destinations.record_failure(move.destination, reason, move.authority)
        self._recorder.fail(move, reason)


def is_unit_failure(reason: int, *, alone: bool) -> bool:
    """Return whether a call failed because of the unit of work, not because of a message in it.

    MQRC_BACKED_OUT means that the queue manager has backed the unit out.
    MQRC_SYNCPOINT_LIMIT_REACHED means that the unit is too large; a message alone never is, so that
    it ends the task. A move of several messages that is too large by itself fails.
    """
    return reason == BACKED_OUT or (reason == SYNCPOINT_LIMIT_REACHED and not alone)


def _new_unit_id() -> str:
    return secrets.token_hex(24)
