"""Test a copy whose MQ headers a queue manager refuses under a version 2 MQMD."""

from __future__ import annotations

from tests.support.restorations import DISCARD, restore_and_count
from tests.support.world import World


def test_a_dead_letter_with_an_mqdlh_that_mq_refuses_can_be_restored(world: World) -> None:
    """IBM MQ docs, "2141 (085D) (RC2141)", "Version (MQMD)": put under a version 1 MQMD."""
    world.dead_letter(b"body", inner=(546, 0, "MQSTR"), MsgId=b"m" * 24)
    ((before, whole),) = world.messages("DLQ")
    world.handle(DISCARD)
    world.mqsc("ALTER QMGR HDRCHECK(YES)")

    assert restore_and_count(world) == {"restored": 1}

    ((after, body),) = world.messages("DLQ")
    assert body == whole
    assert after.pack() == before.pack()
