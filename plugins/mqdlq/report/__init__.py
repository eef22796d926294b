"""Reports: a run's facts in ledger and lake in; numbers, text, a page and JSON out. Reads only."""

from __future__ import annotations

from mqdlq.report.files import (
    ReportFiles,
    latest_run_id,
    report_directory,
    write_report,
    written_stages,
)
from mqdlq.report.gathering import rows_for_people
from mqdlq.report.json import render_json, render_row
from mqdlq.report.numbers import read_report
from mqdlq.report.records import Report, Verdict
from mqdlq.report.sources import read_sources
from mqdlq.report.text import print_report, render_text

__all__ = [
    "Report",
    "ReportFiles",
    "Verdict",
    "latest_run_id",
    "print_report",
    "read_report",
    "read_sources",
    "render_json",
    "render_row",
    "render_text",
    "report_directory",
    "rows_for_people",
    "write_report",
    "written_stages",
]
