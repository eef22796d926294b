"""Units of work that put archived messages: copies with their content in, committed puts out."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import Self

from mqdlq.constants import MQRC, reason_text
from mqdlq.errors import MalformedHeaderError, QueueManagerError
from mqdlq.lake.archive import Copy
from mqdlq.ledger import ArchivedCopy, CopyState, Ledger, Restoration
from mqdlq.model import RestorationState
from mqdlq.mqi.connect import QueueManager
from mqdlq.mqi.state_queue import Marker, Markers
from mqdlq.mqi.unit_of_work import Delivery, Syncpoint
from mqdlq.stages.restore.letters import delivery_of
from mqdlq.stages.units.destinations import Destinations
from mqdlq.stages.units.engine import (
    BYTES_IN_A_UNIT,
    MQRO_COA_WITH_FULL_DATA,
    OF_THE_UNIT,
    REPORT_OF_MQMD,
    STOPPING,
)
from mqdlq.stages.units.resources import Log

NOT_WRITTEN_AT_ONCE = 500
TOLD_EVERY = 1000
"""After how many messages it is told how far a restoration is."""
OF_A_RESTORATION = "restore"
"""What stands in a restoration's markers where an executor's name the plan."""


@dataclass(frozen=True, slots=True)
class _Put:
    """One copy on its way."""

    copy: ArchivedCopy
    descriptor: bytes
    delivery: Delivery

    def __repr__(self) -> str:
        """Show no content: the body is a customer's."""
        return f"<_Put of message {self.copy.message_id}>"


@dataclass(slots=True)
class _Load:
    """What an open unit of work holds, and what it counts for where MAXUMSGS is concerned."""

    puts: list[_Put] = field(default_factory=list)
    length: int = 0
    uncommitted: int = 0


