"""Browse the messages of a queue without removing or locking them."""

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from mqdlq.constants import MQRC, reason_text
from mqdlq.errors import QueueManagerError
from mqdlq.model import LONGEST_PROPERTY
from mqdlq.mqi.client import Client
from mqdlq.mqi.connect import QueueManager

HEADER_ONLY = 172
ANY_PROPERTY = "%"
"""The name that stands for all properties of a message (IBM MQ docs, "MQINQMP")."""
_NO_PROPERTIES: Mapping[str, str | None] = MappingProxyType({})
_UNREADABLE = {
    MQRC["MQRC_PROPERTY_VALUE_TOO_BIG"],
    MQRC["MQRC_PROP_CONV_NOT_SUPPORTED"],
    MQRC["MQRC_PROP_TYPE_NOT_SUPPORTED"],
    MQRC["MQRC_PROP_VALUE_NOT_CONVERTED"],
}
GONE = (MQRC["MQRC_NO_MSG_AVAILABLE"], MQRC["MQRC_NO_MSG_UNDER_CURSOR"])
"""Reason codes of a get that mean that another application has the message."""


class BrowsedMessage(NamedTuple):
    """A browsed message: its packed MQMD (version 2, 364 bytes) and the first bytes of its body.

    `token` is its MsgToken, with which the queue manager finds the same message again. `properties`
    has the properties that the cursor reads and the message has, as text; None is a value that
    cannot be read as text.
    """

    descriptor: bytes
    prefix: bytes
    total_length: int
    token: bytes = b""
    properties: Mapping[str, str | None] = _NO_PROPERTIES

    def __repr__(self) -> str:
        """Show the length only: prefix and properties may hold a customer's data."""
        return f"<Browsed {self.total_length} bytes>"


def get_options(client: Client, options: int) -> Any:
    """Return an MQGMO for a get or a browse of any message, which waits only if `options` say."""
    constants = client.CMQC
    gmo = client.packed.GMO()
    gmo.Options = options | constants.MQGMO_FAIL_IF_QUIESCING | constants.MQGMO_NO_WAIT
    gmo.MatchOptions = constants.MQMO_NONE
    return gmo


def message_options(queue_manager: QueueManager, options: int, handle: Any) -> Any:
    """Return the MQGMO for `options` that returns message properties in `handle`.

    A browse and a get must use the same property options, or they return different bytes.
    Properties go to a message handle, as in IBM's handler.
    """
    client = queue_manager.client
    gmo = get_options(client, options | client.CMQC.MQGMO_PROPERTIES_IN_HANDLE)
    gmo.MsgHandle = handle.msg_handle
    return gmo


