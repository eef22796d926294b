"""Test that a plan is executed as it was accepted, or not at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from mqdlq.errors import ExecutionError
from mqdlq.lake import plan_directory
from mqdlq.lake.schema import steps_of_text, steps_text
from mqdlq.stages.execute import make_pass
from tests.support.world import World


def redirect(world: World, plan_id: str) -> None:
    """Alter a plan so that it puts its message to another queue."""
    part = Path(plan_directory(world.lake_root, plan_id)) / "part-0.parquet"
    table = pq.read_table(part)
    rows = table.to_pylist()
    (step,) = steps_of_text(rows[0]["steps"])
    rows[0]["steps"] = steps_text([replace(step, target_q="ORDERS")])
    pq.write_table(table.from_pylist(rows, schema=table.schema), part)


def test_a_plan_altered_after_its_acceptance_is_not_executed(world: World) -> None:
    world.dead_letter()
    execution = world.plan("ACTION(RETRY)")
    plan = world.ledger.plans.of_run("run-1")
    assert plan is not None
    redirect(world, plan.plan_id)

    with pytest.raises(ExecutionError, match="was altered after it was accepted: its rows hash"):
        make_pass(execution)

    assert world.depths("DLQ", "PAYMENTS", "ORDERS") == (1, 0, 0)


def test_an_altered_plan_is_refused(world: World) -> None:
    world.dead_letter()
    run = world.start("ACTION(RETRY)")
    world.snapshot(run)
    plan_id = world.evaluate(run)
    redirect(world, plan_id)

    with pytest.raises(ExecutionError, match="was altered: its rows hash to"):
        world.accept(run, plan_id)

    assert world.ledger.plans.of_run("run-1") is None


def test_accepting_the_same_plan_again_changes_nothing(world: World) -> None:
    world.dead_letter()
    execution = world.plan("ACTION(RETRY)")
    plan = world.ledger.plans.of_run("run-1")
    assert plan is not None

    world.accept(execution.run, plan.plan_id)

    assert make_pass(execution).attempts == 1
