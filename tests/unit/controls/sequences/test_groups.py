"""The messages of a group move in one unit of work, or none of them moves."""

from __future__ import annotations

import signal

import pytest

import embedded_mq
from mqdlq.model import Outcome
from mqdlq.stages.execute import make_pass, settle
from tests.support.moving_tasks import ExecutionTask
from tests.support.restorations import restore_and_count
from tests.support.world import World
from tests.unit.controls.sequences.grouped import (
    BOTH_CLIENTS,
    GROUPS,
    LAST_SEGMENT,
    RETRY,
    SEGMENT,
    failed,
    letter,
    two,
    units,
    whys,
    world_fixture,
)

pytestmark = pytest.mark.stages

__all__ = ["world_fixture"]


@BOTH_CLIENTS
def test_a_group_moves_in_one_unit_in_the_order_of_msg_seq_number(world: World) -> None:
    world.dead_letter(b"before")
    letter(world, b"3", 3, last=True)
    world.dead_letter(b"between")
    letter(world, b"1", 1)
    letter(world, b"2", 2)
    world.dead_letter(b"after")

    outcomes = world.handle(RETRY, **GROUPS)

    assert list(outcomes.values()) == ["delivered"] * 6
    assert world.bodies("PAYMENTS") == [b"before", b"1", b"2", b"3", b"between", b"after"]
    assert any(set(unit) >= {2, 4, 5} for unit in units(world))


def test_without_groups_each_message_moves_by_itself(world: World) -> None:
    letter(world, b"3", 3, last=True)
    letter(world, b"1", 1)

    assert list(world.handle(RETRY).values()) == ["delivered"] * 2
    assert world.bodies("PAYMENTS") == [b"3", b"1"]


INCOMPLETE: dict[str, tuple[list[tuple[int, bool]], str]] = {
    "gap and last": ([(1, False), (3, False)], "MsgSeqNumber 2 and the last are missing"),
    "first": ([(2, True)], "MsgSeqNumber 1 is missing"),
    "many": ([(1, False), (5, False), (7, True)], "MsgSeqNumber 2 to 4 and 6 are missing"),
    "range": ([(4, True)], "MsgSeqNumber 1 to 3 are missing"),
    "last": ([(1, False), (2, False)], "the last is missing"),
    "three": ([(2, False), (4, False)], "MsgSeqNumber 1, 3 and the last are missing"),
    "many ranges": (
        [(seq, seq == 20) for seq in range(2, 21, 2)],
        "MsgSeqNumber 1, 3, 5, 7, 9 and 5 more are missing",
    ),
    "two lasts": (
        [(1, True), (2, True)],
        "MsgSeqNumber 1 is flagged as the last, but there is MsgSeqNumber 2",
    ),
}


@pytest.mark.parametrize("kind", INCOMPLETE)
def test_an_incomplete_group_stays_and_the_report_says_what_it_lacks(
    world: World, kind: str
) -> None:
    places, lacks = INCOMPLETE[kind]
    for number, (seq, is_last) in enumerate(places):
        letter(world, b"%d" % number, seq, last=is_last)

    outcomes = world.handle(RETRY, **GROUPS)

    assert set(outcomes.values()) == {"not_attempted"}
    count = len(places)
    here = "1 message is" if count == 1 else f"{count} messages are"
    assert set(whys(world)) == {f"its group is incomplete: {here} on the queue; {lacks}"}
    assert world.ledger.attempts.of_run("run-1") == []


def test_groups_with_one_group_id_for_one_destination_stay(world: World) -> None:
    two(world)
    two(world)

    assert set(world.handle(RETRY, **GROUPS).values()) == {"not_attempted"}
    why = "its GroupId is used more than once: 2 messages have MsgSeqNumber 1"
    assert set(whys(world)) == {why}


def test_a_dry_run_says_that_a_group_is_incomplete(world: World) -> None:
    letter(world, b"1", 1)

    world.handle(RETRY, dry_run=True, **GROUPS)

    assert whys(world)[0].endswith(
        "it would also stay because its group is incomplete: 1 message is on the queue; the last"
        " is missing"
    )


