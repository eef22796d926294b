"""Archived copies as a source of moves, and what the ledger says of their puts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from mqdlq.constants import MQRC, reason_text
from mqdlq.lake.archive import Copy
from mqdlq.ledger import ArchivedCopy, CopyState, Restoration
from mqdlq.model import PutAuthority, RestorationState
from mqdlq.mqi.connect import QueueManager
from mqdlq.mqi.state_queue import Marker
from mqdlq.mqi.unit_of_work import Delivery, Syncpoint
from mqdlq.stages.restore.dead_letter_headers import delivery_of
from mqdlq.stages.restore.restoration_resources import Restoring
from mqdlq.stages.units.destinations import Destination, Destinations

NOT_WRITTEN_AT_ONCE = 500
LOGGED_EVERY = 1000
"""After how many messages the log says how far a restoration is."""
OF_A_RESTORATION = "restore"
"""What stands in a restoration's markers where an executor's name the plan."""


@dataclass(frozen=True, slots=True)
class Put:
    """One copy on its way."""

    copy: ArchivedCopy
    descriptor: bytes
    delivery: Delivery

    is_got: ClassVar[bool] = False
    authority: ClassVar[PutAuthority] = PutAuthority.DEF

    @property
    def message_key(self) -> bytes:
        """The key of the message."""
        return self.copy.message_key

    @property
    def destination(self) -> Destination:
        """Where the copy is put."""
        return self.delivery.target_q, self.delivery.target_q_mgr

    @property
    def length(self) -> int:
        """How many bytes are put."""
        return len(self.delivery.body)

    def __repr__(self) -> str:
        """Show no content: the body is a customer's."""
        return f"<Put of message {self.copy.message_id}>"


def put_of(copy: ArchivedCopy, content: Copy, restoration: Restoration) -> Put:
    """Return the put of a copy; raises MalformedHeaderError if its MQDLH cannot be taken off."""
    queue, q_mgr = restoration.to_queue, restoration.to_queue_manager
    delivery = delivery_of(content, queue, q_mgr, header=restoration.header)
    return Put(copy, content.descriptor, delivery)


class Copies:
    """The archive's copies: they are always there, and nothing is got for them."""

    def __init__(self, queue_manager: QueueManager) -> None:
        """Put over a connection with no unit of work under way."""
        self._queue_manager = queue_manager
        self._unit = Syncpoint(queue_manager)

    def open(self) -> Syncpoint:
        """Begin a unit of work."""
        self._unit = Syncpoint(self._queue_manager)
        return self._unit

    def find(self, _: Put) -> bool:
        """Return True: a copy stays in the archive."""
        return True

    def resume(self, _: Put) -> None:
        """Do nothing: no cursor has moved."""

    def get(self, put: Put) -> Callable[[], None]:
        """Return a function that puts the copy. A warning counts as a failure."""
        unit = self._unit
        return lambda: unit.put_with_original_context(put.descriptor, put.delivery)


class Booking:
    """Writes down what a restoration comes to with each copy, before and after commits."""

    def __init__(self, work: Restoring, destinations: Destinations) -> None:
        """Write for a restoration; log the advice that `destinations` have on failed puts."""
        self._restoration = work.restoration
        self._ledger = work.ledger
        self._clock = work.clock
        self._log = work.log
        self._destinations = destinations
        self._waiting: list[CopyState] = []
        self._restored = 0
        self._logged: set[int] = set()

    def marker(self, unit: str, messages: str) -> Marker:
        """Return the marker of a unit; `messages` is the digest of its messages' keys."""
        return Marker(unit, self._restoration.restoration_id, OF_A_RESTORATION, messages)

    def intend(self, unit: str, puts: Sequence[Put]) -> None:
        """Write what the unit is about to commit; durable when this returns.

        Raises LedgerError where another task puts the same messages.
        """
        states = self._states(unit, puts, RestorationState.INTENDED)
        self._ledger.restorations.intend(self._restoration, states)

    def confirm(self, unit: str, puts: Sequence[Put]) -> None:
        """Write that the unit committed."""
        self._write(self._states(unit, puts, RestorationState.RESTORED))
        before, self._restored = self._restored, self._restored + len(puts)
        if self._restored // LOGGED_EVERY > before // LOGGED_EVERY:
            self._log.info("%d messages restored so far", self._restored)

    def back_out(self, unit: str, puts: Sequence[Put], reason: int) -> None:
        """Write that nothing of the unit took effect."""
        self._write(self._states(unit, puts, RestorationState.BACKED_OUT, reason))

    def fail(self, put: Put, reason: int) -> None:
        """Write that a put failed, and warn once for each reason."""
        queue = self._restoration.to_queue
        advice = self._destinations.explain_failure(put.destination, reason)
        why = ": ".join(filter(None, [f"put to {queue}: {reason_text(reason)}", advice]))
        (self._log.debug if reason in self._logged else self._log.warning)(
            "unable to restore message %s: %s", put.message_key.hex()[:12], why
        )
        self._logged.add(reason)
        self._end(put.copy, RestorationState.FAILED, reason, why)

    def skip(self, put: Put, reason: int) -> bool:
        """Write that a copy fails which is too long, and that no other is attempted."""
        if reason == MQRC["MQRC_MSG_TOO_BIG_FOR_Q"]:
            self.fail(put, reason)
        else:
            why = f"{self._restoration.to_queue} has {reason_text(reason)}"
            self._end(put.copy, RestorationState.NOT_ATTEMPTED, reason, why)
        return True

    def refuse(self, copy: ArchivedCopy, why: str) -> None:
        """Write that a copy must not be put, and why."""
        self._end(copy, RestorationState.REFUSED, 0, why)

    def flush(self) -> None:
        """Write how copies ended that were not put."""
        waiting, self._waiting = self._waiting, []
        self._write(waiting)

    def _end(self, copy: ArchivedCopy, state: RestorationState, mqrc: int, why: str) -> None:
        """Note how a copy ended that was not put: if a crash loses it, it is tried again."""
        self._waiting.append(CopyState(*copy.key, state, self._clock(), "", mqrc, why))
        if len(self._waiting) >= NOT_WRITTEN_AT_ONCE:
            self.flush()

    def _write(self, states: Sequence[CopyState]) -> None:
        self._ledger.restorations.add_states(self._restoration.restoration_id, states)

    def _states(
        self, unit: str, puts: Sequence[Put], state: RestorationState, mqrc: int = 0
    ) -> list[CopyState]:
        now = self._clock()
        return [CopyState(*put.copy.key, state, now, unit, mqrc) for put in puts]
