"""Answer the question of a run from the page, through Airflow and as the person who clicked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import pytest
from airflow.sdk.timezone import utcnow

from mqdlq.controls.repair import Repair
from mqdlq.ledger.tables import AuditEvent
from mqdlq.model import AuditKind
from tests.support.web.airflow_app import FORM, ROLES, AirflowApp
from tests.support.web.demo_world import LAST, WAITING
from tests.support.world import World

PATH = f"/mqdlq/dags/mq_dlq_payments/runs/{WAITING}/approval"
DAG_ID, DAG_RUN_ID = "mq_dlq_payments", WAITING.removeprefix("payments-")


@pytest.fixture(name="question")
def _question(airflow: AirflowApp) -> Iterator[Any]:
    """Have the task approve of the waiting run ask, as a task does, in Airflow's metadata."""
    del airflow
    from airflow.models.dagrun import DagRun  # noqa: PLC0415 (reads settings)
    from airflow.models.hitl import HITLDetail  # noqa: PLC0415 (the same)
    from airflow.models.serialized_dag import SerializedDagModel  # noqa: PLC0415 (the same)
    from airflow.utils.session import create_session  # noqa: PLC0415 (the same)
    from airflow.utils.state import DagRunState, TaskInstanceState  # noqa: PLC0415 (the same)
    from airflow.utils.types import (  # noqa: PLC0415 (the same)
        DagRunTriggeredByType,
        DagRunType,
    )

    with create_session() as session:
        dag: Any = SerializedDagModel.get_dag(DAG_ID)
        run: Any = session.query(DagRun).filter_by(dag_id=DAG_ID, run_id=DAG_RUN_ID).one_or_none()
        if run is None:
            run = dag.create_dagrun(
                run_id=DAG_RUN_ID,
                run_after=utcnow(),
                run_type=DagRunType.MANUAL,
                triggered_by=DagRunTriggeredByType.UI,
                state=DagRunState.RUNNING,
                session=session,
            )
        ti: Any = run.get_task_instance("approve", session=session)
        ti.state = TaskInstanceState.AWAITING_INPUT
        ti.next_method = "execute_complete"
        session.query(HITLDetail).filter_by(ti_id=ti.id).delete()
        question = HITLDetail(
            ti_id=ti.id, options=["Approve", "Reject"], subject="May it?", defaults=["Reject"]
        )
        session.add(question)
        ti_id = ti.id

    def found() -> Any:
        with create_session() as session:
            return session.query(HITLDetail).filter_by(ti_id=ti_id).one()

    yield found
    with create_session() as session:
        session.query(HITLDetail).filter_by(ti_id=ti_id).delete()


def send(airflow: AirflowApp, role: str, **fields: str) -> Any:
    return airflow.client(role).post(PATH, content=urlencode(fields), headers=FORM)


def test_airflow_gets_the_answer_of_the_person_with_the_comment(
    airflow: AirflowApp, question: Any
) -> None:
    answer = send(airflow, "user", decision="approve", comment="seen")
    again = send(airflow, "op", decision="reject")

    assert answer.status_code == 303
    assert answer.headers["location"] == f"/mqdlq/dags/{DAG_ID}/runs/{WAITING}"
    assert again.status_code == 409
    assert "has already been updated" in again.text
    given = question()
    assert given.responded_by["name"] == ROLES["user"]
    assert (given.chosen_options, given.params_input) == (["Approve"], {"comment": "seen"})


@pytest.mark.parametrize(("decision", "word"), [("approve", "Approved"), ("reject", "Rejected")])
def test_a_run_with_an_answer_says_whose_it_is_until_its_task_has_read_it(
    airflow: AirflowApp, question: Any, decision: str, word: str
) -> None:
    send(airflow, "user", decision=decision, comment="<b>seen</b>")
    path = PATH.removesuffix("/approval")
    for role in ("user", "viewer"):
        page = airflow.client(role).get(path).text
        assert "Answered</span>" in page
        assert f"{word} by {ROLES['user']}, waiting for the task to continue" in page
        assert f"{question().responded_at:%Y-%m-%d %H:%M:%S} UTC: &lt;b&gt;seen&lt;/b&gt;" in page
        assert f'action="{PATH}"' not in page


def test_a_question_that_nobody_answered_in_time_is_rejected(
    airflow: AirflowApp, question: Any
) -> None:
    from airflow.models.hitl import HITLDetail  # noqa: PLC0415 (reads settings)
    from airflow.utils.session import create_session  # noqa: PLC0415 (the same)

    values: Any = {"responded_at": utcnow(), "chosen_options": ["Reject"]}
    with create_session() as session:
        session.query(HITLDetail).filter_by(ti_id=question().ti_id).update(values)

    page = airflow.client("user").get(PATH.removesuffix("/approval")).text

    assert "Rejected because nobody answered in time, waiting for the task to continue" in page


def test_a_viewer_answers_nothing(airflow: AirflowApp, question: Any) -> None:
    answer = send(airflow, "viewer", decision="approve")

    assert answer.status_code == 403
    assert "Your answer was not accepted." in answer.text
    assert not question().chosen_options


