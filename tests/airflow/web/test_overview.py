"""The overview and the homes of handlers, over the demo world."""

from __future__ import annotations

import html
import re

import pytest

from mqdlq import directories
from mqdlq.lake import storage
from mqdlq.lake.works import RecordedWork, record_work
from mqdlq.model import WorkNumber
from mqdlq.words import visible
from tests.support.web.airflow_app import AirflowApp
from tests.support.web.demo_world import FAILED, HOSTILE, LAST, WAITING
from tests.support.web.page_text import words_of
from tests.support.world import NOON


def rows_of(page: str) -> dict[str, str]:
    """Return the words of each row of the fleet by handler."""
    rows = re.findall(r"<tr>\s*(<th scope=\"row\">.*?)</tr>", page, flags=re.DOTALL)
    words = [words_of(row) for row in rows]
    return {row.split(" ")[0]: row for row in words}


def test_the_overview_lists_each_handler_with_its_state(airflow: AirflowApp) -> None:
    answer = airflow.client("viewer").get("/mqdlq/fleet")

    assert answer.status_code == 200
    rows = rows_of(answer.text)
    assert next(iter(rows)) == "demo"
    assert "Run failed" in rows["demo"] or "Account does not add up" in rows["demo"]
    assert "Waits for approval A plan for 4 messages waits since" in rows["payments"]
    assert "Empty, last checked" in rows["quiet"]
    assert "Never ran" in rows["never"]
    assert f"/runs/{WAITING}#approval" in answer.text
    assert 'href="/mqdlq/fleet?state=approval"' in answer.text


def test_the_overview_says_that_the_ledger_is_older_than_the_lake(airflow: AirflowApp) -> None:
    assert "older than the lake" not in airflow.client("viewer").get("/mqdlq/fleet").text
    lost = RecordedWork(WorkNumber(99, 1, "lost"), "secret-run", NOON)
    record_work(directories.lake(), lost)
    try:
        words = words_of(airflow.client("viewer").get("/mqdlq/fleet").text)
    finally:
        storage.remove_directory(f"{directories.lake()}/ledger")

    assert (
        "The ledger is older than the lake, which has work of 2026-11-21 12:00:00 UTC that the"
        " ledger does not know: this page shows an old state, and no handler acts. Put the newer"
        " ledger back, or take this one on with mqdlq ledger take-on ."
    ) in words
    assert "secret" not in words


def test_a_handler_that_the_person_may_not_read_is_nowhere(airflow: AirflowApp) -> None:
    assert "secret" not in airflow.client("viewer").get("/mqdlq/fleet").text
    assert "secret" in rows_of(airflow.client("admin").get("/mqdlq/fleet").text)


def test_the_overview_is_filtered_and_grouped_by_its_address(airflow: AirflowApp) -> None:
    client = airflow.client("viewer")

    assert list(rows_of(client.get("/mqdlq/fleet?q=PAY").text)) == ["payments"]
    assert list(rows_of(client.get("/mqdlq/fleet?state=never_ran").text)) == ["never"]
    grouped = client.get("/mqdlq/fleet?group=queue_manager").text
    assert re.findall(r"<h2>(\w[\w ]*)", grouped) == ["QM1", "No queue manager known"]
    assert "No handler fits this filter" in client.get("/mqdlq/fleet?q=nothing").text
    assert next(iter(rows_of(client.get("/mqdlq/fleet?page=99").text))) == "demo"


@pytest.mark.parametrize("query", ["page=0", "page=x", "group=colour", f"q={'x' * 201}"])
def test_an_address_that_is_not_valid_is_refused(airflow: AirflowApp, query: str) -> None:
    assert airflow.client("viewer").get(f"/mqdlq/fleet?{query}").status_code == 422


def test_a_home_shows_the_last_account_and_what_needs_attention(airflow: AirflowApp) -> None:
    page = airflow.client("viewer").get("/mqdlq/dags/mq_dlq_demo").text

    words = words_of(page)
    assert f"/runs/{FAILED}" in page
    assert f"/runs/{LAST}" in page
    assert "Needs attention" in words
    assert "Next step" in words
    assert re.search(r"href=\"/mqdlq/dags/mq_dlq_demo/messages/[0-9a-f]{64}\"", page)
    assert re.search(r"href=\"/mqdlq/dags/mq_dlq_demo/causes/[0-9a-f]{12}\"", page)
    assert 'target="_top"' in page


def test_a_home_shows_the_plan_that_waits_for_approval(airflow: AirflowApp) -> None:
    page = airflow.client("op").get("/mqdlq/dags/mq_dlq_payments").text

    assert "4 messages , since" in words_of(page)
    assert f"/runs/{WAITING}#approval" in page


def test_a_home_of_a_handler_without_runs_says_so(airflow: AirflowApp) -> None:
    words = words_of(airflow.client("viewer").get("/mqdlq/dags/mq_dlq_never").text)

    assert "Queue not known before the first run" in words
    assert "This handler has no run yet." in words


def test_hostile_names_of_messages_are_text_only(airflow: AirflowApp) -> None:
    page = airflow.client("viewer").get("/mqdlq/dags/mq_dlq_names").text

    assert not any(name in page for name in HOSTILE if name.startswith(("<", "\x1b", "\u202e")))
    assert html.escape(visible("W" * 48)) in page
    assert "\x1b" not in page
    assert "\u202e" not in page
