"""Test that a task waits five minutes for the state queue and then names its holder."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from mqdlq.errors import AnotherExecutorError
from mqdlq.resources import Resources
from mqdlq.stages.units.interruptions import hold_state_queue
from tests.support.restorations import discard, prepare_restoration
from tests.support.world import NOON, World

pytestmark = pytest.mark.stages

HELD = (
    "another executor holds the state queue MQDLQ.STATE of queue manager QM1 (MQRC_OBJECT_IN_USE"
    " (2042)), and only one at a time may act on a dead-letter queue; "
)
A_RUN = (
    "by this ledger it is run run-1 of handler test on queue DLQ, whose last pass began at"
    " 2026-11-21 12:00:00 UTC [MQDLQ-602]"
)
A_RESTORATION = "by this ledger it is restoration restoration-1, asked for at {} UTC [MQDLQ-602]"


@pytest.fixture(name="world")
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    world = World(tmp_path)
    with world.ledger:
        yield world


def resources(world: World) -> Resources:
    return Resources(
        settings=world.settings,
        ledger=world.ledger,
        lake_root=world.lake_root,
        clock=world.clock,
        sleep=world.clock.sleep,
        log=world.log,
    )


def refusal(world: World) -> str:
    """Hold the state queue over another connection while a task waits; return its error."""
    with world.connect() as other, world.connect() as ours:
        held = other.open("MQDLQ.STATE", other.client.CMQC.MQOO_INPUT_EXCLUSIVE)
        with (
            pytest.raises(AnotherExecutorError) as refused,
            hold_state_queue(ours, "MQDLQ.STATE", resources(world)),
        ):
            pass
        other.close(held)
    return str(refused.value)


def test_a_task_waits_five_minutes_for_the_state_queue(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        said = refusal(world)

    unknown = "this ledger knows of no pass there: the holder keeps another ledger"
    assert said == f"{HELD}{unknown} [MQDLQ-602]"
    assert world.clock.now - NOON == timedelta(minutes=5)
    waiting = [record.message for record in caplog.records]
    assert waiting == [f"waiting for another executor: {HELD.rstrip('; ')}; {unknown}"] * 30


def test_a_task_waits_for_longer_while_other_runs_take_turns(world: World) -> None:
    """Runs that wait for limited rates leave the state queue to others after some minutes."""
    world.dead_letter()
    world.handle("ACTION(RETRY)")
    began = world.clock.now

    def sleep(seconds: float) -> None:
        world.clock.sleep(seconds)
        if world.clock.now - began in {timedelta(minutes=4), timedelta(minutes=8)}:
            world.ledger.runs.record_pass("run-1", world.clock.now)

    with world.connect() as other, world.connect() as ours:
        held = other.open("MQDLQ.STATE", other.client.CMQC.MQOO_INPUT_EXCLUSIVE)
        with (
            pytest.raises(AnotherExecutorError),
            hold_state_queue(ours, "MQDLQ.STATE", replace(resources(world), sleep=sleep)),
        ):
            pass
        other.close(held)

    assert world.clock.now - began == timedelta(minutes=13)


def test_a_task_continues_when_the_state_queue_is_released(world: World) -> None:
    with world.connect() as other, world.connect() as ours:
        held = other.open("MQDLQ.STATE", other.client.CMQC.MQOO_INPUT_EXCLUSIVE)

        def release(seconds: float) -> None:
            world.clock.sleep(seconds)
            other.close(held)

        with hold_state_queue(
            ours, "MQDLQ.STATE", replace(resources(world), sleep=release)
        ) as state:
            assert state.markers() == []
    assert world.clock.now - NOON == timedelta(seconds=10)


def test_the_run_whose_pass_began_last_is_named(world: World) -> None:
    world.dead_letter()
    world.handle("ACTION(RETRY)")

    assert refusal(world) == HELD + A_RUN


@pytest.mark.parametrize(("later", "holder"), [(0, A_RESTORATION), (1, A_RESTORATION), (-1, A_RUN)])
def test_the_newer_of_a_restoration_and_a_pass_is_named(
    world: World, later: int, holder: str
) -> None:
    """If both began at once, it is the restoration: a pass ends before a restoration starts."""
    discard(world, b"body")
    world.clock.now = asked_at = NOON + timedelta(seconds=later)
    prepare_restoration(world)

    assert refusal(world) == HELD + holder.format(f"{asked_at:%Y-%m-%d %H:%M:%S}")


def test_a_restoration_is_named_where_no_pass_is_known(world: World) -> None:
    discard(world, b"body")
    elsewhere = replace(
        prepare_restoration(world).restoration, restoration_id="restoration-2", state_queue="ORDERS"
    )
    world.ledger.restorations.record(elsewhere, world.ledger.archive.copies())
    with world.connect() as other, world.connect() as ours:
        held = other.open("ORDERS", other.client.CMQC.MQOO_INPUT_EXCLUSIVE)
        with (
            pytest.raises(AnotherExecutorError, match="it is restoration restoration-2"),
            hold_state_queue(ours, "ORDERS", resources(world)),
        ):
            pass
        other.close(held)
