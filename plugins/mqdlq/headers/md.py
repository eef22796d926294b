"""The MQMD: the 364 bytes the client library packs in, a record of its fields out, and back."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from mqdlq.errors import MalformedHeaderError
from mqdlq.headers.ccsid import TextCodec, text_codec
from mqdlq.headers.layout import ByteOrder, Layout

MQMD: Final = Layout(
    "MQMD",
    "MD  ",
    2,
    (
        ("Report", "long"),
        ("MsgType", "long"),
        ("Expiry", "long"),
        ("Feedback", "long"),
        ("Encoding", "long"),
        ("CodedCharSetId", "long"),
        ("Format", "8 text"),
        ("Priority", "long"),
        ("Persistence", "long"),
        ("MsgId", "24 bytes"),
        ("CorrelId", "24 bytes"),
        ("BackoutCount", "long"),
        ("ReplyToQ", "48 text"),
        ("ReplyToQMgr", "48 text"),
        ("UserIdentifier", "12 text"),
        ("AccountingToken", "32 bytes"),
        ("ApplIdentityData", "32 text"),
        ("PutApplType", "long"),
        ("PutApplName", "28 text"),
        ("PutDate", "8 text"),
        ("PutTime", "8 text"),
        ("ApplOriginData", "4 text"),
        ("GroupId", "24 bytes"),
        ("MsgSeqNumber", "long"),
        ("Offset", "long"),
        ("MsgFlags", "long"),
        ("OriginalLength", "long"),
    ),
)
MD_LENGTH: Final = MQMD.length


@dataclass(frozen=True, slots=True)
class MessageDescriptor:
    """An MQMD of version 2; identifiers are bytes, text has no trailing blanks and keeps NULs.

    The defaults are those of IBM's MQMD_DEFAULT.
    """

    report: int = 0
    msg_type: int = 8
    expiry: int = -1
    feedback: int = 0
    encoding: int = 546
    coded_char_set_id: int = 0
    format: str = ""
    priority: int = -1
    persistence: int = 2
    msg_id: bytes = bytes(24)
    correl_id: bytes = bytes(24)
    backout_count: int = 0
    reply_to_q: str = ""
    reply_to_q_mgr: str = ""
    user_identifier: str = ""
    accounting_token: bytes = bytes(32)
    appl_identity_data: str = ""
    put_appl_type: int = 0
    put_appl_name: str = ""
    put_date: str = ""
    put_time: str = ""
    appl_origin_data: str = ""
    group_id: bytes = bytes(24)
    msg_seq_number: int = 1
    offset: int = 0
    msg_flags: int = 0
    original_length: int = -1


def decode_md(data: bytes, *, ccsid: int = 1208) -> MessageDescriptor:
    """Read an MQMD as the client library packs it: integers in the machine's order.

    `ccsid` is the connection's; text of an MQMD is always in that one, whatever its own
    CodedCharSetId says of the message. Raises `MalformedHeaderError`.
    """
    values: dict[str, Any] = MQMD.unpack(data, ByteOrder.NATIVE, _codec(ccsid))
    return MessageDescriptor(**values)


def encode_md(descriptor: MessageDescriptor, *, ccsid: int = 1208) -> bytes:
    """Write the 364 bytes that `decode_md` reads; raise `MalformedHeaderError`."""
    return MQMD.pack(asdict(descriptor), ByteOrder.NATIVE, _codec(ccsid))


def _codec(ccsid: int) -> TextCodec:
    codec = text_codec(ccsid)
    if codec is None:
        raise MalformedHeaderError("MQMD", 0, "a CCSID this project reads", f"CCSID {ccsid}")
    return codec
