"""Test limits from a handler's configuration or a run's params, and their reasons."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from mqdlq.errors import ExecutionError
from mqdlq.ledger.tables import TakenSnapshot
from mqdlq.model import Outcome
from mqdlq.stages.execute import make_pass, settle
from tests.support.world import World

pytestmark = pytest.mark.stages

CUT = (
    "it is as long as the queue allows and may have been cut; deliver_truncated would deliver it"
    " anyway"
)


def why(world: World, run_id: str = "run-1") -> list[str]:
    return [fact.why.words for fact in world.ledger.outcomes.of_run(run_id).values()]


def test_attempts_are_held_while_a_destination_is_blocked(world: World) -> None:
    world.dead_letter(dest_q="CLOSED")
    execution = world.plan("WAIT(NO)\nACTION(RETRY) RETRY(2)", hold_while_blocked=True)

    results = world.passes(execution, 3)

    assert [(result.attempts, result.pending) for result in results] == [(0, 1)] * 3
    assert settle(execution) == {Outcome.NOT_ATTEMPTED: 1}
    assert why(world) == ["held: CLOSED has MQRC_PUT_INHIBITED (2051)"]


def test_held_attempts_continue_when_the_destination_is_open(world: World) -> None:
    world.dead_letter(dest_q="CLOSED")
    execution = world.plan("WAIT(NO)\nACTION(RETRY)", hold_while_blocked=True)
    world.passes(execution, 1)
    world.mqsc("ALTER QLOCAL(CLOSED) PUT(ENABLED)")

    make_pass(execution)

    assert settle(execution) == {Outcome.DELIVERED: 1}


@pytest.mark.parametrize("rules", ["ACTION(RETRY)", "ACTION(FWD) FWDQ(PARKED) HEADER(NO)"])
def test_a_message_that_may_be_truncated_is_not_delivered(world: World, rules: str) -> None:
    world.mqsc("ALTER QLOCAL(DLQ) MAXMSGL(200)")
    world.dead_letter(b"x" * 28)
    world.dead_letter(b"x" * 27)

    outcomes = world.handle(rules)

    assert Counter(outcomes.values()).most_common()[0][1] == 1
    assert outcomes[1] == "not_attempted"
    assert why(world)[0] == CUT or why(world)[1] == CUT


@pytest.mark.parametrize(
    ("rules", "keys"),
    [
        ("ACTION(FWD) FWDQ(PARKED) HEADER(YES)", {}),
        ("ACTION(RETRY)", {"deliver_truncated": True}),
    ],
)
def test_a_message_that_may_be_truncated_is_moved_with_its_header_or_on_request(
    world: World, rules: str, keys: dict[str, Any]
) -> None:
    world.mqsc("ALTER QLOCAL(DLQ) MAXMSGL(200)")
    world.dead_letter(b"x" * 28)

    assert world.handle(rules, **keys)[1] in {"forwarded", "delivered"}


def test_max_messages_per_unit_limits_the_size_of_a_unit(world: World) -> None:
    for number in range(9):
        world.dead_letter(b"%d" % number)

    world.handle("ACTION(RETRY)", max_messages_per_unit=2)

    units = Counter(attempt.unit for attempt in world.ledger.attempts.of_run("run-1"))
    assert max(units.values()) == 2


def test_a_plan_that_is_too_old_is_refused(world: World) -> None:
    run = world.start("ACTION(RETRY)", max_plan_age=60)
    world.snapshot(run)
    plan_id = world.evaluate(run)
    world.clock.sleep(61)

    with pytest.raises(ExecutionError) as caught:
        world.accept(run, plan_id)

    assert str(caught.value) == (
        f"plan {plan_id} is too old: its snapshot was taken 61 s ago, the handler allows"
        " 60 s (max_plan_age); start a new run [MQDLQ-503]"
    )


def test_a_plan_that_another_run_has_started_is_refused(world: World) -> None:
    world.dead_letter()
    first = world.plan("ACTION(RETRY)")
    plan, snapshot = world.ledger.plans.of_run("run-1"), world.ledger.snapshots.of_run("run-1")
    assert plan is not None
    assert snapshot is not None
    second = world.start("ACTION(RETRY)")
    world.ledger.snapshots.record(
        TakenSnapshot(second.run_id, snapshot.snapshot_id, snapshot.location, 1, snapshot.taken_at)
    )
    make_pass(first)

    with pytest.raises(ExecutionError) as caught:
        world.accept(second, plan.plan_id)

    assert str(caught.value) == (
        f"plan {plan.plan_id} has been started by run run-1; start a new run for the"
        " remaining messages [MQDLQ-505]"
    )
    world.accept(first.run, plan.plan_id)
