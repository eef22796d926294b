"""Gets and puts that take effect together: at MQCMIT, or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from mqdlq.constants import MQRC
from mqdlq.errors import QueueManagerError
from mqdlq.mqi.archived_messages import read_whole
from mqdlq.mqi.browse import BrowseCursor, message_view, new_descriptor
from mqdlq.mqi.connect import QueueManager, name_bytes
from mqdlq.structures import DEFAULTS_OF_VERSION_2, MQMD_LENGTH_1

OF_A_HEADER = frozenset({MQRC["MQRC_RFH_ERROR"], MQRC["MQRC_DLH_ERROR"], MQRC["MQRC_XQH_ERROR"]})
"""Reasons for which a queue manager may refuse a message although it is only moved."""
MQFMT_MD_EXTENSION = b"MQHMDE  "
MQMD_VERSION_1 = 1


@dataclass(frozen=True, slots=True)
class Got:
    """A message got under syncpoint: the client's own MQMD, and the whole body."""

    descriptor: Any
    body: bytes

    def __repr__(self) -> str:
        """Show the length only: the body is a customer's."""
        return f"<Got {len(self.body)} bytes>"


@dataclass(frozen=True, slots=True)
class Delivery:
    """What is put where: MQMD overrides are None where the MQMD stays as it was got.

    `alternate_user` is the user whose authority the put needs (PUTAUT(CTX)), or b"".
    """

    target_q: str
    target_q_mgr: str
    body: bytes
    encoding: int | None = None
    coded_char_set_id: int | None = None
    format: bytes | None = None
    alternate_user: bytes = b""


class Syncpoint:
    """One unit of work on one connection.

    Leaving the block without `commit` backs out everything done in it. A failed put leaves the
    unit open, as MQ does; the caller leaves the block.
    """

    def __init__(self, queue_manager: QueueManager) -> None:
        """Work on that connection, in which no other unit of work is under way."""
        self._queue_manager = queue_manager
        self._client = queue_manager.client
        self._open = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.back_out()
        except QueueManagerError:
            if kind is None:
                raise  # else the first error is the one to tell

    def back_out(self) -> None:
        """Undo everything done in the unit (MQBACK); after a commit there is nothing to undo."""
        if self._open:
            self._open = False
            self._queue_manager.back_out()

    def commit(self) -> None:
        """Make it all take effect (MQCMIT).

        A QueueManagerError from here leaves the outcome open, except for MQRC_BACKED_OUT (2003):
        the unit's marker tells. Leaving the block then backs out what still can be.
        """
        with self._client.calling("MQCMIT", self._queue_manager.name):
            self._queue_manager.handle.commit()
        self._open = False

    def put_as_it_was(self, descriptor: bytes, delivery: Delivery) -> None:
        """Put a message with all the context that is in its MQMD (MQPUT1).

        `descriptor` is packed (364 bytes). The queue manager takes its identifiers, its user, and
        when and by whom it was put as they are (IBM MQ docs, "MQPMO options",
        MQPMO_SET_ALL_CONTEXT), counts its Expiry from now, and makes properties of an MQRFH2 that
        the message begins with.
        """
        constants = self._client.CMQC
        pmo = self._client.packed.PMO()
        pmo.Options = (
            constants.MQPMO_SYNCPOINT
            | constants.MQPMO_SET_ALL_CONTEXT
            | constants.MQPMO_FAIL_IF_QUIESCING
        )
        described = self._described(descriptor, delivery)
        try:
            self._put(self._target(delivery), delivery, described, pmo)
        except QueueManagerError as error:
            if error.reason not in OF_A_HEADER or not _fits_version_1(described):
                raise
            self._put_unchecked(self._target(delivery), delivery, described, pmo)

    def _put_unchecked(self, target: Any, delivery: Delivery, described: Any, pmo: Any) -> None:
        """Put a message whose headers the queue manager refuses, as it is.

        It checks headers only under a version 2 MQMD (IBM MQ docs, "Version (MQMD)").
        """
        described.Version = MQMD_VERSION_1
        self._put(target, delivery, described, pmo)

    def _described(self, descriptor: bytes, delivery: Delivery) -> Any:
        """Return the client's MQMD for a put: that of the message, but for what is overridden."""
        described = self._client.packed.MD().unpack(descriptor)
        if delivery.format is not None:
            described.Format = delivery.format
            described.Encoding = delivery.encoding
            described.CodedCharSetId = delivery.coded_char_set_id
        return described

    def _target(self, delivery: Delivery) -> Any:
        target = self._client.packed.OD()
        target.ObjectName = name_bytes(delivery.target_q)
        target.ObjectQMgrName = name_bytes(delivery.target_q_mgr)
        return target

    def _put(self, target: Any, delivery: Delivery, descriptor: Any, pmo: Any) -> None:
        with self._client.calling("MQPUT1", f"queue {delivery.target_q}"):
            self._queue_manager.handle.put1(target, delivery.body, descriptor, pmo)


