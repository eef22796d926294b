"""How a message and its properties reach the caller of MQGET: in a handle, in an MQRFH2, or not.

A message is stored as it was put: its body with the MQRFH2 headers in it, its other properties
beside it. Here the two are put together, or apart, as the options of MQGMO and the queue's PROPCTL
say (IBM MQ docs, "MQGMO options", "PROPCTL queue options", "Generation of MQRFH2 headers").
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from embedded_mq import mqi_constants as mq
from embedded_mq.engine.messages.properties import MessageHandle
from embedded_mq.engine.messages.property_values import Property, unpacked
from embedded_mq.engine.unit_of_work import Message
from embedded_mq.headers import rfh2
from embedded_mq.headers.mq_headers import XQH_LENGTH
from embedded_mq.headers.rfh2 import DESCRIPTION, MQFMT_RF_HEADER_2, Description
from embedded_mq.headers.rfh2_folders import Room
from embedded_mq.storage.catalogue import Definition
from embedded_mq.structures import MQDLH, MQGMO, MQMD, MQMDE, MQRFH, MQXQH


class Form(Enum):
    """What becomes of the properties."""

    IN_HANDLE = auto()
    IN_MQRFH2 = auto()
    COMPATIBLE = auto()
    LEFT_OUT = auto()
    AS_PUT = auto()


_BY_OPTION = {
    mq.MQGMO_PROPERTIES_IN_HANDLE: Form.IN_HANDLE,
    mq.MQGMO_PROPERTIES_FORCE_MQRFH2: Form.IN_MQRFH2,
    mq.MQGMO_PROPERTIES_COMPATIBILITY: Form.COMPATIBLE,
    mq.MQGMO_NO_PROPERTIES: Form.LEFT_OUT,
}
_BY_QUEUE = {
    mq.MQPROP_ALL: Form.IN_MQRFH2,
    mq.MQPROP_FORCE_MQRFH2: Form.IN_MQRFH2,
    mq.MQPROP_COMPATIBILITY: Form.COMPATIBLE,
    mq.MQPROP_NONE: Form.LEFT_OUT,
    mq.MQPROP_V6COMPAT: Form.AS_PUT,
}
_COMPATIBLE_FOLDERS = frozenset({"mcd", "jms", "usr", "mqext"})

# The headers behind which an MQRFH2 may stand: where each describes what follows it, its length.
# Of the MQXQH it is the MQMD within that does; an MQRFH says its length itself.
_HEADERS = {
    b"MQDEAD  ": (b"DLH ", MQDLH.offset_of("encoding"), MQDLH.length),
    b"MQXMIT  ": (b"XQH ", MQXQH.length + MQMD.offset_of("encoding"), XQH_LENGTH),
    b"MQHRF   ": (b"RFH ", MQRFH.offset_of("encoding"), 0),
    b"MQHMDE  ": (b"MDE ", MQMDE.offset_of("encoding"), MQMDE.length),
}
WITH_HEADERS = frozenset({*_HEADERS, MQFMT_RF_HEADER_2})
"""Formats of what may have properties in it."""

_LENGTH_OF_MQRFH = MQRFH.offset_of("struc_length")


def deliver(
    found: Message, md: MQMD, gmo: MQGMO, handle: MessageHandle | None, queue: Definition
) -> tuple[bytes, list[Property]]:
    """Return the body as the caller gets it, and the properties for its handle.

    The descriptor is changed where the headers are. `queue` is the one that was opened.
    """
    stored, body = found.properties, found.body
    form = _form(gmo, handle, queue)
    control = queue.number("PROPCTL")
    if form is Form.AS_PUT or (form is Form.IN_HANDLE and control == mq.MQPROP_V6COMPAT):
        return body, unpacked(stored)
    around = look_around(md, body)
    beside = unpacked(stored)
    names = {held.name for held in beside}
    everything = [held for held in around.properties() if held.name not in names] + beside
    if form is Form.COMPATIBLE:
        is_wanted = any(held.path[0] in _COMPATIBLE_FOLDERS for held in everything)
        form = Form.IN_MQRFH2 if is_wanted else Form.LEFT_OUT
    if form is Form.IN_MQRFH2:
        return (around.rebuilt(md, body, everything) if beside else body), []
    return (around.rebuilt(md, body, []) if around.properties() else body), everything


def _form(gmo: MQGMO, handle: MessageHandle | None, queue: Definition) -> Form:
    for option, form in _BY_OPTION.items():
        if gmo.options & option:
            return form
    control = queue.number("PROPCTL")
    if handle is not None and control != mq.MQPROP_FORCE_MQRFH2:
        return Form.IN_HANDLE
    return _BY_QUEUE[control]


@dataclass(slots=True)
class Place:
    """Where MQRFH2 headers stand in a body, or would stand: behind an MQDLH and its like.

    `described_at` is where the header in front describes them, None for the MQMD, `order` its byte
    order. Each header comes with what is said of it; `behind` describes the data after the last.
    """

    described_at: int | None
    order: str
    start: int
    headers: list[tuple[rfh2.Header, Description]]
    behind: Description

    def properties(self) -> list[Property]:
        """Return the properties in the headers."""
        return [
            held
            for header, _ in self.headers
            for folder in header.folders
            for held in folder.properties or ()
        ]

    def rebuilt(self, md: MQMD, body: bytes, properties: list[Property]) -> bytes:
        """Return the body with these properties in one MQRFH2, and none in any other."""
        described = self.behind
        parts = [body[self.start + sum(header.length for header, _ in self.headers) :]]
        for header, description in reversed(self.headers):
            if kept := header.without_properties(described):
                described = description
                parts.append(kept)
        if properties:
            parts.append(rfh2.write(properties, described))
            described = rfh2.GENERATED
        data = b"".join(reversed(parts))
        if self.described_at is None:
            md.encoding, md.coded_char_set_id = described.encoding, described.coded_char_set_id
            md.format = described.format
            return data
        before = bytearray(body[: self.start])
        before[self.described_at : self.described_at + 16] = described.packed(self.order)
        return bytes(before) + data


def look_around(md: MQMD, body: bytes) -> Place:
    """Return where in a message MQRFH2 headers stand; takes time in proportion to the headers."""
    described = Description(md.encoding, md.coded_char_set_id, md.format)
    start, described_at, order = 0, None, described.order
    while described.format in _HEADERS:
        struc_id, offset, length = _HEADERS[described.format]
        order = described.order
        if not length:
            stated = body[start + _LENGTH_OF_MQRFH : start + _LENGTH_OF_MQRFH + 4]
            (length,) = rfh2.LONG[order].unpack(stated.ljust(4, b"\0"))
        if body[start : start + 4] != struc_id or not offset + 16 <= length <= len(body) - start:
            break
        described_at = start + offset
        described = _next(described, DESCRIPTION[order].unpack_from(body, described_at))
        start += length
    headers = []
    position, room = start, Room()
    while described.format == MQFMT_RF_HEADER_2:
        header = rfh2.read(body, position, described.order, room)
        if header is None:
            break
        headers.append((header, described))
        behind = header.following
        described = _next(described, (behind.encoding, behind.coded_char_set_id, behind.format))
        position += header.length
    return Place(described_at, order, start, headers, described)


def _next(described: Description, values: tuple[int, int, bytes]) -> Description:
    """Return what a header says of the data behind it; a character set may be inherited."""
    encoding, ccsid, name = values
    if ccsid == mq.MQCCSI_INHERIT:
        ccsid = described.coded_char_set_id
    return Description(encoding, ccsid, name)
