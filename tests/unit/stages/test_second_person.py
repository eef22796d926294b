"""Test that a plan with a guarded action is approved by a second person, or not at all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mqdlq.errors import HandlerError
from mqdlq.handlers import Handler
from mqdlq.handlers.operation import ApprovalGuards, GuardedAction
from mqdlq.ledger.reading.audit import AuditFilter
from mqdlq.ledger.tables import AuditEvent, Run
from mqdlq.model import AuditKind
from mqdlq.stages.approve import PlanReview, record_answer, review_plan
from mqdlq.stages.execute import make_pass, settle
from mqdlq.stages.proposals import mark_of
from mqdlq.stages.run_options import RunOptions
from tests.support.world import World

pytestmark = pytest.mark.slow

RULES = "WAIT(NO)\nDESTQ(PAYMENTS) ACTION(DISCARD)\nACTION(FWD) FWDQ(PARKED)\n"
GUARDS = ApprovalGuards(second_person=(GuardedAction.DISCARD,))


def begin(world: World, *, rules: str = RULES, **started: Any) -> Run:
    """Take the snapshot of a run that a person has started; `started` says who, and how."""
    world.dead_letter(dest_q="PAYMENTS")
    world.dead_letter(dest_q="ORDERS")
    run = world.start(rules)
    who = {"started_by": "alice in Airflow", "started_by_user": "alice"} | started
    run = replace(run, run_id=f"{run.run_id}-{run.run_type}", **who)
    world.ledger.runs.record(run)
    world.snapshot(run)
    return run


def review(world: World, run: Run, plan_id: str, **options: Any) -> PlanReview:
    return review_plan(
        world.execution(run),
        plan_id,
        GUARDS,
        **options,
    )


def answer(world: World, *names: str, is_approved: bool = True, why: str = "") -> dict[str, Any]:
    return record_answer(is_approved=is_approved, names=names, at=world.clock(), why=why)


def refusals(world: World) -> list[AuditEvent]:
    return world.ledger.audit_trail.page(AuditFilter(what=AuditKind.SECOND_PERSON_REFUSED))


def last_decision(world: World, run: Run) -> tuple[str, str, str]:
    found = world.ledger.plans.last_approval(run.run_id)
    assert found is not None
    return found.decision, found.who, found.why


def test_the_question_names_the_person_who_must_not_approve(world: World) -> None:
    run = begin(world)

    (question,) = review(world, run, world.evaluate(run)).questions

    assert question[0] == "second_person"
    assert question[1] == (
        "1 messages may be discarded: alice started the run, and must not approve it"
    )


def test_a_plan_without_a_guarded_action_asks_nobody(world: World) -> None:
    run = begin(world, rules="WAIT(NO)\nACTION(FWD) FWDQ(PARKED)\n")

    assert review(world, run, world.evaluate(run)).questions == ()


@pytest.mark.parametrize("names", [("alice", "7"), ("Alice",), ("somebody else", "alice")])
def test_the_starter_does_not_approve_and_the_question_stays_open(
    world: World, names: tuple[str, ...]
) -> None:
    run = begin(world)
    plan_id = world.evaluate(run)
    review(world, run, plan_id)
    given = answer(world, *names, why="it is urgent")

    first = review(world, run, plan_id, answer=given)
    world.clock.sleep(60)
    again = review(world, run, plan_id, answer=given)

    assert first == again
    assert len(first.questions) == 1
    assert last_decision(world, run) == ("asked", "", "")
    (refused,) = refusals(world)
    assert (refused.who, refused.run_id, refused.why, refused.details) == (
        names[0],
        run.run_id,
        "it is urgent",
        "alice started the run; another person must approve its plan",
    )
    assert make_pass(world.execution(run)).attempts == 0


def test_another_person_approves_after_the_starter_was_refused(world: World) -> None:
    run = begin(world)
    plan_id = world.evaluate(run)
    review(world, run, plan_id)
    review(world, run, plan_id, answer=answer(world, "alice"))

    found = review(world, run, plan_id, answer=answer(world, "bob", "8", why="seen"))

    assert found.questions == ()
    assert last_decision(world, run) == ("approved", "bob", "seen")
    assert make_pass(world.execution(run)).attempts == 2
    assert world.depths("DLQ", "PARKED") == (0, 1)
    assert review(world, run, plan_id, answer=answer(world, "alice")).questions == ()
    assert len(refusals(world)) == 1


def test_the_starter_may_reject(world: World) -> None:
    run = begin(world)
    plan_id = world.evaluate(run)
    review(world, run, plan_id)

    review(world, run, plan_id, answer=answer(world, "alice", is_approved=False))

    assert last_decision(world, run) == ("rejected", "alice", "")


@pytest.mark.parametrize(
    ("started", "names", "fault"),
    [
        ({}, (), "Airflow does not know who approved the plan"),
        (
            {"started_by": "somebody in Airflow", "started_by_user": ""},
            ("bob",),
            "Airflow does not know who started the run; start another run",
        ),
        (
            {"run_type": "operator_triggered", "started_by_user": ""},
            ("bob",),
            "Airflow does not know who started the run; start another run",
        ),
        (
            {"run_type": "scheduled", "started_by": "the schedule", "started_by_user": ""},
            ("",),
            "Airflow does not know who approved the plan",
        ),
    ],
)
def test_nothing_is_approved_if_a_person_is_not_known(
    world: World, started: dict[str, str], names: tuple[str, ...], fault: str
) -> None:
    run = begin(world, **started)
    plan_id = world.evaluate(run)
    review(world, run, plan_id)

    found = review(world, run, plan_id, answer=answer(world, *names))

    assert len(found.questions) == 1
    assert [event.details for event in refusals(world)] == [fault]


def test_any_person_approves_a_scheduled_run(world: World) -> None:
    run = begin(world, run_type="scheduled", started_by="the schedule", started_by_user="")
    plan_id = world.evaluate(run)
    (question,) = review(world, run, plan_id).questions
    assert question[1] == (
        "1 messages may be discarded: a person must approve this, because the schedule started the"
        " run"
    )

    assert review(world, run, plan_id, answer=answer(world, "alice")).questions == ()
    assert last_decision(world, run) == ("approved", "alice", "")


def test_a_run_in_the_foreground_does_not_carry_out_such_a_plan(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    run = begin(world, started_by="root from the command line", started_by_user="")
    plan_id = world.evaluate(run)

    assert review(world, run, plan_id, is_watched=True).questions == ()
    assert review(world, run, plan_id, is_watched=True).questions == ()

    who = "mqdlq, because a run in the foreground has no second person"
    assert last_decision(world, run) == ("rejected", who, "")
    assert make_pass(world.execution(run)).attempts == 0
    settle(world.execution(run))
    assert world.depths("DLQ", "PARKED") == (2, 0)
    booked = world.ledger.outcomes.of_run(run.run_id).values()
    assert {fact.why.words for fact in booked} == {f"not approved: rejected by {who}"}
    assert sum("[MQDLQ-977]" in text for text in caplog.messages) == 1


REQUIRED = (
    "handler test needs a reason for each run that a person starts (require_reason); give the"
    " reason, or the number of a ticket, as the parameter why [MQDLQ-979]"
)


def test_a_handler_may_require_a_reason_for_runs_that_a_person_starts(world: World) -> None:
    (world.directory / "test.rules").write_text(RULES, encoding="utf-8")
    handler = Handler(
        name="test",
        directory=world.directory,
        connection="mq",
        rules="test.rules",
        require_reason=True,
    )

    with pytest.raises(HandlerError) as refused:
        world.begin("r1", handler, RunOptions())

    assert str(refused.value) == REQUIRED
    assert world.begin("r2", handler, RunOptions(why="ticket 4711")).why == "ticket 4711"
    assert world.begin("r3", handler, RunOptions(dry_run=True)).why == ""
    assert world.begin("r4", handler, RunOptions(run_type="scheduled")).why == ""


def test_the_person_whose_agent_proposed_the_messages_does_not_approve(world: World) -> None:
    run = begin(world, condition="dest_q_name=PAYMENTS")
    mark = mark_of(run.message_keys, run.condition, run.as_of)
    world.ledger.audit.record(
        AuditEvent(
            at=world.clock(),
            what=AuditKind.PLAN_PROPOSED,
            who="Bob through agent helper",
            handler=run.handler,
            details=f"plan 0 {mark} with {{}}",
        )
    )
    plan_id = world.evaluate(run)
    review(world, run, plan_id)

    assert review(world, run, plan_id, answer=answer(world, "bob")).questions
    (refused,) = refusals(world)
    assert refused.details == (
        "Bob through agent helper proposed the plan; another person must approve it"
    )
    review(world, run, plan_id, answer=answer(world, "carol"))
    assert last_decision(world, run) == ("approved", "carol", "")
