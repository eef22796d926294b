"""The report of a run, which the page renders from ledger and lake."""

from __future__ import annotations

from typing import Any

import pytest

from mqdlq.reading.report.building import Report
from mqdlq.reading.report.files import read_ended_report
from mqdlq.reading.report.html_report import security_policy
from mqdlq.web import runs
from mqdlq.web.runs import KeptReports
from tests.support.web.airflow_app import AirflowApp
from tests.support.web.demo_world import FAILED, FIRST, LAST, NAMES, WAITING
from tests.support.world import World


def address(run_id: str, handler: str = "demo") -> str:
    return f"/mqdlq/dags/mq_dlq_{handler}/runs/{run_id}/report"


def test_a_viewer_reads_the_report_of_a_run(airflow: AirflowApp, world: World) -> None:
    run = world.ledger.runs.get(LAST)
    assert run is not None

    answer = airflow.client("viewer").get(address(LAST))

    assert answer.status_code == 200
    assert "Needs attention" in answer.text
    assert f'href="/mqdlq/dags/mq_dlq_demo/runs/{LAST}"' in answer.text
    assert 'href="/mqdlq/dags/mq_dlq_demo/act?message_key=' in answer.text


def test_the_report_has_its_own_styles_and_no_script(airflow: AirflowApp) -> None:
    answer = airflow.client("viewer").get(address(LAST))

    assert answer.headers["content-security-policy"] == (
        f"{security_policy()}; frame-ancestors 'self'"
    )
    assert "<script" not in answer.text


def test_the_report_of_a_failed_run_says_so_without_the_files_of_its_worker(
    airflow: AirflowApp, world: World
) -> None:
    verdict = world.ledger.accounts.verdict_of(FAILED)
    assert verdict is not None
    files = world.directory / "reports" / FAILED
    hidden = files.with_name(f"{FAILED}-hidden")
    files.rename(hidden)
    try:
        answer = airflow.client("viewer").get(address(FAILED))
    finally:
        hidden.rename(files)

    assert '<header class="failed">' in answer.text


def test_a_report_is_kept_until_a_fact_of_its_run_changes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports, read = KeptReports(most=1), []

    def count_reads(run_id: str, **given: Any) -> Report:
        read.append(run_id)
        return read_ended_report(run_id, **given)

    monkeypatch.setattr(runs, "read_ended_report", count_reads)
    given: dict[str, Any] = {
        "ledger": world.ledger,
        "lake_root": world.lake_root,
        "now": world.clock(),
    }
    files = world.directory / "reports" / LAST
    hidden = files.with_name(f"{LAST}-hidden")
    first, again = reports.read(LAST, **given), reports.read(LAST, **given)
    files.rename(hidden)
    try:
        changed = reports.read(LAST, **given)
    finally:
        hidden.rename(files)

    assert again is first
    assert (first.stages != {}, changed.stages) == (True, {})
    assert read == [LAST, LAST]
    for run_id in (FIRST, LAST, WAITING, WAITING):
        reports.read(run_id, **given)
    assert read[2:] == [FIRST, LAST, WAITING, WAITING]


def test_hostile_names_are_text(airflow: AirflowApp) -> None:
    text = airflow.client("viewer").get(address(NAMES, "names")).text

    assert "<script" not in text
    assert "<img" not in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("run_id", "handler"), [("no-such-run", "demo"), (LAST, "names"), ("..", "demo")]
)
def test_a_run_of_another_handler_is_not_found(
    airflow: AirflowApp, run_id: str, handler: str
) -> None:
    answer = airflow.client("viewer").get(address(run_id, handler))

    assert answer.status_code == 404


def test_a_run_of_a_hidden_handler_is_not_found(airflow: AirflowApp) -> None:
    answer = airflow.client("op").get(address("secret-run", "secret"))

    assert answer.status_code == 404
    assert "MQDLQ-990" in answer.text


def test_the_error_names_the_run(airflow: AirflowApp) -> None:
    text = airflow.client("viewer").get(address("no-such-run")).text

    assert (
        "The handler demo has no run &#39;no-such-run&#39;; choose one from the list of its runs"
    ) in text
