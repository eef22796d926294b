"""Properties of header parsing for any input, and chains of headers to test them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from embedded_mq.engine.messages.delivery import locate_rfh2_headers
from embedded_mq.structures import MQMD
from mqdlq.errors import MalformedHeaderError
from mqdlq.headers import (
    DeadLetterHeader,
    MessageDescriptor,
    MessageDescriptorExtension,
    RulesHeader2,
    describe,
)
from mqdlq.headers.ccsid import SPECIAL_CCSIDS, text_codec
from mqdlq.headers.chain import HEADERS_READ
from mqdlq.headers.records import (
    CicsHeader,
    CicsHeader1,
    ImsHeader,
    MessageDescriptor1,
    Record,
    RulesHeader,
    TransmissionQueueHeader,
    TriggerMessage,
)
from mqdlq.model import MessageClass
from tests.support.wire.hostile_messages import NATIVE, Hostile

LONGEST_PROBLEM = 1_000
FORMATS = {
    "MQDLH": "MQDEAD",
    "MQMDE": "MQHMDE",
    "MQXQH": "MQXMIT",
    "MQRFH": "MQHRF",
    "MQRFH2": "MQHRF2",
    "MQCIH": "MQCICS",
    "MQCIH_1": "MQCICS",
    "MQIIH": "MQIMS",
    "MQTM": "MQTRIG",
}


@dataclass(frozen=True)
class HeaderCodec:
    """A header of fixed length: how it is read and written, and the bytes it must begin with."""

    struc_id: str
    version: int
    length: int
    kind: type[Record]
    states_its_length: bool = True

    def fixed(self, encoding: int, ccsid: int) -> bytes:
        """Return StrucId, Version and, where there is one, StrucLength."""
        order: Any = "little" if encoding == 546 else "big"
        codec = text_codec(ccsid)
        assert codec is not None
        start = codec.encode(self.struc_id) + self.version.to_bytes(4, order)
        return start + (self.length.to_bytes(4, order) if self.states_its_length else b"")


CODECS = {
    "MQMDE": HeaderCodec("MDE ", 2, 72, MessageDescriptorExtension),
    "MQCIH_1": HeaderCodec("CIH ", 1, 164, CicsHeader1),
    "MQCIH": HeaderCodec("CIH ", 2, 180, CicsHeader),
    "MQIIH": HeaderCodec("IIH ", 1, 84, ImsHeader),
    "MQTM": HeaderCodec("TM  ", 1, 684, TriggerMessage, states_its_length=False),
    "MQRFH": HeaderCodec("RFH ", 1, 64, RulesHeader),
}
_KINDS: tuple[type[Record], ...] = (
    *(codec.kind for codec in CODECS.values()),
    DeadLetterHeader,
    TransmissionQueueHeader,
    RulesHeader2,
    MessageDescriptor1,
    MessageDescriptor,
)


@dataclass(frozen=True)
class Message:
    """A chain of headers as one body, where each ends, and how the first is written."""

    body: bytes
    structures: list[str]
    ends: list[int]
    format: str
    encoding: int
    ccsid: int

    def described(self, payload: bytes = b"", cut: int | None = None) -> tuple[list[str], int]:
        """Return the headers found and where the payload begins, of the body or its beginning."""
        body = (self.body + payload)[:cut]
        found = describe(
            body, len(body), format=self.format, encoding=self.encoding, ccsid=self.ccsid
        )
        headers = [header.structure for header in found.headers if header.record is not None]
        return headers, found.payload_offset


def message_of(names: Sequence[str], *, encoding: int, ccsid: int) -> Message:
    """Chain headers, each written in this Encoding and CCSID and announcing the next."""
    how = {"encoding": encoding, "ccsid": ccsid}
    if "MQTM" in names:  # nothing follows it
        names = [*names[: names.index("MQTM")], "MQTM"]
    body, ends = b"", []
    for at, name in enumerate(names):
        following = FORMATS[names[at + 1]] if at + 1 < len(names) else "MQSTR"
        body += _header(name, following, **how)
        ends.append(len(body))
    structures = [name.removesuffix("_1") for name in names]
    return Message(body, structures, ends, FORMATS[names[0]] if names else "MQSTR", **how)


def _header(name: str, following: str, *, encoding: int, ccsid: int) -> bytes:
    says: dict[str, Any] = {"encoding": encoding, "coded_char_set_id": ccsid, "format": following}
    records: dict[str, Record] = {
        "MQDLH": DeadLetterHeader(**says),
        "MQMDE": MessageDescriptorExtension(**says),
        "MQXQH": TransmissionQueueHeader(msg_desc=MessageDescriptor1(**says)),
        "MQRFH": RulesHeader(**says, name_value_string="a b", padding=1),
        "MQRFH2": RulesHeader2(**says, folders=("<a/>", "<bc/>   ")),
        "MQTM": TriggerMessage("Q"),
        "MQIIH": ImsHeader(format=following),
        "MQCIH": CicsHeader(format=following),
        "MQCIH_1": CicsHeader1(format=following),
    }
    return records[name].encode(encoding=encoding, ccsid=ccsid)


def what_must_hold(data: bytes) -> None:
    """Take any bytes as MQMD context and body; an AssertionError or another error is a finding."""
    md_format = list(FORMATS.values())[data[0] % len(FORMATS)] if data else ""
    encoding = int.from_bytes(data[1:3], "big", signed=True)
    ccsid = int.from_bytes(data[3:5], "big", signed=True)
    body = data[5:]
    for how in (
        {"encoding": encoding, "ccsid": ccsid},
        {"encoding": 546, "ccsid": 1208},
        {"encoding": 785, "ccsid": 1047},
    ):
        _description_holds(body, md_format, **how)
        for kind in _KINDS:
            _comes_back(kind, body, **how)


def as_input(hostile: Hostile) -> bytes:
    """Return hostile headers as `what_must_hold` takes them: in Encoding 546 and CCSID 1208."""
    chosen = list(FORMATS.values()).index(hostile.format)
    how = (NATIVE["encoding"], NATIVE["ccsid"])
    return bytes([chosen]) + b"".join(each.to_bytes(2, "big") for each in how) + hostile.body


def hostile_messages_hold(hostile: Hostile, damage: Sequence[tuple[int, int]] = ()) -> None:
    """Hold of a hostile chain, some bytes of it changed, what must hold of any bytes.

    The embedded queue manager reads the same bytes, and finds its headers within them.
    """
    body = bytearray(hostile.body)
    for place, byte in damage:
        body[place % len(body)] = byte
    what_must_hold(as_input(Hostile(bytes(body), hostile.format)))
    md = MQMD.unpack(bytes(MQMD.length))
    md.encoding, md.coded_char_set_id, md.format = 546, 1208, hostile.format.encode().ljust(8)
    found = locate_rfh2_headers(md, bytes(body))
    assert found.start + sum(header.length for header, _ in found.headers) <= len(body)
    for header, _ in found.headers:
        assert sum(4 + len(folder.data) for folder in header.folders) + 36 == header.length


def _comes_back(kind: type[Record], body: bytes, **how: int) -> None:
    """Hold that bytes which are read as a header are written as those bytes again."""
    try:
        header = kind.decode(body, **how)
    except MalformedHeaderError:
        return
    written = header.encode(**how)
    # Of a CCSID that names no code page, the StrucId showed the family; ASCII is written.
    if how["ccsid"] not in SPECIAL_CCSIDS:
        assert body.startswith(written)
    else:
        assert len(written) <= len(body)


def _description_holds(body: bytes, md_format: str, *, encoding: int, ccsid: int) -> None:
    found = describe(body, len(body), encoding=encoding, ccsid=ccsid, format=md_format)
    dead = found.cls is MessageClass.DEAD_LETTER
    assert dead == (found.dlh is not None)
    assert dead or found.problem
    assert 0 <= found.payload_offset <= len(body)
    ends = [0, *(header.offset + header.length for header in found.headers)]
    assert [header.offset for header in found.headers] == ends[: len(found.headers)]
    assert ends[-1] == found.payload_offset
    assert len(found.headers) <= HEADERS_READ + 2  # the MQDLH before the chain, the PDMQ behind it
    assert len(found.problem) < LONGEST_PROBLEM
    for header in found.headers[:1]:
        assert (header.structure == "MQDLH") == dead
    seen = describe(body[:200], len(body), encoding=encoding, ccsid=ccsid, format=md_format)
    assert (seen.cls, seen.dlh) == (found.cls, found.dlh)
