"""Test that a plan is accepted, and that a person is asked about it once."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from mqdlq.handlers.operation import ApprovalGuards
from mqdlq.ledger.tables import Run
from mqdlq.reading.alerts import build_approval_alert
from mqdlq.stages.approve import (
    PlanReview,
    record_answer,
    review_plan,
)
from tests.support.world import World

pytestmark = pytest.mark.stages

RULES = "WAIT(NO)\nACTION(DISCARD)\n"
QUESTION = ("discard", "1 messages may be discarded")


@pytest.fixture(name="run")
def _run(world: World, caplog: pytest.LogCaptureFixture) -> Run:
    """Take the snapshot of a run that would discard the only message."""
    caplog.set_level(logging.INFO, world.log.name)
    return begin(world)


def begin(world: World, **options: Any) -> Run:
    world.dead_letter()
    run = world.start(RULES, **options)
    world.snapshot(run)
    return run


def accepted(world: World, run: Run, plan_id: str, **options: Any) -> PlanReview:
    return review_plan(
        world.execution(run),
        plan_id,
        ApprovalGuards(discard=True),
        **options,
    )


def said(caplog: pytest.LogCaptureFixture, world: World) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == world.log.name]


def test_a_request_for_approval_is_recorded_once(world: World, run: Run) -> None:
    plan_id = world.evaluate(run)
    asked_at = world.clock()

    first = accepted(world, run, plan_id)
    world.clock.sleep(60)
    second = accepted(world, run, plan_id)

    assert first == second
    assert first.questions == (QUESTION,)
    recorded = world.ledger.plans.last_approval(run.run_id)
    assert recorded is not None
    assert (recorded.decision, recorded.guards, recorded.at) == ("asked", ("discard",), asked_at)


FIRST_ACTION = "line 2 DISCARD: 1 message"


@pytest.mark.parametrize(
    ("who", "is_approved", "line"),
    [("alice", True, "approved by alice"), ("", False, "rejected by nobody, in time")],
)
def test_an_answer_closes_the_request_for_approval(
    world: World,
    run: Run,
    caplog: pytest.LogCaptureFixture,
    *,
    who: str,
    is_approved: bool,
    line: str,
) -> None:
    plan_id = world.evaluate(run)
    accepted(world, run, plan_id)
    caplog.clear()
    given = record_answer(is_approved=is_approved, names=[who], at=world.clock())

    found = accepted(world, run, plan_id, answer=given)

    assert found.questions == ()
    assert said(caplog, world) == [line, f"plan {plan_id}: 1 planned", FIRST_ACTION]
    assert accepted(world, run, plan_id).questions == ()  # the answer is in the ledger


def test_mqdlq_run_requests_no_approval(
    world: World, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    plan_id = world.evaluate(run)
    caplog.clear()

    assert accepted(world, run, plan_id, is_watched=True).questions == ()

    assert said(caplog, world) == [
        "needs an approval: 1 messages may be discarded",
        "a run in the foreground continues without an approval",
        f"plan {plan_id}: 1 planned",
        FIRST_ACTION,
    ]
    assert world.ledger.plans.last_approval(run.run_id) is None


def test_a_dry_run_requests_no_approval(world: World) -> None:
    run = begin(world, dry_run=True)

    assert accepted(world, run, world.evaluate(run)).questions == ()


def test_the_alert_of_an_approval_contains_its_summary(run: Run) -> None:
    alert = build_approval_alert(run, [QUESTION[1]])

    assert alert.event == "approval"
    assert alert.title == "test: a plan waits for approval (DLQ @ QM1)"
    assert alert.text == "1 messages may be discarded"
