"""Limits of rates, depths and by time pace a pass, and hold messages for longer waits."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mqdlq.controls.limits import RATE_KEYS
from mqdlq.controls.limits.control import RateLimits, meter_unit
from mqdlq.controls.settings import Controls
from mqdlq.controls.work import Planned, PlannedAttempt, WorkItem
from mqdlq.ledger import Ledger, open_ledger
from mqdlq.ledger.messages import RunMessage
from mqdlq.ledger.tables import Meter, Rate, Run, meters
from mqdlq.model import Action, Disposition, Outcome, PutAuthority, Step
from mqdlq.mqi.browse import BrowsedMessage
from mqdlq.mqi.connect import ConnectionSettings
from mqdlq.stages.execute import Execution, make_pass, settle
from mqdlq.stages.units.destinations import Destinations
from tests.support.postgresql import ledger_url_fixture
from tests.support.world import NOON, Clock, World

pytestmark = pytest.mark.stages

__all__ = ["ledger_url_fixture"]

RETRY = "WAIT(NO) RETRYINT(3600)\nACTION(RETRY)"
STEP = Step(1, 1, Action.RETRY, "ORDERS", "", header=False, put_authority=PutAuthority.DEF, tries=1)


def limits(**keys: Any) -> dict[str, Any]:
    return {"limits": keys}


def to_orders(**keys: Any) -> dict[str, Any]:
    return limits(destinations=[{"queue": "ORDERS", **keys}])


@dataclass
class Mover:
    """A run that makes attempts as fast as its limits allow; it moves no message.

    Each has its own clock, so that several movers take turns as processes do.
    """

    name: str
    ledger: Ledger
    run: Run
    keys: dict[str, Any]
    clock: Clock = field(default_factory=Clock)
    moved_at: list[datetime] = field(default_factory=list)

    def __post_init__(self) -> None:
        execution = Execution(
            run=replace(self.run, run_id=self.name, handler=self.name.partition("-")[0]),
            settings=ConnectionSettings("QM1", transport="embedded"),
            ledger=self.ledger,
            lake_root="",
            clock=self.clock,
            sleep=self.clock.sleep,
            log=logging.getLogger("mqdlq.test"),
        )
        self.control = RateLimits(execution, Controls.model_validate(self.keys).limits)

    def pause(self, move: Planned) -> bool:
        del move
        return True

    def await_results(self) -> None:
        """Know all results at once: nothing is moved."""

    @property
    def destinations(self) -> Destinations:
        raise AssertionError("no depth is limited")

    def move(self, length: int = 100) -> None:
        message = RunMessage(1, 1, bytes(32), 0, 0, Disposition.PLANNED)
        item = WorkItem(message, (STEP,), 0, None)
        browsed = BrowsedMessage(bytes(364), b"", 172 + length)
        planned = PlannedAttempt(item, STEP, browsed)
        assert self.control.pace(Planned((planned,)), self) is None
        self.control.admit(planned)
        self.moved_at.append(self.clock.now)


def race(movers: Sequence[Mover], each: int, start: datetime = NOON) -> list[float]:
    """Let each mover make this many attempts; return the seconds after `start` of all, sorted.

    The mover whose clock is behind is next, as with processes on one clock.
    """
    for mover in movers:
        mover.clock.now = start
    for _ in range(each * len(movers)):
        waiting = [mover for mover in movers if len(mover.moved_at) < each]
        min(waiting, key=lambda mover: mover.clock.now).move()
    moments = sorted(moment for mover in movers for moment in mover.moved_at)
    return [(moment - start).total_seconds() for moment in moments]


@pytest.fixture(name="world")
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Return a world with one client library: a limit knows none."""
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    world = World(tmp_path)
    with world.ledger:
        yield world


@pytest.fixture(name="shared")
def _shared(world: World) -> tuple[Ledger, Run]:
    """Return a ledger, and a run to derive others from."""
    return world.ledger, world.start(RETRY)


