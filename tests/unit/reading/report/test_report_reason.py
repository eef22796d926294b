"""Test that a report shows the reason that the person gave who started its run."""

from __future__ import annotations

import json
from collections.abc import Callable

from mqdlq.reading.report.building import Report
from mqdlq.reading.report.html_report import render_html
from mqdlq.reading.report.json_report import render_json
from mqdlq.reading.report.text_report import render_text
from tests.unit.reading.report.ended_runs import EndedRun, unmatched

ReportOf = Callable[..., Report]


def test_a_report_has_the_reason_beside_the_starter(report_of: ReportOf) -> None:
    report = report_of(EndedRun([unmatched()], why="INC-42 <b>\x1b[31m"))

    assert json.loads(render_json(report))["run"]["why"] == "INC-42 <b>\x1b[31m"
    words = " ".join(render_text(report).split())
    assert "by alice in Airflow: INC-42 <b>" in words
    html = render_html(report)
    assert "started by alice in Airflow: INC-42 &lt;b&gt;" in html
    assert "\x1b" not in words + html


def test_a_report_without_a_reason_ends_with_the_starter(report_of: ReportOf) -> None:
    assert "started by alice in Airflow</p>" in render_html(report_of(EndedRun([unmatched()])))
