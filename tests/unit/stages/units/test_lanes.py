"""Test moves over several connections: their order, their markers, and what a failure leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from threading import Event, Lock, current_thread, main_thread
from typing import Any

import pytest

import embedded_mq
from mqdlq.errors import QueueManagerError
from mqdlq.mqi.connect import connect
from mqdlq.mqi.state_queue import Marker, browse_markers
from mqdlq.stages.execute import Execution, make_pass, passes, settle
from mqdlq.stages.units import lanes
from mqdlq.stages.units.lanes import Lanes
from tests.support.older_ledgers import copy_ledger, put_back, take_on_ledger
from tests.support.world import World

pytestmark = pytest.mark.stages

QUEUES = ("PAYMENTS", "ORDERS", "PARKED")
TWICE = "RETRYINT(60) WAIT(NO)\nACTION(RETRY) RETRY(2)"
SMALL = "DEFINE QLOCAL(SMALL.BASE) MAXMSGL(4)\nDEFINE QALIAS(SMALL) TARGET(SMALL.BASE)"
ALIAS = "DEFINE QALIAS(ALIAS) TARGET(PAYMENTS)"
TOO_LONG = b"too long"


@pytest.fixture(name="world")
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    world = World(tmp_path, connections=2)
    with world.ledger:
        yield world
    embedded_mq.faults.set("")


class HandedOver(Event):
    """Is set when the pass has handed over all moves; `then` is called before any lane connects."""

    def __init__(self) -> None:
        super().__init__()
        self.then: list[Callable[[], None]] = []
        self.in_turns = Lock()


@pytest.fixture(name="handed_over")
def _handed_over(monkeypatch: pytest.MonkeyPatch) -> HandedOver:
    """Let lanes connect only after the pass has handed over all moves, or waits for results."""
    handed_over, end, await_results = HandedOver(), Lanes._end, Lanes.await_results

    def connect_late(*arguments: Any) -> Any:
        if current_thread() is not main_thread():
            handed_over.wait()
            with handed_over.in_turns:
                while handed_over.then:
                    handed_over.then.pop()()
        return connect(*arguments)

    def note_end(self: Lanes[Any], **keys: Any) -> None:
        handed_over.set()
        end(self, **keys)

    def note_wait(self: Lanes[Any]) -> None:
        handed_over.set()
        await_results(self)

    monkeypatch.setattr(passes, "connect", connect_late)
    monkeypatch.setattr(Lanes, "_end", note_end)
    monkeypatch.setattr(Lanes, "await_results", note_wait)
    return handed_over


def put(world: World, *queues: str, **fields: Any) -> list[bytes]:
    """Put a dead letter for each of these queues, in this order; return their bodies."""
    bodies = [b"%02d" % number for number in range(len(queues))]
    for queue, body in zip(queues, bodies, strict=True):
        world.dead_letter(body, dest_q=queue, **fields)
    return bodies


def bring_to_the_end(world: World, execution: Execution) -> None:
    result = make_pass(execution)
    while result.next_pass_at is not None:
        world.clock.now = result.next_pass_at
        result = make_pass(execution)
    settle(execution)


def markers(world: World) -> list[Marker]:
    with world.connect() as queue_manager:
        return browse_markers(queue_manager, "MQDLQ.STATE")


def numbers_in(marker: Marker) -> set[int]:
    """Return the browse_seq of each message whose move a marker has."""
    return {seq for _, first, last, *_ in marker.moved for seq in range(first, last + 1)}


# -- order


def test_messages_of_a_destination_keep_their_order_over_several_connections(world: World) -> None:
    bodies = put(world, *QUEUES * 10)

    outcomes = world.handle("ACTION(RETRY)", connections=3)

    assert set(outcomes.values()) == {"delivered"}
    for place, queue in enumerate(QUEUES):
        assert world.bodies(queue) == bodies[place::3]


def test_queues_and_their_aliases_are_one_destination(world: World) -> None:
    """The lane of the first name takes the second one, too, and the order is that of the queue."""
    world.mqsc(ALIAS)
    bodies = put(world, *("PAYMENTS", "ALIAS") * 8)

    world.handle("ACTION(RETRY)")

    assert world.bodies("PAYMENTS") == bodies
    assert len(markers(world)) == 1


def test_a_later_message_does_not_overtake_one_with_its_key_that_fails_in_another_lane(
    world: World,
) -> None:
    """The first one may still go where the second one goes: their lanes become one."""
    world.mqsc(SMALL)
    bodies = put(world, "SMALL", "ORDERS", "PAYMENTS")
    world.dead_letter(TOO_LONG, dest_q="SMALL", reason=2085, CorrelId=b"1".ljust(24))
    world.dead_letter(b"next", dest_q="ORDERS", CorrelId=b"1".ljust(24))
    fails = "REASON(2085) ACTION(RETRY)\nREASON(2085) ACTION(FWD) FWDQ(ORDERS) HEADER(NO)\n"
    execution = world.plan(
        f"RETRYINT(60) WAIT(NO)\n{fails}ACTION(RETRY)", sequences={"key": "MQMD.CorrelId"}
    )

    make_pass(execution)
    assert world.bodies("ORDERS") == [bodies[1]]

    bring_to_the_end(world, execution)
    assert world.bodies("ORDERS") == [bodies[1], TOO_LONG, b"next"]
    assert world.bodies("PAYMENTS") == [bodies[2]]


def test_a_message_that_was_handed_over_stays_if_one_with_its_key_fails_before_it(
    world: World, handed_over: HandedOver
) -> None:
    world.mqsc(SMALL)
    world.dead_letter(TOO_LONG, dest_q="SMALL")
    world.dead_letter(b"next", dest_q="SMALL")
    execution = world.plan(TWICE, sequences={"key": "MQMD.CorrelId"})
    bring_to_the_end(world, execution)  # without a key, nothing waits
    assert world.bodies("SMALL") == [b"next"]
    world.mqsc("CLEAR QLOCAL(SMALL.BASE)\nCLEAR QLOCAL(DLQ)")
    handed_over.clear()
    for body in (TOO_LONG, b"next"):
        world.dead_letter(body, dest_q="SMALL", CorrelId=b"1".ljust(24))

    bring_to_the_end(world, world.plan(TWICE, sequences={"key": "MQMD.CorrelId"}))

    assert handed_over.is_set()
    assert world.bodies("SMALL") == []


def test_messages_that_fail_or_are_gone_cost_the_others_of_their_lane_nothing(
    world: World, handed_over: HandedOver
) -> None:
    world.mqsc(SMALL)
    world.dead_letter(b"gone", dest_q="SMALL")
    bodies = put(world, "SMALL", "SMALL", "CLOSED")
    world.dead_letter(TOO_LONG, dest_q="SMALL")
    world.dead_letter(b"last", dest_q="SMALL")
    execution = world.plan("WAIT(NO)\nACTION(RETRY)")
    handed_over.then.append(world.lose_first)

    make_pass(execution)

    assert world.bodies("SMALL") == [*bodies[:2], b"last"]
    assert Counter(settle(execution)) == {"delivered": 3, "exhausted": 2, "taken": 1}


# -- controls


def test_a_failure_on_its_way_gives_its_place_in_the_budget_to_the_next_message(
    world: World, handed_over: HandedOver
) -> None:
    world.mqsc(SMALL)
    world.dead_letter(TOO_LONG, dest_q="SMALL")
    put(world, "PAYMENTS", "PAYMENTS", "PAYMENTS")

    outcomes = world.handle("WAIT(NO)\nACTION(RETRY)", limits={"messages_per_run": 2})

    assert handed_over.is_set()
    assert world.bodies("PAYMENTS") == [b"00", b"01"]
    assert list(outcomes.values()) == ["exhausted", "delivered", "delivered", "not_attempted"]


def test_a_failure_on_its_way_gives_its_place_in_a_step_to_the_next_message(
    world: World, handed_over: HandedOver
) -> None:
    world.mqsc(SMALL)
    for body in (TOO_LONG, b"1", b"2", b"3"):
        world.dead_letter(body, dest_q="SMALL")

    make_pass(world.plan(TWICE, ramp={"steps": [2, 9]}))

    assert handed_over.is_set()
    assert world.bodies("SMALL") == [b"1", b"2"]


def test_an_open_breaker_stops_the_messages_that_were_handed_over(
    world: World, handed_over: HandedOver
) -> None:
    put(world, *["PAYMENTS"] * 9)
    execution = world.plan(TWICE, breaker={"failures": 3})
    embedded_mq.faults.set("MQPUT1[PAYMENTS]:1+:2195:before")

    assert make_pass(execution).attempts == 3

    assert handed_over.is_set()


def test_a_pass_that_waits_for_a_rate_leaves_no_unit_open(world: World) -> None:
    bodies = put(world, *["PAYMENTS", "PAYMENTS", "ORDERS"] * 4)

    world.handle("ACTION(RETRY)", limits={"messages_per_second": 2})

    assert world.bodies("ORDERS") == bodies[2::3]
    assert (world.clock.now - world.clock.now.replace(minute=0, second=0)).total_seconds() >= 5


# -- markers


def test_each_lane_leaves_the_marker_of_its_last_unit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Together they have all moves: so an older ledger learns of each of them."""
    monkeypatch.setattr(lanes, "CLEAR_AT_ONCE", 1)
    monkeypatch.setattr(lanes, "MOST_UNFINISHED", 1)
    put(world, *("PAYMENTS", "ORDERS") * 10)

    world.handle("ACTION(RETRY)")

    left = markers(world)
    assert len(left) == 2
    assert set().union(*map(numbers_in, left)) == set(range(1, 21))


