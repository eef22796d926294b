"""Pools are made as runs begin; on real services, tests/e2e sees it. Here: what cannot be made."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from mqdlq.airflow.listeners import on_dag_run_running

ADVICE = (
    "pool mq of mq_dlq_night does not exist and could not be created (no such table: slot_pool);"
    " its tasks wait until `airflow pools set mq 1 mq_dlq_night` creates it [MQDLQ-801]"
)


def begins(dag_id: str) -> Any:
    """Return a run of a DAG whose tasks name a pool, over metadata that is not there yet."""
    tasks = [SimpleNamespace(pool="mq"), SimpleNamespace(pool="mq")]
    return SimpleNamespace(dag_id=dag_id, dag=SimpleNamespace(tasks=tasks))


@pytest.mark.parametrize(("dag_id", "told"), [("mq_dlq_night", [ADVICE]), ("another", [])])
def test_a_pool_that_cannot_be_made_never_stops_the_scheduler(
    caplog: pytest.LogCaptureFixture, dag_id: str, told: list[str]
) -> None:
    with caplog.at_level(logging.INFO, logger="mqdlq"):
        on_dag_run_running(begins(dag_id))

    assert caplog.messages == told
