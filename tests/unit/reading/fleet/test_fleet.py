"""The state of each handler on each queue, from a real ledger."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from mqdlq.failures import Failure
from mqdlq.handlers import Handler
from mqdlq.ledger import Ledger, open_ledger
from mqdlq.ledger.tables import CauseNumbers
from mqdlq.model import Outcome
from mqdlq.reading.fleet import (
    FleetRow,
    FleetSummary,
    HandlerFile,
    QueueState,
    read_fleet,
)
from mqdlq.web.overview import OverviewQuery
from tests.support.run_records import NOON, run_record
from tests.support.web.recorded_runs import RecordedRun, counted_statements
from tests.support.world import create_ledger

pytestmark = pytest.mark.stages

HOUR = timedelta(hours=1)
ALL_DELIVERED = {Outcome.DELIVERED: 5}


@pytest.fixture(name="ledger")
def ledger_fixture(tmp_path: Path) -> Iterator[Ledger]:
    create_ledger(tmp_path / "ledger.db")
    with open_ledger(f"sqlite:///{tmp_path}/ledger.db") as ledger:
        yield ledger


def file_of(name: str = "demo", schedule: str | None = None) -> HandlerFile:
    handler = Handler(
        name=name, directory=Path("/rules"), connection="mq", rules="a.rules", schedule=schedule
    )
    return HandlerFile(name, handler)


def anyone(names: Iterable[str]) -> frozenset[str]:
    return frozenset(names)


def rows_of(ledger: Ledger, *files: HandlerFile, now: datetime = NOON + HOUR) -> list[FleetRow]:
    return read_fleet(ledger, {file.name: file for file in files}, anyone, now)


def row_of(
    ledger: Ledger, file: HandlerFile | None = None, now: datetime = NOON + HOUR
) -> FleetRow:
    (row,) = rows_of(ledger, file or file_of(), now=now)
    return row


def test_an_empty_queue_says_when_it_was_checked(ledger: Ledger) -> None:
    RecordedRun(depth=0, is_work=False).record(ledger)

    row = row_of(ledger)

    assert row.state is QueueState.EMPTY
    assert row.state.tone == "good"
    assert row.findings[0][1] == "Empty, last checked 2026-11-21 12:00:01 UTC."
    assert (row.depth, row.max_depth, row.attention, row.oldest) == (0, 5000, 0, None)


def test_a_queue_that_was_checked_long_ago_is_not_good(ledger: Ledger) -> None:
    RecordedRun(depth=0, is_work=False).record(ledger)

    row = row_of(ledger, now=NOON + timedelta(days=3))

    assert row.state is QueueState.STALE
    assert row.state.tone == "unknown"
    assert row.findings[0][1] == "Last checked 2026-11-21 12:00:01 UTC, 71 h 59 min ago."


def test_a_queue_whose_messages_were_all_handled_is_good(ledger: Ledger) -> None:
    RecordedRun(outcomes=ALL_DELIVERED, arrived=1).record(ledger)

    row = row_of(ledger)

    assert (row.state, row.state.tone, row.depth) == (QueueState.HANDLED, "good", 1)


def test_messages_that_need_attention_are_counted(ledger: Ledger) -> None:
    RecordedRun().record(ledger)

    row = row_of(ledger)

    assert (row.state, row.attention) == (QueueState.ATTENTION, 2)
    assert row.findings[0][1] == "2 messages need attention."
    assert row.oldest == NOON - HOUR


def test_settled_messages_that_need_attention_are_not_good(ledger: Ledger) -> None:
    RecordedRun(name="work").record(ledger)
    RecordedRun(name="idle", at=NOON + HOUR, depth=2, is_work=False).record(ledger)

    row = row_of(ledger, now=NOON + 2 * HOUR)

    assert (row.state, row.attention, row.oldest) == (QueueState.ATTENTION, 2, NOON - HOUR)


def test_settled_messages_that_a_rule_leaves_are_good(ledger: Ledger) -> None:
    RecordedRun(name="work", outcomes={Outcome.LEFT_BY_RULE: 5}).record(ledger)
    RecordedRun(name="idle", at=NOON + HOUR, is_work=False).record(ledger)

    row = row_of(ledger, now=NOON + 2 * HOUR)

    assert row.state is QueueState.SETTLED
    assert row.findings[0][1] == "5 settled messages, last checked 2026-11-21 13:00:01 UTC."


@pytest.mark.parametrize(
    ("adds_up", "state"),
    [(None, QueueState.FAILED), (True, QueueState.FAILED), (False, QueueState.UNACCOUNTED)],
)
def test_a_failed_run_is_bad_whatever_its_queue_holds(
    ledger: Ledger, adds_up: bool | None, state: QueueState
) -> None:
    why = "stage execute failed"
    RecordedRun(outcomes=ALL_DELIVERED, verdict="failed", why=why, adds_up=adds_up).record(ledger)

    row = row_of(ledger)

    assert (row.state, row.state.tone, row.findings[0][1]) == (state, "bad", why)
    assert not any(state.tone == "good" for state, _ in row.findings)


def test_a_refused_run_is_bad_until_a_later_run_starts(ledger: Ledger) -> None:
    RecordedRun(outcomes=ALL_DELIVERED).record(ledger)
    ledger.runs.record_failure("demo-2", "demo", Failure("sense", "no such queue"), NOON + HOUR)

    row = row_of(ledger)

    assert row.state is QueueState.REFUSED
    assert row.findings[0][1] == "2026-11-21 13:00:00 UTC: no such queue"

    RecordedRun(name="3", at=NOON + 2 * HOUR, outcomes=ALL_DELIVERED).record(ledger)
    assert row_of(ledger, now=NOON + 2 * HOUR).state is QueueState.EMPTY


def test_a_run_without_account_is_in_progress_for_the_time_it_may_take(ledger: Ledger) -> None:
    RecordedRun(outcomes=None).record(ledger)

    assert row_of(ledger, now=NOON + HOUR).state is QueueState.RUNNING
    assert row_of(ledger, now=NOON + 2 * HOUR).state is QueueState.INTERRUPTED


def test_a_run_that_waits_for_an_approval_says_so(ledger: Ledger) -> None:
    RecordedRun(asks=True, outcomes=None).record(ledger)

    row = row_of(ledger, now=NOON + 9 * HOUR)

    assert row.state is QueueState.APPROVAL
    assert row.findings[0][1] == "A plan for 3 messages waits since 2026-11-21 12:00:03 UTC."
    assert len(row.approvals) == 1


def test_a_run_whose_report_is_missing_is_not_good(ledger: Ledger) -> None:
    RecordedRun(outcomes=ALL_DELIVERED, verdict="").record(ledger)

    assert row_of(ledger, now=NOON + timedelta(minutes=1)).state is QueueState.RUNNING
    assert row_of(ledger).state is QueueState.NO_REPORT


def test_a_handler_is_overdue_after_three_missed_starts(ledger: Ledger) -> None:
    RecordedRun(outcomes=ALL_DELIVERED, at=NOON + timedelta(minutes=5)).record(ledger)
    file = file_of(schedule="@hourly")

    assert row_of(ledger, file, NOON + 2.9 * HOUR).state is QueueState.EMPTY
    late = row_of(ledger, file, NOON + 3 * HOUR)

    assert late.state is QueueState.OVERDUE
    assert late.findings[0][1] == (
        "The last run started at 2026-11-21 12:05:00 UTC, by schedule @hourly."
        " Its DAG may be paused in Airflow."
    )


def test_a_handler_that_never_ran_is_listed(ledger: Ledger) -> None:
    row = row_of(ledger)

    assert (row.handler, row.queue, row.state) == ("demo", "", QueueState.NEVER_RAN)
    assert (row.rules_name, row.rules_digest) == ("a.rules", "")


def test_a_handler_whose_first_run_was_refused_is_listed(ledger: Ledger) -> None:
    ledger.runs.record_failure("demo-1", "demo", Failure("sense", "no such queue"), NOON)

    assert row_of(ledger).state is QueueState.REFUSED


def test_a_handler_without_a_file_is_listed_from_the_ledger(ledger: Ledger) -> None:
    RecordedRun(handler="gone", outcomes=ALL_DELIVERED).record(ledger)

    first, _ = rows_of(ledger, file_of("other"))

    assert (first.handler, first.state) == ("gone", QueueState.NO_FILE)


def test_handler_files_that_this_process_does_not_have_are_not_missed(ledger: Ledger) -> None:
    RecordedRun(outcomes=ALL_DELIVERED).record(ledger)

    (row,) = rows_of(ledger)

    assert (row.state, row.has_files) == (QueueState.EMPTY, False)


def test_a_handler_file_with_errors_is_never_good(ledger: Ledger) -> None:
    RecordedRun(outcomes=ALL_DELIVERED).record(ledger)
    broken = replace(file_of(), errors=("a.rules:1:8: unknown action",))

    row = row_of(ledger, broken)

    assert row.state is QueueState.BROKEN_FILE
    assert row.findings[0][1] == "a.rules:1:8: unknown action"


def test_traffic_is_what_came_and_went_since_the_run_before(ledger: Ledger) -> None:
    RecordedRun(name="1").record(ledger)  # leaves 2
    later = RecordedRun(name="2", at=NOON + HOUR, depth=7, arrived=1)
    later.record(ledger)  # 3 of 7 delivered; with the arrival, 3 are there

    assert row_of(ledger, now=NOON + 2 * HOUR).traffic == (4, 3)


def test_messages_that_others_took_count_as_departed(ledger: Ledger) -> None:
    RecordedRun(name="1", outcomes={Outcome.LEFT_BY_RULE: 5}).record(ledger)
    RecordedRun(name="2", at=NOON + HOUR, depth=0, is_work=False).record(ledger)

    assert row_of(ledger, now=NOON + 2 * HOUR).traffic == (0, 5)


def test_traffic_of_a_first_run_is_unknown(ledger: Ledger) -> None:
    RecordedRun().record(ledger)

    assert row_of(ledger).traffic is None


def test_rows_come_by_need_and_then_by_number_of_messages(ledger: Ledger) -> None:
    RecordedRun(handler="good", outcomes=ALL_DELIVERED).record(ledger)
    RecordedRun(handler="few").record(ledger)
    RecordedRun(handler="many", depth=9, outcomes={Outcome.UNMATCHED: 9}).record(ledger)
    RecordedRun(handler="failed", verdict="failed").record(ledger)
    names = ("good", "few", "many", "failed")

    found = rows_of(ledger, *map(file_of, names))

    assert [row.handler for row in found] == ["failed", "many", "few", "good"]
    summary = FleetSummary(found)
    assert summary.unchecked == 0
    assert (summary.handlers, summary.queue_managers, summary.attention) == (4, 1, 13)
    assert summary.states == {
        QueueState.FAILED: 1,
        QueueState.ATTENTION: 2,
        QueueState.EMPTY: 1,
    }


def test_handlers_that_a_person_may_not_read_are_left_out(ledger: Ledger) -> None:
    RecordedRun(handler="mine").record(ledger)
    RecordedRun(handler="theirs").record(ledger)
    files = {name: file_of(name) for name in ("mine", "theirs", "idle")}

    rows = read_fleet(ledger, files, lambda names: frozenset({"mine"} & {*names}), NOON)

    assert [row.handler for row in rows] == ["mine"]


def test_a_filter_narrows_by_text_state_and_queue_manager(ledger: Ledger) -> None:
    RecordedRun(handler="payments", run={"queue_manager": "QM2"}).record(ledger)
    RecordedRun(handler="orders", outcomes=ALL_DELIVERED).record(ledger)
    rows = rows_of(ledger, file_of("payments"), file_of("orders"))

    def shown(**chosen: str) -> list[str]:
        return [row.handler for row in rows if OverviewQuery.parse(chosen).has(row)]

    assert shown() == ["payments", "orders"]
    assert shown(q="PAY") == ["payments"]
    assert shown(q="dlq") == ["payments", "orders"]
    assert shown(state="empty") == ["orders"]
    assert shown(queue_manager="QM2") == ["payments"]
    assert shown(queue_manager="QM2", state="empty") == []


def test_one_handler_has_a_row_for_each_of_its_queues(ledger: Ledger) -> None:
    RecordedRun(name="1").record(ledger)
    RecordedRun(name="2", outcomes=ALL_DELIVERED, run={"queue": "OTHER"}).record(ledger)
    RecordedRun(handler="else").record(ledger)

    rows = read_fleet(ledger, {"demo": file_of()}, frozenset, NOON + HOUR, "demo")

    assert [(row.queue, row.state) for row in rows] == [
        ("DLQ", QueueState.ATTENTION),
        ("OTHER", QueueState.EMPTY),
    ]


def test_a_handler_without_runs_has_one_row(ledger: Ledger) -> None:
    (row,) = read_fleet(ledger, {"demo": file_of()}, frozenset, NOON, "demo")

    assert row.state is QueueState.NEVER_RAN


def test_the_fleet_is_read_in_a_fixed_number_of_statements(ledger: Ledger) -> None:
    for number in range(40):
        RecordedRun(handler=f"h{number}").record(ledger)

    with counted_statements(ledger) as executed:
        rows = rows_of(ledger, *(file_of(f"h{number}") for number in range(60)))

    assert len(rows) == 60
    assert len(executed) == 5


def test_a_number_that_a_newer_run_has_not_confirmed_keeps_its_value_and_has_its_age(
    ledger: Ledger,
) -> None:
    RecordedRun(name="before", depth=54_600, outcomes={Outcome.UNMATCHED: 54_600}).record(ledger)
    RecordedRun(name="now", at=NOON + HOUR, depth=54_600, verdict="").record(ledger)

    row = row_of(ledger, now=NOON + HOUR + timedelta(minutes=1))

    assert row.attention == 54_600
    assert row.state is QueueState.ATTENTION
    assert row.findings[0][1] == (
        "54,600 messages need attention by the account of 2026-11-21 12:00:30 UTC, 1 h 0 min ago."
    )
    assert FleetSummary([row]).unknown == 0


def test_a_queue_whose_first_report_is_being_written_is_not_counted_as_0(ledger: Ledger) -> None:
    RecordedRun(verdict="").record(ledger)

    row = row_of(ledger, now=NOON + timedelta(minutes=1))

    assert row.attention is None
    assert (FleetSummary([row]).attention, FleetSummary([row]).unknown) == (0, 1)


def test_what_a_first_run_met_needs_attention_until_its_report_is_written(ledger: Ledger) -> None:
    run = RecordedRun(depth=7, outcomes=None).record(ledger)
    met = CauseNumbers("dead_letter", 2053, "full", "ORDERS", "QM1", messages=7)
    ledger.inbox.book(run, [met], NOON, is_judged=False)

    row = row_of(ledger, now=NOON + timedelta(minutes=1))

    assert row.state is QueueState.ATTENTION
    assert (FleetSummary([row]).attention, FleetSummary([row]).unknown) == (7, 0)


def test_a_run_that_saw_no_depth_leaves_the_last_known_one(ledger: Ledger) -> None:
    RecordedRun(depth=5).record(ledger)
    ledger.runs.record(run_record(run_id="demo-2", started_at=NOON + HOUR))

    row = row_of(ledger)

    assert (row.depth, row.checked_at) == (2, NOON + timedelta(seconds=30))
