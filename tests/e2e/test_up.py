"""`make up` unpauses the demo's DAG, which Airflow creates paused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import embedded_mq
from mqdlq import directories
from mqdlq.local.services import state_of_the_demo
from tests.e2e.running.services import airflow

pytestmark = pytest.mark.e2e

RUNS = (
    "The DAG mq_dlq_demo runs every five minutes, and QM1 gets new dead letters meanwhile.\n"
    "The DAGs of other handlers begin paused: `mqdlq airflow dags unpause mq_dlq_HANDLER`"
    " starts one."
)
PAUSED = (
    "The DAG mq_dlq_demo is paused, as you left it: `mqdlq airflow dags unpause mq_dlq_demo`"
    " starts it again. QM1 gets new dead letters meanwhile."
)


def test_make_up_unpauses_the_demo_at_the_first_start_only(
    tmp_path: Path,
) -> None:
    shutil.copytree(directories.PROJECT / "include" / "rules", tmp_path / "rules")

    with airflow(tmp_path) as running:
        embedded_mq.create("QM1")
        running.wait_for_dag("demo")
        # As `mqdlq run demo` leaves it.
        assert running.get("/dags/mq_dlq_demo")["is_paused"]

        assert state_of_the_demo(running.services.address) == RUNS
        assert not running.get("/dags/mq_dlq_demo")["is_paused"]

        running.pause("demo", paused=True)

        assert state_of_the_demo(running.services.address) == PAUSED
        assert running.get("/dags/mq_dlq_demo")["is_paused"]
