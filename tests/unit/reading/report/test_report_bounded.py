"""Test that a report stays small and counts all messages, however many need attention."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from mqdlq import causes
from mqdlq.cli import app
from mqdlq.lake import files
from mqdlq.ledger import Ledger, database
from mqdlq.model import Outcome
from mqdlq.reading.report import groups
from mqdlq.reading.report.building import Report, read_report
from mqdlq.reading.report.files import ReportFiles
from mqdlq.reading.report.json_report import render_json
from mqdlq.reading.report.text_report import render_text
from tests.unit.reading.report.ended_runs import (
    ALL_WELL,
    START,
    EndedMessage,
    EndedRun,
    Try,
    delivered,
    exhausted,
    unmatched,
)

pytestmark = pytest.mark.slow

RUN = EndedRun().run_id
ReportOf = Callable[..., Report]


@pytest.fixture(name="few")
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit a report to three messages with the same trouble, and four in all."""
    monkeypatch.setattr(groups, "MOST_OF_A_GROUP", 3)
    monkeypatch.setattr(groups, "MOST_ROWS", 4)


def letters() -> list[EndedMessage]:
    return [*[exhausted()] * 6, *[unmatched()] * 2, delivered(), unmatched(outcome=None)]


@pytest.mark.usefixtures("few")
def test_a_report_counts_all_messages_and_lists_the_first_of_each_trouble(
    report_of: ReportOf,
) -> None:
    report = report_of(EndedRun(letters(), seen=8))

    assert (report.needs_attention, report.without_outcome) == (8, 1)
    assert [(g.messages, g.browse_seqs, len(g.rows)) for g in report.attention_groups] == [
        (6, "1-6", 3),
        (2, "7-8", 1),
    ]
    assert [row.browse_seq for row in report.attention_messages] == [1, 2, 3, 7]
    assert [row.browse_seq for row in report.unaccounted] == [10]
    assert report.headline == (
        "10 messages: 1 handled, 8 need attention, 1 without an outcome. The account does not"
        " add up."
    )
    assert report.account is not None
    assert report.account.outcomes == {
        Outcome.DELIVERED: 1,
        Outcome.UNMATCHED: 2,
        Outcome.EXHAUSTED: 6,
    }


@pytest.mark.usefixtures("few")
def test_the_report_names_the_command_that_lists_the_other_messages(
    files_of: Callable[..., ReportFiles],
) -> None:
    said = (
        "4 messages more of 9 are counted here but not listed:"
        f" `mqdlq report {RUN} --needs-attention` lists all of them."
    )

    files = files_of(EndedRun(letters()))

    assert said in " ".join(files.text.split())
    assert said in files.html_path.read_text()
    assert json.loads(files.json_path.read_text())["more"] == said


def test_a_complete_list_names_no_further_command(report_of: ReportOf) -> None:
    report = report_of(EndedRun(letters()))

    assert report.more == ""
    assert len(report.attention_messages) == report.needs_attention == 8


@pytest.mark.usefixtures("few")
def test_the_command_lists_all_messages_as_lines_of_json(
    report_of: ReportOf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MQDLQ_LAKE", str(tmp_path / "lake"))
    report = report_of(EndedRun(letters()))

    listed = CliRunner().invoke(app, ["report", RUN, "--needs-attention"])

    rows = [json.loads(line) for line in listed.stdout.splitlines()]
    assert [row["browse_seq"] for row in rows] == [1, 2, 3, 4, 5, 6, 7, 8, 10]
    document = json.loads(render_json(report))
    assert rows[0] == document["attention_messages"][0]
    assert rows[-1] == document["unaccounted"][0]
    assert rows[-1]["outcome"] is None


def test_groups_in_the_json_report_count_their_rows(report_of: ReportOf) -> None:
    document = json.loads(render_json(report_of(EndedRun(letters()))))

    group = document["attention_groups"][0]
    assert (group["messages"], group["rows"], group["browse_seqs"]) == (6, 6, "1-6")
    assert group["first"]["outcome"] == "exhausted"
    assert group["tried"][0]["attempts"] == 3


def test_troubles_beyond_the_limit_are_counted_by_outcome_and_reason(
    report_of: ReportOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example, each dead letter was for another temporary queue."""
    monkeypatch.setattr(groups, "MOST_TROUBLES", 2)
    monkeypatch.setattr(causes, "MOST_CAUSES", 2)

    report = report_of(EndedRun([unmatched(dest_q_name=f"AMQ.{n}") for n in range(7)]))

    assert [(g.messages, g.is_mixed) for g in report.attention_groups] == [
        (5, True),
        (1, False),
        (1, False),
    ]
    assert [(c.messages, c.cause.dest_q_name) for c in report.causes] == [
        (1, "AMQ.0"),
        (1, "AMQ.1"),
        (5, None),
    ]
    assert "for various destinations" in " ".join(render_text(report).split())


def test_the_memory_of_a_report_is_bounded(
    ledger: Ledger, lake_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report holds eight bytes for each message; all its rows took some five thousand."""
    monkeypatch.setattr(groups, "MOST_OF_A_GROUP", 20)
    monkeypatch.setattr(database, "ROWS_AT_ONCE", 50)
    monkeypatch.setattr(files.read_batches, "__kwdefaults__", {"rows": 50, "within": None})
    few, many = 400, 2_400
    peaks: dict[int, int] = {}
    for number in (few, few, many):  # once to warm up
        run = EndedRun([exhausted(), unmatched()] * (number // 2), run_id=f"r{len(peaks)}-{number}")
        run_id = (
            run.record(ledger, lake_root) if ledger.runs.get(run.run_id) is None else run.run_id
        )
        peaks[number] = peak(run_id, ledger, lake_root)

    assert (peaks[many] - peaks[few]) / (many - few) < 100  # bytes for each message more


def peak(run_id: str, ledger: Ledger, lake_root: str) -> int:
    """Return how many bytes were held at once while a report was read and written as JSON."""
    tracemalloc.start()
    try:
        report = read_report(
            run_id,
            ledger=ledger,
            lake_root=lake_root,
            stages=ALL_WELL,
            now=START + timedelta(seconds=50),
        )
        render_json(report)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_message_that_was_tried_often_is_one_row(report_of: ReportOf) -> None:
    tries = tuple(Try(20.0 + n, 2053) for n in range(30))

    report = report_of(EndedRun([exhausted(tries=tries)]))

    (row,) = report.attention_messages
    assert len(row.tried) == 30
    assert [tried.attempts for tried in report.attention_groups[0].tried] == [30]
