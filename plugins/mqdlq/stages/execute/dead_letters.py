"""The dead-letter queue as a source of moves: a browse cursor finds messages and gets them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from mqdlq.controls.repair import Repair
from mqdlq.controls.work import Planned, PlannedAttempt
from mqdlq.errors import ExecutionError, QueueManagerError
from mqdlq.headers import (
    DLH_LENGTH,
    DeadLetterHeader,
    following_ccsid,
    message_key,
)
from mqdlq.lake.archive import steady_digest
from mqdlq.model import Action, PutAuthority, Step
from mqdlq.mqi.browse import GONE, BrowseCursor, BrowsedMessage, browse_with_properties
from mqdlq.mqi.unit_of_work import Delivery, GotMessage, UnitOfWork
from mqdlq.reasons import Why
from mqdlq.stages.units.engine import MessageGoneError, MoveWithdrawnError
from mqdlq.structures import MQDLH


class DeadLetterSource:
    """The messages of a dead-letter queue, which is open to browse, get and save all context.

    `copies` are the steady digests of archive copies by message id. If the queue
    `is_browsed_apart`, another cursor finds the messages of the pass: this one is moved to each
    message, and messages can be got in any order.
    """

    def __init__(
        self, cursor: BrowseCursor, copies: Mapping[int, str], *, is_browsed_apart: bool = False
    ) -> None:
        self._cursor = cursor
        self._copies = copies
        self._is_browsed_apart = is_browsed_apart
        self._unit = UnitOfWork(cursor)

    def open(self) -> UnitOfWork:
        self._unit = UnitOfWork(self._cursor)
        return self._unit

    def find(self, planned: Planned) -> bool:
        return all(self._find_one(one) for one in planned.tries)

    def resume(self, planned: Planned) -> None:
        """Continue the browse behind this message.

        If the message is gone, the browse returns some messages again. The run ignores them, since
        it has already recorded them.
        """
        if not self._is_browsed_apart:
            self._cursor.find(planned.tries[0].browsed.token)

    def get(self, planned: Planned) -> Iterator[Callable[[], None]]:
        """Get each message under the cursor; yield a function that puts it to the step's target.

        A message to be discarded is only got. It must equal its copy in the archive, and so must a
        message to be delivered repaired: its copy is compared before the get, which returns the
        properties in another form.
        If one of several messages is gone, the others must stay.
        """
        for number, one in enumerate(planned.tries):
            planned.reached = number
            try:
                yield self._get_one(one)
            except MessageGoneError as gone:
                if number:
                    raise MoveWithdrawnError from gone
                raise

    def _find_one(self, planned: PlannedAttempt) -> bool:
        """Position the cursor on a message, by its token or else by its key."""
        found, key = self._cursor.find(planned.browsed.token), planned.item.message.message_key
        if found is not None and _compute_key(found) == key:
            return True
        return any(_compute_key(met) == key for met in self._cursor.messages())

    def _get_one(self, planned: PlannedAttempt) -> Callable[[], None]:
        if self._is_browsed_apart and not self._find_one(planned):
            raise MessageGoneError
        unit, length = self._unit, planned.browsed.total_length
        is_discard = planned.step.destination is None
        try:
            if planned.repair is not None:
                self._check_against_copy(planned, *browse_with_properties(self._cursor, length))
            got = unit.get_with_properties(length) if is_discard else unit.get_under_cursor(length)
        except QueueManagerError as error:
            if error.reason in GONE:
                raise MessageGoneError from error
            raise
        if is_discard:
            self._check_against_copy(planned, got.descriptor.pack(), got.body)
            return lambda: None
        self._check_message_key(planned, got)

        def put() -> None:
            delivery = build_delivery(planned.step, got)
            if planned.repair is not None:
                delivery = repair_delivery(delivery, planned.repair, got)
            unit.put(got, delivery)

        return put

    def _check_against_copy(self, planned: PlannedAttempt, descriptor: bytes, body: bytes) -> None:
        copy = self._copies.get(planned.item.message.message_id)
        if steady_digest(descriptor, body) != copy:
            planned.item.withheld_reason = Why.NOT_ARCHIVED()
            raise MoveWithdrawnError

    def _check_message_key(self, planned: PlannedAttempt, got: GotMessage) -> None:
        """Refuse a message that is not the planned one, before anything is done with it."""
        key = message_key(got.descriptor.pack(), len(got.body), got.body)
        if key != planned.item.message.message_key:
            raise ExecutionError(
                "MQDLQ-604",
                f"the message got from {self._cursor.name} is not the one under the cursor"
                f" (message {planned.item.message.browse_seq}), so it was backed out; clear the"
                " task",
            )


def _compute_key(browsed: BrowsedMessage) -> bytes:
    return message_key(browsed.descriptor, browsed.total_length, browsed.prefix)


# Build the put that one step of a plan requires for one message.

_FORMAT = MQDLH.slice_of("format")


def build_delivery(step: Step, got: GotMessage) -> Delivery:
    """Return the put that a RETRY or FWD requires.

    If the MQDLH is removed, the MQMD takes Format, Encoding and CodedCharSetId from it; otherwise
    the receiver would read the body as a dead-letter header. Nothing else changes (IBM MQ docs,
    "Dead-letter queue processing"). The body is never converted.
    """
    descriptor, to = got.descriptor, (step.target_q, step.target_q_mgr)
    user = descriptor.UserIdentifier if step.put_authority is PutAuthority.CTX else b""
    if step.action is Action.FWD and step.header:
        return Delivery(*to, got.body, alternate_user=user)
    plain = strip_dead_letter_header(*to, got.body, descriptor.Encoding, descriptor.CodedCharSetId)
    return replace(plain, alternate_user=user)


def repair_delivery(delivery: Delivery, repair: Repair, got: GotMessage) -> Delivery:
    """Return the put with the Format and CodedCharSetId of a repair; its body is the same."""
    if delivery.format is None:  # the message has no MQDLH
        descriptor = got.descriptor
        delivery = replace(
            delivery,
            encoding=descriptor.Encoding,
            coded_char_set_id=descriptor.CodedCharSetId,
            format=descriptor.Format,
        )
    if repair.coded_char_set_id is not None:
        delivery = replace(delivery, coded_char_set_id=repair.coded_char_set_id)
    if repair.format is not None:
        delivery = replace(delivery, format=repair.format.ljust(8).encode("ascii"))
    return delivery


def strip_dead_letter_header(
    target_q: str, target_q_mgr: str, body: bytes, encoding: int, ccsid: int
) -> Delivery:
    """Return the put of a message without its MQDLH, which is written in `encoding` and `ccsid`.

    Raises MalformedHeaderError if the message does not begin with an MQDLH.
    """
    header = DeadLetterHeader.decode(body, encoding=encoding, ccsid=ccsid)
    return Delivery(
        target_q,
        target_q_mgr,
        body[DLH_LENGTH:],
        encoding=header.encoding,
        coded_char_set_id=following_ccsid(header.coded_char_set_id, ccsid),
        format=_format_after_header(body, header),
    )


def _format_after_header(body: bytes, header: DeadLetterHeader) -> bytes:
    """Return the MQDLH's Format for an MQMD, which is in the connection's character set.

    The bytes are copied from the header unchanged, unless the header is in EBCDIC.
    """
    if body.startswith(MQDLH.struc_id):
        return body[_FORMAT]
    return header.format.ljust(8).encode("latin-1", "replace")
