"""Test that an interrupted unit is settled when its result is proven."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import embedded_mq
from mqdlq.model import AttemptState, Outcome
from mqdlq.stages.execute import Execution, make_pass, settle
from tests.support.world import World

pytestmark = pytest.mark.stages


@pytest.fixture(name="world")
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    world = World(tmp_path)
    with world.ledger:
        yield world
    embedded_mq.faults.set("")


def in_doubt(world: World) -> tuple[Execution, bytes, bytes]:
    """Lose the answer of a commit, then the marker; return also the marker and its MsgId."""
    world.dead_letter()
    execution = world.plan("ACTION(RETRY)")
    world.interrupted_pass(execution, "MQCMIT:1:2009:after")
    ((descriptor, marker),) = world.messages("MQDLQ.STATE")
    world.mqsc("CLEAR QLOCAL(MQDLQ.STATE)")
    return execution, marker, descriptor.MsgId


def test_a_unit_without_proof_is_given_up_after_a_minute(world: World) -> None:
    execution, *_ = in_doubt(world)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        world.clock.sleep(seconds)

    make_pass(replace(execution, sleep=sleep))

    assert slept == [1.0] * 60
    assert [a.state for a in world.ledger.attempts.of_run("run-1")] == [AttemptState.UNKNOWN]


def test_a_proof_that_appears_while_a_task_waits_settles_the_unit(world: World) -> None:
    execution, marker, message_id = in_doubt(world)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        world.clock.sleep(seconds)
        if len(slept) == 3:
            world.put("MQDLQ.STATE", marker, MsgId=message_id)

    make_pass(replace(execution, sleep=sleep))

    assert slept == [1.0] * 3
    assert settle(execution) == {Outcome.DELIVERED: 1}
