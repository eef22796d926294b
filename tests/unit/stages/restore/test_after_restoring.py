"""Test how later runs handle a restored message, and that pruning keeps archive copies."""

from __future__ import annotations

import pytest

from mqdlq.model import Outcome
from mqdlq.stages.execute import make_pass, settle
from mqdlq.stages.retention import prune_snapshots
from tests.support.restorations import DISCARD, copy_states, discard, restore_and_count
from tests.support.world import World

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("world", ["pymqi", "ibmmq"], indirect=True)
def test_a_restored_message_is_new_work_for_the_next_run(world: World) -> None:
    """Another table handles it; the first run's account stays unchanged."""
    discard(world, b"body")
    restore_and_count(world)

    assert world.handle("ACTION(RETRY)") == {1: "delivered"}

    assert world.bodies("PAYMENTS") == [b"body"]
    (message,) = world.ledger.messages.of_run("run-2")
    assert message.residence == 1
    assert world.ledger.outcomes.of_run("run-1")[1].outcome is Outcome.DISCARDED


def test_a_restored_message_is_discarded_again_by_the_same_table(world: World) -> None:
    discard(world, b"body")
    restore_and_count(world)

    discard(world)

    assert [copy.run_id for copy in world.ledger.archive.copies()] == ["run-1", "run-2"]
    assert restore_and_count(world, "restoration-2", run_id="run-2") == {"restored": 1}
    assert world.depths("DLQ") == (1,)


def test_a_message_that_was_discarded_twice_is_named_by_its_key_and_restored_once(
    world: World,
) -> None:
    discard(world, b"body")
    restore_and_count(world)
    discard(world)
    keys = tuple({copy.message_key.hex() for copy in world.ledger.archive.copies()})

    asked = {"run_id": "", "message_keys": keys, "again": True}
    assert restore_and_count(world, "restoration-2", **asked) == {"restored": 1}

    assert copy_states(world, "restoration-2")[0].run_id == "run-2"
    assert world.depths("DLQ") == (1,)


def test_an_unsettled_run_counts_a_restored_message_as_a_new_arrival(world: World) -> None:
    world.dead_letter(b"body")
    execution = world.plan(DISCARD)
    make_pass(execution)
    assert restore_and_count(world) == {"restored": 1}

    assert make_pass(execution).attempts == 0
    assert settle(execution) == {Outcome.DISCARDED: 1}

    sighting = world.ledger.accounts.of_run("run-1")
    assert sighting is not None
    assert (sighting.returned, sighting.arrived) == (0, 1)
    assert world.ledger.restorations.put_back("run-1") == {1}


def test_pruning_snapshots_keeps_archived_messages_restorable(world: World) -> None:
    discard(world, b"body")
    world.handle(DISCARD)

    prune_snapshots(world.lake_root, ledger=world.ledger, now=world.clock.now, keep=1)

    assert restore_and_count(world, run_id="run-1") == {"restored": 1}
    assert copy_states(world)[0].state.value == "restored"
