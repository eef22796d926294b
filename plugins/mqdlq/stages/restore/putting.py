"""Put archived dead letters, with or without their MQDLH.

If a message had properties, its copy begins with an MQRFH2 that holds them, and the MQDLH follows
(see `mqi.browse`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from mqdlq.constants import MQRC
from mqdlq.headers import (
    DLH_LENGTH,
    DeadLetterHeader,
    MessageDescriptor,
    RulesHeader2,
    following_ccsid,
    walk,
)
from mqdlq.headers.chain import ChainedHeader
from mqdlq.lake.archive import Copy
from mqdlq.ledger.archive import ArchivedCopy
from mqdlq.ledger.tables import CopyState
from mqdlq.model import Destination, PutAuthority, RestorationState, WorkNumber
from mqdlq.mqi.connect import QueueManager
from mqdlq.mqi.state_queue import RESTORATION_MARKER, Marker
from mqdlq.mqi.unit_of_work import Delivery, Syncpoint
from mqdlq.reasons import Reason, Why
from mqdlq.stages.execute.dead_letters import strip_dead_letter_header
from mqdlq.stages.restore.copies import RestorationResources
from mqdlq.stages.units.destinations import Destinations


def decode_copied_header(copy: Copy) -> DeadLetterHeader:
    """Return the MQDLH of a copy; raises MalformedHeaderError if it has none."""
    _, offset, encoding, ccsid = _locate_header(copy)
    return DeadLetterHeader.decode(copy.body[offset:], encoding=encoding, ccsid=ccsid)


def build_delivery(copy: Copy, target_q: str, target_q_mgr: str, *, header: bool) -> Delivery:
    """Return the delivery of a copy: unchanged, or without its MQDLH but with its properties.

    If the MQDLH is removed, the header before it takes Format, Encoding and CodedCharSetId from it,
    as with HEADER(NO). Raises MalformedHeaderError if there is no readable MQDLH.
    """
    if header:
        return Delivery(target_q, target_q_mgr, copy.body)
    preceding, offset, encoding, ccsid = _locate_header(copy)
    rest = copy.body[offset:]
    if preceding is None:
        return strip_dead_letter_header(target_q, target_q_mgr, rest, encoding, ccsid)
    removed = DeadLetterHeader.decode(rest, encoding=encoding, ccsid=ccsid)
    rfh2, start = preceding
    properties = replace(
        rfh2,
        encoding=removed.encoding,
        coded_char_set_id=following_ccsid(removed.coded_char_set_id, ccsid),
        format=removed.format,
    )
    front = copy.body[: start.offset] + properties.encode(
        encoding=start.encoding, ccsid=start.ccsid
    )
    return Delivery(target_q, target_q_mgr, front + rest[DLH_LENGTH:])


def _locate_header(
    copy: Copy,
) -> tuple[tuple[RulesHeader2, ChainedHeader] | None, int, int, int]:
    """Return the MQRFH2 before the MQDLH, and the offset, Encoding and CCSID of the MQDLH."""
    md = MessageDescriptor.decode(copy.descriptor)
    chain = walk(copy.body, len(copy.body), **md.following)
    preceding, offset, encoding, ccsid = None, 0, md.encoding, md.coded_char_set_id
    for header in chain.headers:
        if not isinstance(header.record, RulesHeader2):
            break
        preceding, offset = (header.record, header), header.offset + header.length
        encoding = header.record.encoding
        ccsid = following_ccsid(header.record.coded_char_set_id, header.ccsid)
    return preceding, offset, encoding, ccsid


# Put archived copies, and record the progress in the ledger.

MAX_UNWRITTEN_STATES = 500
PROGRESS_EVERY = 1000
"""After how many restored messages the log reports progress."""


@dataclass(frozen=True, slots=True)
class PlannedPut:
    """One copy to be put."""

    copy: ArchivedCopy
    descriptor: bytes
    delivery: Delivery

    is_got: ClassVar[bool] = False
    authority: ClassVar[PutAuthority] = PutAuthority.DEF

    @property
    def message_key(self) -> bytes:
        return self.copy.message_key

    @property
    def destination(self) -> Destination:
        return self.delivery.target_q, self.delivery.target_q_mgr

    @property
    def descriptors(self) -> tuple[bytes]:
        return (self.descriptor,)

    @property
    def lengths(self) -> tuple[int]:
        return (len(self.delivery.body),)

    def __repr__(self) -> str:
        """Show no content: the body is confidential."""
        return f"<Put of message {self.copy.message_id}>"


class ArchiveSource:
    """The archive as a source of moves: copies stay there, and no message is got from a queue."""

    def __init__(self, queue_manager: QueueManager) -> None:
        self._queue_manager = queue_manager
        self._unit = Syncpoint(queue_manager)

    def open(self) -> Syncpoint:
        self._unit = Syncpoint(self._queue_manager)
        return self._unit

    def find(self, _: PlannedPut) -> bool:
        """Return True: a copy stays in the archive."""
        return True

    def resume(self, _: PlannedPut) -> None:
        """Do nothing: no cursor has moved."""

    def get(self, put: PlannedPut) -> Iterator[Callable[[], None]]:
        """Yield a function that puts the copy. It treats a warning as a failure."""
        unit = self._unit
        yield lambda: unit.put_with_original_context(put.descriptor, put.delivery)


class RestorationRecorder:
    """Records the state of each copy of a restoration, before and after commits.

    `destinations` explain failed puts in the log.
    """

    def __init__(
        self, work: RestorationResources, destinations: Destinations, number: WorkNumber
    ) -> None:
        self._restoration = work.restoration
        self._number = number
        self._ledger = work.ledger
        self._clock = work.clock
        self._log = work.log
        self._destinations = destinations
        self._unwritten: list[CopyState] = []
        self._restored = 0
        self._warned_of: set[int] = set()

    def marker(self, unit: str, messages: str, _: Sequence[PlannedPut]) -> Marker:
        name = self._restoration.restoration_id
        return Marker(unit, name, RESTORATION_MARKER, messages, str(self._number))

    def may_make(self, _: PlannedPut) -> bool:
        """Return True: no copy waits for another one."""
        return True

    def intend(self, unit: str, puts: Sequence[PlannedPut]) -> None:
        """Record the puts that the unit is about to commit, durably.

        Raises LedgerError if another task puts the same messages.
        """
        states = self._build_states(unit, puts, RestorationState.INTENDED)
        self._ledger.restorations.intend(self._restoration, states)

    def confirm(self, unit: str, puts: Sequence[PlannedPut]) -> None:
        self._write(self._build_states(unit, puts, RestorationState.RESTORED))
        before, self._restored = self._restored, self._restored + len(puts)
        if self._restored // PROGRESS_EVERY > before // PROGRESS_EVERY:
            self._log.info("%d messages restored so far", self._restored)

    def back_out(self, unit: str, puts: Sequence[PlannedPut], reason: int) -> None:
        self._write(self._build_states(unit, puts, RestorationState.BACKED_OUT, reason))

    def fail(self, put: PlannedPut, reason: int) -> None:
        """Record that a put failed, and warn once for each reason."""
        queue = self._restoration.to_queue
        advice = self._destinations.explain_failure(put.destination, reason)
        why = Why.PUT_TO_QUEUE_FAILED(queue=queue, mqrc=reason, advice=advice)
        (self._log.debug if reason in self._warned_of else self._log.warning)(
            "unable to restore message %s: %s", put.message_key.hex()[:12], why.words
        )
        self._warned_of.add(reason)
        self._record_end(put.copy, RestorationState.FAILED, reason, why)

    def leave(self, put: PlannedPut) -> None:
        """Do nothing: a copy in the archive is never gone."""

    def skip(self, put: PlannedPut, reason: int) -> bool:
        """Record a copy that is too long as failed, and any other copy as not attempted."""
        if reason == MQRC["MQRC_MSG_TOO_BIG_FOR_Q"]:
            self.fail(put, reason)
        else:
            why = Why.QUEUE_BLOCKED(queue=self._restoration.to_queue, mqrc=reason)
            self._record_end(put.copy, RestorationState.NOT_ATTEMPTED, reason, why)
        return True

    def refuse(self, copy: ArchivedCopy, why: Reason | None) -> None:
        self._record_end(copy, RestorationState.REFUSED, 0, why)

    def flush(self) -> None:
        waiting, self._unwritten = self._unwritten, []
        self._write(waiting)

    def _record_end(
        self, copy: ArchivedCopy, state: RestorationState, mqrc: int, why: Reason | None
    ) -> None:
        """Store the final state of a copy that was not put; a crash may lose it harmlessly."""
        self._unwritten.append(CopyState(*copy.key, state, self._clock(), "", mqrc, why))
        if len(self._unwritten) >= MAX_UNWRITTEN_STATES:
            self.flush()

    def _write(self, states: Sequence[CopyState]) -> None:
        self._ledger.restorations.add_states(self._restoration.restoration_id, states)

    def _build_states(
        self, unit: str, puts: Sequence[PlannedPut], state: RestorationState, mqrc: int = 0
    ) -> list[CopyState]:
        now = self._clock()
        return [CopyState(*put.copy.key, state, now, unit, mqrc) for put in puts]
