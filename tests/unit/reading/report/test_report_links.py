"""Test the links from a report to the operator's page."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from mqdlq.model import Outcome
from mqdlq.reading.page_paths import Paths
from mqdlq.reading.report.building import Report
from mqdlq.reading.report.groups import MOST_KEYS_IN_AN_ADDRESS, act_address
from mqdlq.reading.report.html_report import render_html
from mqdlq.reading.report.markdown import run_note
from mqdlq.reading.report.text_report import render_text
from tests.unit.reading.report.ended_runs import EndedRun, bare, exhausted, unmatched

pytestmark = pytest.mark.stages

ReportOf = Callable[..., Report]
AIRFLOW = "https://airflow.example.com"
PATHS = Paths(AIRFLOW)
RUN = f"{AIRFLOW}/mqdlq/dags/mq_dlq_demo/runs/demo-manual__2026-11-21T02-49-22"


def test_each_group_and_each_message_has_its_address_on_the_page(report_of: ReportOf) -> None:
    report = report_of(EndedRun([exhausted(), exhausted(), bare()]))

    html = render_html(report, PATHS)

    for group in report.attention_groups:
        keys = "&amp;".join(f"message_key={row.message_key}" for row in group.rows)
        assert f'href="{AIRFLOW}/mqdlq/dags/mq_dlq_demo/act?{keys}"' in html
        for row in group.rows:
            assert f'href="{AIRFLOW}/mqdlq/dags/mq_dlq_demo/messages/{row.message_key}"' in html
    assert f'href="{RUN}"' in html
    assert (
        f'href="{AIRFLOW}/dags/mq_dlq_demo/runs/manual__2026-11-21T02%3A49%3A22%2B00%3A00"' in html
    )


def test_a_report_without_a_known_address_has_no_link(report_of: ReportOf) -> None:
    report = report_of(EndedRun([exhausted(), bare()]))

    assert "href" not in render_html(report)
    assert "mqdlq/dags" not in render_text(report)


def test_the_text_has_the_address_of_the_run(report_of: ReportOf) -> None:
    text = render_text(report_of(EndedRun([exhausted()])), PATHS)

    assert "".join(re.findall(r"(?m)^Page {6}(.*)$|^ {10}(\S+)$", text)[0]) in RUN


def test_a_large_group_is_acted_on_by_its_cause(report_of: ReportOf) -> None:
    report = report_of(EndedRun([exhausted()] * (MOST_KEYS_IN_AN_ADDRESS + 1)))

    (group,) = report.attention_groups
    assert re.fullmatch(
        rf"{AIRFLOW}/mqdlq/dags/mq_dlq_demo/act\?cause_id=[0-9a-f]{{12}}",
        act_address(PATHS, "demo", group),
    )


def test_a_message_with_an_unknown_outcome_cannot_be_acted_on(report_of: ReportOf) -> None:
    report = report_of(EndedRun([unmatched(outcome=Outcome.UNKNOWN)]))

    assert act_address(PATHS, "demo", report.attention_groups[0]) == ""


def test_the_note_of_a_run_links_to_its_report_and_its_page(report_of: ReportOf) -> None:
    note = run_note(report_of(EndedRun([unmatched()])), Paths(""))["note"]

    run = RUN.removeprefix(AIRFLOW)
    assert note.endswith(f" [Report]({run}/report), [run in Dead letters]({run}).")
