"""Units of work over a dead-letter queue: messages under a cursor in, committed moves out."""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from mqdlq.constants import MQRC
from mqdlq.errors import ExecutionError, QueueManagerError
from mqdlq.headers import message_key
from mqdlq.lake.archive import steady_digest
from mqdlq.model import Action
from mqdlq.mqi.browse import GONE, BrowseCursor, Browsed
from mqdlq.mqi.connect import CONNECTION_GONE
from mqdlq.mqi.state_queue import Marker, Markers
from mqdlq.mqi.unit_of_work import Got, UnitOfWork
from mqdlq.stages.execute.actions import delivery
from mqdlq.stages.execute.booking import Booking, Try
from mqdlq.stages.execute.work import WorkItem
from mqdlq.stages.units.destinations import Destination, Destinations
from mqdlq.structures import MQMD

OF_THE_UNIT = (MQRC["MQRC_BACKED_OUT"], MQRC["MQRC_SYNCPOINT_LIMIT_REACHED"])
"""Reasons for which a unit of work cannot go on, and no message in it is to blame."""
STOPPING = (
    *CONNECTION_GONE,
    MQRC["MQRC_Q_MGR_QUIESCING"],
    MQRC["MQRC_Q_MGR_STOPPING"],
    MQRC["MQRC_CONNECTION_QUIESCING"],
    MQRC["MQRC_CONNECTION_STOPPING"],
    MQRC["MQRC_CALL_INTERRUPTED"],
)
"""Reasons of a put that end the execution: no connection, or a queue manager about to stop."""
NOT_ARCHIVED = "it could not be archived"
REPORT_OF_MQMD = MQMD.reader("report")
MQRO_COA_WITH_FULL_DATA, MQRO_COD_WITH_FULL_DATA = 0x700, 0x3800
"""All bits that ask for a report on arrival, or on delivery."""
BYTES_IN_A_UNIT = 32 * 1024 * 1024


@dataclass(slots=True)
class Load:
    """What an open unit of work holds: its tries, how many to each destination, and their bytes.

    `uncommitted` is what they count for where MAXUMSGS is concerned.
    """

    tries: list[Try] = field(default_factory=list)
    destinations: Counter[Destination | None] = field(default_factory=Counter)
    length: int = 0
    uncommitted: int = 0

    def add(self, tried: Try, uncommitted: int) -> None:
        """Take one message more, which counts for so many where MAXUMSGS is concerned."""
        self.uncommitted += uncommitted
        self.tries.append(tried)
        self.destinations[tried.destination] += 1
        self.length += tried.browsed.total_length

    def count(self, destination: Destination | None) -> int:
        """Return how many messages go to a destination."""
        return self.destinations[destination]


