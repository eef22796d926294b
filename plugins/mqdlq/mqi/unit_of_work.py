"""Units of work: gets and puts that take effect together at MQCMIT, or not at all."""

from typing import Any, NamedTuple, Self

from mqdlq.constants import MQRC
from mqdlq.errors import QueueManagerError
from mqdlq.mqi.browse import BrowseCursor, message_options, read_with_properties
from mqdlq.mqi.connect import QueueManager, name_bytes
from mqdlq.structures import DEFAULTS_OF_VERSION_2, MQMD, MQMD_LENGTH_1

HEADER_REASONS = frozenset({MQRC["MQRC_RFH_ERROR"], MQRC["MQRC_DLH_ERROR"], MQRC["MQRC_XQH_ERROR"]})
"""Reason codes of a queue manager that refuses to put a message because of its headers."""
MQFMT_MD_EXTENSION = b"MQHMDE  "
MQMD_VERSION_1 = 1
"""Headers are only checked with a version 2 MQMD (IBM MQ docs, "Version (MQMD)")."""
MAX_BYTES_IN_A_UNIT = 32 * 1024 * 1024

_READ_REPORT = MQMD.reader("report")
MQRO_COA_WITH_FULL_DATA, MQRO_COD_WITH_FULL_DATA = 0x700, 0x3800
"""All bits that request a report on arrival, or on delivery."""


class GotMessage(NamedTuple):
    """A message got under syncpoint: the client's MQMD and the whole body."""

    descriptor: Any
    body: bytes

    def __repr__(self) -> str:
        """Show the length only: the body may hold a customer's data."""
        return f"<Got {len(self.body)} bytes>"


class Delivery(NamedTuple):
    """A body and the queue to put it to; an MQMD override of None keeps the value that was got.

    `alternate_user` is the user whose authority the put needs (PUTAUT(CTX)), or b"".
    """

    target_q: str
    target_q_mgr: str
    body: bytes
    encoding: int | None = None
    coded_char_set_id: int | None = None
    format: bytes | None = None
    alternate_user: bytes = b""

    def __repr__(self) -> str:
        """Show the length only: the body may hold a customer's data."""
        return f"<Delivery of {len(self.body)} bytes to {self.target_q}>"


def count_gets_and_puts(descriptor: bytes, *, is_got: bool, is_put: bool) -> int:
    """Return how many messages, with reports, the get and the put of one message count."""
    (report,) = _READ_REPORT.unpack_from(descriptor)
    number = 1 + bool(report & MQRO_COD_WITH_FULL_DATA) if is_got else 0
    if is_put:
        number += 1 + bool(report & MQRO_COA_WITH_FULL_DATA)
    return number