def test_the_first_commit_lets_earlier_markers_go(world: World) -> None:
    put(world, "PAYMENTS", "ORDERS")
    world.handle("ACTION(RETRY)")
    earlier = {marker.unit for marker in markers(world)}
    put(world, "PARKED")

    world.handle("ACTION(RETRY)")

    (left,) = markers(world)
    assert left.unit not in earlier


@pytest.mark.parametrize(("reason", "ends"), [(2003, False), (2024, False), (2195, True)])
def test_markers_that_cannot_be_removed_stay_for_the_next_pass(
    world: World, reason: int, ends: bool
) -> None:
    """The first three MQGETs of the state queue find no marker, and all moves are made by then."""
    bodies = put(world, *["PAYMENTS"] * 4)
    execution = world.plan("ACTION(RETRY)")
    embedded_mq.faults.set(f"MQGET[MQDLQ.STATE]:4:{reason}:before")
    with pytest.raises(QueueManagerError) if ends else nullcontext():
        make_pass(execution)
    embedded_mq.faults.set("")
    assert world.bodies("PAYMENTS") == bodies
    assert len(markers(world)) == 3

    put(world, "PARKED")
    world.handle("ACTION(RETRY)")
    assert len(markers(world)) == 1


def test_markers_are_removed_in_units_that_maxumsgs_allows(world: World) -> None:
    """A unit has a get, a put and its marker, and leaves room for one to be cleared."""
    world.mqsc("ALTER QMGR MAXUMSGS(4)")
    put(world, *["PAYMENTS"] * 12)

    world.handle("ACTION(RETRY)")

    assert len(world.bodies("PAYMENTS")) == 12
    assert len(markers(world)) == 1


