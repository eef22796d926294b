"""Airflow's real services, started once: a scheduled run, and what `make up` does to the demo."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mqdlq import directories
from mqdlq.airflow.run_ids import ledger_run_id
from mqdlq.local.services import state_of_the_demo
from tests.e2e.running.services import Airflow, airflow
from tests.support.world import World

pytestmark = pytest.mark.e2e

RULES = """
WAIT(NO) RETRYINT(2)
DESTQ(PAYMENTS) ACTION(RETRY) RETRY(2)
DESTQ(ORDERS) ACTION(FWD) FWDQ(PARKED) HEADER(YES)
"""
EXTRA = {"queue_manager": "QM1", "transport": "embedded"}
RUNS = (
    "The DAG mq_dlq_demo runs every five minutes, and QM1 gets new dead letters meanwhile.\n"
    "The DAGs of other handlers begin paused: `mqdlq airflow dags unpause mq_dlq_HANDLER`"
    " starts one."
)
PAUSED = (
    "The DAG mq_dlq_demo is paused, as you left it: `mqdlq airflow dags unpause mq_dlq_demo`"
    " starts it again. QM1 gets new dead letters meanwhile."
)


@pytest.fixture(scope="module", name="world")
def _world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("services")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MQDLQ_HOME", str(directory))
        world = World(directory)
        with world.ledger:
            yield world


@pytest.fixture(scope="module", name="running")
def _running(world: World, metadata: Callable[[Path], None]) -> Iterator[Airflow]:
    """Start Airflow with the project's handlers, one more, and a faulty one."""
    metadata(world.directory / "airflow")
    rules = world.directory / "rules"
    shutil.copytree(directories.PROJECT / "include" / "rules", rules)
    (rules / "night.rules").write_text(RULES)
    (rules / "night.yaml").write_text(
        "connection: mq_night\nrules: night.rules\nschedule: 0 2 * * *\npool: nightly\n"
    )
    (rules / "broken.yaml").write_text("connection: mq_night\nrulez: a\n")
    connection = json.dumps({"conn_type": "ibmmq", "extra": EXTRA})
    with airflow(world.directory, AIRFLOW_CONN_MQ_NIGHT=connection) as found:
        yield found


def test_a_scheduled_run_completes_under_airflows_services(running: Airflow, world: World) -> None:
    for dest_q in ("PAYMENTS", "ORDERS", "ELSEWHERE"):
        world.dead_letter(dest_q=dest_q)

    running.wait_for_dag("night")
    running.pause("night", paused=False)  # Airflow starts the run of the last interval
    running.wait(lambda: bool(running.runs("night")))
    (run,) = running.runs("night")
    ended = running.wait_for_run("night", run["dag_run_id"])

    assert run["run_type"] == "scheduled"
    assert ended == "success", running.tasks("night", run["dag_run_id"])
    assert running.outcomes("night", run["dag_run_id"]) == {
        "delivered": 1,
        "forwarded": 1,
        "unmatched": 1,
    }
    with running.ledger() as ledger:
        recorded = ledger.runs.get(ledger_run_id("night", run["dag_run_id"]))
        assert recorded is not None
        assert recorded.started_by == "the schedule"
    assert running.get("/pools/nightly")["slots"] == 1  # nobody but the run has made it
    (fault,) = running.get("/importErrors")["import_errors"]
    assert fault["filename"] == "mq_dlq_broken_handlers.py"
    assert "broken.yaml:2:1: unknown key rulez; did you mean rules?" in fault["stack_trace"]
    assert world.depths("DLQ", "PAYMENTS", "PARKED") == (1, 1, 1)


def test_make_up_unpauses_the_demo_at_the_first_start_only(running: Airflow) -> None:
    running.wait_for_dag("demo")
    # As `mqdlq run demo` leaves it.
    assert running.get("/dags/mq_dlq_demo")["is_paused"]

    assert state_of_the_demo(running.services.address) == RUNS
    assert not running.get("/dags/mq_dlq_demo")["is_paused"]

    running.pause("demo", paused=True)

    assert state_of_the_demo(running.services.address) == PAUSED
    assert running.get("/dags/mq_dlq_demo")["is_paused"]
