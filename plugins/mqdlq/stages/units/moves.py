"""The interfaces that an execution and a restoration implement for the engine of units of work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Protocol, TypeVar

from mqdlq.model import Destination, PutAuthority
from mqdlq.mqi.state_queue import Marker, Markers
from mqdlq.mqi.unit_of_work import Syncpoint, count_gets_and_puts
from mqdlq.resources import Resources
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


# Settle the units of work that an interruption left open.

T = TypeVar("T")


class OpenMoves(Protocol[T]):
    """The moves recorded as intended or unknown; `standing` are the markers on the state queue."""

    def confirm(self, standing: Sequence[Marker]) -> None:
        """Record as committed the moves whose unit has a marker."""

    def back_out(self, standing: Sequence[Marker]) -> list[T]:
        """Record the moves of units that were provably backed out; return the undecided moves."""

    def mark_unknown(self, moves: Sequence[T]) -> None:
        """Record moves as unknown."""


def settle_open_moves(
    moves: OpenMoves[T], markers: Markers, resources: Resources, patience: timedelta
) -> list[Marker]:
    """Settle the moves that earlier attempts left open; return the markers on the state queue.

    A marker exists if and only if its unit committed. Whether a missing marker proves a backout
    depends on the moves. Moves that stay undecided for `patience` are recorded as unknown.
    """
    deadline = resources.clock() + patience
    while True:
        standing = markers.markers()
        moves.confirm(standing)
        rest = moves.back_out(standing)
        if not rest:
            return standing
        if resources.clock() >= deadline:
            moves.mark_unknown(rest)
            return standing
        resources.sleep(1.0)
