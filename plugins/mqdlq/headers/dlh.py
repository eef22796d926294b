"""The MQDLH: 172 bytes in the Encoding and CCSID its MQMD states in, a record out, and back.

The header's own Encoding, CodedCharSetId and Format describe what follows it, not itself
(IBM MQ docs, "MQDLH - Dead-letter header").
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from mqdlq.errors import MalformedHeaderError
from mqdlq.headers.ccsid import SPECIAL_CCSIDS, Family, TextCodec, text_codec
from mqdlq.headers.layout import ByteOrder, Layout

MQDLH: Final = Layout(
    "MQDLH",
    "DLH ",
    1,
    (
        ("Reason", "long"),
        ("DestQName", "48 text"),
        ("DestQMgrName", "48 text"),
        ("Encoding", "long"),
        ("CodedCharSetId", "long"),
        ("Format", "8 text"),
        ("PutApplType", "long"),
        ("PutApplName", "28 text"),
        ("PutDate", "8 text"),
        ("PutTime", "8 text"),
    ),
)
DLH_LENGTH: Final = MQDLH.length
STRUC_IDS: Final = {b"DLH ": Family.ASCII, b"\xc4\xd3\xc8\x40": Family.EBCDIC}

_INTEGER_MASK: Final = 0xF
_INTEGER_ORDERS: Final = {1: ByteOrder.BIG, 2: ByteOrder.LITTLE}
_STAND_INS: Final = {Family.ASCII: 819, Family.EBCDIC: 500}


@dataclass(frozen=True, slots=True)
class DeadLetterHeader:
    """An MQDLH of version 1; text has no trailing blanks and keeps NULs."""

    reason: int = 0
    dest_q_name: str = ""
    dest_q_mgr_name: str = ""
    encoding: int = 0
    coded_char_set_id: int = 0
    format: str = ""
    put_appl_type: int = 0
    put_appl_name: str = ""
    put_date: str = ""
    put_time: str = ""


def decode_dlh(body: bytes, *, encoding: int, ccsid: int) -> DeadLetterHeader:
    """Read the MQDLH a message begins with; `encoding` and `ccsid` are the MQMD's.

    A CCSID of 0, -1, -2 or -3 names no code page: the family is then read off the StrucId.
    Raises `MalformedHeaderError`.
    """
    codec = header_codec(ccsid, STRUC_IDS.get(body[:4], Family.ASCII))
    values: dict[str, Any] = MQDLH.unpack(body[:DLH_LENGTH], _order(encoding), _known(codec, ccsid))
    return DeadLetterHeader(**values)


def encode_dlh(header: DeadLetterHeader, *, encoding: int, ccsid: int) -> bytes:
    """Write the 172 bytes of a header for a message with this MQMD; raise `MalformedHeaderError`.

    Under a CCSID that names no code page it is written in ASCII.
    """
    codec = header_codec(ccsid, Family.ASCII)
    return MQDLH.pack(asdict(header), _order(encoding), _known(codec, ccsid))


def header_codec(ccsid: int, family: Family) -> TextCodec | None:
    """Return the codec for header text; a special CCSID is read as the family's commonest."""
    return text_codec(_STAND_INS[family] if ccsid in SPECIAL_CCSIDS else ccsid)


def integer_order(encoding: int) -> ByteOrder | None:
    """Return the byte order of an Encoding (MQENC_INTEGER_MASK), None where it states none."""
    return _INTEGER_ORDERS.get(encoding & _INTEGER_MASK)


def _order(encoding: int) -> ByteOrder:
    order = integer_order(encoding)
    if order is None:
        expected = "an Encoding with an integer order (MQENC_INTEGER_NORMAL or _REVERSED)"
        raise MalformedHeaderError("MQDLH", 4, expected, f"Encoding {encoding}")
    return order


def _known(codec: TextCodec | None, ccsid: int) -> TextCodec:
    if codec is None:
        raise MalformedHeaderError("MQDLH", 0, "a CCSID this project reads", f"CCSID {ccsid}")
    return codec
