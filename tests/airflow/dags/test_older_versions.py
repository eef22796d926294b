"""Stand-ins for features of Airflow 3.3 in its earlier versions, as far as 3.3 can run them.

`make matrix` runs the rest under those versions.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, TaskDeferred
from airflow.sdk.exceptions import DownstreamTasksSkipped

from mqdlq.airflow.older_versions import fail_for_lasting_faults, task_state
from mqdlq.airflow.retries import RetryTransient
from mqdlq.airflow.triggers.retry import RetryTrigger
from mqdlq.errors import HandlerError
from tests.airflow.triggers.test_first_look import now


def attempt(number: int = 1) -> Any:
    return {"ti": SimpleNamespace(try_number=number, max_tries=3)}


def test_a_lasting_fault_becomes_the_failure_that_airflow_does_not_retry() -> None:
    fault = HandlerError("MQDLQ-101", "orders.yaml: connection is missing")

    with (
        pytest.raises(AirflowFailException) as failed,
        fail_for_lasting_faults(RetryTransient(), attempt()),
    ):
        raise fault

    assert str(failed.value) == str(fault)
    assert failed.value.__cause__ is fault


def test_a_transient_fault_is_left_to_airflows_retries() -> None:
    with pytest.raises(ConnectionError), fail_for_lasting_faults(RetryTransient(), attempt()):
        raise ConnectionError


def test_no_fault_is_retried_after_the_last_attempt() -> None:
    with (
        pytest.raises(AirflowFailException),
        fail_for_lasting_faults(RetryTransient(), attempt(number=4)),
    ):
        raise ConnectionError


@pytest.mark.parametrize(
    "signal",
    [
        DownstreamTasksSkipped(tasks=["execute"]),
        TaskDeferred(trigger=RetryTrigger(now(), {}), method_name="resume"),
    ],
    ids=lambda signal: type(signal).__name__,
)
def test_skipping_and_deferring_pass_unchanged(signal: BaseException) -> None:
    with (
        pytest.raises(type(signal)) as raised,
        fail_for_lasting_faults(RetryTransient(), attempt()),
    ):
        raise signal

    assert raised.value is signal


def test_without_a_store_a_tasks_state_is_read_from_the_keepers_xcoms() -> None:
    xcoms = {("sense", "answer-one"): {"is_approved": True}}
    ti = SimpleNamespace(xcom_pull=lambda task_ids, key: xcoms.get((task_ids, key)))
    context: Any = {"ti": ti}

    assert task_state(context, "sense").get("answer-one") == {"is_approved": True}
    assert task_state(context, "sense").get("notified-one") is None


def test_with_a_store_a_tasks_state_is_airflows() -> None:
    store = SimpleNamespace()
    context: Any = {"task_state_store": store}

    assert task_state(context, "sense") is store
