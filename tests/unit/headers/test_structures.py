from __future__ import annotations

import importlib.util
import re
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest

from mqdlq.errors import MalformedHeaderError
from mqdlq.headers import MessageDescriptor, MessageDescriptorExtension, RulesHeader2
from mqdlq.headers.records import (
    CicsHeader,
    CicsHeader1,
    ImsHeader,
    MessageDescriptor1,
    RulesHeader,
    TransmissionQueueHeader,
    TriggerMessage,
)
from mqdlq.structures import Kind, Structure
from mqdlq.structures.headers import (
    MQCIH,
    MQCIH1,
    MQIIH,
    MQMD,
    MQMD1,
    MQMDE,
    MQRFH,
    MQRFH2,
    MQTM,
    MQXQH,
)

BIG, LITTLE, ZOS = 273, 546, 785
IDENTITY = {"struc_id", "version", "struc_length"}
SAMPLES: list[Any] = [
    MessageDescriptorExtension(format="MQSTR", group_id=b"g" * 24, msg_flags=8),
    CicsHeader(format="CSQCBDCI", transaction_id="PAY1", cursor_position=-3),
    CicsHeader1(function="LINK", facility=bytes(range(8)), abend_code="ASRA"),
    ImsHeader(format="MQIMSVS", l_term_override="LTERM7", tran_state="C"),
    TriggerMessage("PAYMENTS", "PROC", "data", 6, "/opt/app", "&", "user"),
]