def test_an_older_ledger_learns_of_each_move_of_all_lanes_once(world: World) -> None:
    """The markers of the lanes have moves in common, and more ranges than messages in a row."""
    bodies = put(world, *("PAYMENTS", "ORDERS") * 60)
    execution = world.plan("ACTION(RETRY)")
    copy = copy_ledger(world)
    make_pass(execution)
    put_back(world, copy)
    take_on_ledger(world)
    execution = world.execution(execution.run)

    make_pass(execution)

    assert Counter(settle(execution)) == {"delivered": len(bodies)}
    made = world.ledger.attempts.of_run(execution.run.run_id)
    assert len({attempt.message_id for attempt in made}) == len(made) == len(bodies)
    assert world.bodies("PAYMENTS") == bodies[::2]
    put(world, "PARKED")
    world.handle("ACTION(RETRY)")
    assert len(markers(world)) == 1


# -- failures


@pytest.mark.parametrize("connections", [1, 2])
def test_a_connection_that_cannot_be_made_ends_the_pass(
    world: World, monkeypatch: pytest.MonkeyPatch, connections: int
) -> None:
    """One connection moves one destination's messages, and a further one browses."""
    monkeypatch.setattr(lanes, "MOST_UNFINISHED", 1)
    put(world, "PAYMENTS", "PAYMENTS")
    execution = world.plan("ACTION(RETRY)", connections=connections)
    embedded_mq.faults.set("MQCONNX:2:2537:before")

    if connections == 1:
        assert make_pass(execution).attempts == 2
        return
    with pytest.raises(QueueManagerError) as caught:
        make_pass(execution)

    assert str(caught.value) == (
        "MQCONN of queue manager QM1 as connection 1 of 2 failed: MQRC_CHANNEL_NOT_AVAILABLE"
        " (2537) [MQDLQ-100]"
    )


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("call", "numbers"),
    [
        ("MQCMIT", range(1, 9)),
        ("MQPUT1[MQDLQ.STATE]", range(1, 9, 2)),
        ("MQPUT1[ORDERS]", range(1, 5)),
        ("MQINQ", range(3, 40, 6)),
    ],
)
def test_a_failure_in_one_lane_stops_all_and_loses_and_repeats_no_message(
    world: World, call: str, numbers: range, when: str
) -> None:
    """Among the MQINQs are those by which a lane makes sure of the state queue."""
    for number in numbers:
        bodies = put(world, *QUEUES * 4)
        execution = world.plan(TWICE, connections=3)
        embedded_mq.faults.set(f"{call}:{number}:2009:{when}")
        with suppress(QueueManagerError):
            make_pass(execution)
        embedded_mq.faults.set("")

        bring_to_the_end(world, execution)

        for place, queue in enumerate(QUEUES):
            assert world.bodies(queue) == bodies[place::3], (number, queue)
        world.clear(*QUEUES)


