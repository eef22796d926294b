"""How the task retry waits: in the worker, deferred, or no more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from airflow.sdk.exceptions import TaskDeferred

from mqdlq.airflow.operators.base import DEFER_FROM_S, Work
from mqdlq.airflow.operators.execute import Retry
from mqdlq.airflow.operators.sense import POLL_S
from mqdlq.airflow.triggers.retry import RetryTrigger
from mqdlq.ledger import open_ledger
from mqdlq.ledger.tables.runs import Run
from mqdlq.mqi.connect import ConnectionSettings
from tests.support.run_records import run_record


def now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 (the tasks under test compare with the wall clock)


def waits(moment: datetime, run: Run | None = None) -> bool:
    work = Work(
        run or run_record(started_at=now()),
        ConnectionSettings("QM1", transport="embedded"),
        open_ledger("sqlite://"),
    )
    left = {"pending": 2, "next_pass_at": moment.isoformat()}
    return Retry(task_id="retry", handler="demo")._wait(work, left)


def test_a_due_pass_starts_at_once() -> None:
    assert waits(now()) is True


def test_a_long_wait_for_the_next_pass_is_deferred() -> None:
    moment = now() + timedelta(minutes=1)

    with pytest.raises(TaskDeferred) as deferred:
        waits(moment)

    state = {"pending": 2, "next_pass_at": moment.isoformat()}
    assert deferred.value.trigger.serialize() == RetryTrigger(moment, state).serialize()
    assert deferred.value.method_name == "resume"


def test_a_run_makes_no_pass_after_max_run_time() -> None:
    late = run_record(started_at=now() - timedelta(hours=2))

    assert waits(now(), late) is False


def test_a_wait_under_ten_seconds_is_not_deferred() -> None:
    assert POLL_S >= DEFER_FROM_S >= 10
