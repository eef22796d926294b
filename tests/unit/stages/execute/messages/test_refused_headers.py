"""Test messages whose MQ headers a queue manager may refuse when the handler moves them."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from tests.support.world import World

pytestmark = pytest.mark.stages

UNDEFINED = (546, 0, "MQSTR")
"""Encoding, CodedCharSetId and Format of an MQDLH whose program left CodedCharSetId at 0."""
RFH2_TOO_LONG = struct.pack("<4siiii8sii", b"RFH ", 2, 99, 546, 819, b"MQSTR   ", 0, 1208) + b"body"
GROUP = {"GroupId": b"g" * 24, "MsgFlags": 8}


def dead_letter_refused(world: World, body: bytes, **options: Any) -> None:
    """Put a dead letter as if before the queue manager checked headers."""
    world.mqsc("ALTER QMGR HDRCHECK(NO)")
    world.dead_letter(body, **options)
    world.mqsc(f"ALTER QMGR HDRCHECK({'YES' if world.checks_headers else 'NO'})")


def test_a_dead_letter_with_an_mqdlh_that_mq_refuses_is_forwarded(world: World) -> None:
    """IBM MQ docs, "2141 (085D) (RC2141)": CodedCharSetId 0; under a version 2 MQMD only."""
    dead_letter_refused(world, b"body", inner=UNDEFINED)
    ((before, whole),) = world.messages("DLQ")

    assert world.handle("ACTION(FWD) FWDQ(PARKED) HEADER(YES)") == {1: "forwarded"}

    ((after, body),) = world.messages("PARKED")
    assert body == whole
    assert after.pack() == before.pack()


def test_a_message_with_an_mqrfh2_that_mq_refuses_is_delivered(world: World) -> None:
    """IBM MQ docs, "2334 (091E) (RC2334)", and "MQRFH2 headers that are not valid"."""
    dead_letter_refused(world, RFH2_TOO_LONG, inner=(546, 819, "MQHRF2"))

    assert world.handle("ACTION(RETRY)") == {1: "delivered"}

    ((md, body),) = world.messages("PAYMENTS")
    assert body == RFH2_TOO_LONG
    assert md.Format == b"MQHRF2  "


@pytest.mark.parametrize(
    ("rule", "inner", "body", "reason", "ends"),
    [
        ("ACTION(FWD) FWDQ(PARKED)", UNDEFINED, b"body", 2141, "forwarded"),
        ("ACTION(RETRY)", (546, 819, "MQHRF2"), RFH2_TOO_LONG, 2334, "delivered"),
    ],
)
def test_a_message_of_a_group_needs_its_version_2_mqmd(
    world: World, *, rule: str, inner: tuple[int, int, str], body: bytes, reason: int, ends: str
) -> None:
    """A put that the queue manager refuses is a failed attempt; the message stays whole."""
    dead_letter_refused(world, body, inner=inner, **GROUP)
    ((before, whole),) = world.messages("DLQ")

    outcomes = world.handle(f"WAIT(NO)\n{rule}")

    assert outcomes == {1: "exhausted" if world.checks_headers else ends}
    if world.checks_headers:
        assert [a.mqrc for a in world.ledger.attempts.of_run("run-1")] == [reason]
        ((after, left),) = world.messages("DLQ")
        assert (after.GroupId, after.MsgFlags, left) == (before.GroupId, 8, whole)
    else:
        queue = "PARKED" if "FWD" in rule else "PAYMENTS"
        ((after, _),) = world.messages(queue)
        assert (after.GroupId, after.MsgFlags) == (b"g" * 24, 8)
