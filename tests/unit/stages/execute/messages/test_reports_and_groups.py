"""Test dead letters that request reports, or belong to a group or a segmented message."""

from __future__ import annotations

from typing import Any

import pytest

from mqdlq.headers import DLH_LENGTH
from tests.support.restorations import discard, restore_and_count
from tests.support.world import World

pytestmark = pytest.mark.slow

COA, COD = 0x100, 0x800
GROUP = b"g" * 24
SEGMENT = {"GroupId": GROUP, "MsgSeqNumber": 3, "Offset": 6, "MsgFlags": 8 | 4}
IN_GROUP = {"GroupId": GROUP, "MsgSeqNumber": 3, "MsgFlags": 8}
AS_KEPT: dict[str, tuple[dict[str, Any], tuple[Any, ...]]] = {
    "segment": (SEGMENT, (GROUP, 3, 6, 8 | 4 | 2, 4)),
    "in a group": (IN_GROUP, (GROUP, 3, 0, 8, -1)),
}
DEFAULTS = (bytes(24), 1, 0, 0, -1)


def kept(md: Any) -> tuple[Any, ...]:
    return md.GroupId, md.MsgSeqNumber, md.Offset, md.MsgFlags, md.OriginalLength


@pytest.mark.parametrize(
    ("report", "fields"), [(COA, {}), (COD, {"Format": b"        "})], ids=["COA", "COD"]
)
def test_report_messages_fit_into_the_unit_of_work_that_causes_them(
    world: World, report: int, fields: dict[str, Any]
) -> None:
    """MAXUMSGS counts messages that a get or put causes: three for each dead letter.

    A COD is made only for a dead letter whose Format is not MQDEAD.
    """
    world.mqsc("ALTER QMGR MAXUMSGS(11)\nDEFINE QLOCAL(REPLIES)")
    for number in range(9):
        world.dead_letter(b"%d" % number, Report=report, ReplyToQ=b"REPLIES", **fields)

    outcomes = world.handle("ACTION(RETRY)")

    assert set(outcomes.values()) == {"delivered"}
    assert {attempt.state for attempt in world.ledger.attempts.of_run("run-1")} == {"confirmed"}
    feedback = {COA: 259, COD: 260}[report]
    assert [md.Feedback for md, _ in world.messages("REPLIES")] == [feedback] * 9


def test_a_report_message_dead_lettered_during_a_run_belongs_to_the_next_run(world: World) -> None:
    world.dead_letter(Report=COA, ReplyToQ=b"NOWHERE")

    assert world.handle("ACTION(RETRY)") == {1: "delivered"}
    ((md, _),) = world.messages("DLQ")
    assert (md.MsgType, md.Feedback) == (4, 259)

    rules = "REASON(MQRC_UNKNOWN_OBJECT_NAME) FEEDBACK(MQFB_COA) ACTION(FWD) FWDQ(PARKED)"
    assert world.handle(rules) == {1: "forwarded"}


@pytest.mark.parametrize("kind", AS_KEPT)
@pytest.mark.parametrize("rules", ["ACTION(RETRY)", "ACTION(FWD) FWDQ(PAYMENTS) HEADER(NO)"])
def test_a_message_without_its_mqdlh_is_in_its_group_again(
    world: World, kind: str, rules: str
) -> None:
    """The queue manager takes a segment's fields from the MQMDE that it wrote itself."""
    fields, expected = AS_KEPT[kind]
    world.dead_letter(b"body", **fields)

    world.handle(rules)

    ((md, body),) = world.messages("PAYMENTS")
    assert (body, md.Format.rstrip(), kept(md)) == (b"body", b"MQSTR", expected)


@pytest.mark.parametrize("kind", AS_KEPT)
def test_a_message_with_its_mqdlh_is_forwarded_byte_for_byte(world: World, kind: str) -> None:
    fields, expected = AS_KEPT[kind]
    world.dead_letter(b"body", **fields)
    ((was, whole),) = world.messages("DLQ")

    world.handle("ACTION(FWD) FWDQ(PARKED) HEADER(YES)")

    ((md, body),) = world.messages("PARKED")
    assert (md.pack(), body) == (was.pack(), whole)
    assert kept(md) == (DEFAULTS if kind == "segment" else expected)
    has_extension = body[DLH_LENGTH:].startswith(b"MDE ")
    assert has_extension == (kind == "segment")


@pytest.mark.parametrize("kind", AS_KEPT)
@pytest.mark.parametrize("header", [True, False])
def test_a_discarded_message_is_restored_with_its_group(
    world: World, kind: str, *, header: bool
) -> None:
    fields, expected = AS_KEPT[kind]
    discard(world, b"body", **fields)

    assert restore_and_count(world, to_queue="PAYMENTS", header=header) == {"restored": 1}

    ((md, body),) = world.messages("PAYMENTS")
    assert body.endswith(b"body")
    assert kept(md) == (DEFAULTS if header and kind == "segment" else expected)
