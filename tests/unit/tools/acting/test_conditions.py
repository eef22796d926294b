"""Preview an action on all messages that meet a condition: counts, obstacles, pace, and the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from mqdlq.constants import MQPER
from mqdlq.handlers import Handler
from mqdlq.handlers.operation import ApprovalGuards
from mqdlq.lake.filters import FilterError, MessageFilter
from mqdlq.model import Outcome
from mqdlq.stages.execute import make_pass, settle
from mqdlq.tools.acting import (
    AskedAction,
    Preview,
    Selection,
    Sources,
    Verb,
    build_preview,
    has_come_back,
)
from tests.support.postgresql import ledger_url_fixture
from tests.support.world import World

__all__ = ["ledger_url_fixture"]
pytestmark = pytest.mark.slow

RULES = "WAIT(NO)\nDESTQ(ORDERS) ACTION(DISCARD)\nACTION(IGNORE)\n"
RETRY = AskedAction(Verb.RETRY)
FULL = Selection(chosen=MessageFilter(reason=2053))


@pytest.fixture(name="world")
def _world(tmp_path_factory: pytest.TempPathFactory, ledger_url: str) -> Iterator[World]:
    with (world := World(tmp_path_factory.mktemp("world"), ledger_url=ledger_url)).ledger:
        yield world


def sources(world: World) -> Sources:
    return Sources("test", world.ledger, world.lake_root, world.clock)


def preview(
    world: World, asked: AskedAction = RETRY, selection: Selection = FULL, **keys: Any
) -> Preview:
    handler = Handler(
        name="test", directory=world.directory, connection="mq", rules="test.rules", **keys
    )
    return build_preview(selection, asked, handler, sources(world))


def snapshot(world: World, *, dry_run: bool = True) -> str:
    """Let a run over all messages take a snapshot; return its id."""
    execution = world.plan(RULES, dry_run=dry_run)
    make_pass(execution)
    settle(execution)
    world.clock.sleep(1)
    return world.recorded_snapshot(execution.run.run_id).snapshot_id


def act(world: World, conf: dict[str, Any]) -> Counter[Outcome]:
    """Carry out what a preview says."""
    given = {name: conf[name] for name in ("where", "as_of", "action") if name in conf}
    execution = world.plan(RULES, message_keys=tuple(conf.get("message_keys", ())), **given)
    make_pass(execution)
    world.clock.sleep(1)
    return settle(execution)


def test_alike_messages_are_counted_together_and_exactly(world: World) -> None:
    for number in range(12):
        world.dead_letter(b"%d" % (number % 10))
    for place in ("AMQ.5F2A6C7E21034B02", "AMQ.5F2A6C7E21034B03"):
        world.dead_letter(b"x", dest_q=place, Persistence=MQPER["MQPER_NOT_PERSISTENT"])
    world.dead_letter(dest_q="ORDERS", reason=2035)
    before = snapshot(world)

    found = preview(world)

    assert found.messages == 14
    assert found.size == 14 * 172 + 14
    assert found.counts("destination") == [("PAYMENTS @ QM1", 12), ("AMQ.* @ QM1", 2)]
    assert found.counts("persistence") == [("persistent", 12), ("not persistent", 2)]
    assert found.counts("age") == [("under a day", 14)]
    assert len(found.ready) == 2
    assert found.selection.as_of == before
    assert found.may_try_one
    assert found.conf(dry_run=False, why="") == {
        "dry_run": False,
        "why": None,
        "where": "reason=2053",
        "as_of": before,
        "action": "ACTION(RETRY) RETRY(1)",
        "input_q": "DLQ",
        "input_q_mgr": "QM1",
    }


def test_what_is_ready_in_a_preview_is_what_its_run_moves(world: World) -> None:
    for body in (b"one", b"two", b"three"):
        world.dead_letter(body)
    world.put("DLQ", b"no dead letter")
    snapshot(world)
    found = preview(world, selection=Selection(chosen=MessageFilter(application="putter")))
    world.dead_letter(b"arrived since")

    assert [number for _, number in found.obstacles] == [1]
    assert act(world, found.conf(dry_run=False, why="")) == {
        Outcome.DELIVERED: found.messages,
        Outcome.NOT_SELECTED: 2,
    }


def test_messages_that_their_run_or_a_later_one_moved_are_left_out(world: World) -> None:
    world.dead_letter(b"archived", dest_q="ORDERS")
    for body in (b"one", b"two"):
        world.dead_letter(body)
    before = snapshot(world, dry_run=False)
    pinned = Selection(chosen=FULL.chosen, as_of=before)
    first = preview(world, selection=pinned)
    act(world, first.conf(dry_run=False, why="", only_one=True))

    found = preview(world, selection=pinned)

    assert (first.messages, found.messages) == (2, 1)
    assert found.obstacles == [
        ("it is not on the queue any more: delivered", 1),
        ("it is not on the queue any more: discarded", 1),
    ]
    assert found.digest != first.digest


def test_two_people_who_act_on_one_cause_at_once_put_each_message_once(world: World) -> None:
    for number in range(6):
        world.dead_letter(b"%d" % number)
    snapshot(world)
    conf, same = (preview(world).conf(dry_run=False, why="") for _ in range(2))
    first, second = (
        world.plan(RULES, **{name: one[name] for name in ("where", "as_of", "action")})
        for one in (conf, same)
    )

    make_pass(first)
    make_pass(second)
    world.clock.sleep(1)

    assert settle(second) == {Outcome.LEASED_BY_RUN: 6}
    assert settle(first) == {Outcome.DELIVERED: 6}
    assert sorted(world.bodies("PAYMENTS")) == [b"%d" % number for number in range(6)]
    assert world.bodies("DLQ") == []


def test_messages_under_a_hold_or_of_another_run_are_left_out_and_stay(world: World) -> None:
    for body in (b"held", b"leased", b"free"):
        world.dead_letter(body)
    settle(world.plan("WAIT(NO)\nACTION(RETRY)\n", dry_run=True))
    held, leased, _ = world.ledger.messages.of_run("run-1")
    world.clock.sleep(1)
    now = world.clock.now
    world.ledger.holds.add(message_key=held.message_key.hex(), reason="court", who="ann", at=now)
    world.ledger.messages.lease("run-1", [leased.message_id], now + timedelta(hours=1))

    found = preview(world)

    assert found.messages == 1
    assert found.obstacles == [
        ("legal hold 1 covers it: release the hold first", 1),
        ("run run-1 has it at the moment: wait until that run ends", 1),
    ]
    assert act(world, found.conf(dry_run=False, why="")) == {
        Outcome.DELIVERED: 1,
        Outcome.LEASED_BY_RUN: 1,
        Outcome.NOT_SELECTED: 1,
    }
    assert world.bodies("PAYMENTS") == [b"free"]


def test_a_preview_says_what_the_guard_of_messages_asks_and_how_long_it_takes(
    world: World,
) -> None:
    for number in range(12):
        world.dead_letter(b"%d" % number)
    snapshot(world)

    found = preview(
        world,
        approval=ApprovalGuards(messages=11),
        ramp={"steps": [1, 10], "watch": timedelta(minutes=2)},
        limits={"messages_per_second": 0.01, "messages_per_run": 5},
    )

    assert found.guards == ("12 messages are acted on, more than 11",)
    assert found.pace == (
        "at least 20 min 0 s, by the ramp and the rates of the handler; a run moves at most 5 of"
        " them"
    )
    assert preview(world, ramp={"steps": [1, 10], "watch": timedelta(minutes=2)}).pace == (
        "at least 4 min 0 s, by the ramp and the rates of the handler"
    )
    assert preview(world).pace == "at full speed: no ramp and no rate of the handler applies"
    assert found.watch == timedelta(minutes=2)


def test_one_message_is_tried_first_and_a_snapshot_shows_whether_it_came_back(
    world: World,
) -> None:
    for number in range(12):
        world.dead_letter(b"%d" % number, MsgId=b"%024d" % number)
    snapshot(world)
    found = preview(world)

    assert act(world, found.conf(dry_run=False, why="", only_one=True)) == {
        Outcome.DELIVERED: 1,
        Outcome.NOT_SELECTED: 11,
    }
    run = world.ledger.runs.get("run-2")
    assert run is not None
    assert not has_come_back("test", run, sources(world))
    world.dead_letter(b"0", reason=2051, MsgId=b"%024d" % 0)
    snapshot(world)
    assert has_come_back("test", run, sources(world))


def test_a_snapshot_that_is_not_of_the_handler_is_refused(world: World) -> None:
    world.dead_letter()
    snapshot(world)

    with pytest.raises(FilterError) as caught:
        preview(world, selection=Selection(chosen=FULL.chosen, as_of="s1"))

    assert str(caught.value) == (
        "as_of: found 's1'; expected a snapshot of this handler; preview again [MQDLQ-975]"
    )
