"""Messages of a queue, one after another, without removing or locking them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from mqdlq.constants import MQRC, reason_text
from mqdlq.errors import QueueManagerError
from mqdlq.mqi.connect import QueueManager

HEADER_ONLY = 172
GONE = (MQRC["MQRC_NO_MSG_AVAILABLE"], MQRC["MQRC_NO_MSG_UNDER_CURSOR"])
"""Reasons of a get that say that somebody else has the message now."""


class Browsed(NamedTuple):
    """A message as it was seen: its packed MQMD (version 2, 364 bytes) and the body's beginning.

    `token` is its MsgToken, by which the queue manager finds this very message again.
    """

    descriptor: bytes
    prefix: bytes
    total_length: int
    token: bytes = b""

    def __repr__(self) -> str:
        """Show the length only: the prefix may hold a customer's data."""
        return f"<Browsed {self.total_length} bytes>"


def message_view(queue_manager: QueueManager, options: int, handle: Any) -> Any:
    """Return MQGMO for `options` with the one view of message properties used everywhere.

    Browse and get must agree on it, or they would see different bytes: properties go to a message
    handle, as in IBM's handler.
    """
    client = queue_manager.client
    gmo = client.packed.GMO()
    gmo.Options = (
        options
        | client.CMQC.MQGMO_PROPERTIES_IN_HANDLE
        | client.CMQC.MQGMO_FAIL_IF_QUIESCING
        | client.CMQC.MQGMO_NO_WAIT
    )
    gmo.MatchOptions = client.CMQC.MQMO_NONE
    gmo.MsgHandle = handle.msg_handle
    return gmo


def new_descriptor(queue_manager: QueueManager) -> Any:
    """Return an MQMD to be filled: version 2, so that no MQMDE is put in front of an MQDLH."""
    return queue_manager.client.packed.MD()


class BrowseCursor:
    """The browse cursor of one open queue handle.

    Several may stand on one queue. A browse locks nothing and moves no BackoutCount.
    """

    def __init__(
        self, queue_manager: QueueManager, queue: Any, name: str, length: int = HEADER_ONLY
    ) -> None:
        """Browse `queue` (opened with MQOO_BROWSE), keeping `length` bytes of each body."""
        self.queue_manager = queue_manager
        self.queue = queue
        self.name = name
        # One message handle serves for all: each get fills it anew, as in IBM's handler.
        self.handle = queue_manager.client.module.MessageHandle(queue_manager.handle)
        self._length = length
        self._is_at_end = False
        self._failure = queue_manager.client.module.MQMIError
        self._accept = queue_manager.client.CMQC.MQGMO_ACCEPT_TRUNCATED_MSG
        # One descriptor and one set of options serve for all, too: making them anew for every
        # message takes longer than to get it.
        self._descriptor = new_descriptor(queue_manager)
        self._unset = self._descriptor.pack()
        self._view = message_view(queue_manager, 0, self.handle)
        self._options = self._view.Options

    def messages(self) -> Iterator[Browsed]:
        """Yield every message from the head of the queue to its end.

        While a message is the current one it is under the cursor, and a MQGMO_MSG_UNDER_CURSOR
        on the same queue handle gets it. Whoever moves the cursor meanwhile has the rest yielded
        from there; if the cursor came to the end by it, all messages are yielded once more.
        """
        constants = self.queue_manager.client.CMQC
        where = constants.MQGMO_BROWSE_FIRST
        while (message := self._next(where)) is not None:
            self._is_at_end = False
            yield message
            where = constants.MQGMO_BROWSE_FIRST if self._is_at_end else constants.MQGMO_BROWSE_NEXT
        self._is_at_end = True

    def find(self, token: bytes, length: int | None = None) -> Browsed | None:
        """Put the cursor on the message with this MsgToken; None if it is not there for us.

        `length` is how much of its body to browse, where that is not as much as of all others.
        """
        found = self._next(self.queue_manager.client.CMQC.MQGMO_BROWSE_FIRST, token, length)
        self._is_at_end = self._is_at_end and found is None
        return found

    def _next(self, where: int, token: bytes = b"", length: int | None = None) -> Browsed | None:
        gmo, descriptor = self._view, self._descriptor
        gmo.Options = self._options | where | self._accept
        descriptor.packed[:] = self._unset
        if token:
            gmo.MatchOptions = self.queue_manager.client.CMQC.MQMO_MATCH_MSG_TOKEN
            gmo.MsgToken = token
        else:
            gmo.MatchOptions = 0
        try:
            body = self.queue.get(length or self._length, descriptor, gmo)
            total = len(body)
        except self._failure as cut:
            if cut.reason == MQRC["MQRC_NO_MSG_AVAILABLE"]:
                return None
            if cut.reason != MQRC["MQRC_TRUNCATED_MSG_ACCEPTED"]:
                raise self._error(cut) from cut
            body, total = cut.message, cut.original_length
        return Browsed(bytes(descriptor.packed), bytes(body), total, gmo.MsgToken)

    def _error(self, error: Any) -> QueueManagerError:
        text = reason_text(error.reason)
        return QueueManagerError(
            "MQGET (browse)", f"queue {self.name}", error.comp, error.reason, text
        )

    def has_properties(self) -> bool:
        """Whether the message last browsed by this cursor has message properties (MQINQMP)."""
        client = self.queue_manager.client
        try:
            with client.calling("MQINQMP", f"queue {self.name}"):
                self.handle.properties.get(b"%", max_value_length=1)
        except QueueManagerError as error:
            if error.reason == MQRC["MQRC_PROPERTY_NOT_AVAILABLE"]:
                return False
            if error.reason != MQRC["MQRC_PROPERTY_VALUE_TOO_BIG"]:
                raise
        return True
