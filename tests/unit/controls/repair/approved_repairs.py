"""Runs that repair messages, for tests."""

from __future__ import annotations

from typing import Any

from mqdlq.ledger.tables import Approval
from mqdlq.stages.execute import Execution
from tests.support.world import World


def keys_on_queue(world: World) -> tuple[str, ...]:
    """Return the keys of the messages on the DLQ, as a report would show them."""
    run = world.plan("ACTION(IGNORE)", dry_run=True).run
    return tuple(one.message_key.hex() for one in world.ledger.messages.of_run(run.run_id))


def plan_repair(
    world: World, repair: dict[str, Any], action: str = "ACTION(RETRY)", **options: Any
) -> Execution:
    """Plan the repair of all messages on the DLQ, and approve it."""
    options.setdefault("message_keys", keys_on_queue(world))
    execution = world.plan("ACTION(IGNORE)", action=action, repair=repair, **options)
    approve(world, execution)
    return execution


def approve(world: World, execution: Execution) -> None:
    """Record the question about a run's plan, and its approval."""
    plan = world.ledger.plans.of_run(execution.run.run_id)
    assert plan is not None
    for decision, who in (("asked", ""), ("approved", "alice")):
        given = Approval(plan.plan_hash, ("repair",), decision, who, world.clock())
        world.ledger.plans.record_approval(execution.run.run_id, given)