@pytest.mark.parametrize(
    ("layout", "length", "offsets"),
    [
        (MQMDE, 72, {"StrucLength": 8, "Encoding": 12, "CodedCharSetId": 16, "Format": 20,
                     "Flags": 28, "GroupId": 32, "MsgSeqNumber": 56, "Offset": 60,
                     "MsgFlags": 64, "OriginalLength": 68}),
        (MQXQH, 104, {"RemoteQName": 8, "RemoteQMgrName": 56}),
        (MQCIH1, 164, {"ReturnCode": 32, "UOWControl": 44, "ADSDescriptor": 64, "Facility": 76,
                        "Function": 84, "AbendCode": 88, "Authenticator": 92, "Reserved1": 100,
                        "ReplyToFormat": 108, "RemoteSysId": 116, "TransactionId": 124,
                        "StartCode": 136, "NextTransactionId": 144, "Reserved3": 156}),
        (MQCIH, 180, {"CursorPosition": 164, "ErrorOffset": 168, "InputItem": 172,
                      "Reserved4": 176}),
        (MQIIH, 84, {"Flags": 28, "LTermOverride": 32, "MFSMapName": 40, "ReplyToFormat": 48,
                     "Authenticator": 56, "TranInstanceId": 64, "TranState": 80, "CommitMode": 81,
                     "SecurityScope": 82, "Reserved": 83}),
        (MQTM, 684, {"QName": 8, "ProcessName": 56, "TriggerData": 104, "ApplType": 168,
                     "ApplId": 172, "EnvData": 428, "UserData": 556}),
        (MQRFH, 32, {"StrucLength": 8, "Format": 20, "Flags": 28}),
        (MQRFH2, 36, {"Flags": 28, "NameValueCCSID": 32}),
        (MQMD1, 324, {"Report": 8, "Format": 32, "ApplOriginData": 320}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else None,
)  # fmt: skip
def test_each_field_of_a_structure_has_the_offset_of_ibm(
    layout: type[Structure[Any]], length: int, offsets: dict[str, int]
) -> None:
    """Offsets: IBM MQ docs, the C declarations of each structure."""
    found = {field.ibm_name: field.offset for field in layout.fields}

    assert layout.length == length
    assert {name: found[name] for name in offsets} == offsets


@pytest.mark.parametrize(
    ("module", "name", "layout"),
    [("mqmde", "MDE", MQMDE), ("mqxqh", "XQH", MQXQH), ("mqcih", "CIH", MQCIH),
     ("mqiih", "IIH", MQIIH), ("mqtm", "TM", MQTM)],
)  # fmt: skip
def test_structures_have_the_fields_of_the_client_library_in_order(
    module: str, name: str, layout: type[Structure[Any]]
) -> None:
    """Ibmmq's own tables of fields, read as text: importing it would need IBM's C library."""
    found = importlib.util.find_spec("ibmmq")
    assert found is not None
    assert found.submodule_search_locations
    source = (Path(found.submodule_search_locations[0]) / f"{module}.py").read_text()
    declared = source.split(f"class {name}(")[1].split("\nclass ")[0]
    listed = re.findall(r"\['_?(\w+)', [^\n]*?, (MQLONG_TYPE|'\d*[sb]')\]", declared)

    assert listed[2:] == [
        (field.ibm_name, "MQLONG_TYPE" if field.kind is Kind.LONG else repr(_form(field)))
        for field in layout.fields
    ]


def _form(field: Any) -> str:
    return f"{field.length}s" if field.length > 1 else "b"


@pytest.mark.parametrize("encoding", [BIG, LITTLE, ZOS, 17, 34])
@pytest.mark.parametrize("ccsid", [819, 1208, 37, 500, 1047, 1140, 1141, 930])
@pytest.mark.parametrize("record", SAMPLES)
def test_a_header_survives_encoding_and_decoding(record: Any, encoding: int, ccsid: int) -> None:
    data = record.encode(encoding=encoding, ccsid=ccsid)

    assert type(record).decode(data + b"rest", encoding=encoding, ccsid=ccsid) == record


@pytest.mark.parametrize("ccsid", [819, 37])
def test_an_xqh_carries_a_whole_md(ccsid: int) -> None:
    md = MessageDescriptor1(format="MQSTR", msg_id=b"m" * 24, user_identifier="anna", expiry=5)
    header = TransmissionQueueHeader("ORDERS", "QM2", md)
    data = header.encode(encoding=BIG, ccsid=ccsid)

    assert (len(data), data[104:112]) == (
        428,
        (b"MD  " if ccsid == 819 else b"\xd4\xc4\x40\x40") + b"\0\0\0\1",
    )
    assert TransmissionQueueHeader.decode(data, encoding=BIG, ccsid=ccsid) == header


def test_an_mqmd_has_version_1_or_2() -> None:
    md = MessageDescriptor(group_id=b"g" * 24, msg_seq_number=7)
    old = MessageDescriptor1(format="MQSTR")

    for record, length in ((md, 364), (old, 324)):
        data = record.encode(encoding=BIG, ccsid=500)
        assert len(data) == length
        assert type(record).decode(data, encoding=BIG, ccsid=500) == record


@pytest.mark.parametrize("encoding", [BIG, LITTLE])
@pytest.mark.parametrize(
    ("ccsid", "folders"),
    [
        (1208, ("<mcd><Msd>jms_text</Msd></mcd>  ", "<usr><n>\udcff\u00e9</n></usr>")),
        (1200, ("<usr><n>é€😀</n></usr> ",)),
        (1200, (b"odd", "<jms/>")),
        (17584, (b"\xd8\xd8\xd8\xd8",)),
        (13488, ("",)),
        (819, (b"<jms/>  ",)),
        (1208, ()),
    ],
)
def test_rfh2_folders_survive_encoding_and_decoding(
    ccsid: int, folders: tuple[str | bytes, ...], encoding: int
) -> None:
    """Undecodable text in NameValueCCSID (two high surrogates, half a character) stays bytes."""
    header = RulesHeader2(encoding, 1208, "MQSTR", name_value_ccsid=ccsid, folders=folders)
    data = header.encode(encoding=encoding, ccsid=819)

    assert int.from_bytes(data[8:12], "big" if encoding == BIG else "little") == len(data)
    assert RulesHeader2.decode(data + b"rest", encoding=encoding, ccsid=819) == header


@pytest.mark.parametrize("ccsid", [819, 37, 1208])
def test_the_name_value_string_of_an_mqrfh_keeps_its_padding(ccsid: int) -> None:
    header = RulesHeader(LITTLE, 1208, "MQSTR", 0, "MQPSCommand Publish", 5)
    data = header.encode(encoding=LITTLE, ccsid=ccsid)

    assert len(data) == 32 + 24
    assert RulesHeader.decode(data, encoding=LITTLE, ccsid=ccsid) == header


FOLDERS = RulesHeader2(LITTLE, 1208, "MQSTR", folders=("<a/>", "<bcd/>  "))
RFH2 = FOLDERS.encode(encoding=LITTLE, ccsid=819)
CIH = CicsHeader().encode(encoding=LITTLE, ccsid=819)
XQH = TransmissionQueueHeader().encode(encoding=LITTLE, ccsid=819)


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        (MessageDescriptorExtension, b"MDE ", "MQMDE at offset 0: expected 72 bytes, found 4"),
        (MessageDescriptorExtension, b"MDEX" + bytes(68),
         "MQMDE at offset 0: expected StrucId 'MDE ' in ASCII, found other bytes"),
        (MessageDescriptorExtension, b"MDE \1" + bytes(67),
         "MQMDE at offset 4: expected Version 2, found 1"),
        (MessageDescriptorExtension, b"MDE \2\0\0\0\x50" + bytes(63),
         "MQMDE at offset 8: expected StrucLength 72, found 80"),
        (CicsHeader, CIH[:164], "MQCIH at offset 0: expected 180 bytes, found 164"),
        (CicsHeader, CIH[:4] + b"\3" + CIH[5:],
         "MQCIH at offset 4: expected Version 2, found 3"),
        (CicsHeader1, CIH[:4] + b"\1" + CIH[5:],
         "MQCIH at offset 8: expected StrucLength 164, found 180"),
        (TransmissionQueueHeader, XQH[:427],
         "MQXQH at offset 0: expected 428 bytes, found 427"),
        (TransmissionQueueHeader, XQH[:104] + b"XD" + XQH[106:],
         "MQXQH at offset 104: expected StrucId 'MD  ' in ASCII, found other bytes"),
        (TransmissionQueueHeader, XQH[:108] + b"\2" + XQH[109:],
         "MQXQH at offset 108: expected Version 1, found 2"),
        (RulesHeader2, RFH2[:35], "MQRFH2 at offset 0: expected 36 bytes, found 35"),
        (RulesHeader2, RFH2[:-1],
         "MQRFH2 at offset 8: expected StrucLength from 36 to the 55 bytes there are, found 56"),
        (RulesHeader2, RFH2[:8] + b"\x23" + RFH2[9:],
         "MQRFH2 at offset 8: expected StrucLength from 36 to the 56 bytes there are, found 35"),
        (RulesHeader2, RFH2[:36] + b"\x11" + RFH2[37:],
         ("MQRFH2 at offset 36: expected NameValueLength from 0 to the 16 bytes left of the "
          "header, found 17")),
        (RulesHeader2, RFH2[:39] + b"\xff" + RFH2[40:],
         ("MQRFH2 at offset 36: expected NameValueLength from 0 to the 16 bytes left of the "
          "header, found -16777212")),
        (RulesHeader2, RFH2[:36] + b"\x0e" + RFH2[37:],
         ("MQRFH2 at offset 54: expected NameValueLength from 0 to the 0 bytes left of the "
          "header, found 2 bytes")),
        (RulesHeader, RFH2, "MQRFH at offset 4: expected Version 1, found 2"),
    ],
)  # fmt: skip
def test_decoding_another_structure_raises_an_error_with_its_offset(
    kind: Any, data: bytes, text: str
) -> None:
    with pytest.raises(MalformedHeaderError) as caught:
        kind.decode(data, encoding=LITTLE, ccsid=819)

    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("header", "text"),
    [
        (MessageDescriptorExtension(format="MQSTR5678"),
         "MQMDE at offset 20: expected Format of at most 8 bytes, found 9 bytes"),
        (ImsHeader(tran_instance_id=b"x"),
         "MQIIH at offset 64: expected TranInstanceId as 16 bytes, found 1"),
        (TriggerMessage(appl_type=2**31),
         "MQTM at offset 168: expected ApplType as an MQLONG, found 2147483648"),
        (RulesHeader(name_value_string="€"),
         "MQRFH at offset 32: expected NameValueString in characters of CCSID 819, found others"),
        (RulesHeader2(name_value_ccsid=819, folders=("<a/>",)),
         ("MQRFH2 at offset 36: expected NameValueData in characters of NameValueCCSID 819, "
         "found others")),
        (RulesHeader2(name_value_ccsid=1200, folders=(b"", "\ud800")),
         ("MQRFH2 at offset 40: expected NameValueData in characters of NameValueCCSID 1200, "
         "found others")),
        (TransmissionQueueHeader(msg_desc=MessageDescriptor()),
         "MQXQH at offset 104: expected an MQMD of version 1, found version 2"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_its_header_field_is_rejected(header: Any, text: str) -> None:
    with pytest.raises(MalformedHeaderError) as caught:
        header.encode(encoding=LITTLE, ccsid=819)

    assert str(caught.value) == text


@pytest.mark.parametrize("record", SAMPLES)
def test_header_records_have_the_names_of_ibm_in_snake_case(record: Any) -> None:
    names = [field.name for field in record.layout.values() if field.name not in IDENTITY]

    assert [field.name for field in fields(record)] == names
    assert list(asdict(record)) == names


def test_acronyms_are_one_word_in_snake_case() -> None:
    names = {field.ibm_name: field.name for layout in (MQCIH, MQIIH, MQRFH2, MQMD)
             for field in layout.fields}  # fmt: skip

    assert {name: names[name] for name in ("UOWControl", "MFSMapName", "NameValueCCSID")} == {
        "UOWControl": "uow_control",
        "MFSMapName": "mfs_map_name",
        "NameValueCCSID": "name_value_ccsid",
    }
    assert (names["ReplyToQMgr"], names["LTermOverride"]) == ("reply_to_q_mgr", "l_term_override")
