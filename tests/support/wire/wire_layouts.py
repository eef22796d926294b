"""The layouts of MQ's headers for the wire vectors, written by hand from IBM's documentation.

This module uses no code under test. Offsets and lengths are those of the C declarations in IBM MQ
docs, "Data types used in the MQI". Characters of EBCDIC code pages are those of Python's codecs,
except for a few that IBM's code page charts place elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Fields = list[tuple[str, str, int, int]]  # IBM's name, kind, offset, length

MQDLH: Fields = [
    ("Reason", "long", 8, 4),
    ("DestQName", "text", 12, 48),
    ("DestQMgrName", "text", 60, 48),
    ("Encoding", "long", 108, 4),
    ("CodedCharSetId", "long", 112, 4),
    ("Format", "text", 116, 8),
    ("PutApplType", "long", 124, 4),
    ("PutApplName", "text", 128, 28),
    ("PutDate", "text", 156, 8),
    ("PutTime", "text", 164, 8),
]
MQMD: Fields = [
    ("Report", "long", 8, 4),
    ("MsgType", "long", 12, 4),
    ("Expiry", "long", 16, 4),
    ("Feedback", "long", 20, 4),
    ("Encoding", "long", 24, 4),
    ("CodedCharSetId", "long", 28, 4),
    ("Format", "text", 32, 8),
    ("Priority", "long", 40, 4),
    ("Persistence", "long", 44, 4),
    ("MsgId", "bytes", 48, 24),
    ("CorrelId", "bytes", 72, 24),
    ("BackoutCount", "long", 96, 4),
    ("ReplyToQ", "text", 100, 48),
    ("ReplyToQMgr", "text", 148, 48),
    ("UserIdentifier", "text", 196, 12),
    ("AccountingToken", "bytes", 208, 32),
    ("ApplIdentityData", "text", 240, 32),
    ("PutApplType", "long", 272, 4),
    ("PutApplName", "text", 276, 28),
    ("PutDate", "text", 304, 8),
    ("PutTime", "text", 312, 8),
    ("ApplOriginData", "text", 320, 4),
]
MQMDE: Fields = [
    ("StrucLength", "long", 8, 4),
    ("Encoding", "long", 12, 4),
    ("CodedCharSetId", "long", 16, 4),
    ("Format", "text", 20, 8),
    ("Flags", "long", 28, 4),
    ("GroupId", "bytes", 32, 24),
    ("MsgSeqNumber", "long", 56, 4),
    ("Offset", "long", 60, 4),
    ("MsgFlags", "long", 64, 4),
    ("OriginalLength", "long", 68, 4),
]
MQXQH: Fields = [("RemoteQName", "text", 8, 48), ("RemoteQMgrName", "text", 56, 48)]
MQRFH: Fields = [
    ("StrucLength", "long", 8, 4),
    ("Encoding", "long", 12, 4),
    ("CodedCharSetId", "long", 16, 4),
    ("Format", "text", 20, 8),
    ("Flags", "long", 28, 4),
]
MQRFH2: Fields = [*MQRFH, ("NameValueCCSID", "long", 32, 4)]
MQCIH_1: Fields = [
    *MQRFH,
    ("ReturnCode", "long", 32, 4),
    ("CompCode", "long", 36, 4),
    ("Reason", "long", 40, 4),
    ("UOWControl", "long", 44, 4),
    ("GetWaitInterval", "long", 48, 4),
    ("LinkType", "long", 52, 4),
    ("OutputDataLength", "long", 56, 4),
    ("FacilityKeepTime", "long", 60, 4),
    ("ADSDescriptor", "long", 64, 4),
    ("ConversationalTask", "long", 68, 4),
    ("TaskEndStatus", "long", 72, 4),
    ("Facility", "bytes", 76, 8),
    ("Function", "text", 84, 4),
    ("AbendCode", "text", 88, 4),
    ("Authenticator", "text", 92, 8),
    ("Reserved1", "text", 100, 8),
    ("ReplyToFormat", "text", 108, 8),
    ("RemoteSysId", "text", 116, 4),
    ("RemoteTransId", "text", 120, 4),
    ("TransactionId", "text", 124, 4),
    ("FacilityLike", "text", 128, 4),
    ("AttentionId", "text", 132, 4),
    ("StartCode", "text", 136, 4),
    ("CancelCode", "text", 140, 4),
    ("NextTransactionId", "text", 144, 4),
    ("Reserved2", "text", 148, 8),
    ("Reserved3", "text", 156, 8),
]
MQCIH_2: Fields = [
    *MQCIH_1,
    ("CursorPosition", "long", 164, 4),
    ("ErrorOffset", "long", 168, 4),
    ("InputItem", "long", 172, 4),
    ("Reserved4", "long", 176, 4),
]
MQIIH: Fields = [
    *MQRFH,
    ("LTermOverride", "text", 32, 8),
    ("MFSMapName", "text", 40, 8),
    ("ReplyToFormat", "text", 48, 8),
    ("Authenticator", "text", 56, 8),
    ("TranInstanceId", "bytes", 64, 16),
    ("TranState", "text", 80, 1),
    ("CommitMode", "text", 81, 1),
    ("SecurityScope", "text", 82, 1),
    ("Reserved", "text", 83, 1),
]
MQTM: Fields = [
    ("QName", "text", 8, 48),
    ("ProcessName", "text", 56, 48),
    ("TriggerData", "text", 104, 64),
    ("ApplType", "long", 168, 4),
    ("ApplId", "text", 172, 256),
    ("EnvData", "text", 428, 128),
    ("UserData", "text", 556, 128),
]


@dataclass(frozen=True)
class Kind:
    """A structure: its StrucId, Version, length and fields, and the Format that announces it."""

    type: str
    struc_id: str
    version: int
    length: int
    fields: Fields
    format: str


KINDS = {
    "MQDLH": Kind("MQDLH", "DLH ", 1, 172, MQDLH, "MQDEAD"),
    "MQMD": Kind("MQMD", "MD  ", 1, 324, MQMD, ""),
    "MQMDE": Kind("MQMDE", "MDE ", 2, 72, MQMDE, "MQHMDE"),
    "MQXQH": Kind("MQXQH", "XQH ", 1, 104, MQXQH, "MQXMIT"),
    "MQRFH": Kind("MQRFH", "RFH ", 1, 32, MQRFH, "MQHRF"),
    "MQRFH2": Kind("MQRFH2", "RFH ", 2, 36, MQRFH2, "MQHRF2"),
    "MQCIH_1": Kind("MQCIH", "CIH ", 1, 164, MQCIH_1, "MQCICS"),
    "MQCIH_2": Kind("MQCIH", "CIH ", 2, 180, MQCIH_2, "MQCICS"),
    "MQIIH": Kind("MQIIH", "IIH ", 1, 84, MQIIH, "MQIMS"),
    "MQTM": Kind("MQTM", "TM  ", 1, 684, MQTM, "MQTRIG"),
}

PYTHON_CODECS = {
    819: "latin-1",
    1208: "utf-8",
    437: "cp437",
    850: "cp850",
    1252: "cp1252",
    37: "cp037",
    273: "cp273",
    500: "cp500",
    1140: "cp1140",
    1047: "cp037",
    1141: "cp273",
    1146: "cp037",
    1148: "cp500",
}
ELSEWHERE = {
    1047: {"[": 0xAD, "]": 0xBD, "^": 0x5F},
    1141: {"€": 0x9F},
    1146: {"£": 0x5B, "$": 0x4A, "€": 0x9F},
    1148: {"€": 0x9F},
}
"""Characters that IBM's code page places elsewhere than the Python codec named above."""


