"""A plan that a person must approve, under Airflow's real services: yes, no, silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqdlq.airflow.params import SCHEMAS
from mqdlq.airflow.run_ids import ledger_run_id
from mqdlq.ledger.tables import Approval
from tests.e2e.running.browser import browser
from tests.e2e.running.place import Place
from tests.e2e.running.services import Airflow

pytestmark = [pytest.mark.e2e, pytest.mark.long]


@pytest.fixture(scope="module", name="silent_run")
def _silent_run(running: Airflow, place: Place) -> str:
    """Ask a question that nobody answers, early, so that the tests before need not wait for it."""
    place.put("silent", "QUOTES")
    return running.trigger("silent")


def approval_of(running: Airflow, handler: str, run: str) -> Approval:
    """Return a person's decision, which is about the run's very plan."""
    with running.ledger() as ledger:
        approval = ledger.plans.last_approval(ledger_run_id(handler, run))
        plan = ledger.plans.of_run(ledger_run_id(handler, run))
    assert approval is not None
    assert plan is not None
    assert approval.plan_hash == plan.plan_hash
    return approval


def look_at_it(running: Airflow, run: str, directory: Path) -> None:
    """Open the grid, the trigger form and the approval in a browser."""
    address = running.services.address
    with browser(directory / "browser") as page:
        page.log_in(address, running.token)
        page.open(f"{address}/dags/mq_dlq_ask", "mq_dlq_ask", "sense", "report", "mqdlq")
        page.click("Trigger")
        titles = [str(schema["title"]) for schema in SCHEMAS.values()]
        page.wait_for("Trigger Dag - mq_dlq_ask", *titles, SCHEMAS["wait"]["description"])
        page.open(
            f"{address}/dags/mq_dlq_ask/runs/{run}/tasks/approve/required_actions",
            "May ask act on DLQ.ASK of QM1?",
            "1 messages may be discarded",
            "DISCARD",
        )


@pytest.mark.usefixtures("silent_run")
@pytest.mark.parametrize(
    ("answer", "outcomes", "left"),
    [
        ("Reject", {"not_attempted": 2}, 2),
        ("Approve", {"discarded": 1, "left_by_rule": 1}, 1),
    ],
)
def test_a_run_follows_the_answer_of_the_approver(
    running: Airflow, place: Place, answer: str, outcomes: dict[str, int], left: int
) -> None:
    decision = {"Reject": "rejected", "Approve": "approved"}[answer]
    if not place.depths("DLQ.ASK")[0]:
        place.put("ask", "QUOTES")
        place.put("ask", "LEGAL")
    run = running.trigger("ask")
    running.wait_for_question("ask", run)
    path = f"/dags/mq_dlq_ask/dagRuns/{run}/taskInstances/approve/-1/hitlDetails"
    asked = running.get(path)
    assert asked["subject"] == "May ask act on DLQ.ASK of QM1?"
    assert "- 1 messages may be discarded" in asked["body"]
    if answer == "Approve":
        look_at_it(running, run, place.world.directory)
    answered = running.call("PATCH", path, chosen_options=[answer], params_input={})

    assert answered.status_code == 200, answered.text
    assert running.wait_for_run("ask", run) == "success", running.tasks("ask", run)
    assert running.outcomes("ask", run) == outcomes
    assert place.depths("DLQ.ASK") == (left,)
    approval = approval_of(running, "ask", run)
    assert (approval.decision, approval.who, approval.guards) == (decision, "admin", ("discard",))


def test_a_plan_without_an_answer_is_rejected(
    running: Airflow, place: Place, silent_run: str
) -> None:
    assert running.wait_for_run("silent", silent_run) == "success"

    assert running.outcomes("silent", silent_run) == {"not_attempted": 1}
    assert place.depths("DLQ.SILENT") == (1,)
    approval = approval_of(running, "silent", silent_run)
    assert (approval.decision, approval.who) == ("rejected", "nobody, in time")
