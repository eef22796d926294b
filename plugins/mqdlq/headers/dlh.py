"""The MQDLH: 172 bytes in the Encoding and CCSID its MQMD states in, a record out, and back.

The header's own Encoding, CodedCharSetId and Format describe what follows it, not itself
(IBM MQ docs, "MQDLH - Dead-letter header").
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

from mqdlq.headers.ccsid import Family
from mqdlq.headers.layout import Layout
from mqdlq.headers.representation import codec_of, order_of

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
    codec = codec_of("MQDLH", ccsid, STRUC_IDS.get(body[:4], Family.ASCII))
    order = order_of("MQDLH", encoding)
    values = MQDLH.unpack(body[:DLH_LENGTH], order, codec)
    return DeadLetterHeader(**values)


def encode_dlh(header: DeadLetterHeader, *, encoding: int, ccsid: int) -> bytes:
    """Write the 172 bytes of a header for a message with this MQMD; raise `MalformedHeaderError`.

    Under a CCSID that names no code page it is written in ASCII.
    """
    codec = codec_of("MQDLH", ccsid, Family.ASCII)
    return MQDLH.pack(asdict(header), order_of("MQDLH", encoding), codec)
