"""Reports: a run's facts in ledger and lake in; numbers, text, a page and JSON out. Reads only."""

from __future__ import annotations

from mqdlq.report.files import (
    ReportFiles,
    latest_run_id,
    report_directory,
    write_report,
    written_stages,
)
from mqdlq.report.json import render_json
from mqdlq.report.numbers import read_report
from mqdlq.report.records import Report, Verdict
from mqdlq.report.text import print_report, render_text

__all__ = [
    "Report",
    "ReportFiles",
    "Verdict",
    "latest_run_id",
    "print_report",
    "read_report",
    "render_json",
    "render_text",
    "report_directory",
    "write_report",
    "written_stages",
]