class Syncpoint:
    """One unit of work on one connection.

    Leaving the block without `commit` backs out the unit. A failed put leaves the unit open, as in
    MQ; the caller leaves the block.
    """

    def __init__(self, queue_manager: QueueManager) -> None:
        self._queue_manager = queue_manager
        self._client = queue_manager.client
        self._open = True
        constants = self._client.CMQC
        self._put_options = constants.MQPMO_SYNCPOINT | constants.MQPMO_FAIL_IF_QUIESCING
        self._targets: dict[tuple[str, str, bytes], Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.back_out()
        except QueueManagerError:
            if kind is None:
                raise  # otherwise the first error matters more

    def back_out(self) -> None:
        """Back out the unit (MQBACK); after a commit, do nothing."""
        if self._open:
            self._open = False
            self._queue_manager.back_out()

    def commit(self) -> None:
        """Commit the unit (MQCMIT).

        After a QueueManagerError the outcome is unknown, except for MQRC_BACKED_OUT (2003); the
        unit's marker shows it. Leaving the block then backs out the unit if that is still possible.
        """
        with self._client.translating_errors("MQCMIT", self._queue_manager.name):
            self._queue_manager.handle.commit()
        self._open = False

    def put_with_original_context(self, descriptor: bytes, delivery: Delivery) -> None:
        """Put a message with all the context that is in its MQMD (MQPUT1).

        `descriptor` is packed (364 bytes). The queue manager keeps its identifiers, its user and
        the origin of the put (IBM MQ docs, "MQPMO options", MQPMO_SET_ALL_CONTEXT), counts its
        Expiry from now, and creates properties from an MQRFH2 at the beginning of the message.
        """
        pmo = self._client.packed.PMO()
        pmo.Options = self._put_options | self._client.CMQC.MQPMO_SET_ALL_CONTEXT
        described = self._described(descriptor, delivery)
        try:
            self._put(self._target(delivery), delivery, described, pmo)
        except QueueManagerError as error:
            if error.reason not in HEADER_REASONS or not _fits_version_1(described):
                raise
            described.Version = MQMD_VERSION_1
            self._put(self._target(delivery), delivery, described, pmo)

    def _described(self, descriptor: bytes, delivery: Delivery) -> Any:
        described = self._client.packed.MD().unpack(descriptor)
        if delivery.format is not None:
            described.Format = delivery.format
            described.Encoding = delivery.encoding
            described.CodedCharSetId = delivery.coded_char_set_id
        return described

    def _target(self, delivery: Delivery) -> Any:
        """Return the MQOD of the target; MQPUT1 leaves it as it is, so that it serves again."""
        place = delivery.target_q, delivery.target_q_mgr, delivery.alternate_user
        target = self._targets.get(place)
        if target is None:
            target = self._targets[place] = self._client.packed.OD()
            target.ObjectName = name_bytes(delivery.target_q)
            target.ObjectQMgrName = name_bytes(delivery.target_q_mgr)
            if delivery.alternate_user:
                target.AlternateUserId = delivery.alternate_user
        return target

    def _put(self, target: Any, delivery: Delivery, descriptor: Any, pmo: Any) -> None:
        with self._client.translating_errors("MQPUT1", f"queue {delivery.target_q}"):
            self._queue_manager.handle.put1(target, delivery.body, descriptor, pmo)


class UnitOfWork(Syncpoint):
    """A unit of work that gets the messages of one queue under a browse cursor."""

    def __init__(self, cursor: BrowseCursor) -> None:
        super().__init__(cursor.queue_manager)
        self._cursor = cursor
        constants = self._client.CMQC
        self._get_options = constants.MQGMO_MSG_UNDER_CURSOR | constants.MQGMO_SYNCPOINT
        # All gets share one set of options, and all puts another: to make them takes long.
        self._gmo = message_options(self._queue_manager, self._get_options, cursor.handle)
        self._pmo = self._client.packed.PMO()
        self._pmo.Options = self._put_options | constants.MQPMO_PASS_ALL_CONTEXT
        self._pmo.Context = cursor.queue.get_handle()
        self._pmo.OriginalMsgHandle = cursor.handle.msg_handle
        self._pmo.Action = constants.MQACTP_FORWARD

    def get_under_cursor(self, length: int) -> GotMessage:
        """Get the message under the browse cursor, whole and unconverted (MQGET).

        `length` is its length as browsed; a message that has grown fails with
        MQRC_TRUNCATED_MSG_FAILED (2080).
        """
        descriptor = self._client.packed.MD()
        with self._client.translating_errors("MQGET", f"queue {self._cursor.name}"):
            body = self._cursor.queue.get(length, descriptor, self._gmo)
        return GotMessage(descriptor, bytes(body))

    def get_with_properties(self, length: int) -> GotMessage:
        """Get the message under the browse cursor in the form that the archive keeps (`browse`)."""
        return GotMessage(*read_with_properties(self._cursor, self._get_options, length))

    def put(self, got: GotMessage, delivery: Delivery) -> None:
        """Put the message of the last get with all its context and properties (MQPUT1).

        The context is passed from the last get, so gets and puts alternate (IBM MQ docs,
        "MQPMO options", MQPMO_PASS_ALL_CONTEXT). A warning counts as a failure, as in IBM's
        handler.
        """
        constants, pmo = self._client.CMQC, self._pmo
        descriptor = self._described(got.descriptor.packed, delivery)
        if delivery.alternate_user:
            pmo = self._own_options()
            pmo.Options |= constants.MQPMO_ALTERNATE_USER_AUTHORITY
        target = self._target(delivery)
        try:
            self._put(target, delivery, descriptor, pmo)
        except QueueManagerError as error:
            if error.reason not in HEADER_REASONS:
                raise
            if error.reason == MQRC["MQRC_RFH_ERROR"]:
                if self._cursor.has_properties():
                    raise
                # The Format claims an MQRFH2, which is not valid. A message without properties does
                # not need the handle, and without it the queue manager does not read the MQRFH2
                # (IBM MQ docs, "MQRFH2 headers that are not valid").
                pmo = pmo if delivery.alternate_user else self._own_options()
                pmo.OriginalMsgHandle, pmo.Action = 0, constants.MQACTP_NEW
            elif not _fits_version_1(descriptor):
                raise
            if _fits_version_1(descriptor):
                descriptor.Version = MQMD_VERSION_1
            self._put(target, delivery, descriptor, pmo)

    def _own_options(self) -> Any:
        """Return the options of one put, which may differ from those of the others."""
        return self._client.packed.PMO().unpack(self._pmo.packed)


def _fits_version_1(descriptor: Any) -> bool:
    """Return whether a version 1 MQMD loses no field of this MQMD."""
    packed = descriptor.pack()
    is_extended = descriptor.Format == MQFMT_MD_EXTENSION
    return packed[MQMD_LENGTH_1:] == DEFAULTS_OF_VERSION_2 and not is_extended
