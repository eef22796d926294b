"""Test which causes of a run the ledger gets."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from mqdlq.causes import CountedCause
from mqdlq.stages.execute import make_pass, settle
from mqdlq.stages.snapshot import taking
from mqdlq.stages.snapshot.taking import record_causes
from tests.support.world import World

pytestmark = pytest.mark.slow


@pytest.fixture(name="world")
def _world(tmp_path: Path) -> World:
    return World(tmp_path)


def recorded(world: World) -> list[CountedCause]:
    """Complete a run that handles no message, and return its causes."""
    world.clock.now += timedelta(hours=1)
    execution = world.plan("REASON(9999) ACTION(IGNORE)\n")
    record_causes(execution.run, ledger=world.ledger)
    make_pass(execution)
    settle(execution)
    return world.ledger.snapshots.causes(execution.run.run_id)


def test_settled_messages_count_with_their_cause(world: World) -> None:
    world.dead_letter(dest_q="ORDERS")
    world.put("DLQ", b"no dead letter", PutDate=b"20261121")
    recorded(world)
    world.dead_letter(dest_q="ORDERS", body=b"2")

    found = recorded(world)

    assert [(one.cause.dest_q_name, one.messages, one.settled) for one in found] == [
        ("ORDERS", 2, 1),
        ("", 1, 1),
    ]


def test_causes_beyond_the_limit_are_counted_by_reason(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "MOST_CAUSES_RECORDED", 2)
    for number in range(5):
        world.dead_letter(dest_q=f"ORDERS.{number}")

    found = recorded(world)

    assert [(one.cause.dest_q_name, one.messages, one.queues) for one in found] == [
        ("ORDERS.0", 1, 1),
        ("ORDERS.1", 1, 1),
        (None, 3, 3),
    ]
