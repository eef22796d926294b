"""The MQMD of versions 1 and 2: bytes in, a record of its fields out, and back."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

from mqdlq.headers.ccsid import Family
from mqdlq.headers.layout import ByteOrder, Layout
from mqdlq.headers.representation import codec_of, family_of, order_of

_VERSION_1: Final = (
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
)
_VERSION_2: Final = (
    ("GroupId", "24 bytes"),
    ("MsgSeqNumber", "long"),
    ("Offset", "long"),
    ("MsgFlags", "long"),
    ("OriginalLength", "long"),
)
MQMD_1: Final = Layout("MQMD", "MD  ", 1, _VERSION_1)
MQMD: Final = Layout("MQMD", "MD  ", 2, (*_VERSION_1, *_VERSION_2))
MD_LENGTH: Final = MQMD.length


@dataclass(frozen=True, slots=True)
class MessageDescriptor1:
    """An MQMD of version 1; identifiers are bytes, text has no trailing blanks and keeps NULs.

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


@dataclass(frozen=True, slots=True)
class MessageDescriptor(MessageDescriptor1):
    """An MQMD of version 2: that of version 1 and five fields more."""

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
    codec = codec_of("MQMD", ccsid, family_of(data, MQMD.struc_id))
    values = MQMD.unpack(data, ByteOrder.NATIVE, codec)
    return MessageDescriptor(**values)


def encode_md(descriptor: MessageDescriptor, *, ccsid: int = 1208) -> bytes:
    """Write the 364 bytes that `decode_md` reads; raise `MalformedHeaderError`."""
    return MQMD.pack(asdict(descriptor), ByteOrder.NATIVE, codec_of("MQMD", ccsid, Family.ASCII))


def decode_any_md(data: bytes, *, encoding: int, ccsid: int) -> MessageDescriptor1:
    """Read an MQMD of either version from exactly its 324 or 364 bytes.

    One that stands in a message (in an MQXQH) is in the Encoding and CCSID stated before it.
    A `MessageDescriptor` is returned for version 2. Raises `MalformedHeaderError`.
    """
    codec = codec_of("MQMD", ccsid, family_of(data, MQMD.struc_id))
    order = order_of("MQMD", encoding)
    if len(data) == MQMD_1.length:
        values = MQMD_1.unpack(data, order, codec)
        return MessageDescriptor1(**values)
    values = MQMD.unpack(data, order, codec)
    return MessageDescriptor(**values)


def encode_any_md(descriptor: MessageDescriptor1, *, encoding: int, ccsid: int) -> bytes:
    """Write what `decode_any_md` reads: 364 bytes for a `MessageDescriptor`, else 324."""
    layout = MQMD if isinstance(descriptor, MessageDescriptor) else MQMD_1
    codec = codec_of("MQMD", ccsid, Family.ASCII)
    return layout.pack(asdict(descriptor), order_of("MQMD", encoding), codec)