def test_equal_group_ids_for_two_destinations_are_two_groups(world: World) -> None:
    letter(world, b"1", 1)
    letter(world, b"o1", 1, dest_q="ORDERS")
    letter(world, b"2", 2, last=True)

    assert list(world.handle(RETRY, **GROUPS).values()) == [
        "delivered",
        "not_attempted",
        "delivered",
    ]


@BOTH_CLIENTS
def test_segments_of_a_message_move_together_in_the_order_of_offset(world: World) -> None:
    """The queue manager keeps the fields of a dead-lettered segment in an MQMDE."""
    letter(world, b"cd", 1, Offset=2, MsgFlags=SEGMENT | LAST_SEGMENT)
    letter(world, b"ab", 1, Offset=0, MsgFlags=SEGMENT)
    letter(world, b"xy", 1, group=b"h", Offset=0, MsgFlags=SEGMENT)
    letter(world, b"zz", 1, group=b"h", Offset=4, MsgFlags=SEGMENT | LAST_SEGMENT)
    letter(world, b"11", 1, group=b"i", Offset=0, MsgFlags=SEGMENT)
    letter(world, b"22", 1, group=b"j", Offset=0, MsgFlags=SEGMENT)
    letter(world, b"33", 1, group=b"j", Offset=1, MsgFlags=SEGMENT | LAST_SEGMENT)

    outcomes = world.handle(RETRY, **GROUPS)

    assert list(outcomes.values()) == ["delivered"] * 2 + ["not_attempted"] * 5
    assert world.bodies("PAYMENTS") == [b"ab", b"cd"]
    lacks = [why.partition("; ")[2] for why in whys(world)[2:]]
    assert lacks == [
        *["the segment of MsgSeqNumber 1 with Offset 2 is missing"] * 2,
        "the last segment of MsgSeqNumber 1 is missing",
        *["segments of MsgSeqNumber 1 overlap at Offset 1"] * 2,
    ]


# -- all or nothing


@BOTH_CLIENTS
def test_if_one_message_fails_all_stay_and_an_attempt_counts_for_each(world: World) -> None:
    world.mqsc("DEFINE QLOCAL(SMALL.BASE) MAXMSGL(4)\nDEFINE QALIAS(SMALL) TARGET(SMALL.BASE)")
    world.dead_letter(b"one", dest_q="SMALL")
    letter(world, b"1", 1, dest_q="SMALL")
    letter(world, b"too long", 2, dest_q="SMALL")
    letter(world, b"3", 3, last=True, dest_q="SMALL")
    world.dead_letter(b"two", dest_q="SMALL")

    outcomes = world.handle(RETRY, **GROUPS)

    assert list(outcomes.values()) == ["delivered", *["exhausted"] * 3, "delivered"]
    assert world.bodies("SMALL") == [b"one", b"two"]
    assert failed(world) == [(n, mqrc) for n in (1, 2) for mqrc in (2003, 2030, 2003)]
    assert whys(world)[1] == (
        "2 attempts, the last to SMALL: MQRC_BACKED_OUT (2003): message 3 of its group failed with"
        " MQRC_MSG_TOO_BIG_FOR_Q (2030)"
    )
    assert whys(world)[2].startswith("2 attempts, the last to SMALL: MQRC_MSG_TOO_BIG_FOR_Q (2030)")


def test_a_group_with_a_message_that_is_too_long_is_not_put(world: World) -> None:
    world.mqsc("DEFINE QLOCAL(NARROW) MAXMSGL(4)")
    letter(world, b"1", 1, dest_q="NARROW")
    letter(world, b"too long", 2, last=True, dest_q="NARROW")

    assert set(world.handle(RETRY, **GROUPS).values()) == {"exhausted"}
    assert failed(world) == [(1, 2003), (1, 2030), (2, 2003), (2, 2030)]
    assert [md.BackoutCount for md, _ in world.messages("DLQ")] == [0, 0]


def test_a_group_to_a_blocked_queue_fails_as_a_whole(world: World) -> None:
    letter(world, b"1", 1, dest_q="CLOSED")
    letter(world, b"2", 2, last=True, dest_q="CLOSED")

    assert set(world.handle(RETRY, **GROUPS).values()) == {"exhausted"}
    assert failed(world) == [(1, 2051), (1, 2051), (2, 2051), (2, 2051)]


