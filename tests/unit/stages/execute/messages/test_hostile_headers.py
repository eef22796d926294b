"""Test that dead letters with hostile headers after a valid MQDLH are handled like others."""

from __future__ import annotations

from typing import Any

import pytest

from embedded_mq.engine.messages.delivery import locate_rfh2_headers
from embedded_mq.headers import rfh2
from embedded_mq.structures import MQMD
from mqdlq import lake
from mqdlq.headers import DeadLetterHeader
from mqdlq.mqi.browse import BrowseCursor, browse_with_properties
from tests.support.restorations import restore_and_count
from tests.support.wire.hostile_messages import (
    ABSURD_LENGTHS,
    GROWING,
    Hostile,
    stated,
    stated_of_folder,
)
from tests.support.world import World

pytestmark = pytest.mark.slow

PARTS = 3_000
MESSAGES: dict[str, Hostile] = {
    **{name: build(PARTS) for name, (build, _) in GROWING.items()},
    **{f"StrucLength {length}": stated(length) for length in ABSURD_LENGTHS},
    **{f"NameValueLength {length}": stated_of_folder(length) for length in ABSURD_LENGTHS},
}
LETTER = DeadLetterHeader(
    2053, "PAYMENTS", "QM1", put_appl_name="mover", put_date="20261121", put_time="11000000"
)


@pytest.fixture(name="hostile")
def _hostile(world: World) -> World:
    """Put each hostile message on the dead-letter queue."""
    for message in MESSAGES.values():
        world.put(
            "DLQ", message.behind(LETTER), Format=b"MQDEAD  ", Encoding=546, CodedCharSetId=819
        )
    return world


def messages_with_properties(world: World, queue: str) -> list[tuple[bytes, bytes]]:
    """Return (packed MQMD, all bytes with the message properties) of every message."""
    with world.connect() as queue_manager, queue_manager.browsing(queue) as opened:
        cursor = BrowseCursor(queue_manager, opened, queue)
        return [
            browse_with_properties(cursor, message.total_length) for message in cursor.messages()
        ]


def parts(message: tuple[bytes, bytes]) -> tuple[MQMD, bytes, list[Any]]:
    """Return a message's MQMD, its bytes without properties, and its properties."""
    md, body = MQMD.unpack(message[0]), message[1]
    around = locate_rfh2_headers(md, body)
    return md, around.rebuild(md, body, []), around.properties()


def test_a_message_with_hostile_headers_is_forwarded_unchanged(hostile: World) -> None:
    before = messages_with_properties(hostile, "DLQ")

    outcomes = hostile.handle("ACTION(FWD) FWDQ(PARKED) HEADER(YES)")

    assert set(outcomes.values()) == {"forwarded"}
    assert hostile.depths("DLQ", "PARKED") == (0, len(MESSAGES))
    after = messages_with_properties(hostile, "PARKED")
    for name, old, new in zip(MESSAGES, before, after, strict=True):
        assert parts(new) == parts(old), name
        if not parts(old)[2]:
            assert new == old, name


def test_a_message_with_hostile_headers_is_delivered(hostile: World) -> None:
    outcomes = hostile.handle("ACTION(RETRY)")

    assert set(outcomes.values()) == {"delivered"}
    found = {body for _, body in messages_with_properties(hostile, "PAYMENTS")}
    opaque = {name for name, message in MESSAGES.items() if message.body in found}
    assert {name for name in MESSAGES if " " in name} <= opaque
    assert {"chain_of_dlhs", "chain_of_rfhs", "folders_of_data", "unclosed"} <= opaque


def test_a_message_with_hostile_headers_is_discarded_and_restored_byte_for_byte(
    hostile: World,
) -> None:
    before = messages_with_properties(hostile, "DLQ")
    assert set(hostile.handle("ACTION(DISCARD)").values()) == {"discarded"}

    assert restore_and_count(hostile) == {"restored": len(MESSAGES)}

    assert messages_with_properties(hostile, "DLQ") == before


def test_the_snapshot_names_the_limit_that_headers_exceed(hostile: World) -> None:
    run = hostile.start("ACTION(IGNORE)")
    hostile.snapshot(run)
    snapshot = hostile.ledger.snapshots.of_run(run.run_id)
    assert snapshot is not None

    rows = dict(zip(MESSAGES, lake.snapshot_rows(snapshot.location), strict=True))

    assert {row["class"] for row in rows.values()} == {"dead_letter"}
    assert max(len(row["header_chain"]) for row in rows.values()) == 17
    problems = {name: row["problem"] for name, row in rows.items()}
    assert problems["chain_of_dlhs"] == (
        "MQDLH at offset 688: only the first 708 bytes of the message were looked at"
    )
    assert problems["StrucLength 35"] == (
        "MQRFH2 at offset 180: expected StrucLength from 36 to the 59 bytes there are, found 35;"
        " from offset 172 on all is payload"
    )
    assert problems["nested"] == ""


def test_the_queue_manager_removes_properties_before_headers_are_read(hostile: World) -> None:
    """Therefore 3,000 MQRFH2s with properties leave one header, and a nested folder stays."""
    with hostile.connect() as queue_manager, queue_manager.browsing("DLQ") as opened:
        seen = list(BrowseCursor(queue_manager, opened, "DLQ").messages())

    lengths = {name: one.total_length - 172 for name, one in zip(MESSAGES, seen, strict=True)}
    assert lengths["chain_of_rfh2s"] == lengths["properties"] == len(b"data of the application")
    assert lengths["nested"] == len(MESSAGES["nested"].body)
    assert rfh2.MQFMT_RF_HEADER_2 in seen[list(MESSAGES).index("nested")].prefix
