"""The identity of a message stays the same over round trips, and differs between messages."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from mqdlq.errors import MalformedHeaderError
from mqdlq.headers import (
    IDENTITY_PREFIX,
    DeadLetterHeader,
    MessageDescriptor,
    message_identity,
)

PUT: dict[str, Any] = {"put_date": "20261120", "put_time": "10203040", "msg_id": b"M" * 24}
KEPT: dict[str, Any] = {
    "msg_id": b"N" * 24,
    "correl_id": b"C" * 24,
    "user_identifier": "alice",
    "put_appl_type": 28,
    "put_appl_name": "orders",
    "put_date": "20261121",
    "put_time": "10203041",
    "group_id": b"G" * 24,
    "msg_seq_number": 2,
    "offset": 100,
}
CHANGED: dict[str, Any] = {
    "report": 1,
    "msg_type": 1,
    "expiry": 300,
    "feedback": 258,
    "encoding": 785,
    "coded_char_set_id": 1208,
    "format": "MQDEAD",
    "priority": 9,
    "persistence": 1,
    "backout_count": 3,
    "reply_to_q": "REPLIES",
    "msg_flags": 8,
    "original_length": 10,
}


def identity_of(body: bytes = b"data", **fields: Any) -> bytes | None:
    descriptor = MessageDescriptor(**(PUT | fields)).encode()
    return message_identity(descriptor, len(body), body[:IDENTITY_PREFIX])


def dead(body: bytes, *, inner: str = "MQSTR", reason: int = 2053, ccsid: int = 819) -> bytes:
    header = DeadLetterHeader(
        reason, "ORDERS", "QM1", 546, 819, inner, 6, "x", "20261121", "11000000"
    )
    return header.encode(encoding=546, ccsid=ccsid) + body


@pytest.mark.parametrize("field", KEPT)
def test_each_field_that_a_message_keeps_counts(field: str) -> None:
    assert identity_of(**{field: KEPT[field]}) != identity_of()


@pytest.mark.parametrize("field", CHANGED)
def test_no_field_that_may_change_on_the_way_counts(field: str) -> None:
    assert identity_of(**{field: CHANGED[field]}) == identity_of()


def test_a_dead_letter_has_the_identity_of_its_message() -> None:
    bodies = (
        dead(b"data"),
        dead(b"data", reason=2051),
        dead(b"data", ccsid=500),
        dead(dead(b"data"), inner="MQDEAD"),
        dead(dead(dead(b"data"), inner="MQDEAD"), inner="MQDEAD", ccsid=500),
    )

    assert {identity_of(body) for body in bodies} == {identity_of(b"data")}


def test_data_that_look_like_a_header_are_data() -> None:
    is_data = dead(dead(b"data"), inner="MQSTR")

    assert identity_of(is_data) != identity_of(b"data")
    assert identity_of(dead(b"DLH data")) == identity_of(b"DLH data")


def test_the_length_and_the_first_4096_bytes_of_the_data_count() -> None:
    long = b"a" * 5000

    assert identity_of(long) != identity_of(long + b"a")
    assert identity_of(long) != identity_of(b"b" + long[1:])
    assert identity_of(long) == identity_of(long[:4096] + b"b" * 904)


@pytest.mark.parametrize("time", ["", "0", "99999999"])
def test_a_message_that_was_put_without_context_has_no_identity(time: str) -> None:
    assert identity_of(put_time=time) is None


def test_a_message_with_too_many_headers_has_no_identity() -> None:
    body = b"d" * 5000
    for _ in range(23):
        body = dead(body, inner="MQDEAD")
    assert identity_of(body) is not None

    assert identity_of(dead(body, inner="MQDEAD")) is None


def test_a_prefix_that_is_too_short_is_refused() -> None:
    with pytest.raises(MalformedHeaderError) as error:
        message_identity(MessageDescriptor(**PUT).encode(), 9000, bytes(172))

    assert "the first 8192 bytes of the message" in str(error.value)
    with pytest.raises(MalformedHeaderError):
        message_identity(b"", 0, b"")


def test_applications_that_reuse_identifiers_have_messages_of_different_identities() -> None:
    """A corpus of what such applications vary: none of its 1,536 messages is taken for another."""
    msg_ids = (b"fixed".ljust(24), bytes(24), b"AMQ QM1".ljust(24))
    correl_ids = (bytes(24), b"request 1".ljust(24))
    times = ("10203040", "10203041", "10213040", "11203040")
    groups = ((bytes(24), 1, 0), (b"G" * 24, 1, 0), (b"G" * 24, 2, 0), (b"G" * 24, 2, 512))
    applications = (("orders", 6), ("orders", 28), ("payments", 6), ("", 0))
    bodies = (b"", b"heartbeat", b"heartbeat ", b"<order>1</order>")
    seen: dict[bytes, tuple[object, ...]] = {}
    for msg_id, correl_id, time, group, (name, kind), body in product(
        msg_ids, correl_ids, times, groups, applications, bodies
    ):
        identity = identity_of(
            dead(body),
            msg_id=msg_id,
            correl_id=correl_id,
            put_time=time,
            group_id=group[0],
            msg_seq_number=group[1],
            offset=group[2],
            put_appl_name=name,
            put_appl_type=kind,
        )
        assert identity is not None
        assert identity not in seen, f"taken for {seen.get(identity)}"
        seen[identity] = (msg_id, correl_id, time, group, name, body)
    assert len(seen) == 1536
