"""The audit as pages and files, for the handlers that a person may read."""

from __future__ import annotations

import csv
import io
import json
from datetime import timedelta

import pytest

from mqdlq.ledger.tables import AuditEvent
from mqdlq.model import AuditKind
from tests.support.web.airflow_app import AirflowApp
from tests.support.web.demo_world import FIRST, HOSTILE
from tests.support.world import World

OF_DEMO = "/mqdlq/dags/mq_dlq_demo/audit"


@pytest.fixture(scope="module", autouse=True)
def _hostile_look(world: World) -> None:
    """Record a look by a person with a hostile name, and a hostile reason."""
    look = AuditEvent(
        world.clock() + timedelta(hours=1),
        AuditKind.BODY_SHOWN,
        HOSTILE[0],
        "demo",
        message_key="ab" * 32,
        why="=cmd|'/c calc'!A0",
    )
    world.ledger.audit.record(look)


def test_the_audit_of_a_handler_lists_its_events(airflow: AirflowApp) -> None:
    text = airflow.client("viewer").get(OF_DEMO).text

    assert "messages discarded, 3 messages" in text
    assert f"/act?run={FIRST}&amp;action=restore" in text
    assert "payments-manual__waiting" not in text
    assert "<script>alert" not in text


def test_people_see_the_events_of_handlers_that_they_may_read(airflow: AirflowApp) -> None:
    assert "secret-manual__hidden" not in airflow.client("op").get("/mqdlq/audit").text
    assert "secret-manual__hidden" not in airflow.client("op").get("/mqdlq/audit?download=csv").text
    assert "secret-manual__hidden" in airflow.client("admin").get("/mqdlq/audit").text
    assert airflow.client("op").get("/mqdlq/audit?handler=secret").text.count("<td>") == 0


def test_the_filter_and_the_files_agree(airflow: AirflowApp) -> None:
    client = airflow.client("viewer")

    lines = client.get(
        "/mqdlq/dags/mq_dlq_demo/audit?download=jsonl&what=discarded"
    ).text.splitlines()
    shown = client.get(f"{OF_DEMO}?download=csv&what=body_shown").text
    rows = [row for row in csv.DictReader(io.StringIO(shown)) if row["who"] == HOSTILE[0]]

    assert [json.loads(line)["what"] for line in lines] == ["discarded"] * len(lines)
    assert lines
    assert [row["why"] for row in rows] == ["'=cmd|'/c calc'!A0"]


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ("what=x", "what: found &#39;x&#39;; expected one of run_started"),
        ("since=yesterday", "expected a day or a time in UTC"),
        ("message_key=zz", "expected 64 hexadecimal digits, or at least the first 6"),
        ("page=0", "page: found &#39;0&#39;; expected a number from 1 to"),
    ],
)
def test_a_wrong_filter_gets_one_error(airflow: AirflowApp, query: str, fault: str) -> None:
    answer = airflow.client("viewer").get(f"{OF_DEMO}?{query}")

    assert answer.status_code == 422
    assert fault in answer.text


def test_an_anonymous_person_sees_no_audit(airflow: AirflowApp) -> None:
    assert (
        airflow.client().get("/mqdlq/audit?download=csv", headers={"Accept": "*/*"}).status_code
        == 401
    )
