"""How the task retry waits: in the worker, deferred, or no more."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from airflow.sdk.exceptions import TaskDeferred

from mqdlq.airflow.operators.base import DEFER_FROM_S, progress, utc_now
from mqdlq.airflow.operators.stages import POLL_S, Retry
from mqdlq.airflow.triggers.waiting import RetryTrigger
from mqdlq.ledger import open_ledger
from mqdlq.ledger.tables import Run
from mqdlq.mqi.connect import ConnectionSettings
from mqdlq.resources import Execution
from tests.support.run_records import run_record


def now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 (the tasks under test compare with the wall clock)


def waits(moment: datetime, run: Run | None = None) -> bool:
    execution = Execution(
        run=run or run_record(started_at=now()),
        settings=ConnectionSettings("QM1", transport="embedded"),
        ledger=open_ledger("sqlite://"),
        lake_root="",
        clock=utc_now,
        sleep=time.sleep,
        log=progress,
    )
    left = {"pending": 2, "next_pass_at": moment.isoformat()}
    return Retry(task_id="retry", handler="demo")._wait(execution, left)


def test_a_due_pass_starts_at_once() -> None:
    assert waits(now()) is True


def test_a_long_wait_for_the_next_pass_is_deferred() -> None:
    moment = now() + timedelta(minutes=1)

    with pytest.raises(TaskDeferred) as deferred:
        waits(moment)

    state = {"pending": 2, "next_pass_at": moment.isoformat()}
    assert deferred.value.trigger.serialize() == RetryTrigger(moment, state, "demo-1").serialize()
    assert deferred.value.method_name == "resume"


def test_a_run_makes_no_pass_after_max_run_time() -> None:
    late = run_record(started_at=now() - timedelta(hours=2))

    assert waits(now(), late) is False


def test_a_wait_under_ten_seconds_is_not_deferred() -> None:
    assert POLL_S >= DEFER_FROM_S >= 10
