"""A ramp moves the messages of a cause in steps, and watches their target in between."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import embedded_mq
from mqdlq.errors import QueueManagerError
from mqdlq.ledger.tables import RampState
from mqdlq.model import Outcome
from mqdlq.reasons import words_of
from mqdlq.stages.execute import Execution, make_pass, settle
from tests.support.world import NOON, World
from tests.unit.controls.loops.returning import send_back

pytestmark = [
    pytest.mark.stages,
    pytest.mark.parametrize("world", ["ibmmq"], indirect=True),
]

RULES = "WAIT(NO) RETRYINT(60)\nACTION(RETRY) RETRY(9)"
STEPS = {"ramp": {"steps": [1, 3], "watch": 60}}
MINUTE = timedelta(minutes=1)


def dead_letters(world: World, messages: int, **fields: Any) -> None:
    for number in range(messages):
        world.dead_letter(f"{number}".encode(), **fields)


def pass_at(execution: Execution, world: World, minute: int) -> tuple[int, int]:
    """Make a pass so many minutes after noon; return the attempts and the pending messages."""
    world.clock.now = NOON + minute * MINUTE
    result = make_pass(execution)
    return result.attempts, result.pending


def states(world: World) -> list[RampState]:
    return list(world.ledger.ramps.current("QM1", "DLQ").values())


def whys(world: World) -> list[str]:
    facts = world.ledger.outcomes.of_run(f"run-{world.runs}").values()
    return sorted({fact.why.words for fact in facts if fact.outcome is Outcome.NOT_ATTEMPTED})


def test_the_messages_of_a_cause_leave_in_steps_and_in_order(world: World) -> None:
    dead_letters(world, 10)
    execution = world.plan(RULES, **STEPS)

    first = make_pass(execution)
    depths = [world.depths("PAYMENTS")]
    assert first.next_pass_at is not None
    world.clock.now = first.next_pass_at
    second = make_pass(execution)
    depths.append(world.depths("PAYMENTS"))
    assert second.next_pass_at is not None
    world.clock.now = second.next_pass_at
    third = make_pass(execution)

    assert [first.next_pass_at, second.next_pass_at] == [NOON + MINUTE, NOON + 2 * MINUTE]
    assert depths == [(1,), (4,)]
    assert (third.attempts, third.pending) == (6, 0)
    assert settle(execution) == {Outcome.DELIVERED: 10}
    assert world.bodies("PAYMENTS") == [f"{number}".encode() for number in range(10)]
    assert [words_of(state.why) for state in states(world)] == ["ramp: all messages may move"]


def test_a_failed_inquiry_of_the_target_decides_nothing(world: World) -> None:
    dead_letters(world, 2)
    execution = world.plan(RULES, ramp={"steps": [1], "watch": 60})
    pass_at(execution, world, 0)
    embedded_mq.faults.set("MQINQ[PAYMENTS]:1+:2195:before")

    with pytest.raises(QueueManagerError, match=r"\(2195\)"):
        pass_at(execution, world, 1)
    embedded_mq.faults.set("")

    assert [state.phase for state in states(world)] == ["watching"]
    assert pass_at(execution, world, 2) == (1, 0)


def test_a_cluster_queue_that_cannot_be_resolved_is_watched_without_its_depth(
    world: World,
) -> None:
    dead_letters(world, 2)
    execution = world.plan(RULES, ramp={"steps": [1], "watch": 60, "consumers": 1})
    pass_at(execution, world, 0)
    embedded_mq.faults.set("MQINQ[PAYMENTS]:1+:2189:before")

    assert pass_at(execution, world, 1) == (1, 0)
    embedded_mq.faults.set("")


def test_each_cause_and_each_target_has_its_own_ramp(world: World) -> None:
    dead_letters(world, 3)
    dead_letters(world, 3, reason=2056)
    dead_letters(world, 3, dest_q="ORDERS")

    assert pass_at(world.plan(RULES, **STEPS), world, 0) == (3, 6)


def test_a_ramp_holds_nothing_if_its_first_step_has_room_for_all_messages(world: World) -> None:
    dead_letters(world, 3)

    outcomes = world.handle(RULES, ramp={"steps": [3]})

    assert list(outcomes.values()) == ["delivered"] * 3


def test_discards_have_no_ramp(world: World) -> None:
    dead_letters(world, 3)

    assert set(world.handle("WAIT(NO)\nACTION(DISCARD)", **STEPS).values()) == {"discarded"}


def test_an_action_given_for_named_messages_has_a_ramp(world: World) -> None:
    dead_letters(world, 3)
    world.handle("WAIT(NO)\nACTION(IGNORE)")
    keys = tuple(m.message_key.hex() for m in world.ledger.messages.of_run("run-1"))

    execution = world.plan(
        "WAIT(NO)\nACTION(RETRY)", action="ACTION(RETRY)", message_keys=keys, **STEPS
    )

    assert pass_at(execution, world, 0) == (1, 2)


def test_the_next_run_continues_a_ramp_at_its_step(world: World) -> None:
    dead_letters(world, 2)
    first = world.plan(RULES, **STEPS)
    pass_at(first, world, 0)
    settle(first)

    held = whys(world)
    dead_letters(world, 8)
    second = world.plan(RULES, **STEPS)
    early = pass_at(second, world, 0)
    later = pass_at(second, world, 1)

    moved, until = "ramp: step 1 of 2 (1 message) has moved", "2026-11-21 12:01:00 UTC"
    assert held == [f"{moved}, watching PAYMENTS @ QM1 until {until}"]
    assert (early, later) == ((0, 9), (3, 6))


def test_two_runs_share_a_ramp(world: World) -> None:
    dead_letters(world, 2)
    first = world.plan(RULES, **STEPS)
    pass_at(first, world, 0)
    dead_letters(world, 8)
    second = world.plan(RULES, **STEPS)

    assert pass_at(second, world, 1)[0] == 3
    assert pass_at(first, world, 1)[0] == 0


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupted_step_moves_only_its_other_messages(world: World, when: str) -> None:
    dead_letters(world, 10)
    execution = world.plan(RULES, **STEPS)
    pass_at(execution, world, 0)
    world.clock.now = NOON + MINUTE
    # The unit of the first message commits, the one of the next two is interrupted.
    world.interrupted_pass(execution, f"MQCMIT:2:2009:{when}")

    resumed = pass_at(execution, world, 1)

    assert world.depths("PAYMENTS") == (4,)
    assert resumed == ((2, 6) if when == "before" else (0, 6))
    assert [state.until for state in states(world)] == [NOON + 2 * MINUTE]


def test_a_ramp_waits_until_its_target_has_few_enough_messages(world: World) -> None:
    dead_letters(world, 10)
    execution = world.plan(RULES, ramp={"steps": [1, 3], "watch": 60, "max_depth_growth": 0})
    pass_at(execution, world, 0)

    waiting = pass_at(execution, world, 1)
    why = words_of(states(world)[0].why)
    world.clear("PAYMENTS")
    going = pass_at(execution, world, 2)

    assert (waiting, going) == ((0, 9), (3, 6))
    assert why == (
        "ramp: step 1 of 2 (1 message) has moved,"
        " watching PAYMENTS @ QM1 until 2026-11-21 12:02:00 UTC: 1 message on it, 0 allowed"
    )


def test_a_ramp_waits_until_the_messages_are_consumed(world: World) -> None:
    world.put("PAYMENTS", b"before")
    dead_letters(world, 10)
    execution = world.plan(RULES, ramp={"steps": [1, 3], "watch": 60, "consumed": True})
    pass_at(execution, world, 0)

    waiting = pass_at(execution, world, 1)
    why = words_of(states(world)[0].why)
    world.clear("PAYMENTS")
    going = pass_at(execution, world, 2)

    assert (waiting[0], going[0]) == (0, 3)
    assert why.endswith(": 2 messages on it, 1 before the step")


def test_a_ramp_waits_for_a_consumer(world: World) -> None:
    dead_letters(world, 10)
    execution = world.plan(RULES, ramp={"steps": [1, 3], "watch": 60, "consumers": 1})
    pass_at(execution, world, 0)

    waiting = pass_at(execution, world, 1)
    why = words_of(states(world)[0].why)
    with world.connect() as queue_manager:
        options = queue_manager.client.CMQC.MQOO_INPUT_AS_Q_DEF
        consumer = queue_manager.open("PAYMENTS", options)
        going = pass_at(execution, world, 2)
        queue_manager.close(consumer)

    assert (waiting[0], going[0]) == (0, 3)
    assert why.endswith(": 0 of 1 handle that must have it open for input")


def test_only_time_and_returns_count_where_a_target_cannot_be_inquired(world: World) -> None:
    world.mqsc("DEFINE QLOCAL(QM2) USAGE(XMITQ) DEFPSIST(YES)")
    dead_letters(world, 5, dest_q="AWAY", dest_q_mgr="QM2")
    strict = {"steps": [1], "watch": 60, "consumers": 1, "consumed": True, "max_depth_growth": 0}
    execution = world.plan(RULES, ramp=strict)

    assert [pass_at(execution, world, 0), pass_at(execution, world, 1)] == [(1, 4), (4, 0)]


def test_a_complete_ramp_starts_again_after_a_day_without_messages(world: World) -> None:
    dead_letters(world, 5)
    world.handle(RULES, **STEPS)
    dead_letters(world, 5)
    within = world.handle(RULES, **STEPS)
    world.clock.now += timedelta(days=1, seconds=1)
    dead_letters(world, 5)

    execution = world.plan(RULES, **STEPS)
    result = make_pass(execution)

    assert list(within.values()) == ["delivered"] * 5
    assert (result.attempts, result.pending) == (1, 4)


def test_a_ramp_that_is_switched_off_holds_nothing(world: World) -> None:
    dead_letters(world, 5)
    execution = world.plan(RULES, **STEPS)
    pass_at(execution, world, 0)
    settle(execution)

    without = world.plan(RULES)
    assert pass_at(without, world, 0) == (4, 0)


def test_a_ramp_becomes_a_breaker(world: World) -> None:
    dead_letters(world, 5)
    execution = world.plan(RULES, **STEPS)
    pass_at(execution, world, 0)
    settle(execution)

    only_a_breaker = world.plan(RULES, breaker={})

    assert pass_at(only_a_breaker, world, 0) == (4, 0)


def test_a_ramp_does_not_delay_messages_for_the_quarantine_queue(world: World) -> None:
    """Nobody reads from the quarantine queue, so a step to it would never be consumed."""
    loops = {"loops": {"limit": 1, "then": {"forward": "PARKED"}}}
    dead_letters(world, 3)
    world.handle(RULES, **loops)
    send_back(world)
    keys = {"ramp": {"steps": [1], "watch": 60, "consumed": True}, **loops}

    assert pass_at(world.plan(RULES, **keys), world, 2) == (3, 0)
    assert world.depths("DLQ", "PARKED") == (0, 3)
    assert states(world) == []
