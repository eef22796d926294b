"""Test that a destination's fault holds for all its messages, and a message's for it alone."""

from __future__ import annotations

import pytest

import embedded_mq
from mqdlq.stages.execute import make_pass
from tests.support.world import World

BODIES = [b"%d" % number for number in range(5)]


@pytest.mark.parametrize(
    ("rule", "delivered", "tried"),
    [
        ("ACTION(RETRY) PUTAUT(DEF)", 1, 2),  # the second put is refused: no further put is tried
        ("ACTION(RETRY) PUTAUT(CTX)", 4, 5),  # refused to the user of one message
    ],
)
def test_missing_authority_blocks_all_messages_or_those_of_one_user(
    world: World, rule: str, delivered: int, tried: int
) -> None:
    for body in BODIES:
        world.dead_letter(body)
    execution = world.plan(f"WAIT(NO)\n{rule} RETRY(2)", max_messages_per_unit=1)
    embedded_mq.faults.set("MQPUT1[PAYMENTS]:2:2035:before")

    result = make_pass(execution)

    assert result.attempts == len(BODIES)
    assert len(world.bodies("PAYMENTS")) == delivered
    assert sum(md.BackoutCount for md, _ in world.messages("DLQ")) == tried - delivered


def test_a_destination_closed_to_us_may_be_open_to_the_users_of_messages(world: World) -> None:
    """Both rules lead to one queue, which refuses our user and accepts the messages' users."""
    for number, body in enumerate(BODIES):
        world.dead_letter(body, reason=2051 + number % 2)
    rules = "REASON(2051) ACTION(RETRY) PUTAUT(DEF)\nACTION(RETRY) PUTAUT(CTX)"
    execution = world.plan(f"WAIT(NO)\n{rules}", max_messages_per_unit=1)
    embedded_mq.faults.set("MQPUT1[PAYMENTS]:1:2035:before")

    make_pass(execution)

    assert world.bodies("PAYMENTS") == [BODIES[1], BODIES[3]]
