"""Test that the original of a message that was delivered repaired is restored only on purpose."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from click.testing import CliRunner

from mqdlq.cli import app
from mqdlq.ledger.retention import Protection
from mqdlq.stages.execute import make_pass, settle
from mqdlq.stages.retention import Pruner
from tests.support.restorations import reasons, restore_and_count
from tests.support.retention import policy
from tests.support.world import World
from tests.unit.controls.repair.approved_repairs import plan_repair

pytestmark = pytest.mark.stages


def repair(world: World, dest_q: str = "PAYMENTS") -> str:
    """Repair one message; return the run's id."""
    world.dead_letter(b"body", dest_q=dest_q, inner=(546, 37, "ORDERS"))
    execution = plan_repair(world, {"format": "MQSTR"})
    make_pass(execution)
    settle(execution)
    return execution.run.run_id


def test_the_original_of_a_delivered_message_is_not_restored(world: World) -> None:
    run_id = repair(world)

    assert restore_and_count(world, run_id=run_id) == {"refused": 1}

    (why,) = reasons(world)
    assert why == (
        "it was delivered repaired to PAYMENTS @ QM1 at 2026-11-21 12:00:00 UTC by run"
        f" {run_id}, so that its original would be a second message; again puts the original, too"
    )
    assert world.depths("DLQ", "PAYMENTS") == (0, 1)


def test_again_restores_the_original_too(world: World) -> None:
    run_id = repair(world)

    assert restore_and_count(world, run_id=run_id, again=True) == {"restored": 1}

    assert world.depths("DLQ", "PAYMENTS") == (1, 1)


def test_the_copy_of_a_message_that_was_not_delivered_is_provisional(world: World) -> None:
    run_id = repair(world, "CLOSED")

    assert restore_and_count(world, run_id=run_id, again=True) == {"refused": 1}

    (why,) = reasons(world)
    assert why == (
        f"its copy is provisional: run {run_id} did not deliver it repaired; the message may still"
        " be on DLQ"
    )


@pytest.mark.slow
def test_the_archive_lists_that_the_message_was_delivered_repaired(world: World) -> None:
    repair(world)

    environment = {"MQDLQ_HOME": str(world.directory), "COLUMNS": "100"}
    shown = CliRunner().invoke(app, ["restore", "list"], env=environment)
    listed = CliRunner().invoke(app, ["restore", "list", "--format", "json"], env=environment)

    assert " ".join(" ".join(shown.output.splitlines()[2:]).split()) == (
        "1 MQRC_Q_FULL (2053) for PAYMENTS @ QM1, repaired by a given action: Format: ORDERS →"
        " MQSTR 176 bytes, expiry unlimited: delivered repaired to PAYMENTS @ QM1 at 2026-11-21"
        " 12:00:00 UTC by run run-2"
    )
    (one,) = json.loads(listed.stdout)["archived"]
    assert (one["state"], one["discarded_at"], one["delivered_repaired_at"]) == (
        "delivered repaired",
        None,
        "2026-11-21T12:00:00+00:00",
    )


def test_the_original_is_pruned_when_it_was_delivered_longer_ago_than_copies_are_kept(
    world: World,
) -> None:
    """The same rules hold as for the copy of a discarded message."""
    repair(world)
    repair(world, "CLOSED")
    world.clock.now += timedelta(days=31)

    pruner = Pruner(world.ledger, world.lake_root, world.clock, "alex")
    (chosen,) = pruner.prune([policy(archive=30)], is_dry_run=True, trust_clock=True)
    assert (chosen.copies, dict(chosen.kept_copies)) == (1, {Protection.PROVISIONAL: 1})
