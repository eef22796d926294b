"""The words that a run's note in Airflow shows, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mqdlq.failures import Failure
from mqdlq.model import Verdict
from mqdlq.stages.page_paths import Paths
from mqdlq.stages.report.rendering.markdown import code, link, plain
from mqdlq.stages.report.report_records import Report
from mqdlq.stages.report.wording import VERDICTS, count

_MOST_WHY: Final = 300


def failure_note(failure: Failure) -> str:
    """Return why a task failed and what to do, for the note of a run without a report."""
    following = f" Next: {_code(failure.next_step)}" if failure.next_step else ""
    return f"Why: {_code(failure.summary)}{following}"


def _code(text: str) -> str:
    return code(" ".join(text.split()), _MOST_WHY)


def run_note(report: Report, paths: Paths | None = None) -> Mapping[str, str]:
    """Return the words of the `note` of the run, and of the mark on its task report.

    With `paths` the note ends with links to the report and to the run on the operator's page.

    `attention` is "" for a run that needs no attention: Airflow marks notes in its grid, so only
    other runs have a mark there. Text that may come from messages or from MQ is in a code span.
    """
    words = f"{VERDICTS[report.verdict]}. {plain(report.headline)}"
    if report.why:
        words += f" Why: {_code(report.why)}"
    if report.next_steps:
        words += f" Next: {_code(report.next_steps)}"
    if paths is not None and (handler := report.run.handler):
        run_id = report.run.run_id
        report_link = link("Report", paths.run_report(handler, run_id))
        words += f" {report_link}, {link('run in Dead letters', paths.run(handler, run_id))}."
    has_mark = report.verdict is Verdict.ATTENTION
    attention = f"{count(report.needs_attention, 'message')} to act on." if has_mark else ""
    return {"note": words, "attention": attention}
