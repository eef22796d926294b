"""Return a message's properties from MQGET: in a message handle, in an MQRFH2, or not at all.

A message is stored as it was put: the body with its MQRFH2 headers, and other properties in a
separate column. This module merges or separates the two as the options of MQGMO and the queue's
PROPCTL say (IBM MQ docs, "MQGMO options", "PROPCTL queue options", "Generation of MQRFH2 headers").
"""

from dataclasses import dataclass
from enum import Enum, auto

from embedded_mq import mqi_constants as mq
from embedded_mq.engine.messages.properties import MessageHandle
from embedded_mq.engine.messages.property_values import Property, unpack_properties
from embedded_mq.engine.unit_of_work import Message
from embedded_mq.headers import rfh2
from embedded_mq.headers.mq_headers import MQFMT_DEAD_LETTER_HEADER, XQH_LENGTH
from embedded_mq.headers.rfh2 import DESCRIPTION, MQFMT_RF_HEADER_2, Description
from embedded_mq.headers.rfh2_folders import PropertyBudget
from embedded_mq.storage.catalogue import Definition
from embedded_mq.structures import MQDLH, MQGMO, MQMD, MQMDE, MQRFH, MQXQH


class PropertyForm(Enum):
    """The form in which MQGET returns properties."""

    IN_HANDLE = auto()
    IN_MQRFH2 = auto()
    COMPATIBLE = auto()
    LEFT_OUT = auto()
    AS_PUT = auto()


_FORM_BY_OPTION = {
    mq.MQGMO_PROPERTIES_IN_HANDLE: PropertyForm.IN_HANDLE,
    mq.MQGMO_PROPERTIES_FORCE_MQRFH2: PropertyForm.IN_MQRFH2,
    mq.MQGMO_PROPERTIES_COMPATIBILITY: PropertyForm.COMPATIBLE,
    mq.MQGMO_NO_PROPERTIES: PropertyForm.LEFT_OUT,
}
_FORM_BY_PROPCTL = {
    mq.MQPROP_ALL: PropertyForm.IN_MQRFH2,
    mq.MQPROP_FORCE_MQRFH2: PropertyForm.IN_MQRFH2,
    mq.MQPROP_COMPATIBILITY: PropertyForm.COMPATIBLE,
    mq.MQPROP_NONE: PropertyForm.LEFT_OUT,
    mq.MQPROP_V6COMPAT: PropertyForm.AS_PUT,
}
_COMPATIBLE_FOLDERS = frozenset({"mcd", "jms", "usr", "mqext"})

# The headers that an MQRFH2 may follow: StrucId, offset of the description of the next data, and
# length. The description of an MQXQH is in its MQMD; a header with length 0 states its length.
_HEADERS = {
    b"MQDEAD  ": (b"DLH ", MQDLH.offset_of("encoding"), MQDLH.length),
    b"MQXMIT  ": (b"XQH ", MQXQH.length + MQMD.offset_of("encoding"), XQH_LENGTH),
    b"MQHRF   ": (b"RFH ", MQRFH.offset_of("encoding"), 0),
    b"MQHMDE  ": (b"MDE ", MQMDE.offset_of("encoding"), MQMDE.length),
}
_FORMATS_WITH_PROPERTIES = frozenset({*_HEADERS, MQFMT_RF_HEADER_2})
_FORMAT_OF_MQDLH = MQDLH.slice_of("format")

_LENGTH_OF_MQRFH = MQRFH.offset_of("struc_length")


def deliver(
    found: Message, md: MQMD, gmo: MQGMO, handle: MessageHandle | None, queue: Definition
) -> tuple[bytes, list[Property]]:
    """Return the body as the caller gets it, and the properties for its message handle.

    The descriptor changes with the headers. `queue` is the queue that was opened.
    """
    stored, body = found.properties, found.body
    form = _form(gmo, handle, queue)
    control = queue.number("PROPCTL")
    if form is PropertyForm.AS_PUT or (
        form is PropertyForm.IN_HANDLE and control == mq.MQPROP_V6COMPAT
    ):
        return body, unpack_properties(stored)
    location = locate_rfh2_headers(md, body)
    beside = unpack_properties(stored)
    names = {held.name for held in beside}
    everything = [held for held in location.properties() if held.name not in names] + beside
    if form is PropertyForm.COMPATIBLE:
        is_wanted = any(held.path[0] in _COMPATIBLE_FOLDERS for held in everything)
        form = PropertyForm.IN_MQRFH2 if is_wanted else PropertyForm.LEFT_OUT
    if form is PropertyForm.IN_MQRFH2:
        return (location.rebuild(md, body, everything) if beside else body), []
    return (location.rebuild(md, body, []) if location.properties() else body), everything


def _form(gmo: MQGMO, handle: MessageHandle | None, queue: Definition) -> PropertyForm:
    for option, form in _FORM_BY_OPTION.items():
        if gmo.options & option:
            return form
    control = queue.number("PROPCTL")
    if handle is not None and control != mq.MQPROP_FORCE_MQRFH2:
        return PropertyForm.IN_HANDLE
    return _FORM_BY_PROPCTL[control]


@dataclass(slots=True)
class Rfh2Location:
    """The location of the MQRFH2 headers in a body, after an MQDLH or a similar header.

    `described_at` is the offset of their description in the header before them, None for the MQMD,
    and `order` its byte order. Each header comes with its description; `following` describes the
    data after the last one.
    """

    described_at: int | None
    order: str
    start: int
    headers: list[tuple[rfh2.Header, Description]]
    following: Description

    def properties(self) -> list[Property]:
        """Return the properties in the headers."""
        return [
            held
            for header, _ in self.headers
            for folder in header.folders
            for held in folder.properties or ()
        ]

    def rebuild(self, md: MQMD, body: bytes, properties: list[Property]) -> bytes:
        """Return the body with these properties in one MQRFH2, and no properties elsewhere."""
        described = self.following
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


def may_have_rfh2_headers(form: bytes, body: bytes) -> bool:
    """Return whether a message of this Format may have an MQRFH2, without a look for it."""
    named = body[_FORMAT_OF_MQDLH] if form == MQFMT_DEAD_LETTER_HEADER else form
    return named in _FORMATS_WITH_PROPERTIES


def locate_rfh2_headers(md: MQMD, body: bytes) -> Rfh2Location:
    """Return the location of a message's MQRFH2 headers, in time proportional to the headers."""
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
        described = _following_description(
            described, DESCRIPTION[order].unpack_from(body, described_at)
        )
        start += length
    headers = []
    position, budget = start, PropertyBudget()
    while described.format == MQFMT_RF_HEADER_2:
        header = rfh2.read(body, position, described.order, budget)
        if header is None:
            break
        headers.append((header, described))
        following = header.following
        described = _following_description(
            described, (following.encoding, following.coded_char_set_id, following.format)
        )
        position += header.length
    return Rfh2Location(described_at, order, start, headers, described)


def _following_description(described: Description, values: tuple[int, int, bytes]) -> Description:
    """Return a header's description of the data after it, with an inherited CCSID resolved."""
    encoding, ccsid, name = values
    if ccsid == mq.MQCCSI_INHERIT:
        ccsid = described.coded_char_set_id
    return Description(encoding, ccsid, name)