class UnitOfWork(Syncpoint):
    """A unit of work on the messages of one queue, which are got under a browse cursor."""

    def __init__(self, cursor: BrowseCursor) -> None:
        """Work on the queue under `cursor`, opened to browse, to get and to save all context."""
        super().__init__(cursor.queue_manager)
        self._cursor = cursor

    def get_under_cursor(self, length: int) -> Got:
        """Get the message under the browse cursor, whole and unconverted (MQGET).

        `length` is its length as browsed; a message that grew since is refused by 2080.
        """
        constants = self._client.CMQC
        descriptor = new_descriptor(self._queue_manager)
        options = constants.MQGMO_MSG_UNDER_CURSOR | constants.MQGMO_SYNCPOINT
        gmo = message_view(self._queue_manager, options, self._cursor.handle)
        with self._client.calling("MQGET", f"queue {self._cursor.name}"):
            body = self._cursor.queue.get(length, descriptor, gmo)
        return Got(descriptor, bytes(body))

    def get_whole(self, length: int) -> Got:
        """Get the message under the browse cursor as the archive keeps it (see `whole`)."""
        constants = self._client.CMQC
        options = constants.MQGMO_MSG_UNDER_CURSOR | constants.MQGMO_SYNCPOINT
        return Got(*read_whole(self._cursor, options, length))

    def put(self, got: Got, delivery: Delivery) -> None:
        """Put a message just got, with all its context and properties (MQPUT1).

        The context passed is that of the last get, so gets and puts alternate (IBM MQ docs,
        "MQPMO options", MQPMO_PASS_ALL_CONTEXT). A warning counts as a failure, as in IBM's
        handler.
        """
        packed, constants = self._client.packed, self._client.CMQC
        descriptor = self._described(got.descriptor.pack(), delivery)
        target = self._target(delivery)
        pmo = packed.PMO()
        pmo.Options = (
            constants.MQPMO_SYNCPOINT
            | constants.MQPMO_PASS_ALL_CONTEXT
            | constants.MQPMO_FAIL_IF_QUIESCING
        )
        if delivery.alternate_user:
            target.AlternateUserId = delivery.alternate_user
            pmo.Options |= constants.MQPMO_ALTERNATE_USER_AUTHORITY
        pmo.Context = self._cursor.queue.get_handle()
        pmo.OriginalMsgHandle = self._cursor.handle.msg_handle
        pmo.Action = constants.MQACTP_FORWARD
        try:
            self._put(target, delivery, descriptor, pmo)
        except QueueManagerError as error:
            if error.reason not in OF_A_HEADER:
                raise
            if error.reason == MQRC["MQRC_RFH_ERROR"]:
                if self._cursor.has_properties():
                    raise
                # What its Format calls an MQRFH2 is none. A message without properties can do
                # without the handle, and then the queue manager ignores it as MQRFH2 (IBM MQ
                # docs, "MQRFH2 headers that are not valid").
                pmo.OriginalMsgHandle, pmo.Action = 0, constants.MQACTP_NEW
            elif not _fits_version_1(descriptor):
                raise
            if _fits_version_1(descriptor):
                self._put_unchecked(target, delivery, descriptor, pmo)
            else:
                self._put(target, delivery, descriptor, pmo)


def _fits_version_1(descriptor: Any) -> bool:
    """Whether a version 1 MQMD says all that this one says of the message."""
    packed = descriptor.pack()
    is_extended = descriptor.Format == MQFMT_MD_EXTENSION
    return packed[MQMD_LENGTH_1:] == DEFAULTS_OF_VERSION_2 and not is_extended