def test_runs_and_handlers_keep_one_limit_together(
    shared: tuple[Ledger, Run], ledger_url: str
) -> None:
    """Over 1,000 messages, and over every ten seconds, within a tenth."""
    with open_ledger(ledger_url) as ledger:
        for hour, names in enumerate((["one-1"], ["one-1", "one-2"], ["one-1", "two-1"])):
            keys = to_orders(messages_per_second=50)
            movers = [Mover(name, ledger, shared[1], keys) for name in names]

            moments = race(movers, 1000 // len(movers), NOON + timedelta(hours=hour))

            assert len(moments) == 1000
            assert 1000 / 50 * 0.9 <= moments[-1] <= 1000 / 50 * 1.1
            assert max(sum(one <= each < one + 10 for each in moments) for one in moments) <= 550


def test_the_limit_of_a_handler_does_not_delay_another_handler(
    shared: tuple[Ledger, Run],
) -> None:
    movers = [Mover(name, *shared, limits(messages_per_second=50)) for name in ("one-1", "two-1")]

    assert 18 <= race(movers, 1000)[-1] <= 22


def test_the_stricter_limit_of_two_handlers_holds_for_both(shared: tuple[Ledger, Run]) -> None:
    strict = Mover("strict-1", *shared, to_orders(messages_per_second=10))
    lenient = Mover("lenient-1", *shared, to_orders(messages_per_second=1000))

    assert 18 <= race([strict, lenient], 100)[-1] <= 22


def test_a_burst_moves_at_once(shared: tuple[Ledger, Run]) -> None:
    mover = Mover("one-1", *shared, to_orders(messages_per_second=2, burst=20))

    assert race([mover], 24) == [0] * 20 + [1, 1, 2, 2]


def test_bytes_are_limited_as_messages_are(shared: tuple[Ledger, Run]) -> None:
    """100 bytes each: ten a second; a message of three seconds goes, and the next one waits."""
    mover = Mover("one-1", *shared, to_orders(bytes_per_second=1000))

    moments = race([mover], 100)
    mover.move(length=3000)
    mover.move()
    long, after = ((moment - NOON).total_seconds() for moment in mover.moved_at[-2:])

    assert 9 <= moments[-1] <= 11
    assert 2.9 <= after - long <= 4


def test_a_rate_of_bytes_is_reached_by_messages_that_do_not_fill_a_second(
    shared: tuple[Ledger, Run],
) -> None:
    mover = Mover("one-1", *shared, to_orders(bytes_per_second=1000))
    mover.clock.now = NOON
    for _ in range(100):
        mover.move(length=600)

    assert 54 <= (mover.moved_at[-1] - NOON).total_seconds() <= 66


def test_the_bytes_of_a_minute_move_at_once_and_then_at_their_rate(
    shared: tuple[Ledger, Run],
) -> None:
    mover = Mover("one-1", *shared, to_orders(bytes_per_minute=6000, bytes_per_second=6000))

    moments = race([mover], 100)

    assert moments[:60] == [0] * 60
    assert moments[60:] == list(range(1, 41))


@pytest.mark.parametrize("key", RATE_KEYS)
def test_the_ledger_has_room_for_the_unit_of_each_limit(key: str) -> None:
    assert len(meter_unit(key)) <= getattr(meters.c.unit.type, "length")  # noqa: B009 (of a String)


def test_a_message_that_the_bytes_of_a_minute_hold_says_so(world: World) -> None:
    for _ in range(2):
        world.dead_letter(bytes(100), dest_q="ORDERS")
    execution = world.plan(RETRY, **to_orders(bytes_per_minute=40))
    make_pass(execution)

    assert settle(execution) == {Outcome.DELIVERED: 1, Outcome.NOT_ATTEMPTED: 1}
    whys = [fact.why.words for fact in world.ledger.outcomes.of_run("run-1").values()]
    assert whys[1] == "the limit of queue ORDERS is 40 bytes a minute (limits: bytes_per_minute)"


def test_a_queue_manager_has_one_limit_for_all_handlers(shared: tuple[Ledger, Run]) -> None:
    keys = limits(queue_manager={"messages_per_second": 50})
    movers = [Mover(name, *shared, keys) for name in ("one-1", "two-1", "three-1", "four-1")]

    assert 18 <= race(movers, 250)[-1] <= 22


# -- passes


def test_a_pass_waits_without_an_open_unit_of_work(world: World) -> None:
    for number in range(30):
        world.dead_letter(b"%02d" % number, dest_q="ORDERS")
    execution = world.plan(RETRY, **to_orders(messages_per_second=10))
    arrived: list[int] = []

    def sleep(seconds: float) -> None:
        arrived.append(world.depths("ORDERS")[0])
        world.clock.sleep(seconds)

    result = make_pass(replace(execution, sleep=sleep))

    assert (result.attempts, result.next_pass_at) == (30, None)
    assert arrived == [10, 20]
    assert world.clock.now == NOON + timedelta(seconds=2)
    assert world.bodies("ORDERS") == [b"%02d" % number for number in range(30)]
    assert settle(execution) == {Outcome.DELIVERED: 30}


@pytest.mark.long
@pytest.mark.slow
def test_a_thousand_messages_of_two_runs_take_the_time_of_their_limit(world: World) -> None:
    for half in range(2):
        for _ in range(500):
            world.dead_letter(dest_q="ORDERS")
        keys = to_orders(messages_per_second=50)
        execution = world.plan(RETRY, run_id=f"run-{half}", **keys)
        assert make_pass(execution).next_pass_at is None
        assert settle(execution) == {Outcome.DELIVERED: 500}

    assert 18 <= (world.clock.now - NOON).total_seconds() <= 22


def test_a_wait_of_more_than_a_minute_is_a_hold(world: World) -> None:
    """Messages to another queue move, and the next pass is made when the limit allows one."""
    for dest_q in ("ORDERS", "ORDERS", "PAYMENTS"):
        world.dead_letter(dest_q=dest_q)
    execution = world.plan(RETRY, **to_orders(messages_per_second=1 / 120))

    first = make_pass(execution)
    world.clock.now = NOON + timedelta(seconds=120)
    second = make_pass(execution)

    assert (first.attempts, first.pending, first.next_pass_at) == (2, 1, world.clock.now)
    assert (second.attempts, second.pending) == (1, 0)


def test_a_message_that_a_limit_holds_to_the_end_is_not_attempted(world: World) -> None:
    for _ in range(2):
        world.dead_letter(dest_q="ORDERS")
    execution = world.plan(RETRY, **to_orders(messages_per_second=1 / 120))
    make_pass(execution)

    assert settle(execution) == {Outcome.DELIVERED: 1, Outcome.NOT_ATTEMPTED: 1}
    whys = [fact.why.words for fact in world.ledger.outcomes.of_run("run-1").values()]
    assert whys[1] == (
        "the limit of queue ORDERS is 0.00833333 messages a second (limits: messages_per_second)"
    )


def test_a_pass_that_has_waited_for_three_minutes_gives_other_runs_a_turn(world: World) -> None:
    for number in range(30):
        world.dead_letter(b"%02d" % number, dest_q="ORDERS")
    execution = world.plan(RETRY, **to_orders(messages_per_second=0.1))

    first = make_pass(execution)
    ended, next_pass_at = world.clock.now, first.next_pass_at
    world.clock.now = next_pass_at or ended
    second = make_pass(execution)

    assert ended == NOON + timedelta(minutes=3)
    assert (first.attempts, first.pending) == (19, 11)
    assert next_pass_at == ended + timedelta(seconds=12)
    assert (second.attempts, second.pending) == (11, 0)
    assert world.bodies("ORDERS") == [b"%02d" % number for number in range(30)]


def test_a_closed_destination_takes_nothing_until_its_window_ends(world: World) -> None:
    world.dead_letter(dest_q="ORDERS")
    world.dead_letter(dest_q="PAYMENTS")
    window = {"cron": "30 12 * * *", "for": "PT1H", "time_zone": "Europe/Berlin"}
    execution = world.plan(RETRY, **to_orders(closed=[window]))

    first = make_pass(execution)
    reopens = NOON + timedelta(minutes=30)
    outcomes = settle(execution)

    assert (first.attempts, first.pending, first.next_pass_at) == (1, 1, reopens)
    assert outcomes == {Outcome.DELIVERED: 1, Outcome.NOT_ATTEMPTED: 1}
    (why,) = (
        fact.why.words
        for fact in world.ledger.outcomes.of_run("run-1").values()
        if fact.outcome is Outcome.NOT_ATTEMPTED
    )
    assert why == "queue ORDERS is closed until 2026-11-21 12:30:00 UTC (limits: closed)"


def test_a_window_that_begins_during_a_wait_holds_the_message_that_waits(world: World) -> None:
    for _ in range(2):
        world.dead_letter(dest_q="ORDERS")
    world.clock.now = NOON + timedelta(minutes=29, seconds=50)
    window = {"cron": "30 12 * * *", "for": "PT1H"}
    execution = world.plan(RETRY, **to_orders(messages_per_second=0.05, closed=[window]))

    result = make_pass(execution)

    assert world.clock.now == NOON + timedelta(minutes=30, seconds=10)
    assert (result.attempts, result.pending) == (1, 1)
    assert result.next_pass_at == NOON + timedelta(minutes=90)
    assert world.depths("DLQ", "ORDERS") == (1, 1)


def test_a_queue_is_filled_to_its_limit_and_refilled_as_it_is_read(world: World) -> None:
    for _ in range(12):
        world.dead_letter(dest_q="ORDERS")
    execution = world.plan(RETRY, **to_orders(in_flight=5))
    depths: list[int] = []

    def sleep(seconds: float) -> None:
        depths.append(world.depths("ORDERS")[0])
        world.clock.sleep(seconds)
        if len(depths) == 1:
            world.lose_first("ORDERS")
            world.lose_first("ORDERS")

    result = make_pass(replace(execution, sleep=sleep))

    assert depths == [5] * 11
    assert world.depths("ORDERS") == (5,)
    assert (result.attempts, result.pending) == (7, 5)
    assert result.next_pass_at == world.clock.now + timedelta(minutes=1)


def test_a_depth_that_cannot_be_inquired_is_a_warning(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.mqsc("DEFINE QALIAS(ORDERS.ALIAS) TARGET(ORDERS)")
    for _ in range(3):
        world.dead_letter(dest_q="ORDERS.ALIAS")

    outcomes = world.handle(RETRY, **limits(destinations=[{"queue": "*", "in_flight": 1}]))

    assert list(outcomes.values()) == ["delivered"] * 3
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == [
        (
            "the limit in_flight of ORDERS.ALIAS is not applied, because its depth cannot be"
            " inquired; name a local queue that the user may inquire (+inq) [MQDLQ-615]"
        )
    ]


def test_messages_for_a_blocked_queue_use_no_limit(world: World) -> None:
    for _ in range(40):
        world.dead_letter(dest_q="CLOSED")
    keys = limits(messages_per_second=10, messages_per_run=1)
    execution = world.plan(RETRY, hold_while_blocked=True, **keys)

    make_pass(execution)

    assert world.clock.now == NOON
    assert settle(execution) == {Outcome.NOT_ATTEMPTED: 40}
    assert {fact.why.words for fact in world.ledger.outcomes.of_run("run-1").values()} == {
        "held: CLOSED has MQRC_PUT_INHIBITED (2051)"
    }


def test_a_pass_gives_back_what_it_did_not_use(world: World) -> None:
    world.dead_letter(dest_q="ORDERS")
    world.handle(RETRY, **to_orders(messages_per_second=50))
    meter, now = Meter("queue ORDERS at QM1", "messages"), world.clock.now

    ready_at, _ = world.ledger.meters.reserve(
        meter, Rate(50, 50), 49, handler="test", now=now, latest=now
    )

    assert ready_at == now


def test_no_limit_uses_no_meter(world: World) -> None:
    world.dead_letter()
    world.handle(RETRY, **limits(messages_per_run=5))

    assert world.ledger.meters.refusals("run-1", NOON) == {}
