"""How the tasks sense and retry wait: in the worker, deferred, or no more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from mqdlq.airflow.retry import Retry
from mqdlq.airflow.retry_trigger import RetryTrigger
from mqdlq.airflow.sense import POLL_S, Sense
from mqdlq.airflow.stage import DEFER_FROM_S, Work
from mqdlq.ledger import Run, open_ledger
from mqdlq.mqi.connect import ConnectionSettings


def now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 (the tasks under test compare with the wall clock)


def run_record(**changes: Any) -> Run:
    values: dict[str, Any] = {
        "run_id": "demo-1",
        "handler": "demo",
        "dag_run_id": "1",
        "run_type": "manual",
        "queue_manager": "QM1",
        "queue": "DLQ",
        "state_queue": "MQDLQ.STATE",
        "rules_source": "demo.rules",
        "rules_digest": "0" * 64,
        "rules_text": "",
        "retry_interval_s": 60,
        "wait_s": 0,
        "carry_attempts": False,
        "dry_run": False,
        "max_run_time_s": 3600,
        "started_at": now(),
    }
    return Run(**{**values, **changes})


def waits(moment: datetime, run: Run | None = None) -> bool:
    work = Work(
        run or run_record(),
        ConnectionSettings("QM1", transport="embedded"),
        open_ledger("sqlite://"),
    )
    left = {"pending": 2, "next_pass_at": moment.isoformat()}
    return Retry(task_id="retry", handler="demo")._wait(work, left)


def test_a_pass_that_is_due_is_made_at_once() -> None:
    assert waits(now()) is True


def test_a_long_wait_is_deferred_with_its_state_in_the_trigger() -> None:
    moment = now() + timedelta(minutes=1)

    with pytest.raises(TaskDeferred) as deferred:
        waits(moment)

    state = {"pending": 2, "next_pass_at": moment.isoformat()}
    assert deferred.value.trigger.serialize() == RetryTrigger(moment, state).serialize()
    assert deferred.value.method_name == "resume"


def test_there_is_no_pass_after_max_run_time() -> None:
    late = run_record(started_at=now() - timedelta(hours=2))

    assert waits(now(), late) is False


def test_sense_waits_deferred_for_as_long_as_wait_says() -> None:
    before = now()

    with pytest.raises(TaskDeferred) as deferred:
        Sense(task_id="sense", handler="demo")._wait(run_record(wait_s=600), "mq_demo")

    waits_for = deferred.value.trigger.until - timedelta(minutes=10)
    assert before <= waits_for <= now()


def test_sense_waits_without_end_for_wait_yes() -> None:
    with pytest.raises(TaskDeferred) as deferred:
        Sense(task_id="sense", handler="demo")._wait(run_record(wait_s=None), "mq_demo")

    assert deferred.value.trigger.until is None


def test_no_deferral_is_so_short_that_the_scheduler_mistakes_it_for_a_failure() -> None:
    assert POLL_S >= DEFER_FROM_S >= 10
