from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from mqdlq.errors import MalformedHeaderError
from mqdlq.headers import (
    PREFIX_LENGTH,
    DeadLetterHeader,
    MessageDescriptor,
    RulesHeader2,
    describe_browsed,
    header_row,
    message_key,
    read_rules_headers,
)
from mqdlq.headers.representation import expires_at, parse_gmt

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
DESCRIPTOR = MessageDescriptor(
    format="MQDEAD", coded_char_set_id=819, put_date="20261121", put_time="11223344"
)
LETTER = DeadLetterHeader(
    reason=2053, dest_q_name="PAYMENTS", put_date="20261121", put_time="09153042"
)


def row_of(
    letter: DeadLetterHeader | None = LETTER,
    payload: bytes = b"",
    descriptor: MessageDescriptor = DESCRIPTOR,
    **more: Any,
) -> dict[str, object]:
    header = letter.encode(encoding=546, ccsid=819) if letter else b""
    body = header + payload
    return header_row(
        7, descriptor.encode(), body[:PREFIX_LENGTH], len(body), **{"browsed_at": NOON, **more}
    )


def test_the_row_of_a_dead_letter_has_the_field_names_of_ibm() -> None:
    row = row_of(payload=b"12345")

    assert (row["browse_seq"], row["class"], row["problem"]) == (7, "dead_letter", "")
    assert (row["dlh_reason"], row["dlh_dest_q_name"], row["format"]) == (
        2053,
        "PAYMENTS",
        "MQDEAD",
    )
    assert (row["payload_offset"], row["total_length"], row["maybe_truncated"]) == (172, 177, False)


def test_times_of_a_row_are_utc_with_hundredths_of_a_second() -> None:
    row = row_of(descriptor=replace(DESCRIPTOR, expiry=600))

    assert row["put_at"] == datetime(2026, 11, 21, 11, 22, 33, 440_000, tzinfo=UTC)
    assert row["dead_lettered_at"] == datetime(2026, 11, 21, 9, 15, 30, 420_000, tzinfo=UTC)
    assert row["expires_at"] == datetime(2026, 11, 21, 12, 1, tzinfo=UTC)


def test_the_rules_headers_of_a_browsed_message_are_read_in_order() -> None:
    rules = RulesHeader2(format="MQSTR", name_value_ccsid=1208, folders=("<usr><a>1</a></usr> ",))
    letter = replace(LETTER, format="MQHRF2", encoding=546, coded_char_set_id=819)
    body = letter.encode(encoding=546, ccsid=819) + rules.encode(encoding=546, ccsid=819)

    found = read_rules_headers(DESCRIPTOR.encode(), body, len(body))

    assert found is not None
    assert [one.find_property(("usr", "a")) for one in found] == ["1"]


def test_the_headers_of_a_message_of_which_too_little_was_browsed_are_unknown() -> None:
    assert describe_browsed(DESCRIPTOR.encode(), b"DLH ", 500) is None
    assert read_rules_headers(DESCRIPTOR.encode(), b"DLH ", 500) is None


def test_the_dlh_columns_of_a_message_without_an_mqdlh_are_null() -> None:
    row = row_of(None, b"some body")

    dlh_columns = {name: value for name, value in row.items() if name.startswith("dlh_")}
    assert set(dlh_columns.values()) == {None}
    assert len(dlh_columns) == 10
    assert (row["class"], row["payload_offset"], row["dead_lettered_at"]) == ("no_dlh", 0, None)
    assert row["header_chain"] == []


def test_the_header_chain_of_a_row_names_the_headers_after_the_mqdlh() -> None:
    folders = RulesHeader2(546, 1208, "MQSTR", folders=("<usr/>  ",)).encode(
        encoding=546, ccsid=819
    )
    row = row_of(replace(LETTER, format="MQHRF2", encoding=546), folders + b"text")

    assert (row["header_chain"], row["payload_offset"]) == (["MQDLH", "MQRFH2"], 172 + 48)
    assert (row["class"], row["problem"]) == ("dead_letter", "")


def test_a_format_padded_with_nuls_names_the_next_header() -> None:
    header = RulesHeader2(546, 1208, "MQSTR").encode(encoding=546, ccsid=819)
    row = row_of(replace(LETTER, format="MQHRF2\0\0", encoding=546), header + b"text")

    assert row["header_chain"] == ["MQDLH", "MQRFH2"]


