"""The ledger has the verdict and the numbers of each report."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import select

from mqdlq.ledger import Ledger
from mqdlq.ledger.tables import RecordedVerdict, verdict_outcomes
from mqdlq.reading.report.files import ReportFiles
from tests.unit.reading.report.conftest import WRITTEN_AT
from tests.unit.reading.report.ended_runs import (
    EndedRun,
    delivered,
    failed_at,
    unmatched,
)

FilesOf = Callable[..., ReportFiles]


def recorded_of(ledger: Ledger, run: EndedRun) -> RecordedVerdict:
    recorded = ledger.accounts.verdict_of(run.run_id)
    assert recorded is not None
    return recorded


def test_a_report_records_its_verdict_and_its_outcomes_by_rule(
    files_of: FilesOf, ledger: Ledger
) -> None:
    run = EndedRun([delivered(), delivered(), unmatched()])

    files_of(run)

    found = recorded_of(ledger, run)
    assert (found.verdict, found.messages, found.attention, found.adds_up, found.at) == (
        "attention",
        3,
        1,
        True,
        WRITTEN_AT,
    )
    assert found.headline == "3 messages: 2 handled, 1 needs attention. The account adds up."
    with ledger.engine.connect() as connection:
        columns = (verdict_outcomes.c[name] for name in ("outcome", "rule", "messages"))
        rows = connection.execute(select(*columns).order_by(verdict_outcomes.c.rule)).all()
    assert [tuple(row) for row in rows] == [("unmatched", 0, 1), ("delivered", 1, 2)]


def test_a_run_without_a_snapshot_has_a_verdict_without_numbers(
    files_of: FilesOf, ledger: Ledger
) -> None:
    run = EndedRun(snapshot=False)

    files_of(run, stages=failed_at("snapshot"), error="the queue manager ended")

    found = recorded_of(ledger, run)
    assert (found.verdict, found.messages, found.adds_up) == ("failed", None, None)
    assert found.why == "stage snapshot failed: the queue manager ended"


def test_the_last_of_several_reports_of_a_run_counts(files_of: FilesOf, ledger: Ledger) -> None:
    run = EndedRun([delivered()])
    files_of(run, stages=failed_at("execute"))

    files_of(run, recorded=False)

    assert recorded_of(ledger, run).verdict == "ok"


def test_a_run_that_the_ledger_lacks_has_no_verdict(files_of: FilesOf, ledger: Ledger) -> None:
    run = EndedRun()

    files_of(run, stages=failed_at("sense"), recorded=False)

    assert ledger.accounts.verdict_of(run.run_id) is None
