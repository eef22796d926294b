from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mqdlq.headers import (
    DeadLetterHeader,
    Description,
    MessageDescriptorExtension,
    RulesHeader2,
    describe,
)
from mqdlq.headers.records import (
    CicsHeader,
    ImsHeader,
    MessageDescriptor1,
    TransmissionQueueHeader,
    TriggerMessage,
)
from mqdlq.model import MessageClass

BIG, LITTLE = 273, 546
LETTER = DeadLetterHeader(
    reason=2053, dest_q_name="PAYMENTS", put_date="20261121", put_time="09153042"
)
PAYLOAD = b"the payload"


def described(
    body: bytes, md_format: str = "MQDEAD", seen: int | None = None, **more: int
) -> Description:
    how = {"encoding": LITTLE, "ccsid": 819, **more}
    return describe(body[:seen], len(body), format=md_format, **how)


def letter(md_format: str, *, encoding: int = LITTLE, ccsid: int = 819) -> bytes:
    """Make an MQDLH in little-endian ASCII that announces what follows it."""
    header = replace(LETTER, format=md_format, encoding=encoding, coded_char_set_id=ccsid)
    return header.encode(encoding=LITTLE, ccsid=819)


def chain(found: Description) -> list[tuple[str, int, int]]:
    return [(header.structure, header.offset, header.length) for header in found.headers]


def test_each_header_is_decoded_as_the_previous_header_specifies() -> None:
    """An MQDLH in little-endian ASCII, an MQXQH in big-endian EBCDIC, an MQMDE, an MQRFH2."""
    md = MessageDescriptor1(format="MQHMDE", encoding=LITTLE, coded_char_set_id=1208)
    carried = TransmissionQueueHeader("Q", "QM2", md).encode(encoding=BIG, ccsid=1047)
    extension = MessageDescriptorExtension(BIG, 37, "MQHRF2", group_id=b"g" * 24)
    folders = RulesHeader2(LITTLE, 1208, "MQSTR", folders=("<usr/>  ",))
    body = (
        letter("MQXMIT", encoding=BIG, ccsid=1047)
        + carried
        + extension.encode(encoding=LITTLE, ccsid=1208)
        + folders.encode(encoding=BIG, ccsid=37)
        + PAYLOAD
    )

    found = described(body)

    assert (found.cls, found.problem) == (MessageClass.DEAD_LETTER, "")
    assert chain(found) == [
        ("MQDLH", 0, 172),
        ("MQXQH", 172, 428),
        ("MQMDE", 600, 72),
        ("MQRFH2", 672, 48),
    ]
    assert [(header.encoding, header.ccsid) for header in found.headers] == [
        (LITTLE, 819),
        (BIG, 1047),
        (LITTLE, 1208),
        (BIG, 37),
    ]
    assert [header.record for header in found.headers[2:]] == [extension, folders]
    assert body[found.payload_offset :] == PAYLOAD


@pytest.mark.parametrize(("md_format", "record"), [("MQCICS", CicsHeader), ("MQIMS", ImsHeader)])
def test_data_after_a_bridge_header_has_the_representation_of_that_header(
    md_format: str, record: Any
) -> None:
    """Encoding and CodedCharSetId of an MQCIH or MQIIH are reserved."""
    bridge = record(encoding=99, coded_char_set_id=99, format="MQDEAD")
    header = bridge.encode(encoding=BIG, ccsid=37)
    nested = LETTER.encode(encoding=BIG, ccsid=37)
    body = letter(md_format, encoding=BIG, ccsid=37) + header + nested + PAYLOAD

    found = described(body)

    assert (found.problem, found.headers[-1].record) == ("", LETTER)
    assert body[found.payload_offset :] == PAYLOAD


def test_ccsi_inherit_takes_the_ccsid_of_the_previous_header() -> None:
    folders = RulesHeader2(format="MQSTR").encode(encoding=LITTLE, ccsid=819)

    found = described(letter("MQHRF2", ccsid=-2) + folders)

    assert (found.problem, found.headers[-1].ccsid) == ("", 819)


@pytest.mark.parametrize("ccsid", [0, -1, -3])
@pytest.mark.parametrize("written", [819, 1047])
def test_without_a_named_code_page_the_struc_id_shows_ascii_or_ebcdic(
    ccsid: int, written: int
) -> None:
    message = TriggerMessage("PAYMENTS").encode(encoding=LITTLE, ccsid=written)

    found = described(letter("MQTRIG", ccsid=ccsid) + message)

    assert found.headers[-1].record == TriggerMessage("PAYMENTS")


