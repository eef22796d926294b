"""Report on a run, from the ledger and the lake."""

from __future__ import annotations

from mqdlq.model import Verdict
from mqdlq.reading.report.building import read_report
from mqdlq.reading.report.grouping import rows_needing_attention
from mqdlq.reading.report.rendering.json_report import render_json, render_row
from mqdlq.reading.report.rendering.text_report import print_report, render_text
from mqdlq.reading.report.report_files import (
    ReportFiles,
    describe_unreported,
    latest_run_id,
    read_ended_report,
    write_report,
    written_stages,
)
from mqdlq.reading.report.report_records import Report
from mqdlq.reading.report.report_sources import read_sources

__all__ = [
    "Report",
    "ReportFiles",
    "Verdict",
    "describe_unreported",
    "latest_run_id",
    "print_report",
    "read_ended_report",
    "read_report",
    "read_sources",
    "render_json",
    "render_row",
    "render_text",
    "rows_needing_attention",
    "write_report",
    "written_stages",
]
