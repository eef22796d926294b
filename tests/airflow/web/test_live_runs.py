"""Follow a run in progress on its page, and stop it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import patch
from urllib.parse import urlencode

from mqdlq.failures import Failure
from mqdlq.ledger.messages import LEASE_GRACE
from mqdlq.ledger.reading.audit import AuditFilter
from mqdlq.model import AuditKind
from mqdlq.web import acting
from tests.support.web.airflow_app import FORM, AirflowApp
from tests.support.web.demo_world import FIRST, WAITING
from tests.support.web.page_text import words_of
from tests.support.world import World

PAYMENTS = "/mqdlq/dags/mq_dlq_payments"
RUN = f"{PAYMENTS}/runs/{WAITING}"
STARTED = "/mqdlq/dags/mq_dlq_demo/act/runs/manual__begins"


def stop(airflow: AirflowApp, role: str, run: str = RUN, why: str = "INC-42") -> Any:
    client = airflow.client(role)
    return client.post(f"{run}/stop", content=urlencode({"why": why}), headers=FORM)


def test_a_run_in_progress_says_what_it_waits_for_and_asks_again(
    airflow: AirflowApp,
) -> None:
    part = airflow.client("viewer").get(f"{RUN}/progress?at=its+approval").text

    assert "Waits for the answer to the approval of its plan." in words_of(part)
    assert "0 of 4 planned messages moved" in words_of(part)
    again = f"{RUN}/progress?at=its+approval"
    assert f'data-live hx-get="{again}" hx-trigger="every 2s"' in part
    assert words_of(part) in words_of(airflow.client("viewer").get(RUN).text)


def test_the_page_of_a_run_is_loaded_again_when_the_run_asks_for_an_approval(
    airflow: AirflowApp,
) -> None:
    client = airflow.client("viewer")
    before, now = (client.get(f"{RUN}/progress?at=its+{at}").text for at in ("plan", "approval"))

    assert ("data-stale" in before, "hx-get" in before) == (True, False)
    assert ("data-stale" in now, "hx-get" in now) == (False, True)


def test_a_run_that_waits_for_its_next_pass_says_until_when(
    airflow: AirflowApp, own_world: World
) -> None:
    ledger, now = own_world.ledger, own_world.clock()
    ledger.runs.record_pass(WAITING, now)
    messages = [one.message_id for one in ledger.messages.of_run(WAITING)]

    own_world.clock.sleep(60)
    ledger.messages.lease(WAITING, messages, own_world.clock() + LEASE_GRACE)
    own_world.clock.sleep(-30)

    text = words_of(airflow.client("viewer").get(f"{RUN}/progress").text)
    assert "Waits for its next pass (RETRYINT is 1 min 0 s), until 2026-11-21" in text


def test_a_run_whose_next_pass_is_due_does_not_wait_for_it_any_more(
    airflow: AirflowApp, own_world: World
) -> None:
    ledger, now = own_world.ledger, own_world.clock()
    ledger.runs.record_pass(WAITING, now)
    messages = [one.message_id for one in ledger.messages.of_run(WAITING)]
    ledger.messages.lease(WAITING, messages, now + LEASE_GRACE)

    own_world.clock.sleep(1)

    assert "next pass" not in words_of(airflow.client("viewer").get(f"{RUN}/progress").text)


def test_tasks_are_shown_with_their_states_and_times(airflow: AirflowApp, own_world: World) -> None:
    began = own_world.clock() - timedelta(seconds=90)
    stages = [
        acting.Stage("sense", "success", began, began + timedelta(seconds=5)),
        acting.Stage("execute", "running", began, None),
        acting.Stage("report", "", None, None),
    ]
    with patch("mqdlq.web.runs.read_stages", return_value=stages):
        text = words_of(airflow.client("viewer").get(f"{RUN}/progress").text)

    assert "sense success 5 s execute running 1 min 30 s report to come" in text


def test_a_run_with_a_report_asks_no_more_and_leads_to_it(airflow: AirflowApp) -> None:
    part = airflow.client("viewer").get(f"/mqdlq/dags/mq_dlq_demo/runs/{FIRST}/progress").text

    assert "The run has ended Report" in words_of(part)
    assert "hx-get" not in part


def test_a_person_who_may_act_stops_a_run_and_the_page_and_the_audit_say_who(
    airflow: AirflowApp, own_world: World
) -> None:
    assert stop(airflow, "viewer").status_code == 403
    assert own_world.ledger.audit.stop_of(WAITING) is None

    first, second = stop(airflow, "op"), stop(airflow, "admin", why="me, too")

    assert (first.status_code, first.headers["location"]) == (303, RUN)
    assert second.status_code == 303
    text = words_of(airflow.client("viewer").get(RUN).text)
    assert "otto asked the run at 2026-11-21" in text
    assert "to stop after its unit: INC-42." in text
    (event,) = own_world.ledger.audit_trail.page(AuditFilter(what=AuditKind.STOP_ASKED))
    assert (event.who, event.why, event.handler) == ("otto", "INC-42", "payments")


def test_a_run_that_has_ended_shows_its_result_in_place_of_a_stop(
    airflow: AirflowApp, own_world: World
) -> None:
    answer = stop(airflow, "op", f"/mqdlq/dags/mq_dlq_demo/runs/{FIRST}")

    assert answer.status_code == 303
    assert own_world.ledger.audit.stop_of(FIRST) is None


def test_a_run_of_another_handler_is_not_stopped(airflow: AirflowApp, own_world: World) -> None:
    assert stop(airflow, "op", f"/mqdlq/dags/mq_dlq_demo/runs/{WAITING}").status_code == 404
    assert own_world.ledger.audit.stop_of(WAITING) is None


def test_the_page_of_a_started_run_leads_on_by_itself(
    airflow: AirflowApp, own_world: World
) -> None:
    client, by_htmx = airflow.client("op"), {"HX-Request": "true"}
    begins = client.get(STARTED)
    run = own_world.ledger.runs.get(FIRST)
    assert run is not None
    own_world.ledger.runs.record(
        replace(run, run_id="demo-manual__begins", dag_run_id="manual__begins")
    )

    answer = client.get(STARTED, headers=by_htmx)

    assert f'hx-get="{STARTED}" hx-trigger="every 2s"' in begins.text
    page = "/mqdlq/dags/mq_dlq_demo/runs/demo-manual__begins"
    assert (answer.status_code, answer.headers["hx-redirect"]) == (200, page)
    assert client.get(STARTED).headers["location"] == page


def test_the_page_of_a_run_that_was_refused_leads_to_why(
    airflow: AirflowApp, own_world: World
) -> None:
    failure = Failure("sense", "there is no such queue", "MQDLQ-100", "")
    own_world.ledger.runs.record_failure("demo-manual__refused", "demo", failure, own_world.clock())

    answer = airflow.client("op").get(STARTED.replace("begins", "refused"))

    assert answer.headers["location"] == "/mqdlq/dags/mq_dlq_demo/runs/demo-manual__refused"