def test_a_lane_commits_nothing_after_the_state_queue_is_lost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another executor may hold it by then; it finds the intended moves, and waits for them."""
    put(world, "PAYMENTS")
    execution = world.plan("ACTION(RETRY)")
    require_hold = Lanes.require_hold

    def lose_it(self: Lanes[Any]) -> None:
        embedded_mq.faults.set("MQINQ:1:2009:before")
        require_hold(self)

    monkeypatch.setattr(Lanes, "require_hold", lose_it)
    with pytest.raises(QueueManagerError, match=r"MQINQ of queue manager QM1 failed: .* \(2009\)"):
        make_pass(execution)

    assert world.bodies("PAYMENTS") == []
    assert len(world.ledger.attempts.intended("QM1", "DLQ")) == 1
    monkeypatch.setattr(Lanes, "require_hold", require_hold)
    bring_to_the_end(world, execution)
    assert world.bodies("PAYMENTS") == [b"00"]


def test_an_exception_of_the_pass_backs_out_what_lanes_have_not_committed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection of the pass is lost when it resolves the name of the last destination."""
    monkeypatch.setattr(lanes, "MOST_UNFINISHED", 1)
    bodies = put(world, *["PAYMENTS"] * 6, "PARKED")
    execution = world.plan("ACTION(RETRY)")
    embedded_mq.faults.set("MQOPEN[PARKED]:1:2009:before")
    with pytest.raises(QueueManagerError, match=r"\(2009\)"):
        make_pass(execution)
    embedded_mq.faults.set("")
    assert world.bodies("PAYMENTS") == bodies[:3]

    bring_to_the_end(world, execution)

    assert world.bodies("PAYMENTS") == bodies[:-1]
    assert world.bodies("PARKED") == bodies[-1:]


def test_without_a_state_queue_one_connection_moves_each_message_alone(world: World) -> None:
    world.mqsc("DELETE QLOCAL(MQDLQ.STATE)")
    put(world, "PAYMENTS", "ORDERS")
    execution = world.plan("ACTION(RETRY)")
    embedded_mq.faults.set("MQCONNX:2:2537:before")

    assert make_pass(execution).attempts == 2

    embedded_mq.faults.set("")
    assert world.depths("PAYMENTS", "ORDERS") == (1, 1)
