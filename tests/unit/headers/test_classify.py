from __future__ import annotations

from dataclasses import replace

import pytest

from mqdlq.errors import MalformedHeaderError
from mqdlq.headers import DeadLetterHeader, classify
from mqdlq.model import MessageClass

BIG, LITTLE = 273, 546
LETTER = DeadLetterHeader(
    reason=2085, dest_q_name="ORDERS", put_date="20261121", put_time="09153042"
)


def judged(
    body: bytes, *, encoding: int = LITTLE, ccsid: int = 819, md_format: str = "MQDEAD"
) -> tuple[MessageClass, str, DeadLetterHeader | None]:
    return classify(body[:172], len(body), encoding=encoding, ccsid=ccsid, format=md_format)


def letter_bytes(
    letter: DeadLetterHeader = LETTER, *, encoding: int = LITTLE, ccsid: int = 819
) -> bytes:
    return letter.encode(encoding=encoding, ccsid=ccsid)


@pytest.mark.parametrize("ccsid", [819, 1208, 437, 500, 37, 1047])
@pytest.mark.parametrize("encoding", [BIG, LITTLE, 785])
@pytest.mark.parametrize("payload", [b"", b"body"])
def test_a_message_with_a_valid_mqdlh_is_a_dead_letter(
    encoding: int, ccsid: int, payload: bytes
) -> None:
    body = letter_bytes(encoding=encoding, ccsid=ccsid) + payload

    assert judged(body, encoding=encoding, ccsid=ccsid) == (MessageClass.DEAD_LETTER, "", LETTER)


def test_another_mqmd_format_is_noted_and_does_not_change_the_class() -> None:
    """IBM's handler does not look at MQMD.Format."""
    found = judged(letter_bytes(), md_format="MQSTR")

    assert found == (MessageClass.DEAD_LETTER, "MQMD.Format is 'MQSTR', not MQDEAD", LETTER)


def test_an_invalid_date_is_noted_and_does_not_change_the_class() -> None:
    letter = DeadLetterHeader(put_date="20261321", put_time="09153042")

    assert judged(letter_bytes(letter)) == (
        MessageClass.DEAD_LETTER,
        (
            "MQDLH.PutDate '20261321' and PutTime '09153042' are not a date and time"
            " (YYYYMMDD, HHMMSSTH)"
        ),
        letter,
    )


@pytest.mark.parametrize("ccsid", [0, -1, -2, -3])
@pytest.mark.parametrize("family", [819, 500])
def test_with_an_unknown_ccsid_the_struc_id_decides_the_code_page(ccsid: int, family: int) -> None:
    found = judged(letter_bytes(ccsid=family), ccsid=ccsid)

    assert found == (
        MessageClass.DEAD_LETTER,
        f"MQMD.CodedCharSetId {ccsid} names no code page; the MQDLH was read by its StrucId",
        LETTER,
    )


def test_message_data_in_utf_16_causes_no_remark() -> None:
    letter = replace(LETTER, coded_char_set_id=1200, format="MQSTR")

    assert judged(letter_bytes(letter))[1] == ""


def test_several_remarks_on_a_message_are_joined() -> None:
    letter = DeadLetterHeader(coded_char_set_id=99999)

    assert judged(letter_bytes(letter), md_format="")[1] == (
        "MQMD.Format is '', not MQDEAD; "
        "MQDLH.PutDate '' and PutTime '' are not a date and time (YYYYMMDD, HHMMSSTH); "
        "MQDLH.CodedCharSetId 99999 is not a CCSID known here"
    )


@pytest.mark.parametrize(
    ("body", "md", "cls", "problem"),
    [
        (b"", {"md_format": "MQSTR"}, MessageClass.NO_DLH, "no MQDLH"),
        (b"DLH", {"md_format": "MQSTR"}, MessageClass.NO_DLH, "no MQDLH"),
        (b"hello" * 50, {}, MessageClass.NO_DLH, "no MQDLH, although MQMD.Format is MQDEAD"),
        (b"DLHX" + letter_bytes()[4:], {"md_format": ""}, MessageClass.NO_DLH, "no MQDLH"),
        (letter_bytes()[:171], {}, MessageClass.TRUNCATED_DLH,
         "MQDLH needs 172 bytes, the message has 171"),
        (b"DLH ", {}, MessageClass.TRUNCATED_DLH, "MQDLH needs 172 bytes, the message has 4"),
        (b"DLH \2\0\0\0" + bytes(164), {}, MessageClass.UNSUPPORTED_DLH_VERSION,
         "MQDLH.Version is 2 in MQMD.Encoding 546; only 1 exists"),
        (letter_bytes(), {"encoding": BIG}, MessageClass.UNSUPPORTED_DLH_VERSION,
         ("MQDLH.Version is 16777216 in MQMD.Encoding 273, it would be 1 in the other byte order; "
          "only 1 exists")),
        (letter_bytes(), {"ccsid": 500}, MessageClass.UNDECODABLE,
         "StrucId is ASCII, but MQMD.CodedCharSetId 500 is EBCDIC"),
        (letter_bytes(ccsid=37), {"ccsid": 1208}, MessageClass.UNDECODABLE,
         "StrucId is EBCDIC, but MQMD.CodedCharSetId 1208 is ASCII"),
        (letter_bytes(), {"ccsid": 1200}, MessageClass.UNDECODABLE,
         "MQMD.CodedCharSetId 1200 is not a CCSID known here for headers"),
        (b"\xc4\xd3\xc8\x40", {}, MessageClass.UNDECODABLE,
         "StrucId is EBCDIC, but MQMD.CodedCharSetId 819 is ASCII"),
        (letter_bytes(), {"encoding": 0}, MessageClass.UNDECODABLE,
         "MQMD.Encoding 0 states no byte order for integers"),
    ],
)  # fmt: skip
def test_every_message_without_a_valid_mqdlh_has_a_class_and_a_reason(
    body: bytes, md: dict[str, object], cls: MessageClass, problem: str
) -> None:
    assert judged(body, **md) == (cls, problem, None)  # type: ignore[arg-type]


def test_classifying_a_prefix_that_is_too_short_raises_an_error() -> None:
    with pytest.raises(MalformedHeaderError) as caught:
        classify(letter_bytes()[:100], 500, encoding=LITTLE, ccsid=819, format="MQDEAD")

    assert str(caught.value) == (
        "MQDLH at offset 100: expected the first 172 bytes of the message, found 100"
    )
