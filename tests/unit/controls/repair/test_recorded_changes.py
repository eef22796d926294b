"""Test that the changes of a message are recorded once, together with its archive copy."""

from __future__ import annotations

import pytest

import embedded_mq
from mqdlq.model import Outcome
from mqdlq.stages.execute import make_pass, settle
from mqdlq.stages.execute.pending_steps import load_work_list
from tests.support.world import World
from tests.unit.controls.repair.approved_repairs import plan_repair

pytestmark = pytest.mark.stages


def test_a_message_that_is_gone_for_a_moment_is_repaired_in_the_next_pass(world: World) -> None:
    """Another application holds it in a unit of work when the pass browses it for its copy."""
    world.dead_letter(b"body", inner=(546, 37, "ORDERS"))
    execution = plan_repair(world, {"coded_char_set_id": 1208})

    embedded_mq.faults.set("MQGET[DLQ]:3:2033:before")
    assert make_pass(execution).attempts == 0
    embedded_mq.faults.set("")

    assert world.ledger.archive.repairs(execution.run.run_id) == {}
    make_pass(execution)
    assert settle(execution) == {Outcome.DELIVERED: 1}


def test_changes_without_a_copy_do_not_stop_the_next_pass(world: World) -> None:
    world.dead_letter(b"body", inner=(546, 37, "ORDERS"))
    execution = plan_repair(world, {"coded_char_set_id": 1208})
    run = execution.run
    (item,) = load_work_list(run, world.ledger, world.lake_root).items
    changes = [item.changes] if item.changes else []
    world.ledger.archive.record(run.run_id, "", {}, world.clock(), changes)

    make_pass(execution)

    assert settle(execution) == {Outcome.DELIVERED: 1}
