"""How the tasks sense and retry wait: in the worker, deferred, or no more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from mqdlq.airflow.operators.base import DEFER_FROM_S, Work
from mqdlq.airflow.operators.retry import Retry
from mqdlq.airflow.operators.sense import POLL_S, _end_of_wait
from mqdlq.airflow.triggers.retry import RetryTrigger
from mqdlq.handlers import Handler
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


def test_a_continuous_run_leaves_its_retries_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQDLQ_RULES_DIR", str(tmp_path))
    (tmp_path / "demo.yaml").write_text(
        "connection: mq\nrules: demo.rules\nschedule: '@continuous'\n"
    )

    assert waits(now() + timedelta(minutes=1)) is False


def end_of_wait(run: Run, waited: Any = None, **keys: Any) -> datetime | None:
    handler = Handler(
        name="demo", directory=Path(), connection="mq_demo", rules="demo.rules", **keys
    )
    return _end_of_wait(run, handler, waited)


def test_sense_waits_for_as_long_as_wait_says() -> None:
    before = now()

    until = end_of_wait(run_record(wait_s=600), schedule="@hourly")

    assert until is not None
    assert before <= until - timedelta(minutes=10) <= now()


def test_sense_waits_until_the_next_scheduled_start_for_wait_yes() -> None:
    until = end_of_wait(run_record(wait_s=None), schedule="@hourly")

    assert until is not None
    assert now() < until <= now() + timedelta(hours=1)
    assert (until.minute, until.second) == (0, 0)


def test_sense_waits_without_end_where_nothing_is_scheduled() -> None:
    assert end_of_wait(run_record(wait_s=None)) is None


def test_a_wait_that_goes_on_ends_when_it_was_to_end() -> None:
    moment = now() + timedelta(seconds=60)

    assert end_of_wait(run_record(wait_s=600), {"until": moment.isoformat()}) == moment
    assert end_of_wait(run_record(wait_s=None), {"until": None}) is None


def test_rules_that_wait_no_more_end_the_wait() -> None:
    later = (now() + timedelta(seconds=60)).isoformat()
    until = end_of_wait(run_record(wait_s=0), {"until": later})

    assert until is not None
    assert until <= now()


def test_no_deferral_is_so_short_that_the_scheduler_mistakes_it_for_a_failure() -> None:
    assert POLL_S >= DEFER_FROM_S >= 10
