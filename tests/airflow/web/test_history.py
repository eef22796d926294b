"""The history of a handler: charts as tables, which the browser draws."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from mqdlq.ledger import Ledger, open_ledger
from mqdlq.ledger.reading.history import Span
from mqdlq.model import Outcome
from mqdlq.web.history import Bins, Chart, read_charts
from tests.support.run_records import NOON
from tests.support.web.airflow_app import AirflowApp
from tests.support.web.page_text import words_of
from tests.support.web.recorded_runs import RecordedRun
from tests.support.world import create_ledger

TITLES = (
    "Depth",
    "Arrivals by reason",
    "Dead letters by application",
    "Age of the oldest message",
    "Losses by expiry",
)


@pytest.fixture(name="ledger")
def _ledger(tmp_path: Path) -> Ledger:
    create_ledger(tmp_path / "ledger.db")
    return open_ledger(f"sqlite:///{tmp_path}/ledger.db")


def charts_of(ledger: Ledger) -> dict[str, Chart]:
    """Return the charts of the two days around NOON by title."""
    bins = Bins(date(2026, 11, 21), date(2026, 11, 22))
    span = Span("demo", ("QM1", "DLQ"), bins.start, bins.start + timedelta(days=2))
    return {chart.title: chart for chart in read_charts(ledger, span, bins)}


def test_a_history_has_five_charts(airflow: AirflowApp) -> None:
    page = airflow.client("viewer").get("/mqdlq/dags/mq_dlq_demo/history").text

    assert all(title in words_of(page) for title in TITLES)
    assert page.count("<canvas") == page.count("<table>") >= 4
    assert "chart.umd.min.js" in page


def test_a_history_without_runs_says_so(airflow: AirflowApp) -> None:
    words = words_of(airflow.client("viewer").get("/mqdlq/dags/mq_dlq_never/history").text)

    assert "The ledger has no run of this handler, so there is no history yet." in words


def test_a_range_that_ends_before_it_begins_is_refused(airflow: AirflowApp) -> None:
    address = "/mqdlq/dags/mq_dlq_demo/history?since=2026-11-22&until=2026-11-21"
    answer = airflow.client("viewer").get(address)

    assert answer.status_code == 422
    assert "The range begins on 2026-11-22 and ends on 2026-11-21; swap the two dates" in words_of(
        answer.text
    )


@pytest.mark.parametrize(
    ("days", "number", "first"),
    [
        (1, 24, "2026-11-21 00:00"),
        (7, 56, "2026-11-21 00:00"),
        (30, 60, "2026-11-21 00:00"),
        (60, 60, "2026-11-21"),
        (400, 58, "2026-11-21"),
    ],
)
def test_a_range_has_at_most_62_periods(days: int, number: int, first: str) -> None:
    since = date(2026, 11, 21)
    bins = Bins(since, since + timedelta(days=days - 1))

    assert bins.number == number
    assert bins.labels[0] == first


def test_values_are_joined_by_period_and_missing_where_no_run_was(ledger: Ledger) -> None:
    for minutes, depth in ((0, 5), (10, 9), (120, 3)):
        at = NOON + timedelta(minutes=minutes)
        RecordedRun(name=str(minutes), at=at, depth=depth, outcomes={Outcome.EXPIRED: 2}).record(
            ledger
        )

    charts = charts_of(ledger)

    assert charts["Depth"].rows == [
        ("2026-11-21 12:00", [9, 5000]),
        ("2026-11-21 14:00", [3, 5000]),
    ]
    assert charts["Losses by expiry"].rows == [
        ("2026-11-21 12:00", [4.0]),
        ("2026-11-21 14:00", [2.0]),
    ]