class Putter:
    """Puts archived messages, many to a unit of work as long as the puts succeed.

    The order is that of the crash rule: what a unit puts is `intended` in the ledger before MQCMIT
    and settled after it, and the unit's marker commits with the unit. A put that fails backs its
    unit out; that copy is `failed`, the others are put again at once, each alone, before anything
    behind them. Where the reason is the queue's, what is behind is not attempted.

    From its beginning to its end there is always one marker of the restoration on the state queue:
    each unit takes the one before it away. So a marker that is absent proves that its unit was
    backed out only as long as any of them is there; if somebody cleared the queue, it is noticed.

    Used in a `with` block, which backs out what is uncommitted when it ends by an exception.
    """

    def __init__(
        self,
        queue_manager: QueueManager,
        markers: Markers,
        restoration: Restoration,
        *,
        ledger: Ledger,
        messages_in_a_unit: int,
        clock: Callable[[], datetime],
        log: Log,
    ) -> None:
        """Put over a connection with no unit of work under way, while `markers` are held."""
        self._queue_manager = queue_manager
        self._markers = markers
        self._restoration = restoration
        self._ledger = ledger
        self._clock = clock
        self._log = log
        limit = messages_in_a_unit if markers.prove_commits else 1
        self._destinations = Destinations(queue_manager, limit)
        self._destination = restoration.to_queue, restoration.to_queue_manager
        selector = queue_manager.client.CMQC.MQIA_MAX_UNCOMMITTED_MSGS
        self._uncommitted_limit = int(queue_manager.inquire(selector))
        self._unit: Syncpoint | None = None
        self._load = _Load()
        self._standing: list[str] = []
        self._waiting: list[CopyState] = []
        self._restored = 0
        self._told: set[int] = set()

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
                self._flush()
                self._clear()
        finally:
            if self._unit is not None:
                self._unit.__exit__(kind, error, trace)
            self._flush()

    def begin(self, settled: Sequence[str]) -> None:
        """Put the restoration's first marker, and take those of settled units away with it."""
        if not self._markers.prove_commits:
            return
        name = secrets.token_hex(24)
        with Syncpoint(self._queue_manager) as unit:
            self._mark(name, [])
            for marker in settled:
                self._markers.clear(marker)
            unit.commit()
        self._standing = [name]

    def offer(self, copy: ArchivedCopy, content: Copy) -> None:
        """Put a copy, unless no put to the queue can succeed now.

        Raises QueueManagerError where the connection or a commit fails: what the open unit holds
        stays as it is in the ledger, and the next attempt settles it.
        """
        queue, q_mgr = self._destination
        try:
            header = self._restoration.header
            delivery = delivery_of(content, queue, q_mgr, header=header)
        except MalformedHeaderError as error:
            why = f"its MQDLH cannot be taken off ({error}): restore it with its header"
            self.refuse(copy, why)
            return
        put = _Put(copy, content.descriptor, delivery)
        if reason := self._destinations.reason_blocked(self._destination):
            why = f"{queue} has {reason_text(reason)}"
            self._end(copy, RestorationState.NOT_ATTEMPTED, reason, why)
        elif self._destinations.is_too_long(self._destination, len(delivery.body)):
            self._fail(put, MQRC["MQRC_MSG_TOO_BIG_FOR_Q"])
        else:
            if not self._has_room(put):
                self._commit()
            self._add(put)

    def refuse(self, copy: ArchivedCopy, why: str) -> None:
        """Note that a copy must not be put, and why."""
        self._end(copy, RestorationState.REFUSED, 0, why)

    def _add(self, put: _Put) -> None:
        unit = self._unit = self._unit or Syncpoint(self._queue_manager)
        if failure := _failure(unit, put):
            self._take_apart(put, failure)
            return
        self._load.puts.append(put)
        self._load.length += len(put.delivery.body)
        self._load.uncommitted += self._cost(put)
        if len(self._load.puts) >= self._destinations.level(self._destination):
            self._commit()

    def _commit(self) -> None:
        """Commit the open unit; where the queue manager backs it out, put each message alone."""
        load, self._load = self._load, _Load()
        unit, self._unit = self._unit, None
        if unit is None or not load.puts:
            return
        level = self._destinations.level(self._destination)
        with unit:
            committed = self._conclude(unit, load.puts)
        if committed and len(load.puts) >= level:
            self._destinations.succeeded(self._destination)
        elif not committed:
            self._destinations.failed(self._destination, MQRC["MQRC_BACKED_OUT"])
            for put in load.puts:
                self._redo(put)

    def _take_apart(self, put: _Put, failure: int) -> None:
        """Back out the unit in which a put failed, and put the others again, each alone."""
        others, self._load = self._load.puts, _Load()
        unit, self._unit = self._unit, None
        if unit is not None:
            unit.back_out()
        if others and failure in OF_THE_UNIT:
            others.append(put)  # it is not to blame
        else:
            self._fail(put, failure)
        self._destinations.failed(self._destination, MQRC["MQRC_BACKED_OUT"])
        for other in others:
            self._redo(other)

    def _redo(self, put: _Put) -> None:
        """Put a message that was backed out with others, in a unit of its own."""
        failure, committed = 0, False
        with Syncpoint(self._queue_manager) as unit:
            failure = _failure(unit, put)
            if not failure:
                committed = self._conclude(unit, [put])
        if not committed:
            self._fail(put, failure or MQRC["MQRC_BACKED_OUT"])

    def _conclude(self, unit: Syncpoint, puts: Sequence[_Put]) -> bool:
        """Put the marker, write the intentions, commit, and write what became of them.

        Returns whether the unit took effect; MQRC_BACKED_OUT says that it did not, and so does
        MQRC_SYNCPOINT_LIMIT_REACHED for the marker of a unit that may be smaller.
        """
        name = secrets.token_hex(24)
        try:
            self._mark(name, puts)
            for marker in self._standing:
                self._markers.clear(marker)
        except QueueManagerError as error:
            if error.reason not in OF_THE_UNIT or len(puts) == 1:
                raise
            return False
        self._ledger.restorations.intend(
            self._restoration, self._states(name, puts, RestorationState.INTENDED)
        )
        try:
            unit.commit()
        except QueueManagerError as error:
            if error.reason != MQRC["MQRC_BACKED_OUT"]:
                raise
            self._write(self._states(name, puts, RestorationState.BACKED_OUT, error.reason))
            return False
        self._standing = [name] if self._markers.prove_commits else []
        self._write(self._states(name, puts, RestorationState.RESTORED))
        before, self._restored = self._restored, self._restored + len(puts)
        if self._restored // TOLD_EVERY > before // TOLD_EVERY:
            self._log.info("%d messages restored so far", self._restored)
        return True

    def _mark(self, name: str, puts: Sequence[_Put]) -> None:
        keys = b"".join(put.copy.message_key for put in puts)
        digest = hashlib.sha256(keys).hexdigest()
        self._markers.put(Marker(name, self._restoration.restoration_id, OF_A_RESTORATION, digest))

    def _clear(self) -> None:
        """Take the last marker away: all it could tell is in the ledger."""
        if self._standing:
            with Syncpoint(self._queue_manager) as unit:
                for marker in self._standing:
                    self._markers.clear(marker)
                unit.commit()
            self._standing = []

    def _has_room(self, put: _Put) -> bool:
        """Whether the open unit can take one message more, and its marker besides."""
        markers = 1 + len(self._standing)
        uncommitted = self._load.uncommitted + self._cost(put) + markers
        length = self._load.length + len(put.delivery.body)
        return uncommitted <= self._uncommitted_limit and length <= BYTES_IN_A_UNIT

    def _cost(self, put: _Put) -> int:
        """Return how many uncommitted messages a put may make: itself, a report, a trigger."""
        (report,) = REPORT_OF_MQMD.unpack_from(put.descriptor)
        reports = bool(report & MQRO_COA_WITH_FULL_DATA)
        return 1 + reports + self._destinations.may_trigger(self._destination)

    def _fail(self, put: _Put, reason: int) -> None:
        """Write that a put failed, and tell it aloud once for each reason."""
        queue = self._destination[0]
        self._destinations.failed(self._destination, reason)
        advice = self._destinations.advice(self._destination, reason)
        why = ": ".join(filter(None, [f"put to {queue}: {reason_text(reason)}", advice]))
        (self._log.debug if reason in self._told else self._log.warning)(
            "unable to restore message %s: %s", put.copy.message_key.hex()[:12], why
        )
        self._told.add(reason)
        self._end(put.copy, RestorationState.FAILED, reason, why)

    def _end(self, copy: ArchivedCopy, state: RestorationState, mqrc: int, why: str) -> None:
        """Note how a copy ended that was not put: a crash that loses it makes it tried again."""
        self._waiting.append(CopyState(*copy.key, state, self._clock(), "", mqrc, why))
        if len(self._waiting) >= NOT_WRITTEN_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._write(waiting)

    def _write(self, states: Sequence[CopyState]) -> None:
        self._ledger.restorations.add_states(self._restoration.restoration_id, states)

    def _states(
        self, unit: str, puts: Sequence[_Put], state: RestorationState, mqrc: int = 0
    ) -> list[CopyState]:
        now = self._clock()
        return [CopyState(*put.copy.key, state, now, unit, mqrc) for put in puts]


def _failure(unit: Syncpoint, put: _Put) -> int:
    """Put a message under syncpoint; return why that failed, or 0. A warning counts as failure."""
    try:
        unit.put_as_it_was(put.descriptor, put.delivery)
    except QueueManagerError as error:
        if error.reason in STOPPING:
            raise
        return error.reason
    return 0