def text(value: str, ccsid: int) -> bytes:
    """Write characters in a CCSID."""
    moved = ELSEWHERE.get(ccsid, {})
    codec = PYTHON_CODECS[ccsid]
    return b"".join(bytes([moved[each]]) if each in moved else each.encode(codec) for each in value)


def order(encoding: int) -> Any:
    """Return the byte order of integers, which the last hexadecimal digit of an Encoding states."""
    return {1: "big", 2: "little"}[encoding % 16]


def packed(kind: str, values: dict[str, Any], encoding: int, ccsid: int) -> bytes:
    """Write a structure; missing values become zeros and blanks."""
    layout = KINDS[kind]
    data = bytearray(layout.length)
    data[0:4] = text(layout.struc_id, ccsid)
    data[4:8] = layout.version.to_bytes(4, order(encoding))
    for name, form, offset, length in layout.fields:
        value = values[name]
        match form:
            case "long":
                piece = value.to_bytes(4, order(encoding), signed=True)
            case "text":
                written = text(value, ccsid)
                piece = written + text(" ", ccsid) * (length - len(written))
            case _:
                piece = bytes.fromhex(value)
        assert len(piece) == length, (kind, name)
        data[offset : offset + length] = piece
    return bytes(data)


def complete(kind: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return a value for every field: by default 0, "" or zero bytes."""
    blank = {"long": 0, "text": ""}
    values = {name: blank.get(form, "00" * length) for name, form, _, length in KINDS[kind].fields}
    if "StrucLength" in values:
        values["StrucLength"] = KINDS[kind].length
    unknown = set(given) - set(values)
    assert not unknown, unknown
    return values | given