@pytest.mark.parametrize(
    ("fault", "attempts"),
    [
        pytest.param("MQPUT1[PAYMENTS]:2:2030:before", 2, id="failed"),
        pytest.param("MQGET[DLQ]:6:2033:before", 0, id="gone before it is tried"),
        pytest.param("MQGET[DLQ]:10:2033:before", 0, id="gone while it is tried"),
        pytest.param(",".join(f"MQCMIT:{n}:2003:before" for n in (1, 2, 3)), 0, id="backed out"),
    ],
)
def test_a_group_that_cannot_be_moved_now_is_moved_later(
    world: World, fault: str, attempts: int
) -> None:
    two(world)
    execution = world.plan(RETRY, **GROUPS)
    embedded_mq.faults.set(fault)
    result = make_pass(execution)
    embedded_mq.faults.set("")

    assert (result.attempts, result.pending, world.bodies("PAYMENTS")) == (attempts, 2, [])
    assert result.next_pass_at is not None
    world.clock.now = result.next_pass_at
    assert make_pass(execution).pending == 0
    assert world.bodies("PAYMENTS") == [b"1", b"2"]


def test_a_neighbour_that_fails_does_not_tear_a_group(world: World) -> None:
    """The third unit has the group and 4; it is backed out, and both are repeated."""
    world.dead_letter(b"0")
    world.dead_letter(b"1")
    world.dead_letter(b"2")
    letter(world, b"3a", 1)
    letter(world, b"3b", 2, last=True)
    world.dead_letter(b"4")
    world.dead_letter(b"5")
    execution = world.plan(RETRY, **GROUPS)

    embedded_mq.faults.set("MQPUT1[PAYMENTS]:6:2030:before")
    make_pass(execution)
    embedded_mq.faults.set("")

    assert world.bodies("PAYMENTS") == [b"0", b"1", b"2", b"3a", b"3b", b"5"]
    assert [4, 5] in units(world)


@BOTH_CLIENTS
def test_a_group_is_discarded_in_one_unit_and_can_be_restored(world: World) -> None:
    letter(world, b"2", 2, last=True)
    letter(world, b"1", 1)
    letter(world, b"x", 1, group=b"h")

    outcomes = world.handle("ACTION(DISCARD)", **GROUPS)

    assert list(outcomes.values()) == ["discarded", "discarded", "not_attempted"]
    assert units(world) == [[1, 2]] or units(world) == [[2, 1]]
    assert len(world.ledger.archive.digests("run-1")) == 2
    assert restore_and_count(world, to_queue="PAYMENTS", header=False) == {"restored": 2}


# -- interruptions

CALLS = (
    *("MQGET[DLQ]:10", "MQPUT1[PAYMENTS]:1", "MQPUT1[PAYMENTS]:2", "MQPUT1[PAYMENTS]:3"),
    *("MQPUT1[MQDLQ.STATE]:1", "MQPUT1[MQDLQ.STATE]:2", "MQCMIT:1", "MQCMIT:2"),
)


@BOTH_CLIENTS
@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lost_connection_does_not_tear_a_group(world: World, when: str) -> None:
    for call in CALLS:
        two(world)
        world.dead_letter(b"3")
        execution = world.plan(RETRY, **GROUPS)
        world.interrupted_pass(execution, f"{call}:2009:{when}")
        assert world.bodies("PAYMENTS") in ([], [b"1", b"2"], [b"1", b"2", b"3"]), call

        make_pass(execution)

        assert settle(execution).keys() == {Outcome.DELIVERED}, call
        assert world.bodies("PAYMENTS") == [b"1", b"2", b"3"], call
        world.clear("PAYMENTS", "MQDLQ.STATE")


@BOTH_CLIENTS
@pytest.mark.slow
@pytest.mark.parametrize("call", ["MQPUT1[PAYMENTS]:2", "MQCMIT:1"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_killed_pass_does_not_tear_a_group(world: World, call: str, when: str) -> None:
    two(world)
    task = ExecutionTask(world)
    task.execution = world.plan(RETRY, **GROUPS)

    assert task.attempt_elsewhere(f"{call}:kill:{when}") == -signal.SIGKILL

    assert world.bodies("PAYMENTS") in ([], [b"1", b"2"])
    task.bring_to_the_end()
    assert world.bodies("PAYMENTS") == [b"1", b"2"]