def test_a_run_that_waits_shows_the_question_to_people_who_may_answer(
    airflow: AirflowApp,
) -> None:
    path = PATH.removesuffix("/approval")
    asked = airflow.client("user").get(path).text
    read = airflow.client("viewer").get(path).text

    for page in (asked, read):
        assert "The plan waits for an approval" in page
        assert "because of the guard discard." in page
        assert f'href="/dags/{DAG_ID}/runs/{DAG_RUN_ID}" target="_top"' in page
        assert "UTC, not approved yet." in page
        assert "Accepted" not in page
    assert f'<form method="post" action="{PATH}">' in asked
    assert 'value="approve"' in asked
    assert 'value="reject"' in asked
    assert "You may not answer it" in read
    assert '<form method="post"' not in read


def test_only_the_approvers_of_the_handler_may_answer(airflow: AirflowApp, question: Any) -> None:
    from airflow.models.hitl import HITLDetail  # noqa: PLC0415 (reads settings)
    from airflow.utils.session import create_session  # noqa: PLC0415 (the same)

    values: Any = {"assignees": [{"id": name, "name": name} for name in (ROLES["op"], "mona")]}
    with create_session() as session:
        session.query(HITLDetail).filter_by(ti_id=question().ti_id).update(values)

    path = PATH.removesuffix("/approval")
    other, own = airflow.client("user").get(path).text, airflow.client("op").get(path).text
    refused = send(airflow, "user", decision="approve")
    unanswered = question().chosen_options
    accepted = send(airflow, "op", decision="approve")

    assert "You may not answer it; the handler&#39;s approvers may: otto, mona." in other
    assert '<form method="post"' not in other
    assert f'<form method="post" action="{PATH}">' in own
    assert (refused.status_code, unanswered, accepted.status_code) == (403, None, 303)
    assert "User=ulla (id=ulla) is not a respondent for the task." in refused.text


def test_a_run_that_waits_for_nobody_shows_no_question(airflow: AirflowApp) -> None:
    page = airflow.client("op").get(f"/mqdlq/dags/mq_dlq_demo/runs/{LAST}").text

    assert 'id="approval"' not in page


def test_an_approval_that_needs_a_second_person_may_still_be_refused(
    airflow: AirflowApp, own_world: World, question: Any
) -> None:
    run = own_world.ledger.runs.get(WAITING)
    approval = own_world.ledger.plans.last_approval(WAITING)
    assert run is not None
    assert approval is not None
    own_world.ledger.runs.record(replace(run, run_id="payments-guarded"))
    asked = replace(approval, guards=("second_person",))
    own_world.ledger.plans.record_approval("payments-guarded", asked)
    send(airflow, "user", decision="approve")
    may_be_refused = {
        name: "It refuses the approval of a person who must not approve this plan."
        in airflow.client("op").get(f"/mqdlq/dags/{DAG_ID}/runs/payments-{name}").text
        for name in ("guarded", WAITING.removeprefix("payments-"))
    }

    assert question().responded_at
    assert may_be_refused == {"guarded": True, "manual__waiting": False}


def test_the_starter_sees_why_another_person_must_approve(
    airflow: AirflowApp, own_world: World
) -> None:
    run = own_world.ledger.runs.get(WAITING)
    approval = own_world.ledger.plans.last_approval(WAITING)
    assert run is not None
    assert approval is not None
    runs = {"known": ROLES["user"].upper(), "unknown": ""}
    for name, starter in runs.items():
        guarded = replace(run, run_id=f"payments-{name}", started_by_user=starter)
        own_world.ledger.runs.record(guarded)
        asked = replace(approval, guards=("second_person",))
        own_world.ledger.plans.record_approval(guarded.run_id, asked)
    fault = "ULLA started the run; another person must approve its plan"
    refused = AuditEvent(
        at=approval.at,
        what=AuditKind.SECOND_PERSON_REFUSED,
        who=ROLES["user"],
        handler="payments",
        run_id="payments-known",
        details=fault,
    )
    own_world.ledger.audit.record(refused)

    def page(role: str, name: str) -> str:
        path = f"/mqdlq/dags/{DAG_ID}/runs/payments-{name}"
        return str(airflow.client(role).get(path).text)

    own, other, nobody = page("user", "known"), page("op", "known"), page("op", "unknown")
    assert f"You must not approve this plan:</strong> {fault}." in own
    assert 'value="approve"' not in own
    assert 'value="reject"' in own
    assert f"the approval of ulla was refused: {fault}" in own
    assert "You must not approve" not in other
    assert 'value="approve"' in other
    assert "Airflow does not know who started the run; start another run" in nobody
    assert 'value="approve"' not in nobody


def test_whoever_approves_a_replaced_body_can_see_how_it_differs(
    airflow: AirflowApp, own_world: World
) -> None:
    run = own_world.ledger.runs.get(WAITING)
    approval = own_world.ledger.plans.last_approval(WAITING)
    assert run is not None
    assert approval is not None
    repair = Repair(body_sha256="a" * 64, body_length=3).text
    replaced = replace(run, run_id="payments-body", repair=repair, message_keys=("b" * 64,))
    own_world.ledger.runs.record(replaced)
    own_world.ledger.plans.record_approval(replaced.run_id, approval)

    page = airflow.client("op").get(f"/mqdlq/dags/{DAG_ID}/runs/payments-body").text

    assert "The body of the message is replaced: read how before you answer" in page
    place = f"/mqdlq/dags/{DAG_ID}/messages/{'b' * 64}/body?replacement={'a' * 64}"
    assert f'action="{place}"' in page