class Executor:
    """Tries steps on messages, many to a unit of work as long as their puts succeed.

    The order is that of the crash rule: attempts are `intended` in the ledger before MQCMIT and
    settled after it, and the unit's marker commits with the unit, so that whoever comes after a
    crash can tell what happened. A put that fails backs its unit out; the failed message is
    charged an attempt, the others are tried again at once, each alone, before anything behind
    them, which keeps the order of messages to one destination.

    Used in a `with` block, which backs out what is uncommitted when it ends by an exception.
    """

    def __init__(
        self,
        cursor: BrowseCursor,
        *,
        markers: Markers,
        destinations: Destinations,
        copies: Mapping[int, str],
        booking: Booking,
        uncommitted_limit: int,
    ) -> None:
        """Work under `cursor`, on a queue opened to browse, to get and to save all context.

        `copies` are the steady digests of archive copies by message id, `uncommitted_limit` is
        MAXUMSGS.
        """
        self._cursor = cursor
        self._markers = markers
        self._destinations = destinations
        self._copies = copies
        self._booking = booking
        self._uncommitted_limit = uncommitted_limit
        self._unit: UnitOfWork | None = None
        self._load = Load()
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
                self.commit()
        finally:
            if self._unit is not None:
                self._unit.__exit__(kind, error, trace)
            self._booking.flush()

    def clear_later(self, markers: Sequence[str]) -> None:
        """Take settled units' markers off the state queue in the next unit of work."""
        self._settled_markers.extend(markers)

    def offer(self, item: WorkItem, browsed: Browsed) -> None:
        """Try the item's next step on the message under the cursor.

        A put that cannot succeed, since its destination is blocked in this pass or takes no message
        that long, is charged without getting the message, or held where it is blocked and the
        handler says so; a blank queue name is charged, since nobody can unblock it. A DISCARD is
        never brought about by an attempt that nobody made: a real attempt precedes it. A message
        that another program took is skipped. Raises QueueManagerError where the connection or a
        commit fails: those attempts stay `intended`, and the next execution settles them.
        """
        step = item.step
        if step is None:
            return
        if step.action is Action.DISCARD and item.message.message_id not in self._copies:
            item.withheld = item.withheld or NOT_ARCHIVED
            return
        tried = Try(item, step, browsed)
        reason = self._destinations.reason_blocked(tried.destination, step.put_authority)
        if reason and self._booking.run.hold_while_blocked and step.target_q:
            return
        if not reason and self._destinations.is_too_long(tried.destination, tried.length):
            reason = MQRC["MQRC_MSG_TOO_BIG_FOR_Q"]
        if reason and not tried.would_lead_to_a_discard:
            self._booking.charge(tried, reason, advice=self._advice(tried, reason), at_once=False)
            return
        if not self._has_room(tried) and self.commit() and not self._find(tried):
            return
        self._add(tried)

    def _add(self, tried: Try) -> None:
        """Move the message under the cursor within the open unit of work."""
        unit = self._unit = self._unit or UnitOfWork(self._cursor)
        try:
            failure = self._move(unit, tried)
        except _GoneError:
            return
        except _NotArchivedError:
            tried.item.withheld = NOT_ARCHIVED
            self._take_apart(tried, 0)
            return
        if failure:
            self._take_apart(tried, failure)
            return
        self._load.add(tried, self._cost(tried))
        if self._load.count(tried.destination) >= self._destinations.level(tried.destination):
            self.commit()

    def commit(self) -> bool:
        """Commit the unit that is open, if it holds anything.

        Where the queue manager backs it out instead, its messages are tried again, each alone;
        then the cursor has moved, and True is returned.
        """
        load, self._load = self._load, Load()
        unit, self._unit = self._unit, None
        if unit is None or not load.tries:
            return False
        with unit:
            committed = self._conclude(unit, load.tries)
        if not committed:
            for tried in load.tries:
                self._destinations.failed(tried.destination, MQRC["MQRC_BACKED_OUT"])
                self._redo(tried)
            return True
        for destination, count in load.destinations.items():
            if count >= self._destinations.level(destination):
                self._destinations.succeeded(destination)
        return False

    def _has_room(self, tried: Try) -> bool:
        """Whether the open unit can take one message more, and its marker besides.

        MAXUMSGS counts gets and puts, trigger and report messages (IBM MQ docs, "MAXUMSGS").
        """
        uncommitted = self._load.uncommitted + self._cost(tried) + 1 + len(self._settled_markers)
        length = self._load.length + tried.browsed.total_length
        return uncommitted <= self._uncommitted_limit and length <= BYTES_IN_A_UNIT

    def _cost(self, tried: Try) -> int:
        """Return how many uncommitted messages a move may make: get, put, reports, trigger."""
        (report,) = REPORT_OF_MQMD.unpack_from(tried.browsed.descriptor)
        got = 1 + bool(report & MQRO_COD_WITH_FULL_DATA)
        if tried.destination is None:
            return got
        put = 1 + bool(report & MQRO_COA_WITH_FULL_DATA)
        return got + put + self._destinations.may_trigger(tried.destination)

    def _move(self, unit: UnitOfWork, tried: Try) -> int:
        """Get the message and put it where the step says; return why that failed, or 0.

        Raises _GoneError where the message is not there any more.
        """
        length, is_discard = tried.browsed.total_length, tried.step.action is Action.DISCARD
        try:
            got = unit.get_whole(length) if is_discard else unit.get_under_cursor(length)
        except QueueManagerError as error:
            if error.reason in GONE:
                raise _GoneError from error
            if error.reason in OF_THE_UNIT and self._load.tries:
                return error.reason
            raise
        if is_discard:
            if steady_digest(got.descriptor.pack(), got.body) != self._copy_of(tried):
                raise _NotArchivedError
            return 0
        self._check(tried, got)
        try:
            unit.put(got, delivery(tried.step, got))
        except QueueManagerError as error:
            if error.reason in STOPPING:
                raise
            return error.reason
        return 0

    def _check(self, tried: Try, got: Got) -> None:
        """Refuse a message that is not the planned one, before anything is done with it."""
        message, descriptor = tried.item.message, got.descriptor.pack()
        if message_key(descriptor, len(got.body), got.body) != message.message_key:
            raise ExecutionError(
                f"the message got from {self._cursor.name} is not the one under the cursor"
                f" (message {message.browse_seq}); nothing is done with it"
            )

    def _copy_of(self, tried: Try) -> str | None:
        """Return the digest of the archive's copy: a message with any other is not discarded."""
        return self._copies.get(tried.item.message.message_id)

    def _conclude(self, unit: UnitOfWork, tries: Sequence[Try]) -> bool:
        """Put the marker, write the intentions, commit, and write what became of them.

        Returns whether the unit took effect; MQRC_BACKED_OUT says that it did not, and so does
        MQRC_SYNCPOINT_LIMIT_REACHED for the marker of a unit that may be smaller.
        """
        name, booking = secrets.token_hex(24), self._booking
        try:
            self._mark(name, tries)
        except QueueManagerError as error:
            if error.reason not in OF_THE_UNIT or len(tries) == 1:
                raise
            booking.back_out(name, tries, error.reason)
            return False
        booking.intend(name, tries)
        try:
            unit.commit()
        except QueueManagerError as error:
            if error.reason != MQRC["MQRC_BACKED_OUT"]:
                raise
            booking.back_out(name, tries, error.reason)
            return False
        self._settled_markers = [name]
        booking.confirm(name, tries)
        return True

    def _mark(self, name: str, tries: Sequence[Try]) -> None:
        """Put the unit's marker, and take those of settled units away."""
        run, plan_id = self._booking.run, self._booking.plan_id
        keys = b"".join(tried.item.message.message_key for tried in tries)
        self._markers.put(Marker(name, run.run_id, plan_id, hashlib.sha256(keys).hexdigest()))
        for marker in self._settled_markers:
            self._markers.clear(marker)

    def _take_apart(self, tried: Try, failure: int) -> None:
        """Back out the unit in which a move failed, charge that message, and redo the others.

        `failure` is the reason, or 0 where the message is only to be left alone.
        """
        others, self._load = self._load.tries, Load()
        unit, self._unit = self._unit, None
        if unit is not None:
            unit.back_out()
        if others:
            self._booking.back_out(secrets.token_hex(24), others, failure)
        if others and failure in OF_THE_UNIT:
            others.append(tried)
        elif failure:
            self._charge(tried, failure)
        for other in others:
            self._redo(other)
        if others:
            # Back to where the browse was: it goes on behind the message that failed. If that is
            # gone, some messages are met again; those that were moved are then strangers.
            self._cursor.find(tried.browsed.token)

    def _redo(self, tried: Try) -> None:
        """Try a message that was backed out with others, in a unit of its own.

        Where that is backed out in its turn, it is tried once more; then it waits for a pass.
        """
        for _ in range(2):
            if not self._find(tried):
                return
            failure, is_over = 0, True
            with UnitOfWork(self._cursor) as unit:
                try:
                    failure = self._move(unit, tried)
                except _GoneError:
                    return
                except _NotArchivedError:
                    tried.item.withheld = NOT_ARCHIVED
                    return
                if not failure:
                    is_over = self._conclude(unit, [tried])
            if failure:
                self._charge(tried, failure)
            if is_over:
                return

    def _charge(self, tried: Try, reason: int) -> None:
        self._destinations.failed(tried.destination, reason, tried.step.put_authority)
        if reason != MQRC["MQRC_BACKED_OUT"]:
            self._booking.charge(tried, reason, advice=self._advice(tried, reason))

    def _advice(self, tried: Try, reason: int) -> str:
        return self._destinations.advice(tried.destination, reason)

    def _find(self, tried: Try) -> bool:
        """Put the cursor on the message again: by its token, else by walking to its key."""
        found = self._cursor.find(tried.browsed.token)
        if found is not None and _key(found) == tried.item.message.message_key:
            return True
        return any(_key(met) == tried.item.message.message_key for met in self._cursor.messages())


class _GoneError(Exception):
    """The message under the cursor is somebody else's now."""


class _NotArchivedError(Exception):
    """The message to be discarded is not what the archive has a copy of."""


def _key(browsed: Browsed) -> bytes:
    return message_key(browsed.descriptor, browsed.total_length, browsed.prefix)
