"""Limits for hostile headers, which `problem` names."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from mqdlq.errors import MalformedHeaderError
from mqdlq.headers import (
    PREFIX_LENGTH,
    DeadLetterHeader,
    Description,
    MessageDescriptor,
    RulesHeader2,
    describe,
    header_row,
)
from mqdlq.headers.chain import HEADERS_READ
from mqdlq.headers.records import FOLDERS_READ
from mqdlq.model import MessageClass
from tests.support.instruction_counts import count_instructions
from tests.support.wire.hostile_messages import (
    GROWING,
    NATIVE,
    Hostile,
    chain_of_dlhs,
    chain_of_rfhs,
    folders,
    hostile_messages,
    long_property,
)

LETTER = DeadLetterHeader(2053, "PAYMENTS", "QM1", put_date="20261121", put_time="09153042")
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
MD = MessageDescriptor(format="MQDEAD", encoding=546, coded_char_set_id=819)
MESSAGES = {name: hostile.behind(LETTER) for name, hostile in hostile_messages().items()}


def read(body: bytes) -> Description:
    return describe(body, len(body), encoding=546, ccsid=819, format="MQDEAD")


def described(hostile: Hostile) -> Description:
    return read(hostile.behind(LETTER))


@pytest.mark.parametrize(
    ("hostile", "headers", "offset", "problem"),
    [
        (chain_of_dlhs(99), 100, 172 * 100, "MQDLH at offset 17200: expected 172 bytes, found 23"),
        (
            chain_of_dlhs(100),
            101,
            172 * 101,
            "MQDLH at offset 17372: 100 headers were read, which is the limit",
        ),
        (
            chain_of_dlhs(1_000),
            101,
            172 * 101,
            "MQDLH at offset 17372: 100 headers were read, which is the limit",
        ),
        (
            chain_of_rfhs(1_000),
            101,
            172 + 3200,
            "MQRFH at offset 3372: 100 headers were read, which is the limit",
        ),
    ],
)
def test_a_header_chain_is_decoded_up_to_the_limit_and_the_rest_is_payload(
    hostile: Hostile, headers: int, offset: int, problem: str
) -> None:
    found = described(hostile)

    assert found.problem == f"{problem}; from offset {offset} on all is payload"
    assert (found.cls, len(found.headers), found.payload_offset) == (
        MessageClass.DEAD_LETTER,
        headers,
        offset,
    )


@pytest.mark.parametrize(
    ("hostile", "problem"),
    [
        (
            folders(1_001),
            "MQRFH2 at offset 172: its folders are not read, there are more than the limit of 1000",
        ),
        (
            long_property(2_000_000),
            (
                "MQRFH2 at offset 172: its 2000024 bytes of name/value data, more than the limit of"
                " 1048576, are not read"
            ),
        ),
    ],
)
def test_an_mqrfh2_beyond_a_limit_keeps_its_position_in_the_header_chain(
    hostile: Hostile, problem: str
) -> None:
    found = described(hostile)

    assert (found.cls, found.problem) == (MessageClass.DEAD_LETTER, problem)
    assert [header.structure for header in found.headers] == ["MQDLH", "MQRFH2"]
    assert found.headers[1].record == RulesHeader2(**_data_follows())
    assert hostile.behind(LETTER)[found.payload_offset :] == b"data of the application"


def _data_follows() -> dict[str, Any]:
    return {"encoding": 546, "coded_char_set_id": 1208, "format": "MQSTR"}


def test_an_mqrfh2_within_the_limits_is_decoded_completely() -> None:
    many, long = described(folders(FOLDERS_READ)), described(long_property(1_000_000))

    assert (many.problem, long.problem) == ("", "")
    assert len(many.headers[1].record.folders) == FOLDERS_READ  # type: ignore[union-attr]
    assert len(long.headers[1].record.folders[0]) == 1_000_020  # type: ignore[union-attr]


def test_the_codec_rejects_more_folders_than_the_limit() -> None:
    header = RulesHeader2(folders=("",) * (FOLDERS_READ + 1))
    data = header.encode(**NATIVE)

    with pytest.raises(MalformedHeaderError) as caught:
        RulesHeader2.decode(data, **NATIVE)

    assert str(caught.value) == (
        "MQRFH2 at offset 4036: expected at most 1000 folders, found more than the limit of 1000"
    )
    most = replace(header, folders=header.folders[1:])
    assert RulesHeader2.decode(most.encode(**NATIVE), **NATIVE) == most


@pytest.mark.parametrize("name", MESSAGES)
def test_no_hostile_header_changes_the_class_of_its_message(name: str) -> None:
    body = MESSAGES[name]

    found = read(body)
    row = header_row(1, MD.encode(), body, len(body), browsed_at=NOON)

    assert found.cls is MessageClass.DEAD_LETTER
    assert (row["class"], row["dlh_dest_q_name"]) == ("dead_letter", "PAYMENTS")
    assert len(found.headers) == len(row["header_chain"]) <= HEADERS_READ + 2  # type: ignore[arg-type]
    assert len(found.problem) < 200
    ends = [header.offset + header.length for header in found.headers]
    assert ends[-1] == found.payload_offset == row["payload_offset"]


@pytest.mark.parametrize("name", MESSAGES)
def test_the_snapshot_row_of_a_hostile_message_is_limited(name: str) -> None:
    body = MESSAGES[name]

    row = header_row(1, MD.encode(), body[:PREFIX_LENGTH], len(body), browsed_at=NOON)

    assert row["class"] == "dead_letter"
    assert len(row["header_chain"]) <= 1 + (PREFIX_LENGTH - 172) // 32  # type: ignore[arg-type]
    assert len(str(row["problem"])) < 200


def test_the_longest_chain_that_a_snapshot_can_see_has_23_headers() -> None:
    """Shortest headers from the first byte on, and an AMS header in the last four bytes."""
    header = chain_of_rfhs(1).body[:32]
    last = header[:20] + b"MQSTR   " + header[28:]
    body = header * 21 + last + b"PDMQ" + bytes(1_000)
    md = MessageDescriptor(format="MQHRF", encoding=546, coded_char_set_id=1208).encode()

    row = header_row(1, md, body[:PREFIX_LENGTH], len(body), browsed_at=NOON)

    assert row["header_chain"] == ["MQRFH"] * 22 + ["PDMQ"]


@pytest.mark.parametrize("name", GROWING)
def test_decoding_takes_no_more_steps_for_a_message_beyond_the_limits(name: str) -> None:
    build = GROWING[name][0]
    within, beyond = (build(count).behind(LETTER) for count in (4_000, 8_000))

    assert count_instructions(lambda: read(beyond)) <= 1.1 * count_instructions(
        lambda: read(within)
    )
