"""Test the guards of approvals, and plans that nobody has approved."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, update

from mqdlq import lake
from mqdlq.errors import ExecutionError
from mqdlq.handlers.operation import ApprovalGuards
from mqdlq.ledger.tables import Approval, causes
from mqdlq.stages.approve import PlannedMoves, ask_about
from mqdlq.stages.execute import Execution, make_pass, settle
from mqdlq.stages.snapshot.taking import record_causes
from tests.support.world import World

pytestmark = pytest.mark.slow

RULES = """
RETRYINT(60) WAIT(NO)
DESTQ(PAYMENTS) ACTION(RETRY)
DESTQ(PAYMENTS) ACTION(DISCARD)
DESTQ(ORDERS) ACTION(FWD) FWDQ(PARKED)
DESTQ(LEGAL) ACTION(IGNORE)
"""


@pytest.fixture(name="world")
def _world(tmp_path: Path) -> World:
    """Make a world with a message for each rule, and one without an MQDLH."""
    world = World(tmp_path)
    for dest_q in ("PAYMENTS", "ORDERS", "LEGAL"):
        world.dead_letter(dest_q=dest_q)
    world.put("DLQ", b"no dead letter")
    return world


def asked(world: World, execution: Execution, **guards: Any) -> list[tuple[str, str]]:
    plan = world.ledger.plans.of_run(execution.run.run_id)
    assert plan is not None
    record_causes(execution.run, ledger=world.ledger)
    directory = lake.plan_directory(world.lake_root, plan.plan_id)
    run, moves = execution.run, PlannedMoves.of_plan(directory)
    return [*ask_about(run, ApprovalGuards(**guards), moves, world.ledger, snapshot_of=run.run_id)]


def test_all_guards_are_off_by_default(world: World) -> None:
    assert asked(world, world.plan(RULES)) == []


def test_every_guard_triggers_on_its_condition(world: World) -> None:
    first = world.plan("DESTQ(LEGAL) ACTION(IGNORE)\n")
    make_pass(first)
    settle(first)
    world.dead_letter(reason=2085)
    guards = set(ApprovalGuards.model_fields) - {"timeout"}

    values = {guard: guard != "messages" for guard in guards} | {"second_person": ["discard"]}

    found = asked(world, world.plan(RULES), **values)

    assert {guard for guard, _ in found} == guards


def test_the_guard_of_discards_triggers_for_a_later_step_too(world: World) -> None:
    assert asked(world, world.plan(RULES), discard=True) == [
        ("discard", "1 messages may be discarded")
    ]


def test_the_guard_of_messages_triggers_above_its_number(world: World) -> None:
    execution = world.plan(RULES)

    assert asked(world, execution, messages=2) == []
    assert asked(world, execution, messages=1) == [
        ("messages", "2 messages are acted on, more than 1")
    ]


def test_the_guard_of_causes_triggers_for_a_new_cause(world: World) -> None:
    first = world.plan(RULES)
    says = (
        "MQRC_Q_FULL (2053) for LEGAL @ QM1, MQRC_Q_FULL (2053) for ORDERS @ QM1,"
        " MQRC_Q_FULL (2053) for PAYMENTS @ QM1 are new: no run that acted on this queue has met"
        " them"
    )
    assert asked(world, first, new_cause=True) == [("new_cause", says)]
    make_pass(first)
    world.dead_letter(reason=2053, dest_q="ELSEWHERE")

    says = (
        "MQRC_Q_FULL (2053) for ELSEWHERE @ QM1 is new: no run that acted on this queue has met it"
    )
    assert asked(world, world.plan(RULES), new_cause=True) == [("new_cause", says)]


def test_no_cause_of_a_reason_is_new_if_the_ledger_does_not_know_its_destinations(
    world: World,
) -> None:
    """The run that acted met too many causes."""
    first = world.plan(RULES)
    record_causes(first.run, ledger=world.ledger)
    make_pass(first)
    with world.ledger.engine.begin() as connection:
        connection.execute(delete(causes).where(causes.c.dest_q_name != "ORDERS"))
        connection.execute(update(causes).values(cause_id="", dest_q_name=None, queues=None))
    for reason in (2053, 2085):
        world.dead_letter(reason=reason, dest_q="ELSEWHERE")

    ((_, says),) = asked(world, world.plan(RULES), new_cause=True)

    assert says.startswith("MQRC_UNKNOWN_OBJECT_NAME (2085) for ELSEWHERE @ QM1 is new: ")


@pytest.mark.parametrize("first_is", ["asked", "rejected", "a dry run", "for a named message"])
def test_a_cause_without_approval_triggers_again(world: World, first_is: str) -> None:
    one = world.ledger.messages.of_run(world.plan(RULES, dry_run=True).run.run_id)[0]
    first = world.plan(
        RULES,
        dry_run=first_is == "a dry run",
        message_keys=(one.message_key.hex(),) if first_is == "for a named message" else (),
    )
    assert len(asked(world, first, new_cause=True)) == 1
    if first_is in {"asked", "rejected"}:
        decide(world, first, first_is)
    if first_is != "asked":
        make_pass(first)
        settle(first)

    assert len(asked(world, world.plan(RULES), new_cause=True)) == 1


def test_an_approved_cause_does_not_trigger_again(
    world: World,
) -> None:
    first = world.plan("WAIT(YES) RETRYINT(60)\nDESTQ(ORDERS) ACTION(IGNORE)\n")
    make_pass(first)
    second = world.plan(RULES, count_attempts="across_runs")
    assert len(asked(world, second, new_cause=True)) == 1
    decide(world, second, "asked")
    decide(world, second, "approved")
    make_pass(second)
    settle(second)

    assert asked(world, world.plan(RULES), new_cause=True) == []


def test_a_new_target_triggers_until_a_message_was_moved_there(world: World) -> None:
    first = world.plan(RULES)
    assert asked(world, first, new_target=True) == [
        ("new_target", "nothing was ever moved from here to PARKED"),
        ("new_target", "nothing was ever moved from here to PAYMENTS @ QM1"),
    ]
    make_pass(first)
    settle(first)
    world.dead_letter(dest_q="ORDERS")

    assert asked(world, world.plan(RULES), new_target=True) == []


def test_changed_rules_trigger_after_the_first_run(world: World) -> None:
    first = world.plan(RULES)
    assert asked(world, first, changed_rules=True) == []
    make_pass(first)
    settle(first)

    changed = world.plan(f"{RULES}ACTION(IGNORE)\n")

    assert asked(world, changed, changed_rules=True) == [
        ("changed_rules", "the rules are not those of the last run, run-1")
    ]


def test_rejected_rules_trigger_again(world: World) -> None:
    first = world.plan(RULES)
    make_pass(first)
    settle(first)
    rejected = world.plan(f"{RULES}ACTION(IGNORE)\n")
    decide(world, rejected, "rejected")
    settle(rejected)
    world.clock.now += timedelta(minutes=10)

    again = world.plan(f"{RULES}ACTION(IGNORE)\n")

    assert asked(world, again, changed_rules=True) == [
        ("changed_rules", "the rules are not those of the last run, run-1")
    ]
    assert asked(world, world.plan(RULES), changed_rules=True) == []


def test_changed_rules_trigger_even_if_no_rules_were_ever_approved(world: World) -> None:
    first = world.plan(RULES)
    decide(world, first, "rejected")
    settle(first)

    assert asked(world, world.plan(f"{RULES}ACTION(IGNORE)\n"), changed_rules=True) == [
        ("changed_rules", "the rules are not those of the last run, run-1")
    ]
    assert asked(world, world.plan(RULES), changed_rules=True) == []


def test_the_cause_of_a_message_that_is_not_selected_does_not_trigger(world: World) -> None:
    world.dead_letter(reason=2085)
    whole = world.ledger.messages.of_run(world.plan(RULES, dry_run=True).run.run_id)

    named = world.plan(RULES, message_keys=(whole[-1].message_key.hex(),))

    says = (
        "MQRC_UNKNOWN_OBJECT_NAME (2085) for PAYMENTS @ QM1 is new: no run that acted on this queue"
        " has met it"
    )
    assert asked(world, named, new_cause=True, messages=1) == [("new_cause", says)]


def test_messages_that_are_not_selected_do_not_trigger_a_guard(world: World) -> None:
    whole = world.plan(RULES)
    (forward,) = (m for m in world.ledger.messages.of_run(whole.run.run_id) if m.browse_seq == 2)

    named = world.plan(RULES, message_keys=(forward.message_key.hex(),))

    assert asked(world, named, discard=True, messages=1, new_target=True) == [
        ("new_target", "nothing was ever moved from here to PARKED")
    ]


def decide(world: World, execution: Execution, decision: str, plan_hash: str = "") -> None:
    plan = world.ledger.plans.of_run(execution.run.run_id)
    assert plan is not None
    who = "" if decision == "asked" else "ann"
    approval = Approval(plan_hash or plan.plan_hash, ("discard",), decision, who, world.clock())
    world.ledger.plans.record_approval(execution.run.run_id, approval)


@pytest.mark.parametrize(
    ("decision", "why"),
    [
        ("asked", "not approved: nobody has answered yet"),
        ("rejected", "not approved: rejected by ann"),
    ],
)
def test_a_plan_that_is_not_approved_touches_nothing(world: World, decision: str, why: str) -> None:
    execution = world.plan(RULES)
    decide(world, execution, decision)

    assert make_pass(execution).attempts == 0
    settle(execution)

    assert world.depths("DLQ", "PAYMENTS", "PARKED") == (4, 0, 0)
    booked = world.ledger.outcomes.of_run(execution.run.run_id).values()
    assert {(str(fact.outcome), fact.why.words) for fact in booked if fact.rule} == {
        ("not_attempted", why)
    }


def test_an_approved_plan_is_carried_out(world: World) -> None:
    execution = world.plan(RULES)
    decide(world, execution, "asked")
    decide(world, execution, "approved")

    make_pass(execution)

    assert world.depths("DLQ", "PAYMENTS", "PARKED") == (2, 1, 1)


def test_the_approval_of_another_plan_is_ignored(world: World) -> None:
    execution = world.plan(RULES)
    decide(world, execution, "approved", "0" * 64)

    with pytest.raises(ExecutionError, match=r"and ann has approved 0{64}; start a new run"):
        make_pass(execution)

    assert world.depths("DLQ", "PAYMENTS", "PARKED") == (4, 0, 0)
