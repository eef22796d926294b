"""Write a report as text, HTML and JSON files, and read it again."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path

from mqdlq import directories
from mqdlq.failures import Failure
from mqdlq.lake.cause_numbers import book_causes
from mqdlq.ledger import Ledger
from mqdlq.ledger.tables import Ending, RecordedVerdict
from mqdlq.reading.page_paths import Paths
from mqdlq.reading.report.building import Report, all_failures, ordered, read_report
from mqdlq.reading.report.html_report import render_html
from mqdlq.reading.report.json_report import render_json
from mqdlq.reading.report.markdown import failure_note, run_note
from mqdlq.reading.report.text_report import render_text
from mqdlq.reading.standings import Quiet, find_quiet
from mqdlq.words import visible


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFiles(Report):
    """A report with its text and its files; `note` has the words of the run's note in Airflow."""

    text: str
    html_path: Path
    json_path: Path
    note: Mapping[str, str]


def write_report(
    run_id: str,
    *,
    ledger: Ledger,
    lake_root: str,
    stages: Mapping[str, str],
    clock: Callable[[], datetime],
    failures: Sequence[Failure] = (),
    airflow: str | None = None,
) -> ReportFiles:
    """Write report.html, report.json and report.txt of a run, over those of an earlier call.

    Works however far the run came, also where the ledger has no such run: then `stages` (the
    states Airflow gave the stages) and `failures` (why stages failed) are all there is.
    `airflow` is where people reach Airflow with the operator's page: an address, "" if it is not
    known, None without a page. Only an address makes links in the files.
    The verdict, and the numbers of the inbox, are recorded in the ledger if it has the run. Raises
    LedgerError for a run id that cannot name a directory.
    """
    directory = directories.report_directory(run_id)
    report = read_report(
        run_id, ledger=ledger, lake_root=lake_root, stages=stages, failures=failures, now=clock()
    )
    paths = Paths(airflow) if airflow else None
    text = render_text(report, paths)
    directories.make_private_directory(directory)
    html_path, json_path = directory / "report.html", directory / "report.json"
    _write(directory / "report.txt", text)
    _write(html_path, render_html(report, paths))
    _write(json_path, render_json(report))
    if report.run is not None:
        _record_verdict(report, ledger)
        book_causes(report.run, ledger)
    quiet = find_quiet(report.run, ledger, clock()) if report.run is not None else Quiet()
    return ReportFiles(
        **{one.name: getattr(report, one.name) for one in fields(Report)},
        text=text,
        html_path=html_path,
        json_path=json_path,
        note=run_note(report, None if airflow is None else Paths(airflow), quiet),
    )


def describe_unreported(
    stages: Mapping[str, str], failures: Sequence[Failure]
) -> tuple[str, Mapping[str, str]]:
    """Say of a run without a report why its tasks failed: to people, and as the note in Airflow.

    Ledger and lake are not read. `failures` are the known ones, with that of the report last.
    """
    told = all_failures(ordered(stages), failures)
    steps = dict.fromkeys(one.next_step for one in told if one.next_step)
    first = (
        "The run failed, and its report could not be written. Whether it moved messages is not"
        " known here."
    )
    lines = (first, *(f"Why: {one.summary}" for one in told), *(f"Next: {one}" for one in steps))
    notes = " ".join(map(failure_note, told))
    text = "\n".join(map(visible, lines))
    return text, {"note": f"Failed. {first} {notes}", "attention": ""}


def _record_verdict(report: Report, ledger: Ledger) -> None:
    account = report.account
    verdict = RecordedVerdict(
        verdict=report.verdict,
        headline=report.headline,
        why=report.why,
        messages=account.messages if account is not None else None,
        adds_up=account.adds_up if account is not None else None,
        attention=report.needs_attention,
        at=report.written_at,
        failed_tasks=tuple(one.task for one in report.failures),
    )
    outcomes: Counter[Ending] = Counter()
    for row in report.rules:
        how = Ending(row.rule, row.action, row.target_q, row.target_q_mgr, row.outcome)
        outcomes[how] += row.messages
    ledger.accounts.record_verdict(report.run_id, verdict, outcomes)


def written_stages(run_id: str) -> tuple[dict[str, str], tuple[Failure, ...]]:
    """Return the stages' states, and why some failed, as a written report of the run has them.

    Both are empty where no report was written.
    """
    try:
        text = (directories.report_directory(run_id) / "report.json").read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}, ()
    document = json.loads(text)
    return document["stages"], tuple(Failure(**one) for one in document["failures"])


def read_ended_report(run_id: str, *, ledger: Ledger, lake_root: str, now: datetime) -> Report:
    """Read the report of a run again, also where the files of its worker are not.

    Without them the states of the stages are unknown, so the verdict, headline, reason and failures
    come from the ledger, which recorded them.
    """
    stages, failures = written_stages(run_id)
    recorded = ledger.accounts.verdict_of(run_id)
    if not stages:
        behind = failures_behind(recorded, ledger.runs.failures(run_id))
        is_over = recorded is not None or ledger.runs.get(run_id) is None
        failures = tuple(one for _, one in behind) if is_over else ()
    report = read_report(
        run_id, ledger=ledger, lake_root=lake_root, stages=stages, failures=failures, now=now
    )
    return report if stages or recorded is None else report.as_reported(recorded)


def failures_behind(
    recorded: RecordedVerdict | None, failures: Iterable[tuple[datetime, Failure]]
) -> list[tuple[datetime, Failure]]:
    """Return the failures that are behind a verdict; all of them without a verdict.

    A task that failed and then succeeded is not behind it.
    """
    return [
        (at, one) for at, one in failures if recorded is None or one.task in recorded.failed_tasks
    ]


def latest_run_id(ledger: Ledger) -> str | None:
    """Return the latest run, even if it failed before the ledger recorded it."""
    latest = ledger.runs.latest()
    written = sorted(
        directories.home().glob("reports/*/report.json"), key=lambda p: p.stat().st_mtime
    )
    if written:
        newest = written[-1].parent.name
        at = written[-1].stat().st_mtime
        if ledger.runs.get(newest) is None and (
            latest is None or at > latest.started_at.timestamp()
        ):
            return newest
    return None if latest is None else latest.run_id


def _write(path: Path, text: str) -> None:
    with directories.new_file(path) as file:
        file.write(text.encode())