class BrowseCursor:
    """Browse cursor of one open queue handle.

    A queue may have several cursors. A browse locks nothing and does not change BackoutCount.
    """

    def __init__(
        self,
        queue_manager: QueueManager,
        queue: Any,
        name: str,
        length: int = HEADER_ONLY,
        properties: Collection[str] = (),
        *,
        in_body: bool = False,
    ) -> None:
        """Browse `queue` (opened with MQOO_BROWSE), keeping `length` bytes of each body.

        The named message properties are read, each by a call for each message; of `ANY_PROPERTY`,
        the first one. With `in_body`, bodies begin with an MQRFH2 of the properties instead.
        """
        self.queue_manager = queue_manager
        self.queue = queue
        self.name = name
        # All gets share one message handle: each get replaces its content, as in IBM's handler.
        self.handle = queue_manager.client.module.MessageHandle(queue_manager.handle)
        self._length = length
        self._properties = tuple(properties)
        self._is_at_end = False
        self._failure = queue_manager.client.module.MQMIError
        self._accept = queue_manager.client.CMQC.MQGMO_ACCEPT_TRUNCATED_MSG
        # All gets share one descriptor and one set of options, too: to create them for each
        # message takes longer than the get. For an MQMD of version 2, MQGET puts no MQMDE in front
        # of an MQDLH.
        self._descriptor = queue_manager.client.packed.MD()
        self._empty_descriptor = self._descriptor.pack()
        self._get_options = message_options(queue_manager, 0, self.handle)
        if in_body:
            client = queue_manager.client
            self._get_options = get_options(client, client.CMQC.MQGMO_PROPERTIES_FORCE_MQRFH2)
        self._options = self._get_options.Options

    def messages(self) -> Iterator[BrowsedMessage]:
        """Yield every message from the head of the queue to its end.

        The message that was yielded last is under the cursor: MQGMO_MSG_UNDER_CURSOR on the same
        queue handle gets it. If the caller moves the cursor, the iteration continues from there;
        if the caller moves it to the end of the queue, all messages are yielded again.
        """
        constants = self.queue_manager.client.CMQC
        where = constants.MQGMO_BROWSE_FIRST
        while (message := self._next(where)) is not None:
            self._is_at_end = False
            yield message
            where = constants.MQGMO_BROWSE_FIRST if self._is_at_end else constants.MQGMO_BROWSE_NEXT
        self._is_at_end = True

    def find(self, token: bytes, length: int | None = None) -> BrowsedMessage | None:
        """Move the cursor to the message with this MsgToken; return None if it is not available.

        `length` is the number of bytes of its body to browse; the default is the cursor's length.
        """
        found = self._next(self.queue_manager.client.CMQC.MQGMO_BROWSE_FIRST, token, length)
        self._is_at_end = self._is_at_end and found is None
        return found

    def _next(
        self, where: int, token: bytes = b"", length: int | None = None
    ) -> BrowsedMessage | None:
        gmo, descriptor = self._get_options, self._descriptor
        gmo.Options = self._options | where | self._accept
        descriptor.packed[:] = self._empty_descriptor
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
                subject, text = f"queue {self.name}", reason_text(cut.reason)
                verb = "MQGET (browse)"
                raise QueueManagerError(verb, subject, cut.comp, cut.reason, text) from cut
            body, total = cut.message, cut.original_length
        found = self._read_properties() if self._properties else _NO_PROPERTIES
        return BrowsedMessage(bytes(descriptor.packed), bytes(body), total, gmo.MsgToken, found)

    def _read_properties(self) -> Mapping[str, str | None]:
        found: dict[str, str | None] = {}
        for name in self._properties:
            try:
                if (value := self.find_property(name)) is not None:
                    found[name] = value
            except QueueManagerError as error:
                if error.reason not in _UNREADABLE:
                    raise
                found[name] = None
        return found

    def find_property(self, name: str) -> str | None:
        """Return a message property of the last browsed message as text, None without it (MQINQMP).

        Raises QueueManagerError for a value that the queue manager cannot convert to text, or that
        is longer than LONGEST_PROPERTY.
        """
        client = self.queue_manager.client
        try:
            with client.translating_errors("MQINQMP", f"queue {self.name}"):
                value = self.handle.properties.get(
                    name.encode(),
                    max_value_length=LONGEST_PROPERTY,
                    impo_options=client.CMQC.MQIMPO_CONVERT_TYPE | client.CMQC.MQIMPO_CONVERT_VALUE,
                    property_type=client.CMQC.MQTYPE_STRING,
                )
        except QueueManagerError as error:
            if error.reason == MQRC["MQRC_PROPERTY_NOT_AVAILABLE"]:
                return None
            raise
        return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)

    def has_properties(self) -> bool:
        """Return whether the last browsed message has message properties (MQINQMP)."""
        try:
            return self.find_property(ANY_PROPERTY) is not None
        except QueueManagerError as error:
            if error.reason not in _UNREADABLE:
                raise
            return True


# Browse or get whole messages in the form in which the archive keeps them.
#
# Message properties are part of the bytes, in an MQRFH2 (MQGMO_PROPERTIES_FORCE_MQRFH2). If these
# bytes are put with the same MQMD, the queue manager creates the same properties again (IBM MQ
# docs, "MQRFH2 - Rules and formatting header 2"). A message without properties is unchanged.


def browse_with_properties(cursor: BrowseCursor, length: int) -> tuple[bytes, bytes]:
    """Browse the message under the cursor; return its packed MQMD and its bytes with properties."""
    constants = cursor.queue_manager.client.CMQC
    descriptor, body = read_with_properties(cursor, constants.MQGMO_BROWSE_MSG_UNDER_CURSOR, length)
    return descriptor.pack(), body


def read_with_properties(cursor: BrowseCursor, options: int, length: int) -> tuple[Any, bytes]:
    """Return the client's MQMD and the bytes, with properties, of the message under the cursor.

    `options` decide between a browse and a get, `length` is the length without properties. If the
    properties make the buffer too small, the call is repeated with a larger one:
    MQRC_TRUNCATED_MSG_FAILED (2080) moves neither the message nor the cursor.
    """
    client = cursor.queue_manager.client
    while True:
        gmo = get_options(client, options | client.CMQC.MQGMO_PROPERTIES_FORCE_MQRFH2)
        descriptor = client.packed.MD()
        try:
            with client.translating_errors("MQGET", f"queue {cursor.name}"):
                return descriptor, bytes(cursor.queue.get(length, descriptor, gmo))
        except QueueManagerError as error:
            needed = getattr(error.__cause__, "original_length", 0)
            if error.reason != MQRC["MQRC_TRUNCATED_MSG_FAILED"] or needed <= length:
                raise
            length = needed
