"""What differs between execution and restoring: the moves, where messages are, what is booked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from mqdlq.model import PutAuthority
from mqdlq.mqi.state_queue import Marker
from mqdlq.mqi.unit_of_work import Syncpoint
from mqdlq.stages.units.destinations import Destination, Destinations
from mqdlq.structures import MQMD

REPORT_OF_MQMD = MQMD.reader("report")
MQRO_COA_WITH_FULL_DATA, MQRO_COD_WITH_FULL_DATA = 0x700, 0x3800
"""All bits that ask for a report on arrival, or on delivery."""


class Move(Protocol):
    """One message on its way to a destination."""

    @property
    def message_key(self) -> bytes:
        """The key of the message."""

    @property
    def descriptor(self) -> bytes:
        """The message's packed MQMD."""

    @property
    def is_got(self) -> bool:
        """Whether the message is got from a queue within the unit."""

    @property
    def destination(self) -> Destination | None:
        """Where the message is put; None where it is put nowhere."""

    @property
    def authority(self) -> PutAuthority:
        """By whose authority the message is put."""

    @property
    def length(self) -> int:
        """How many bytes the move puts, or gets where it puts nothing."""


def uncommitted_messages(move: Move, destinations: Destinations) -> int:
    """Return for how many messages a move may count: get, put, reports, trigger message.

    MAXUMSGS limits how many there are in a unit of work (IBM MQ docs, "MAXUMSGS").
    """
    (report,) = REPORT_OF_MQMD.unpack_from(move.descriptor)
    number = 0
    if move.is_got:
        number += 1 + bool(report & MQRO_COD_WITH_FULL_DATA)
    if move.destination is not None:
        number += 1 + bool(report & MQRO_COA_WITH_FULL_DATA)
        number += destinations.may_trigger(move.destination)
    return number


M_contra = TypeVar("M_contra", bound=Move, contravariant=True)


class Source(Protocol[M_contra]):
    """Where the messages are before they are moved."""

    def open(self) -> Syncpoint:
        """Begin a unit of work; a connection has one at a time."""

    def find(self, move: M_contra) -> bool:
        """Prepare for another try of a move; return whether its message is still there."""

    def resume(self, move: M_contra) -> None:
        """Continue behind the message of a move, after others were found."""

    def get(self, move: M_contra) -> Callable[[], None]:
        """Get the message within the open unit of work; return a function that puts it.

        Raises GoneError or WithdrawnError where the message is not to be moved.
        """


class Booking(Protocol[M_contra]):
    """What the ledger and the markers say of moves."""

    def marker(self, unit: str, messages: str) -> Marker:
        """Return the marker of a unit; `messages` is the digest of its messages' keys."""

    def intend(self, unit: str, moves: Sequence[M_contra]) -> None:
        """Write what the unit is about to commit; durable when this returns."""

    def confirm(self, unit: str, moves: Sequence[M_contra]) -> None:
        """Write that the unit committed."""

    def back_out(self, unit: str, moves: Sequence[M_contra], reason: int) -> None:
        """Write that the unit was backed out; `reason` is 0 where no call failed."""

    def fail(self, move: M_contra, reason: int) -> None:
        """Write that a move failed.

        MQRC_BACKED_OUT says that its unit was backed out as often as it was tried alone.
        """

    def skip(self, move: M_contra, reason: int) -> bool:
        """Write what becomes of a move whose put cannot succeed, since `reason` is known.

        Returns False where the move must be tried all the same.
        """

    def flush(self) -> None:
        """Write everything that has waited for more of its kind."""


class GoneError(Exception):
    """The message is not there any more; the unit of work holds nothing of it."""


class WithdrawnError(Exception):
    """The message was got, and must not be moved: its unit of work must be backed out."""
