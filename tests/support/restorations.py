"""Builders for tests of restoring: discarded messages, and restorations of them."""

from __future__ import annotations

from typing import Any

import pytest

import embedded_mq
from mqdlq.errors import QueueManagerError
from mqdlq.handlers import Handler
from mqdlq.ledger.tables import CopyState, Restoration
from mqdlq.reasons import words_of
from mqdlq.stages.restore.restoration import RestorationResources, restore
from mqdlq.stages.restore.selection import begin_restoration
from tests.support.world import World

DISCARD = "ACTION(DISCARD)"


def discard(world: World, *bodies: bytes, **fields: Any) -> str:
    """Put dead letters with these bodies and let a run discard them; return the run's id."""
    for body in bodies:
        world.dead_letter(body, **fields)
    outcomes = world.handle(DISCARD)
    assert set(outcomes.values()) == {"discarded"}
    assert world.depths("DLQ") == (0,)
    return f"run-{world.runs}"


def prepare_restoration(
    world: World,
    name: str = "restoration-1",
    *,
    handler: str = "test",
    max_messages_per_unit: int = 128,
    **request: Any,
) -> RestorationResources:
    """Record a restoration, by default of the last run; nothing is put yet."""
    configuration = Handler(
        name=handler, directory=world.directory / "rules", connection="mq", rules="test.rules"
    )
    asked = Restoration(
        restoration_id=name,
        handler=handler,
        state_queue=configuration.state_queue,
        started_at=world.clock(),
        **{"run_id": f"run-{world.runs}", "who": "alex", **request},
    )
    return RestorationResources(
        restoration=begin_restoration(asked, configuration, ledger=world.ledger),
        settings=world.settings,
        ledger=world.ledger,
        lake_root=world.lake_root,
        max_messages_per_unit=max_messages_per_unit,
        clock=world.clock,
        sleep=world.clock.sleep,
        log=world.log,
    )


def restore_and_count(world: World, name: str = "restoration-1", **request: Any) -> dict[str, int]:
    """Restore, and count the final states of the copies."""
    return attempt_and_count(prepare_restoration(world, name, **request))


def attempt_and_count(work: RestorationResources) -> dict[str, int]:
    """Make an attempt at a restoration, and count the final states of the copies."""
    return {state.value: number for state, number in restore(work).outcomes.items()}


def interrupt(work: RestorationResources, fault: str) -> None:
    """Make an attempt that this fault interrupts."""
    embedded_mq.faults.set(fault)
    with pytest.raises(QueueManagerError):
        restore(work)
    embedded_mq.faults.set("")


def copy_states(world: World, name: str = "restoration-1") -> list[CopyState]:
    return list(world.ledger.restorations.states(name).values())


def reasons(world: World, name: str = "restoration-1") -> list[str]:
    return [words_of(state.why) for state in copy_states(world, name)]
