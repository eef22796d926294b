"""Keys of a handler change what its runs do; the tests of other keys are beside their effects."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mqdlq.handlers import Handler
from mqdlq.ledger.runs import LastAccount
from mqdlq.stages.execute import make_pass
from mqdlq.stages.execute.passes import find_reason_not_to_wait
from mqdlq.stages.retention import prune_for_handler
from mqdlq.stages.sense import find_work_for_next_run
from mqdlq.stages.snapshot.capture import SnapshotOptions
from tests.support.world import NOON, World
from tests.unit.controls.loops.returning import send_back

pytestmark = pytest.mark.slow

RULES = "WAIT(NO) RETRYINT(1)\nACTION(RETRY) RETRY(9)\n"


def seconds(world: World, **keys: Any) -> list[int]:
    """Handle three messages of about a kilobyte; return when each was moved, from the start."""
    for number in range(3):
        world.dead_letter(b"%d" % number * 1000)
    world.handle(RULES, **keys)
    return [int((one.at - NOON).total_seconds()) for one in world.ledger.attempts.of_run("run-1")]


@pytest.mark.parametrize("place", ["limits", "queue_manager"])
@pytest.mark.parametrize("key", ["messages_per_second", "bytes_per_second", "bytes_per_minute"])
def test_a_limit_of_a_rate_spreads_the_messages(world: World, key: str, place: str) -> None:
    rate = {key: 0.1 if key == "messages_per_second" else 600}

    found = seconds(world, limits=rate if place == "limits" else {place: rate})

    assert found[0] == 0
    assert found == sorted(set(found)), "each message waits for the one before it"


@pytest.mark.parametrize("place", ["limits", "queue_manager"])
def test_a_burst_moves_as_many_messages_at_once(world: World, place: str) -> None:
    rate = {"messages_per_second": 0.1, "burst": 3}

    assert seconds(world, limits=rate if place == "limits" else {place: rate}) == [0, 0, 0]


def attempts(world: World, **keys: Any) -> int:
    """Put two messages; return how many of them the first pass of a new run moves."""
    world.dead_letter(b"one more")
    world.dead_letter(b"another")
    return make_pass(world.plan(RULES, **keys)).attempts


def test_a_ramp_that_was_forgotten_begins_again(world: World) -> None:
    ramp = {"steps": [1], "watch": 1, "forget_after": 3600}
    attempts(world, ramp=ramp)
    world.handle(RULES, ramp=ramp)
    world.clock.now += timedelta(hours=2)

    assert attempts(world, ramp=ramp) == 1


def test_a_breaker_stays_closed_until_so_many_messages_have_come_back(world: World) -> None:
    breaker = {"returns": 2, "pause": 600, "watch": 60}
    world.dead_letter()
    world.handle(RULES, breaker=breaker)
    send_back(world)

    assert attempts(world, breaker=breaker) == 3


def test_a_breaker_closes_when_nothing_has_come_back_for_its_watch(world: World) -> None:
    breaker = {"failures": 1, "pause": 60, "watch": 7200}
    rules = "WAIT(NO) RETRYINT(1)\nDESTQ(CLOSED) ACTION(RETRY) RETRY(9)\n"
    world.dead_letter(b"1", dest_q="CLOSED")
    world.dead_letter(b"2", dest_q="CLOSED")
    make_pass(world.plan(rules, breaker=breaker))
    world.mqsc("ALTER QLOCAL(CLOSED) PUT(ENABLED)")
    world.clock.now += timedelta(hours=1)
    make_pass(world.plan(rules, breaker=breaker))
    world.clock.now += timedelta(hours=1)

    assert make_pass(world.plan(rules, breaker=breaker)).attempts == 0


def test_the_markers_are_on_the_state_queue_of_the_handler(world: World) -> None:
    world.dead_letter()

    world.handle(RULES, state_queue="PARKED")

    assert world.depths("PARKED", "MQDLQ.STATE") == (1, 0)


def test_a_run_stops_retrying_after_its_time(world: World) -> None:
    run = world.start(RULES, max_run_time=timedelta(seconds=90))

    why = [
        find_reason_not_to_wait(run, handler(world), world.ledger, 1, NOON + timedelta(seconds=at))
        for at in (90, 91)
    ]

    assert why == ["", "max_run_time ends before the next pass"]


def handler(world: World, **keys: Any) -> Handler:
    return Handler(name="test", directory=world.directory, connection="mq", rules="x", **keys)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"payload": "full"}, {"payload": "full"}),
        ({"full_snapshot_every": timedelta(hours=1)}, {"full_every": timedelta(hours=1)}),
        ({"evidence": {"stream": True}}, {"stream": True}),
        ({"evidence": {"statistics": "STATISTICS"}}, {"statistics": "STATISTICS"}),
    ],
)
def test_a_snapshot_is_taken_as_its_handler_says(
    world: World, keys: dict[str, Any], expected: dict[str, Any]
) -> None:
    found = SnapshotOptions.from_handler(handler(world, **keys))

    assert found == SnapshotOptions(**expected)


def test_settled_messages_are_work_again_after_the_rescan_interval(world: World) -> None:
    world.dead_letter(b"1", dest_q="NOWHERE")
    world.dead_letter(b"2", dest_q="NOWHERE")
    rules = "WAIT(NO) RETRYINT(600)\nDESTQ(ANOTHER) ACTION(RETRY)\n"
    world.handle(rules)
    run = replace(world.start(rules), run_type="scheduled")

    async def depth() -> int:
        return 2

    async def account() -> LastAccount | None:
        return world.ledger.accounts.last(run.queue_manager, run.queue)

    own = handler(world, rescan_interval=timedelta(minutes=5))
    later = world.clock() + timedelta(minutes=6)
    found = asyncio.run(find_work_for_next_run(run, own, depth, account, later))

    assert found.why == "2 messages, and it is time to rescan"


@pytest.mark.parametrize(
    "keys", [{"keep_snapshots": 1}, {"keep_snapshots_for": timedelta(minutes=30)}]
)
def test_snapshots_beyond_the_limits_of_the_handler_are_removed(
    world: World, keys: dict[str, Any]
) -> None:
    for _ in range(2):
        world.handle(RULES)
        world.clock.now += timedelta(hours=1)
    run = world.start(RULES)
    world.snapshot(run)

    prune_for_handler(
        run,
        handler(world, **keys),
        world.lake_root,
        ledger=world.ledger,
        now=world.clock(),
        log=logging.getLogger("mqdlq.test"),
    )

    taken = [world.recorded_snapshot(name).location for name in ("run-1", "run-2", "run-3")]
    assert [Path(one).exists() for one in taken] == [False, False, True]