@pytest.mark.parametrize("struc_id", [b"PDMQ", b"\xd7\xc4\xd4\xd8"])
def test_ams_protected_data_is_recognised_and_not_decoded(struc_id: bytes) -> None:
    found = described(letter("MQSTR") + struc_id + bytes(100))

    assert (found.ams_protected, found.payload_offset) == (True, 172)
    assert chain(found) == [("MQDLH", 0, 172), ("PDMQ", 172, 0)]


def test_after_a_known_format_the_letters_of_an_ams_header_are_message_data() -> None:
    found = described(letter("MQHRF2") + b"PDMQ")

    assert not found.ams_protected


def test_an_invalid_header_after_the_mqdlh_is_payload_and_does_not_change_the_class() -> None:
    folders = RulesHeader2(LITTLE, 819, "MQHMDE").encode(encoding=LITTLE, ccsid=819)
    body = letter("MQHRF2") + folders + b"MDE \2\0\0\0"

    found = described(body)

    assert (found.cls, found.dlh) == (
        MessageClass.DEAD_LETTER,
        replace(LETTER, format="MQHRF2", encoding=LITTLE, coded_char_set_id=819),
    )
    assert (found.payload_offset, found.problem) == (
        208,
        "MQMDE at offset 208: expected 72 bytes, found 8; from offset 208 on all is payload",
    )


@pytest.mark.parametrize(
    ("encoding", "ccsid", "problem"),
    [
        (0, 819, ("MQRFH2 at offset 176: expected an Encoding with an integer order "
                  "(MQENC_INTEGER_NORMAL or _REVERSED), found Encoding 0")),
        (LITTLE, 1200,
         "MQRFH2 at offset 172: expected a CCSID this project reads, found CCSID 1200"),
        (BIG, 819, "MQRFH2 at offset 176: expected Version 2, found 33554432"),
        (LITTLE, 37, "MQRFH2 at offset 172: expected StrucId 'RFH ' in EBCDIC, found other bytes"),
    ],
)  # fmt: skip
def test_an_mqdlh_with_wrong_encoding_or_ccsid_of_the_next_header_is_noted(
    encoding: int, ccsid: int, problem: str
) -> None:
    folders = RulesHeader2().encode(encoding=LITTLE, ccsid=819)

    found = described(letter("MQHRF2", encoding=encoding, ccsid=ccsid) + folders)

    assert found.cls is MessageClass.DEAD_LETTER
    assert found.problem == f"{problem}; from offset 172 on all is payload"


def test_the_length_of_mqrfh2_folders_beyond_the_read_bytes_is_trusted() -> None:
    folders = RulesHeader2(LITTLE, 1208, "MQSTR", folders=("<usr/>  ",))
    body = letter("MQHRF2") + folders.encode(encoding=LITTLE, ccsid=819) + PAYLOAD

    found = described(body, seen=208)

    assert (found.problem, found.payload_offset) == ("", 220)
    assert found.headers[-1].record == replace(folders, folders=())


@pytest.mark.parametrize(
    ("seen", "chained"), [(180, ["MQDLH"]), (208, ["MQDLH", "MQRFH2"]), (500, None)]
)
def test_the_header_chain_is_followed_as_far_as_bytes_were_read(
    seen: int, chained: list[str] | None
) -> None:
    folders = RulesHeader2(LITTLE, 819, "MQXMIT", folders=("<usr/>  ",))
    body = (
        letter("MQHRF2")
        + folders.encode(encoding=LITTLE, ccsid=819)
        + TransmissionQueueHeader().encode(encoding=LITTLE, ccsid=819)
    )

    found = described(body, seen=seen)

    following = {180: "MQRFH2 at offset 172", 208: "MQXQH at offset 220"}.get(
        seen, "MQXQH at offset 220"
    )
    assert [header.structure for header in found.headers] == (chained or ["MQDLH", "MQRFH2"])
    assert found.problem == (
        f"{following}: only the first {seen} bytes of the message were looked at"
    )


def test_a_message_without_an_mqdlh_has_a_header_chain_too() -> None:
    md = MessageDescriptor1(format="MQSTR")
    body = TransmissionQueueHeader("Q", "QM2", md).encode(encoding=LITTLE, ccsid=819)

    found = described(body + PAYLOAD, "MQXMIT")

    assert (found.cls, found.problem) == (MessageClass.NO_DLH, "no MQDLH")
    assert (chain(found), found.payload_offset) == ([("MQXQH", 0, 428)], 428)


def test_flags_of_an_mqmde_count_like_those_of_the_mqmd() -> None:
    extension = MessageDescriptorExtension(LITTLE, 819, "MQSTR", msg_flags=2)
    body = letter("MQHMDE") + extension.encode(encoding=LITTLE, ccsid=819)

    assert described(body).problem == "a segment of a logical message"
