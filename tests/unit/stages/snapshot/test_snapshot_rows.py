"""Test that rows made in batches equal the rows of `header_row`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqdlq.headers import DeadLetterHeader, MessageDescriptor, header_row, message_key
from mqdlq.lake.schema import HEADERS
from mqdlq.mqi.browse import BrowsedMessage
from mqdlq.stages.snapshot.rows import Highlighter, NumberedMessage, RowBuilder

NOON = datetime(2026, 11, 21, 12, 0, 0, 123456, tzinfo=UTC)
RULES = {"PAYMENTS": (3, "PAYMENTS.BACKOUT"), "ORDERS": (0, "DLQ")}
TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12)
ODD_TEXT = st.one_of(TEXT, st.sampled_from(["A\0B", "\0", " lead", "PAYMENTS", "ORDERS", "é"]))
DATES = st.sampled_from(["20261121", "20240229", "20230229", "", "00000101", "2026112", "x0261121"])
TIMES = st.sampled_from(["11000099", "23595999", "24000000", "12600000", "", "1200 000"])
LONG = st.integers(-(2**31), 2**31 - 1)


def builder(ccsid: int = 1208) -> RowBuilder:
    return RowBuilder(max_length=300, ccsid=ccsid)


def sighted(number: int, md: bytes, body: bytes) -> NumberedMessage:
    return NumberedMessage(
        number, message_key(md, len(body), body), BrowsedMessage(md, body, len(body))
    )


def one_by_one(messages: list[NumberedMessage], ccsid: int = 1208) -> list[dict[str, Any]]:
    rows = []
    for message in messages:
        browsed = message.browsed
        row: dict[str, Any] = header_row(
            message.browse_seq,
            browsed.descriptor,
            browsed.prefix,
            browsed.total_length,
            browsed_at=NOON,
            maybe_truncated=browsed.total_length >= 300,
            ccsid=ccsid,
        )
        rows.append(row)
    read: list[dict[str, Any]] = pa.RecordBatch.from_pylist(rows, schema=HEADERS).to_pylist()
    return read


@st.composite
def messages(draw: st.DrawFn) -> NumberedMessage:
    encoding = draw(st.sampled_from([546, 273, 785, 0]))
    ccsid = draw(st.sampled_from([819, 1208, 437, 500, 0, -2, 1200, 943]))
    md = MessageDescriptor(
        encoding=encoding,
        coded_char_set_id=ccsid,
        format=draw(st.sampled_from(["MQDEAD", "MQSTR", "", "MQHRF2"])),
        expiry=draw(st.sampled_from([-1, 0, 600, 601, 2**31 - 1])),
        backout_count=draw(st.integers(0, 4)),
        put_date=draw(DATES),
        put_time=draw(TIMES),
        reply_to_q=draw(ODD_TEXT),
        put_appl_name=draw(ODD_TEXT),
        msg_id=draw(st.binary(min_size=24, max_size=24)),
        msg_flags=draw(st.sampled_from([0, 0, 2, 8])),
        feedback=draw(LONG),
    )
    dlh = DeadLetterHeader(
        reason=draw(st.sampled_from([2053, 2362, 0, -1])),
        dest_q_name=draw(ODD_TEXT),
        dest_q_mgr_name=draw(st.sampled_from(["QM1", "", "QM2"])),
        encoding=draw(st.sampled_from([546, 273])),
        coded_char_set_id=draw(st.sampled_from([819, 1208, 0, 12345, 500])),
        format=draw(st.sampled_from(["MQSTR", "", "MQHRF2", "MQDEAD", "OWN"])),
        put_appl_name=draw(ODD_TEXT),
        put_date=draw(DATES),
        put_time=draw(TIMES),
    )
    readable = encoding or 546
    try:
        body = dlh.encode(encoding=readable, ccsid=ccsid if ccsid != 1200 else 819)
    except ValueError:  # a character this CCSID lacks
        body = DeadLetterHeader().encode(encoding=readable, ccsid=819)
    body += draw(
        st.sampled_from([b"", b"x", b"data", b"PDMQ....", b"\xd7\xc4\xd4\xd8", b"y" * 200])
    )
    place = draw(st.integers(0, len(body)))
    if draw(st.booleans()):
        changed = bytearray(body)
        changed[place : place + 1] = draw(st.binary(min_size=1, max_size=1))
        body = bytes(changed)
    if draw(st.integers(0, 4)) == 0:
        body = body[:place]
    return sighted(draw(st.integers(1, 10**6)), md.encode(), body)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(messages(), max_size=8))
def test_rows_parsed_together_equal_rows_parsed_one_by_one(found: list[NumberedMessage]) -> None:
    in_order = sorted(
        {message.browse_seq: message for message in found}.values(), key=lambda m: m.browse_seq
    )

    assert builder().rows(in_order, NOON).to_pylist() == one_by_one(in_order)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 363), st.integers(0, 255)), max_size=3))
def test_descriptors_of_any_bytes_parse_equally_in_both_ways(
    changes: list[tuple[int, int]],
) -> None:
    body = DeadLetterHeader(
        2053, "PAYMENTS", "QM1", 546, 819, "MQSTR", 6, "m", "20261121", "11000000"
    ).encode(
        encoding=546,
        ccsid=819,
    )
    md = bytearray(MessageDescriptor(format="MQDEAD", coded_char_set_id=819).encode())
    for at, byte in changes:
        if at >= 8:  # StrucId and Version are the queue manager's
            md[at] = byte
    message = sighted(1, bytes(md), body + b"rest")

    assert builder().rows([message], NOON).to_pylist() == one_by_one([message])


def test_a_plain_dead_letter_is_parsed_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    body = DeadLetterHeader(
        2053, "PAYMENTS", "QM1", 546, 819, "MQSTR", 6, "m", "20261121", "11000000"
    ).encode(
        encoding=546,
        ccsid=819,
    )
    md = MessageDescriptor(format="MQDEAD", coded_char_set_id=819, backout_count=3).encode()
    made = builder()
    monkeypatch.setattr(made, "_build_row", None)

    rows = made.rows([sighted(1, md, body + b"rest")], NOON)
    (row,) = Highlighter("QM1", "DLQ", 60, RULES.get).add_to(rows).to_pylist()

    assert (row["class"], row["dlh_dest_q_name"]) == ("dead_letter", "PAYMENTS")
    assert (row["came_from_backout"], row["dest_backout_threshold"]) == (True, 3)


def test_a_connection_in_ebcdic_is_read_message_by_message() -> None:
    md = MessageDescriptor(format="MQDEAD", reply_to_q="R").encode(ccsid=500)
    message = sighted(1, md, b"body")

    assert builder(500).rows([message], NOON).to_pylist() == one_by_one([message], 500)
