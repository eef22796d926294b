"""Test the diagnosis of a cause on its page, over the demo's queue manager."""

from __future__ import annotations

import html
import re
from datetime import timedelta

import embedded_mq
from mqdlq.causes import find_cause
from tests.support.web.airflow_app import FROM_PAGE, AirflowApp
from tests.support.web.page_text import words_of
from tests.support.world import World

CLOSED = find_cause("dead_letter", 2051, "CLOSED", "QM1").cause_id
PAGE = f"/mqdlq/dags/mq_dlq_demo/causes/{CLOSED}"
NAMED = {"queue_manager": "QM1", "queue": "DLQ"}


def shown(airflow: AirflowApp, role: str = "admin") -> str:
    return html.unescape(words_of(airflow.client(role).get(PAGE).text))


def diagnose(airflow: AirflowApp, role: str = "admin") -> int:
    answer = airflow.client(role).post(f"{PAGE}/diagnosis", data=NAMED, headers=FROM_PAGE)
    return int(answer.status_code)


def test_a_diagnosis_names_what_is_in_the_way_and_then_what_changed(
    airflow: AirflowApp, own_world: World
) -> None:
    before = own_world.clock.now
    found = shown(airflow)
    assert "A put would be refused now" in found
    assert "CLOSED has PUT(DISABLED), altered" in found
    assert "* Allows puts to CLOSED again. ALTER QLOCAL('CLOSED') PUT(ENABLED)" in found
    page = airflow.client("admin").get(PAGE).text
    (leads_to,) = re.findall(r'href="([^"]*)">Retry when it is fixed', page)
    preview = airflow.client("admin").get(html.unescape(leads_to)).text
    assert "Retry when fixed: 2 messages" in preview
    own_world.mqsc("ALTER QLOCAL(CLOSED) PUT(ENABLED)")
    own_world.clock.now = before + timedelta(minutes=1)
    assert diagnose(airflow) == 303
    assert "Nothing refuses a put any more" in shown(airflow)
    assert "queue CLOSED: PUT DISABLED → ENABLED" in shown(airflow)


def test_who_may_only_read_sees_the_diagnosis_and_cannot_ask(
    airflow: AirflowApp, own_world: World
) -> None:
    assert "ALTER QLOCAL('CLOSED') PUT(ENABLED)" in shown(airflow, "viewer")
    assert "Diagnose again" not in shown(airflow, "viewer")
    assert "Retry when it is fixed" not in shown(airflow, "viewer")
    assert diagnose(airflow, "viewer") == 403
    assert len(own_world.ledger.diagnoses.of_cause("demo", "QM1", "DLQ", CLOSED)) == 1


def test_a_queue_manager_that_is_not_reached_is_an_error_with_another_way(
    airflow: AirflowApp, own_world: World
) -> None:
    embedded_mq.end("QM1", own_world.directory / "queue_managers")

    answer = airflow.client("admin").post(f"{PAGE}/diagnosis", data=NAMED, headers=FROM_PAGE)

    assert answer.status_code == 400
    said = html.unescape(words_of(answer.text))
    assert "mqdlq diagnose demo asks from the command line" in said
    assert "MQRC_Q_MGR_NOT_AVAILABLE (2059); nothing was asked from here" in said


def test_the_cause_on_all_queues_has_its_diagnoses_beside_its_arrivals(
    airflow: AirflowApp, own_world: World
) -> None:
    page = html.unescape(words_of(airflow.client("viewer").get(f"/mqdlq/causes/{CLOSED}").text))

    assert re.search(r"Diagnoses .* DLQ @ QM1 : a put would be refused now", page), page
    own_world.mqsc("ALTER QLOCAL(CLOSED) PUT(ENABLED)")
    own_world.clock.now += timedelta(minutes=1)
    assert diagnose(airflow) == 303
    page = html.unescape(words_of(airflow.client("viewer").get(f"/mqdlq/causes/{CLOSED}").text))
    assert "DLQ @ QM1 : nothing refuses a put any more queue CLOSED: PUT DISABLED → ENABLED" in page
