"""Answer the question of a run from the page, through Airflow and as the person who clicked."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest
from airflow.sdk.timezone import utcnow

from mqdlq.web.rendering import environment
from tests.support.web.airflow_app import FROM_PAGE, ROLES, AirflowApp
from tests.support.web.demo_world import WAITING
from tests.support.world import World

PATH = f"/mqdlq/dags/mq_dlq_payments/runs/{WAITING}/approval"
DAG_ID, DAG_RUN_ID = "mq_dlq_payments", WAITING.removeprefix("payments-")


@pytest.fixture(name="question")
def _question(airflow: AirflowApp) -> Any:
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
        ti.next_method = "resume"
        session.query(HITLDetail).filter_by(ti_id=ti.id).delete()
        question = HITLDetail(
            ti_id=ti.id, options=["Approve", "Reject"], subject="May it?", defaults=["Reject"]
        )
        session.add(question)
        ti_id = ti.id

    def found() -> Any:
        with create_session() as session:
            return session.query(HITLDetail).filter_by(ti_id=ti_id).one()

    return found


def send(airflow: AirflowApp, role: str, **fields: str) -> Any:
    headers = {**FROM_PAGE, "Content-Type": "application/x-www-form-urlencoded"}
    return airflow.client(role).post(PATH, content=urlencode(fields), headers=headers)


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


def test_a_viewer_answers_nothing(airflow: AirflowApp, question: Any) -> None:
    answer = send(airflow, "viewer", decision="approve")

    assert answer.status_code == 403
    assert "Your answer was not accepted." in answer.text
    assert not question().chosen_options


def test_the_form_tells_the_starter_not_to_approve(world: World) -> None:
    from dataclasses import replace  # noqa: PLC0415

    from mqdlq.stages.page_paths import Paths  # noqa: PLC0415

    run = world.ledger.runs.get(WAITING)
    approval = world.ledger.plans.last_approval(WAITING)
    assert run is not None
    assert approval is not None
    run = replace(run, started_by_user="Alice")
    guarded = replace(approval, guards=("second_person",))
    module: Any = environment().get_template("acting/approval.html").module

    own = module.approval_form(Paths(), "payments", run, guarded, "alice")
    other = module.approval_form(Paths(), "payments", run, guarded, "bob")

    assert "must not approve it" in own
    assert 'value="approve"' not in own
    assert 'value="approve"' in other