def test_a_missing_header_is_noted_and_is_not_in_the_header_chain() -> None:
    row = row_of(replace(LETTER, format="MQHRF2", encoding=546), b"text")

    assert (row["header_chain"], row["payload_offset"]) == (["MQDLH"], 172)
    assert (row["class"], row["problem"]) == (
        "dead_letter",
        "MQRFH2 at offset 172: expected 36 bytes, found 4; from offset 172 on all is payload",
    )


@pytest.mark.parametrize(
    ("msg_flags", "problem"),
    [
        (0, ""),
        (1, ""),
        (2, "a segment of a logical message"),
        (6, "a segment of a logical message"),
        (24, "a message of a group"),
        (10, "a segment of a logical message; a message of a group"),
    ],
)
def test_segments_and_messages_of_a_group_have_a_problem(msg_flags: int, problem: str) -> None:
    assert row_of(descriptor=replace(DESCRIPTOR, msg_flags=msg_flags))["problem"] == problem


def test_ams_protection_after_the_mqdlh_is_in_the_row() -> None:
    assert row_of(payload=b"PDMQ....")["ams_protected"] is True
    assert row_of(payload=b"plain...")["ams_protected"] is False


def test_undecodable_bytes_are_replacement_characters_in_the_row() -> None:
    descriptor = bytearray(DESCRIPTOR.encode())
    descriptor[276:278] = b"\xff\xfe"

    row = header_row(1, bytes(descriptor), b"", 0, browsed_at=NOON)

    assert row["put_appl_name"] == "\ufffd\ufffd"


def test_a_possibly_truncated_message_is_marked() -> None:
    assert row_of(maybe_truncated=True)["maybe_truncated"] is True


@pytest.mark.parametrize(
    ("date", "time"),
    [
        ("", ""),
        ("20261121", ""),
        ("20260230", "09153042"),
        ("20261121", "24000000"),
        ("2026112\N{ARABIC-INDIC DIGIT ONE}", "09153042"),
        ("00000101", "00000000"),
        ("\0" * 8, "\0" * 8),
    ],
)
def test_an_invalid_date_or_time_is_null_in_the_row(date: str, time: str) -> None:
    assert parse_gmt(date, time) is None


def test_a_message_without_expiry_never_expires() -> None:
    assert expires_at(-1, NOON) is None


def test_a_message_that_expires_after_the_year_9999_expires_at_its_end() -> None:
    last = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)

    assert expires_at(2**31 - 1, last) == datetime.max.replace(tzinfo=UTC)


def test_expiry_and_backout_count_do_not_change_the_message_key() -> None:
    waited = replace(DESCRIPTOR, expiry=10, backout_count=3)

    assert row_of(descriptor=waited)["message_key"] == row_of()["message_key"]


@pytest.mark.parametrize(
    "other",
    [
        {"descriptor": replace(DESCRIPTOR, msg_id=b"\1" * 24)},
        {"descriptor": replace(DESCRIPTOR, format="MQSTR")},
        {"letter": replace(LETTER, reason=2085)},
        {"payload": b"x"},
    ],
)
def test_any_other_difference_changes_the_message_key(other: dict[str, Any]) -> None:
    assert row_of(**other)["message_key"] != row_of()["message_key"]


def test_the_message_key_of_a_recorded_message_is_stable() -> None:
    """The key is stored in ledgers: another one would lose a message's history."""
    key = message_key(DESCRIPTOR.encode(), 5, b"hello")

    assert key.hex() == ("6ac243ed4df5d646554005af080639f176d95c185b15e0f80a5a3aad6488d642")


@pytest.mark.parametrize(
    ("descriptor", "length", "prefix", "text"),
    [
        (bytes(324), 0, b"", "MQMD at offset 0: expected 364 bytes, found 324"),
        (bytes(364), 9, b"12345678",
         "MQDLH at offset 8: expected the first 9 bytes of the message, found 8"),
    ],
)  # fmt: skip
def test_a_message_key_requires_the_whole_mqmd_and_prefix(
    descriptor: bytes, length: int, prefix: bytes, text: str
) -> None:
    with pytest.raises(MalformedHeaderError) as caught:
        message_key(descriptor, length, prefix)

    assert str(caught.value) == text
