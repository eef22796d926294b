"""Test the verdict of a report: whether the run failed, was empty, or is unfinished."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mqdlq.lake import PlanDescription, finish_plan, plan_directory, start_plan
from mqdlq.ledger import Ledger
from mqdlq.ledger.tables import Look
from mqdlq.model import Outcome, Verdict
from mqdlq.reading.report.building import Report
from mqdlq.reading.report.text_report import render_text
from tests.unit.reading.report.ended_runs import (
    ALL_WELL,
    STAGES,
    EndedRun,
    delivered,
    failed_at,
    left_no_word_at,
    unmatched,
)

ReportOf = Callable[..., Report]


def test_a_failed_stage_fails_the_run_even_where_the_account_adds_up(report_of: ReportOf) -> None:
    report = report_of(EndedRun([delivered()]), failed_at("retry"))

    assert (report.verdict, report.why) == (Verdict.FAILED, left_no_word_at("retry"))
    assert report.headline == "1 message: 1 handled. The account adds up. The run failed at retry."


def test_the_report_lists_stages_in_their_order(report_of: ReportOf) -> None:
    report = report_of(EndedRun([delivered()]), dict(sorted(ALL_WELL.items())))

    assert tuple(report.stages) == STAGES


def test_the_report_of_an_empty_queue_has_the_time_of_the_inquiry(report_of: ReportOf) -> None:
    stages = {**dict.fromkeys(STAGES, "skipped"), "sense": "success"}

    report = report_of(EndedRun(snapshot=False), stages)

    assert (report.verdict, report.failed) == (Verdict.EMPTY, False)
    assert report.headline == "Queue empty, last checked 2026-11-21 02:49:22 UTC."


def test_a_queue_of_settled_messages_is_not_reported_as_empty(report_of: ReportOf) -> None:
    look = Look(3, False, "", datetime(2026, 11, 21, 3, tzinfo=UTC))
    run = EndedRun(snapshot=False, look=look)
    stages = {**dict.fromkeys(STAGES, "skipped"), "sense": "success"}

    report = report_of(run, stages)

    assert (report.verdict, report.failed) == (Verdict.SETTLED, False)
    assert report.headline == (
        "Nothing new: 3 messages on the queue, all settled by earlier runs;"
        " last checked 2026-11-21 03:00:00 UTC."
    )
    assert render_text(report).startswith("NOTHING NEW")


def test_a_snapshot_without_messages_is_reported_as_an_empty_queue(report_of: ReportOf) -> None:
    report = report_of(EndedRun([], last_browse=False))

    assert report.headline == "Queue empty, last checked 2026-11-21 02:49:25 UTC."


@pytest.mark.parametrize(
    ("run", "headline"),
    [
        (
            EndedRun([delivered()], snapshot=False),
            "No snapshot yet: the queue was empty, or the run did not get that far.",
        ),
        (
            EndedRun([replace(delivered(), outcome=None)], last_browse=False),
            "1 message: 0 handled, 1 without an outcome. The account does not add up.",
        ),
    ],
)
def test_a_run_with_unknown_stages_is_unfinished_until_its_last_browse(
    report_of: ReportOf, run: EndedRun, headline: str
) -> None:
    report = report_of(run, {})

    assert (report.verdict, report.headline) == (Verdict.UNFINISHED, headline)


def test_an_unaccepted_plan_is_reported_differently_from_no_plan(
    report_of: ReportOf, ledger: Ledger, lake_root: str
) -> None:
    run = EndedRun([delivered()], plan=False)
    assert report_of(run, failed_at("evaluate")).sources.plan is None
    snapshot = ledger.snapshots.of_run(run.run_id)
    assert snapshot is not None
    plan_id = f"{snapshot.snapshot_id}-3f9a0b12c4d5"
    directory = plan_directory(lake_root, plan_id)
    start_plan(directory)
    finish_plan(directory, PlanDescription(plan_id, "ab", (snapshot.snapshot_id,), "", 1, {}))

    report = report_of(replace(run, snapshot=False, run_id=run.run_id + "-2"), failed_at("approve"))
    again = _read_again(report_of, run, failed_at("approve"))

    assert report.sources.plan is None
    plan = again.sources.plan
    assert plan is not None
    assert (plan.plan_id, plan.accepted_at) == (plan_id, None)
    assert again.headline == (
        "The run ended at approve: none of 1 message was acted on; nothing was touched."
    )


def test_a_missing_snapshot_fails_the_report_but_keeps_the_ledgers_numbers(
    report_of: ReportOf, lake_root: str
) -> None:
    run = EndedRun([delivered(), unmatched()])
    location = report_of(run).sources.snapshot.location  # type: ignore[union-attr]
    shutil.rmtree(Path(lake_root))

    report = _read_again(report_of, run)

    assert report.verdict is Verdict.FAILED
    assert report.why == (
        f"the snapshot cannot be read: {location} is not a snapshot, as it has no"
        " _MANIFEST.json; take a new snapshot [MQDLQ-418]"
    )
    assert report.account is not None
    assert report.account.outcomes == {Outcome.DELIVERED: 1, Outcome.UNMATCHED: 1}
    assert [row.cause for row in report.attention_messages] == ["the snapshot has no row of it"]


def _read_again(report_of: ReportOf, run: EndedRun, stages: dict[str, str] = ALL_WELL) -> Report:
    """Read the report of a run that is written down already."""

    class Recorded(EndedRun):
        def record(self, ledger: Ledger, lake_root: str) -> str:
            del ledger, lake_root
            return self.run_id

    return report_of(Recorded(run_id=run.run_id), stages)
