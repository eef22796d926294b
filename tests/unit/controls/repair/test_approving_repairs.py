"""Test that each repair waits for an approval, which shows the changes of each message."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mqdlq.handlers.operation import ApprovalGuards
from mqdlq.ledger.tables import Run
from mqdlq.model import Outcome
from mqdlq.reading.page_paths import Paths
from mqdlq.reading.report.markdown import ReviewSettings, write_review_page
from mqdlq.stages.approve import PlanReview, record_answer, review_plan
from mqdlq.stages.execute import make_pass, settle
from tests.support.world import World
from tests.unit.controls.repair.approved_repairs import keys_on_queue

pytestmark = pytest.mark.stages

REPAIR = {"format": "MQSTR", "coded_char_set_id": 1208}


def review(world: World, *, dry_run: bool = False) -> tuple[Run, str]:
    """Start a repair of the messages on the DLQ; return the run and its plan."""
    world.dead_letter(b"body", inner=(546, 37, "ORDERS"))
    world.dead_letter(b"longer body", inner=(546, 1208, "ORDERS"))
    run = world.start(
        "ACTION(IGNORE)",
        message_keys=keys_on_queue(world),
        action="ACTION(RETRY)",
        repair=REPAIR,
        dry_run=dry_run,
    )
    world.snapshot(run)
    return run, world.evaluate(run)


def answer(
    world: World, run: Run, plan_id: str, *, is_watched: bool = False, by: str = ""
) -> PlanReview:
    given = record_answer(is_approved=True, names=[by], at=world.clock()) if by else None
    return review_plan(
        world.execution(run),
        plan_id,
        ApprovalGuards(),
        answer=given,
        is_watched=is_watched,
    )


def test_a_repair_waits_for_an_approval_without_any_guard_of_the_handler(world: World) -> None:
    run, plan_id = review(world)

    (question,) = answer(world, run, plan_id).questions
    waiting = world.execution(run)
    assert make_pass(waiting).attempts == 0

    assert (question[0], question[1]) == ("repair", "2 messages may be delivered repaired")
    assert answer(world, run, plan_id, by="alice").questions == ()
    make_pass(waiting)
    assert settle(waiting) == {Outcome.DELIVERED: 2}


def test_a_repair_in_the_foreground_moves_nothing(world: World) -> None:
    run, plan_id = review(world)

    assert answer(world, run, plan_id, is_watched=True).questions == ()

    execution = world.execution(run)
    make_pass(execution)
    assert settle(execution) == {Outcome.NOT_ATTEMPTED: 2}
    why = (
        "not approved: rejected by mqdlq, because nobody can approve a repair in the foreground; it"
        " would be repaired: Format: ORDERS → MQSTR"
    )
    assert {fact.why.words for fact in world.ledger.outcomes.of_run(run.run_id).values()} == {
        f"{why}, CodedCharSetId: 37 → 1208; body unchanged, 4 bytes",
        f"{why}; body unchanged, 11 bytes",
    }


@pytest.mark.slow
def test_a_dry_run_of_a_repair_asks_nobody(world: World) -> None:
    run, plan_id = review(world, dry_run=True)

    assert answer(world, run, plan_id).questions == ()


def test_the_review_page_shows_the_changes(world: World) -> None:
    run, plan_id = review(world)

    accepted = answer(world, run, plan_id)
    page = write_review_page(
        run,
        accepted.plan,
        accepted.coverage,
        [text for _, text in accepted.questions],
        ReviewSettings(timedelta(days=1), timedelta(days=30), Paths(""), world.clock()),
        ledger=world.ledger,
        lake_root=world.lake_root,
    )

    section = page[page.index("### Repair") : page.index("### The given action")]
    heading, kept, *changes = section.strip().split("\n")
    assert heading == "### Repair"
    assert kept == (
        "The body of each message stays as it is. The archive keeps the originals until 2026-12-21"
        " 12:00:00 UTC."
    )
    assert changes == [
        "",
        "- `Format: ORDERS → MQSTR, CodedCharSetId: 37 → 1208; body unchanged, 4 bytes`: 1 message",
        "- `Format: ORDERS → MQSTR; body unchanged, 11 bytes`: 1 message",
    ]
