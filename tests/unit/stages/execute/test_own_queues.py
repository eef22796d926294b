"""Test that no message goes to the state queue or the queue that is read, under any name."""

from __future__ import annotations

from typing import Any

import pytest

from mqdlq.errors import RestoreError
from mqdlq.model import Outcome
from tests.support.restorations import discard, restore_and_count
from tests.support.world import World

pytestmark = pytest.mark.stages

ALIASES = """
DEFINE QALIAS(TO.STATE) TARGET(MQDLQ.STATE)
DEFINE QALIAS(TO.DLQ) TARGET(DLQ)
DEFINE QALIAS(TO.PARKED) TARGET(PARKED)
DEFINE QREMOTE(HERE) RNAME(' ') RQMNAME(QM1)
"""
STATE = {"state_queue": "MQDLQ.STATE"}


@pytest.mark.parametrize(
    ("target", "leads_to"),
    [
        ("FWDQ(TO.STATE)", "MQDLQ.STATE"),
        ("FWDQ(TO.DLQ)", "DLQ"),
        ("FWDQ(DLQ) FWDQM(HERE)", "DLQ"),
        ("FWDQ(TO.STATE) FWDQM(HERE)", "MQDLQ.STATE"),
        ("FWDQ(TO.STATE) PUTAUT(CTX)", "MQDLQ.STATE"),
    ],
)
def test_a_rule_puts_nothing_to_an_alias_of_a_queue_of_the_handler(
    world: World, target: str, leads_to: str
) -> None:
    world.mqsc(ALIASES)
    for number in range(3):
        world.dead_letter(b"m%d" % number)

    outcomes = world.handle(f"ACTION(FWD) {target}\n", **STATE)

    name = target.partition("(")[2].partition(")")[0]
    assert set(outcomes.values()) == {Outcome.NOT_ATTEMPTED}
    assert {
        one.outcome.why.words for one in world.ledger.messages.listed("run-1") if one.outcome
    } == {f"its target, {name}, leads to {leads_to}, a queue of this very handler"}
    assert world.depths("DLQ", "MQDLQ.STATE") == (3, 0)


def test_a_dead_letter_for_an_alias_of_the_state_queue_stays(world: World) -> None:
    world.mqsc(ALIASES)
    world.dead_letter(b"hostile", dest_q="TO.STATE")
    world.dead_letter(b"fine")

    outcomes = world.handle("ACTION(RETRY) RETRY(1)\n", **STATE)

    assert outcomes == {1: Outcome.NOT_ATTEMPTED, 2: Outcome.DELIVERED}
    assert world.bodies("PAYMENTS") == [b"fine"]


def test_an_alias_of_another_queue_is_an_allowed_target(world: World) -> None:
    world.mqsc(ALIASES)
    world.dead_letter(b"fine")

    assert world.handle("ACTION(FWD) FWDQ(TO.PARKED) HEADER(NO)\n", **STATE) == {
        1: Outcome.FORWARDED
    }
    assert world.bodies("PARKED") == [b"fine"]


@pytest.mark.parametrize(
    ("asked", "refusal"),
    [
        (
            {"to_queue": "TO.STATE"},
            (
                "MQDLQ.STATE (TO.STATE leads there) is the handler's state queue, which holds"
                " markers only; name another queue [MQDLQ-710]"
            ),
        ),
        (
            {"to_queue": "TO.DLQ", "header": False},
            (
                "without its MQDLH a message is not a dead letter, and DLQ (TO.DLQ leads there) is"
                " a dead-letter queue; name another queue (to_queue), or keep the header"
                " [MQDLQ-708]"
            ),
        ),
    ],
)
def test_nothing_is_restored_to_an_alias_of_a_queue_of_the_handler(
    world: World, asked: dict[str, Any], refusal: str
) -> None:
    world.mqsc(ALIASES)
    discard(world, b"precious")
    before = world.depths("DLQ", "MQDLQ.STATE")

    with pytest.raises(RestoreError) as refused:
        restore_and_count(world, **asked)

    assert str(refused.value) == refusal
    assert world.depths("DLQ", "MQDLQ.STATE") == before
