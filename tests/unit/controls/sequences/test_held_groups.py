"""A group that may not move now stays on the queue as a whole."""

from __future__ import annotations

from typing import Any

import pytest

import embedded_mq
from mqdlq.controls.sequences import control as sequences
from mqdlq.stages.execute import PassResult, make_pass, settle
from tests.support.world import World
from tests.unit.controls.sequences.grouped import (
    GROUPS,
    RETRY,
    letter,
    two,
    units,
    whys,
    world_fixture,
)

pytestmark = pytest.mark.stages

__all__ = ["world_fixture"]

WITH_KEY: dict[str, Any] = {"sequences": {"groups": "all_or_nothing", "key": "MQMD.CorrelId"}}
KEY: dict[str, Any] = {"CorrelId": b"k" * 24}


def stays(world: World, rules: str = RETRY, **keys: Any) -> set[str]:
    """Handle a group; none of its messages may move. Return why they stayed."""
    outcomes = world.handle(rules, **GROUPS, **keys)
    assert "delivered" not in set(outcomes.values())
    return set(whys(world, f"run-{world.runs}"))


def test_a_group_stays_if_it_does_not_fit_into_a_unit_of_work(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    two(world)

    assert stays(world, max_messages_per_unit=1) == {
        "its group has 2 messages; max_messages_per_unit is 1"
    }
    world.mqsc("ALTER QMGR MAXUMSGS(5)")
    assert stays(world) == {"its group has 2 messages, which need MAXUMSGS(6); it is 5"}
    world.mqsc("ALTER QMGR MAXUMSGS(6)")
    with monkeypatch.context() as small:
        small.setattr(sequences, "MAX_BYTES_IN_A_UNIT", 345)
        assert stays(world) == {
            "its group has 2 messages with 346 bytes; a unit of work has at most 345"
        }
    world.mqsc("DELETE QLOCAL(MQDLQ.STATE) PURGE")
    assert stays(world) == {
        "its group has 2 messages; without the state queue MQDLQ.STATE each message moves alone"
    }
    world.mqsc("DEFINE QLOCAL(MQDLQ.STATE) DEFPSIST(YES)")
    assert set(world.handle(RETRY, **GROUPS).values()) == {"delivered"}


def test_reports_that_the_messages_of_a_group_request_count_against_maxumsgs(world: World) -> None:
    on_arrival = {"Report": 0x100, "ReplyToQ": b"ORDERS"}
    two(world, **on_arrival)
    world.mqsc("ALTER QMGR MAXUMSGS(7)")

    assert stays(world) == {"its group has 2 messages, which need MAXUMSGS(8); it is 7"}
    world.mqsc("ALTER QMGR MAXUMSGS(8)")
    assert set(world.handle(RETRY, **GROUPS).values()) == {"delivered"}


def test_a_group_stays_if_its_messages_are_treated_differently(world: World) -> None:
    letter(world, b"1", 1)
    letter(world, b"2", 2, last=True, reason=2085)

    ignored = "WAIT(NO)\nREASON(2085) ACTION(IGNORE)\nACTION(RETRY)"
    assert "no rule moves MsgSeqNumber 2 of its group now" in stays(world, ignored)
    forwarded = "WAIT(NO)\nREASON(2085) ACTION(FWD) FWDQ(ORDERS)\nACTION(RETRY)"
    differently = "the rules treat the messages of its group differently: this one goes to"
    assert stays(world, forwarded) == {
        f"{differently} PAYMENTS, and MsgSeqNumber 2 goes to ORDERS",
        f"{differently} ORDERS, and MsgSeqNumber 1 goes to PAYMENTS",
    }
    discarded = "WAIT(NO)\nREASON(2085) ACTION(DISCARD)\nACTION(RETRY)"
    assert any("is discarded" in why for why in stays(world, discarded))
    own = "WAIT(NO)\nREASON(2085) ACTION(FWD) FWDQ(DLQ)\nACTION(RETRY)"
    assert any("its group stays: its target, DLQ, is" in why for why in stays(world, own))


def test_a_group_of_which_a_message_came_after_the_snapshot_moves_in_the_next_run(
    world: World,
) -> None:
    letter(world, b"2", 2, last=True)
    run = world.start(RETRY, **GROUPS)
    world.snapshot(run)
    letter(world, b"1", 1)
    world.accept(run)
    execution = world.execution(run)

    make_pass(execution)
    settle(execution)

    assert whys(world) == ["its group has 2 messages; this run has 1 of them"]
    assert set(world.handle(RETRY, **GROUPS).values()) == {"delivered"}
    assert world.bodies("PAYMENTS") == [b"1", b"2"]


def test_a_group_of_which_an_earlier_run_has_settled_a_message_says_so(world: World) -> None:
    letter(world, b"1", 1)
    letter(world, b"2", 2, last=True, reason=2085)
    rules = "WAIT(NO)\nREASON(2053) ACTION(RETRY)"
    world.handle(rules, **GROUPS)

    world.handle(rules, **GROUPS)

    why = "its group has 2 messages; this run has 1 of them, and earlier runs have settled 1"
    assert [one.why.words for one in world.ledger.outcomes.of_run("run-2").values()] == [why]
    assert set(world.handle(RETRY, **GROUPS).values()) == {"delivered"}


def test_a_budget_does_not_tear_a_group(world: World) -> None:
    world.dead_letter(b"0")
    two(world)
    keys = {"limits": {"messages_per_run": 2}}

    first = world.handle(RETRY, **GROUPS, **keys)
    why = whys(world)[1]
    second = world.handle(RETRY, **GROUPS, **keys)

    assert list(first.values()) == ["delivered", "not_attempted", "not_attempted"]
    assert why == (
        "its group has 2 messages, and the run may move 1 more (limits: messages_per_run)"
    )
    assert list(second.values()) == ["delivered", "delivered"]


def test_a_group_that_exceeds_a_budget_does_not_keep_other_discards_from_the_archive(
    world: World,
) -> None:
    letter(world, b"1", 1)
    letter(world, b"2", 2)
    letter(world, b"3", 3, last=True)
    world.dead_letter(b"4")
    world.dead_letter(b"5")

    outcomes = world.handle("WAIT(NO)\nACTION(DISCARD)", **GROUPS, limits={"messages_per_run": 2})

    assert list(outcomes.values()) == ["not_attempted"] * 3 + ["discarded"] * 2


def test_a_step_of_a_ramp_moves_a_group_as_a_whole(world: World) -> None:
    two(world)
    two(world, group=b"h")
    execution = world.plan(RETRY, ramp={"steps": [1], "watch": 60}, **GROUPS)

    result: PassResult = make_pass(execution)

    assert (result.attempts, result.pending) == (2, 2)
    assert units(world) == [[1, 2]]


def test_a_rate_and_a_depth_do_not_tear_a_group(world: World) -> None:
    two(world)
    two(world, group=b"h")
    limits = {"messages_per_second": 1, "destinations": [{"queue": "PAYMENTS", "in_flight": 3}]}
    execution = world.plan(RETRY, limits=limits, **GROUPS)

    result = make_pass(execution)
    settle(execution)

    assert (result.attempts, result.pending) == (2, 2)
    assert world.bodies("PAYMENTS") == [b"1", b"2"]
    assert len(set(whys(world)[2:])) == 1


def test_a_message_that_a_control_holds_holds_its_group(world: World) -> None:
    """The first message has the cause of another message, which fills the step of a ramp."""
    world.dead_letter(b"0", reason=2085)
    letter(world, b"1", 1, reason=2085)
    letter(world, b"2", 2, last=True, reason=2053)
    execution = world.plan(RETRY, ramp={"steps": [1], "watch": 60}, **GROUPS)

    result = make_pass(execution)
    settle(execution)

    assert (result.attempts, result.pending) == (1, 2)
    assert whys(world)[2] == f"another message of its group is held: {whys(world)[1]}"
    assert "group" not in whys(world)[1]


def test_a_group_with_a_key_waits_as_a_whole_at_the_place_of_its_first_message(
    world: World,
) -> None:
    letter(world, b"2", 2, last=True, **KEY)
    world.dead_letter(b"between", **KEY)
    letter(world, b"1", 1, **KEY)
    execution = world.plan(RETRY, **WITH_KEY)

    embedded_mq.faults.set("MQPUT1[PAYMENTS]:2:2030:before")
    result = make_pass(execution)
    embedded_mq.faults.set("")
    assert (world.bodies("PAYMENTS"), result.pending) == ([], 3)
    assert result.next_pass_at is not None
    world.clock.now = result.next_pass_at
    make_pass(execution)

    assert world.bodies("PAYMENTS") == [b"1", b"2", b"between"]


def test_a_group_whose_first_message_has_no_key_does_not_wait_behind_itself(world: World) -> None:
    letter(world, b"1", 1)
    letter(world, b"2", 2, **KEY)
    letter(world, b"3", 3, last=True, **KEY)

    assert list(world.handle(RETRY, **WITH_KEY).values()) == ["delivered"] * 3


def test_messages_wait_behind_a_group_that_began_before_them(world: World) -> None:
    """The pass asks for 2 before it meets 3, which stays with the first message of its group."""
    letter(world, b"1", 1)
    world.dead_letter(b"2", **KEY)
    letter(world, b"3", 2, **KEY)
    world.dead_letter(b"4", **KEY)
    world.dead_letter(b"5")

    outcomes = world.handle(RETRY, **WITH_KEY)

    assert list(outcomes.values()) == ["not_attempted"] * 4 + ["delivered"]
