"""The headers of fixed length that may follow an MQDLH: their layouts, records and codecs.

Each is written in the Encoding and CCSID that stand before it; its own, where it has any, describe
what follows it. Layouts: IBM MQ docs, "MQMDE", "MQXQH", "MQCIH", "MQIIH" and "MQTM".
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Final, Generic, TypeVar

from mqdlq.errors import MalformedHeaderError
from mqdlq.headers.ccsid import Family
from mqdlq.headers.layout import LENGTH_AND_FOLLOWING, Layout
from mqdlq.headers.md import (
    MQMD_1,
    MessageDescriptor,
    MessageDescriptor1,
    decode_any_md,
    encode_any_md,
)
from mqdlq.headers.representation import codec_of, family_of, order_of

MQMDE: Final = Layout(
    "MQMDE",
    "MDE ",
    2,
    (
        *LENGTH_AND_FOLLOWING,
        ("GroupId", "24 bytes"),
        ("MsgSeqNumber", "long"),
        ("Offset", "long"),
        ("MsgFlags", "long"),
        ("OriginalLength", "long"),
    ),
)
MQXQH: Final = Layout(
    "MQXQH", "XQH ", 1, (("RemoteQName", "48 text"), ("RemoteQMgrName", "48 text"))
)
"""The MQXQH without its last field, MsgDesc, an MQMD of version 1."""
_CIH_1: Final = (
    *LENGTH_AND_FOLLOWING,
    ("ReturnCode", "long"),
    ("CompCode", "long"),
    ("Reason", "long"),
    ("UOWControl", "long"),
    ("GetWaitInterval", "long"),
    ("LinkType", "long"),
    ("OutputDataLength", "long"),
    ("FacilityKeepTime", "long"),
    ("ADSDescriptor", "long"),
    ("ConversationalTask", "long"),
    ("TaskEndStatus", "long"),
    ("Facility", "8 bytes"),
    ("Function", "4 text"),
    ("AbendCode", "4 text"),
    ("Authenticator", "8 text"),
    ("Reserved1", "8 text"),
    ("ReplyToFormat", "8 text"),
    ("RemoteSysId", "4 text"),
    ("RemoteTransId", "4 text"),
    ("TransactionId", "4 text"),
    ("FacilityLike", "4 text"),
    ("AttentionId", "4 text"),
    ("StartCode", "4 text"),
    ("CancelCode", "4 text"),
    ("NextTransactionId", "4 text"),
    ("Reserved2", "8 text"),
    ("Reserved3", "8 text"),
)
_CIH_2: Final = (
    ("CursorPosition", "long"),
    ("ErrorOffset", "long"),
    ("InputItem", "long"),
    ("Reserved4", "long"),
)
MQCIH_1: Final = Layout("MQCIH", "CIH ", 1, _CIH_1)
MQCIH: Final = Layout("MQCIH", "CIH ", 2, (*_CIH_1, *_CIH_2))
MQIIH: Final = Layout(
    "MQIIH",
    "IIH ",
    1,
    (
        *LENGTH_AND_FOLLOWING,
        ("LTermOverride", "8 text"),
        ("MFSMapName", "8 text"),
        ("ReplyToFormat", "8 text"),
        ("Authenticator", "8 text"),
        ("TranInstanceId", "16 bytes"),
        ("TranState", "1 text"),
        ("CommitMode", "1 text"),
        ("SecurityScope", "1 text"),
        ("Reserved", "1 text"),
    ),
)
MQTM: Final = Layout(
    "MQTM",
    "TM  ",
    1,
    (
        ("QName", "48 text"),
        ("ProcessName", "48 text"),
        ("TriggerData", "64 text"),
        ("ApplType", "long"),
        ("ApplId", "256 text"),
        ("EnvData", "128 text"),
        ("UserData", "128 text"),
    ),
)


@dataclass(frozen=True, slots=True)
class MessageDescriptorExtension:
    """An MQMDE: the five fields an MQMD of version 2 has more than one of version 1."""

    encoding: int = 546
    coded_char_set_id: int = 0
    format: str = ""
    flags: int = 0
    group_id: bytes = bytes(24)
    msg_seq_number: int = 1
    offset: int = 0
    msg_flags: int = 0
    original_length: int = -1


@dataclass(frozen=True, slots=True)
class TransmissionQueueHeader:
    """An MQXQH; `msg_desc` is the MQMD of the message it carries, and describes what follows."""

    remote_q_name: str = ""
    remote_q_mgr_name: str = ""
    msg_desc: MessageDescriptor1 = field(default_factory=MessageDescriptor1)


@dataclass(frozen=True, slots=True)
class CicsHeader1:
    """An MQCIH of version 1; its `encoding` and `coded_char_set_id` are reserved."""

    encoding: int = 0
    coded_char_set_id: int = 0
    format: str = ""
    flags: int = 0
    return_code: int = 0
    comp_code: int = 0
    reason: int = 0
    uow_control: int = 273
    get_wait_interval: int = -2
    link_type: int = 1
    output_data_length: int = -1
    facility_keep_time: int = 0
    ads_descriptor: int = 0
    conversational_task: int = 0
    task_end_status: int = 0
    facility: bytes = bytes(8)
    function: str = ""
    abend_code: str = ""
    authenticator: str = ""
    reserved1: str = ""
    reply_to_format: str = ""
    remote_sys_id: str = ""
    remote_trans_id: str = ""
    transaction_id: str = ""
    facility_like: str = ""
    attention_id: str = ""
    start_code: str = ""
    cancel_code: str = ""
    next_transaction_id: str = ""
    reserved2: str = ""
    reserved3: str = ""


@dataclass(frozen=True, slots=True)
class CicsHeader(CicsHeader1):
    """An MQCIH of version 2."""

    cursor_position: int = 0
    error_offset: int = 0
    input_item: int = 0
    reserved4: int = 0


@dataclass(frozen=True, slots=True)
class ImsHeader:
    """An MQIIH; its `encoding` and `coded_char_set_id` are reserved."""

    encoding: int = 0
    coded_char_set_id: int = 0
    format: str = ""
    flags: int = 0
    l_term_override: str = ""
    mfs_map_name: str = ""
    reply_to_format: str = ""
    authenticator: str = ""
    tran_instance_id: bytes = bytes(16)
    tran_state: str = ""
    commit_mode: str = "0"
    security_scope: str = "C"
    reserved: str = ""


@dataclass(frozen=True, slots=True)
class TriggerMessage:
    """An MQTM; nothing follows it."""

    q_name: str = ""
    process_name: str = ""
    trigger_data: str = ""
    appl_type: int = 0
    appl_id: str = ""
    env_data: str = ""
    user_data: str = ""


R = TypeVar("R", MessageDescriptorExtension, CicsHeader1, ImsHeader, TriggerMessage)


@dataclass(frozen=True)
class Codec(Generic[R]):
    """A header's layouts, each with the record it is read into: one for each Version.

    `decode` reads the header that `data` begins with, `encode` writes it byte for byte the same.
    `encoding` and `ccsid` are those stated before it; a CCSID of 0, -1, -2 or -3 names no code
    page: the StrucId then tells the family, and ASCII is written. Both raise
    `MalformedHeaderError`.
    """

    versions: tuple[tuple[Layout, type[R]], ...]

    def layout(self, data: bytes, *, encoding: int) -> tuple[Layout, type[R]]:
        """Return the layout of the Version that `data` states, or the newest, and its record."""
        newest = self.versions[-1]
        version = order_of(newest[0].structure, encoding).integer(data[4:8])
        return next((one for one in self.versions if one[0].version == version), newest)

    def decode(self, data: bytes, *, encoding: int, ccsid: int) -> R:
        """Read the header `data` begins with."""
        layout, record = self.layout(data, encoding=encoding)
        codec = codec_of(layout.structure, ccsid, family_of(data, layout.struc_id))
        order = order_of(layout.structure, encoding)
        values = layout.unpack(data[: layout.length], order, codec)
        stated = values.pop("struc_length", layout.length)
        if stated != layout.length:
            expected = f"StrucLength {layout.length}"
            raise MalformedHeaderError(layout.structure, 8, expected, f"{stated}")
        return record(**values)

    def encode(self, header: R, *, encoding: int, ccsid: int) -> bytes:
        """Write the header."""
        layout = next(layout for layout, record in self.versions if type(header) is record)
        codec = codec_of(layout.structure, ccsid, Family.ASCII)
        values = {**asdict(header), "struc_length": layout.length}
        return layout.pack(values, order_of(layout.structure, encoding), codec)


MDE_CODEC: Final = Codec(((MQMDE, MessageDescriptorExtension),))
CIH_CODEC: Final = Codec(((MQCIH_1, CicsHeader1), (MQCIH, CicsHeader)))
IIH_CODEC: Final = Codec(((MQIIH, ImsHeader),))
TM_CODEC: Final = Codec(((MQTM, TriggerMessage),))

XQH_LENGTH: Final = MQXQH.length + MQMD_1.length


def decode_xqh(data: bytes, *, encoding: int, ccsid: int) -> TransmissionQueueHeader:
    """Read the MQXQH that `data` begins with, as `Codec.decode` does."""
    if len(data) < XQH_LENGTH:
        raise MalformedHeaderError("MQXQH", 0, f"{XQH_LENGTH} bytes", f"{len(data)}")
    codec = codec_of("MQXQH", ccsid, family_of(data, MQXQH.struc_id))
    values = MQXQH.unpack(data[: MQXQH.length], order_of("MQXQH", encoding), codec)
    try:
        md = decode_any_md(data[MQXQH.length : XQH_LENGTH], encoding=encoding, ccsid=ccsid)
    except MalformedHeaderError as error:
        offset = MQXQH.length + error.offset
        raise MalformedHeaderError("MQXQH", offset, error.expected, error.found) from error
    return TransmissionQueueHeader(**values, msg_desc=md)


def encode_xqh(header: TransmissionQueueHeader, *, encoding: int, ccsid: int) -> bytes:
    """Write an MQXQH, as `Codec.encode` does; its `msg_desc` is of version 1."""
    if isinstance(header.msg_desc, MessageDescriptor):
        raise MalformedHeaderError("MQXQH", MQXQH.length, "an MQMD of version 1", "version 2")
    values = {
        "remote_q_name": header.remote_q_name,
        "remote_q_mgr_name": header.remote_q_mgr_name,
    }
    codec = codec_of("MQXQH", ccsid, Family.ASCII)
    start = MQXQH.pack(values, order_of("MQXQH", encoding), codec)
    return start + encode_any_md(header.msg_desc, encoding=encoding, ccsid=ccsid)
