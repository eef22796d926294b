"""What is a destination's fault holds for all that go there; what is a message's, for it alone."""

from __future__ import annotations

import pytest

import embedded_mq
from mqdlq.stages.execute import make_pass
from tests.support.world import World

BODIES = [b"%d" % number for number in range(5)]


@pytest.mark.parametrize(
    ("rule", "delivered", "tried"),
    [
        ("ACTION(RETRY) PUTAUT(DEF)", 1, 2),  # the second put is refused: no other is tried
        ("ACTION(RETRY) PUTAUT(CTX)", 4, 5),  # refused to the user of one message
    ],
)
def test_no_authority_is_ours_for_every_message_or_one_users(
    world: World, rule: str, delivered: int, tried: int
) -> None:
    for body in BODIES:
        world.dead_letter(body)
    execution = world.plan(f"WAIT(NO)\n{rule} RETRY(2)", messages_in_a_unit=1)
    embedded_mq.faults.set("MQPUT1[PAYMENTS]:2:2035:before")

    result = make_pass(execution)

    assert result.attempts == len(BODIES)
    assert len(world.bodies("PAYMENTS")) == delivered
    assert sum(md.BackoutCount for md, _ in world.messages("DLQ")) == tried - delivered


def test_where_we_have_no_authority_the_users_of_messages_may_still(world: World) -> None:
    """Both rules lead to one queue: what is refused to us is not refused to them."""
    for number, body in enumerate(BODIES):
        world.dead_letter(body, reason=2051 + number % 2)
    rules = "REASON(2051) ACTION(RETRY) PUTAUT(DEF)\nACTION(RETRY) PUTAUT(CTX)"
    execution = world.plan(f"WAIT(NO)\n{rules}", messages_in_a_unit=1)
    embedded_mq.faults.set("MQPUT1[PAYMENTS]:1:2035:before")

    make_pass(execution)

    assert world.bodies("PAYMENTS") == [BODIES[1], BODIES[3]]
