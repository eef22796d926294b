"""Faults of the containers while the demo runs in them, and the backup before them.

Each container is killed and paused, some lose the network, and volumes become full. Every run must
end, the next one must complete the work, each message must be in one place, and the ledger's
account must add up. A backup is restored.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.containers.account import RUN_LIMIT_S, complete, rows
from tests.e2e.containers.services import (
    SERVICES,
    AirflowInContainers,
    Containers,
    wait_until_healthy,
)

pytestmark = [pytest.mark.e2e, pytest.mark.long]

# Which service is killed, in order, while a run is in which task; a surviving run continues.
DEATHS = {
    "takes its snapshot": ("airflow-api-server",),
    "evaluates": ("spark-worker-1", "spark-worker-2", "spark-master"),
    "executes": ("airflow-scheduler",),
    "retries": ("postgres", "airflow-dag-processor", "airflow-triggerer"),
}
MOST_RUNS = 8


def test_a_run_survives_the_death_of_each_container(
    containers: Containers, airflow: AirflowInContainers, tell: Callable[[str], None]
) -> None:
    assert {victim for victims in DEATHS.values() for victim in victims} == {*SERVICES}
    run_id, fills = "", 0
    for moment, victims in DEATHS.items():
        while not (run_id and airflow.comes_to(run_id, moment)):
            fills += 1
            assert fills <= MOST_RUNS, containers.last_words()
            containers.fill()
            run_id = airflow.trigger("demo")
        for victim in victims:
            containers.kill(victim)
        tell(f"killed while a run {moment}: {', '.join(victims)}")
    tell(f"{fills} runs, the last ended as {airflow.wait_for_run('demo', run_id, RUN_LIMIT_S)}")
    wait_until_healthy(containers)
    complete(airflow, containers, tell)


def test_a_run_survives_a_pause_of_each_container(
    containers: Containers, airflow: AirflowInContainers, tell: Callable[[str], None]
) -> None:
    containers.fill()
    run_id = airflow.trigger("demo")
    for service in SERVICES:
        if airflow.has_ended(run_id):
            containers.fill()
            run_id = airflow.trigger("demo")
        with containers.paused(service):
            time.sleep(60)
        tell(f"paused for a minute: {service}")
    tell(f"the last run ended as {airflow.wait_for_run('demo', run_id, RUN_LIMIT_S)}")
    wait_until_healthy(containers)
    complete(airflow, containers, tell)


@pytest.mark.parametrize("service", ["postgres", "spark-worker-1", "airflow-api-server"])
def test_a_run_survives_a_network_that_is_cut_and_healed(
    containers: Containers, airflow: AirflowInContainers, tell: Callable[[str], None], service: str
) -> None:
    containers.fill()
    run_id = airflow.trigger("demo")
    assert airflow.comes_to(run_id, "evaluates")
    with containers.cut_off(service):
        time.sleep(60)
    tell(f"{service} without its network for a minute")
    tell(f"the run ended as {airflow.wait_for_run('demo', run_id, RUN_LIMIT_S)}")
    wait_until_healthy(containers)
    complete(airflow, containers, tell)


@pytest.mark.parametrize("moment", ["takes its snapshot", "evaluates"])
def test_a_run_on_a_full_lake_fails_and_the_next_one_completes_the_work(
    containers: Containers, airflow: AirflowInContainers, tell: Callable[[str], None], moment: str
) -> None:
    containers.fill()
    run_id = airflow.trigger("demo")
    assert airflow.comes_to(run_id, moment)
    with containers.full("state"):
        tell(f"the lake is full while a run {moment}")
        assert airflow.wait_for_run("demo", run_id, RUN_LIMIT_S) == "failed"
    said = airflow.log("demo", run_id, "report")
    tell("the run has failed; there is room again")

    assert "cannot be written: No space left on device [MQDLQ-416]" in said
    complete(airflow, containers, tell)


def test_a_run_survives_a_full_volume_of_postgresql(
    containers: Containers, airflow: AirflowInContainers, tell: Callable[[str], None]
) -> None:
    containers.fill()
    run_id = airflow.trigger("demo")
    assert airflow.comes_to(run_id, "evaluates")
    with containers.full("postgres"):
        time.sleep(60)
    tell("PostgreSQL without room for a minute")
    tell(f"the run ended as {airflow.wait_for_run('demo', run_id, RUN_LIMIT_S)}")
    wait_until_healthy(containers)
    complete(airflow, containers, tell)


def test_a_backup_is_restored_into_new_volumes(
    containers: Containers, airflow: AirflowInContainers, directory: Path
) -> None:
    airflow.pause("demo", paused=True)
    before, files = rows(airflow), lake_of(containers)
    copy = directory / "backup"
    containers.script("deploy/compose-backup.sh", "backup", str(copy))
    containers.compose("down", "--volumes")

    containers.script("deploy/compose-backup.sh", "restore", str(copy))
    containers.up()

    assert (rows(airflow), lake_of(containers)) == (before, files)
    assert files


def lake_of(containers: Containers) -> list[str]:
    """Return the lake's files, each with its checksum."""
    command = "cd /var/lib/mqdlq/lake && find . -type f -exec sha256sum {} +"
    return sorted(containers.inside("airflow-scheduler", "bash", "-c", command).splitlines())
