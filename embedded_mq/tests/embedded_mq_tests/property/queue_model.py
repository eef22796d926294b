"""Model of a queue in memory, as IBM's documentation describes it.

Reports on arrival and delivery go to another queue, whose depth alone is modelled.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

MAXDEPTH, MAXUMSGS, MAXPRTY = 8, 5, 9
AVAILABLE, PUT, GOT, PUT_AND_GOT = "available", "put", "got", "put and got"
NULL = bytes(24)
COA, COD = 0x100, 0x800

Outcome = tuple[str, bytes, int]


@dataclass
class Message:
    """A message and its position; `owner` is the connection whose unit of work holds it."""

    place: int
    priority: int
    msg_id: bytes
    correl_id: bytes
    body: bytes
    state: str = AVAILABLE
    owner: int | None = None
    backout_count: int = 0
    report: int = 0

    @property
    def reported_when_put(self) -> bool:
        return bool(self.report & COA)

    @property
    def reported_when_got(self) -> bool:
        return bool(self.report & COD)

    @property
    def order(self) -> tuple[int, int]:
        return -min(self.priority, MAXPRTY), self.place

    def fits(self, msg_id: bytes, correl_id: bytes) -> bool:
        return msg_id in {NULL, self.msg_id} and correl_id in {NULL, self.correl_id}


@dataclass
class Model:
    """One queue as a list, as IBM MQ documents it."""

    messages: list[Message] = field(default_factory=list)
    cursors: dict[tuple[int, int], tuple[int, int] | None] = field(default_factory=dict)
    is_inhibited: bool = False
    places: Iterator[int] = field(default_factory=itertools.count)
    reports: int = 0

    @property
    def depth(self) -> int:
        return sum(message.state in {AVAILABLE, PUT} for message in self.messages)

    def visible(self, unit_of: int | None = None) -> list[Message]:
        """Return the committed messages, and the messages that a connection's unit has put."""
        seen = [
            message
            for message in self.messages
            if message.state == AVAILABLE or (message.state, message.owner) == (PUT, unit_of)
        ]
        return sorted(seen, key=lambda message: message.order)

    def uncommitted(self, connection: int) -> list[Message]:
        return [message for message in self.messages if message.owner == connection]

    def has_no_room(self, connection: int, *, is_reported: bool) -> bool:
        """Return whether a unit of work has no room for one more message and its report."""
        used = sum(
            (message.state != GOT) * (1 + message.reported_when_put)
            + (message.state != PUT) * (1 + message.reported_when_got)
            for message in self.uncommitted(connection)
        )
        return used + 1 + is_reported > MAXUMSGS

    def reports_with(self, *connections: int) -> int:
        """Return the number of reports, including uncommitted ones of `connections`."""
        return self.reports + sum(
            (message.state != GOT) * message.reported_when_put
            + (message.state != PUT) * message.reported_when_got
            for connection in connections
            for message in self.uncommitted(connection)
        )

    def put(self, connection: int, syncpoint: str, message: Message) -> Outcome:
        is_unit = syncpoint == "SYNCPOINT"
        if self.is_inhibited:
            return "MQRC_PUT_INHIBITED", b"", 0
        if is_unit and self.has_no_room(connection, is_reported=message.reported_when_put):
            return "MQRC_SYNCPOINT_LIMIT_REACHED", b"", 0
        if self.depth >= MAXDEPTH:
            return "MQRC_Q_FULL", b"", 0
        if is_unit:
            message.state, message.owner = PUT, connection
        else:
            self.reports += message.reported_when_put
        self.messages.append(message)
        is_too_high = message.priority > MAXPRTY
        return "MQRC_PRIORITY_EXCEEDS_MAXIMUM" if is_too_high else "MQRC_NONE", b"", 0

    def browse(
        self,
        handle: tuple[int, int],
        option: str,
        wanted: tuple[bytes, bytes],
        length: int | None,
    ) -> Outcome:
        cursor = self.cursors[handle]
        if option == "BROWSE_MSG_UNDER_CURSOR":
            return self._under_cursor(handle, lambda message: self._shown(handle, message, length))
        if self.is_inhibited:
            return "MQRC_GET_INHIBITED", b"", 0
        for message in self.visible():
            is_next = option == "BROWSE_FIRST" or cursor is None or message.order > cursor
            if is_next and message.fits(*wanted):
                if option == "BROWSE_FIRST" and length is not None and len(message.body) > length:
                    self.cursors[handle] = None
                return self._shown(handle, message, length)
        return "MQRC_NO_MSG_AVAILABLE", b"", 0

    def _under_cursor(self, handle: tuple[int, int], act: Callable[[Message], Outcome]) -> Outcome:
        cursor = self.cursors[handle]
        if cursor is None:
            return "MQRC_NO_MSG_UNDER_CURSOR", b"", 0
        if self.is_inhibited:
            return "MQRC_GET_INHIBITED", b"", 0
        for message in self.visible():
            if message.order == cursor:
                return act(message)
        return "MQRC_NO_MSG_UNDER_CURSOR", b"", 0

    def _shown(self, handle: tuple[int, int], message: Message, length: int | None) -> Outcome:
        if length is not None and len(message.body) > length:
            return "MQRC_TRUNCATED_MSG_FAILED", message.body[:length], 0
        self.cursors[handle] = message.order
        return "MQRC_NONE", message.body, message.backout_count

    def get(
        self, connection: int, syncpoint: str, wanted: tuple[bytes, bytes], length: int | None
    ) -> Outcome:
        if self.is_inhibited:
            return "MQRC_GET_INHIBITED", b"", 0
        for message in self.visible(connection if syncpoint == "SYNCPOINT" else None):
            if message.fits(*wanted):
                return self._taken(connection, syncpoint, message, length)
        return "MQRC_NO_MSG_AVAILABLE", b"", 0

    def get_under_cursor(self, handle: tuple[int, int], syncpoint: str) -> Outcome:
        return self._under_cursor(
            handle, lambda message: self._taken(handle[0], syncpoint, message, None)
        )

    def _taken(
        self, connection: int, syncpoint: str, message: Message, length: int | None
    ) -> Outcome:
        if length is not None and len(message.body) > length:
            return "MQRC_TRUNCATED_MSG_FAILED", message.body[:length], 0
        if syncpoint != "SYNCPOINT":
            self.messages.remove(message)
            self.reports += message.reported_when_got
        elif self.has_no_room(connection, is_reported=message.reported_when_got):
            return "MQRC_SYNCPOINT_LIMIT_REACHED", b"", 0
        else:
            message.state = PUT_AND_GOT if message.state == PUT else GOT
            message.owner = connection
        return "MQRC_NONE", message.body, message.backout_count

    def end(self, connection: int, *, is_committed: bool) -> None:
        if is_committed:
            self.reports = self.reports_with(connection)
        for message in self.uncommitted(connection):
            stays = message.state == (PUT if is_committed else GOT)
            message.backout_count += message.state == GOT
            message.state, message.owner = AVAILABLE, None
            if not stays:
                self.messages.remove(message)
