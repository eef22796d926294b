"""Test whether a run waits for its next pass."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mqdlq.handlers import Handler
from mqdlq.stages.execute.passes import find_reason_not_to_wait
from mqdlq.stages.stopping import ask_to_stop
from tests.support.run_records import NOON, run_record
from tests.support.world import World

LATE = "max_run_time ends before the next pass"


def reason_not_to_wait(world: World, seconds: int, run: Any = None, **keys: Any) -> str:
    """Ask for a run from noon that may take an hour, and a pass at this time after noon."""
    handler = Handler(name="demo", directory=Path(), connection="mq", rules="demo.rules", **keys)
    moment = NOON + timedelta(seconds=seconds)
    return find_reason_not_to_wait(run or run_record(), handler, world.ledger, 2, moment)


@pytest.mark.parametrize(("seconds", "why"), [(60, ""), (3600, ""), (3601, LATE)])
def test_a_run_waits_for_a_pass_within_max_run_time(world: World, seconds: int, why: str) -> None:
    assert reason_not_to_wait(world, seconds) == why


def test_the_time_of_a_run_counts_from_its_snapshot(world: World) -> None:
    """It may have waited long for its first message."""
    world.dead_letter()
    run = world.start("ACTION(RETRY)")
    world.clock.sleep(1800)
    world.snapshot(run)

    assert reason_not_to_wait(world, 5400, run) == ""
    assert reason_not_to_wait(world, 5401, run) == LATE


def test_a_continuous_run_leaves_its_retries_to_the_next_run(world: World) -> None:
    said = "2 messages are left to the pass of the next run"

    assert reason_not_to_wait(world, 60, schedule="@continuous") == said


def test_a_run_that_is_to_stop_waits_for_no_pass(world: World) -> None:
    run = world.start("ACTION(RETRY)")
    ask_to_stop(run, world.ledger, "alice", "", NOON)

    assert reason_not_to_wait(world, 60, run) == "the run was stopped by alice"
