"""The containers with their lake in an object store, itself a container of the compose file.

Only variables of .env are others: the profile `s3`, the address of the lake, and the store's image,
which is a stand-in of packages (moto's server) with the words of MinIO's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.containers.account import (
    STORY,
    check_the_account,
    run_once,
    wait_for_the_scheduled_run,
)
from tests.e2e.containers.engine import S3_IMAGE, Engine
from tests.e2e.containers.services import AirflowInContainers, Containers
from tests.e2e.running.browser import browser

pytestmark = [pytest.mark.e2e, pytest.mark.long]

IN_THE_STORE = """
import fsspec
from collections import Counter
files = fsspec.filesystem("s3").find("lake")
print(*Counter(file.split("/")[2] for file in files))
"""
# Several snapshots are read by Spark's workers, however few their messages.
ALL_SNAPSHOTS = """
import fsspec, subprocess, sys
files = fsspec.filesystem("s3").glob("lake/dlq/snapshots/*/*/*/_MANIFEST.json")
given = [word for file in files for word in ("--snapshot", "s3://" + file.rpartition("/")[0])]
command = ["spark-submit", "--master", "spark://spark-master:7077"]
command += ["--conf", "spark.pyspark.python=" + sys.executable]
command += ["/opt/mqdlq/spark/evaluate_rules.py", *given, "--plan", "s3://lake/dlq/plans/all"]
sys.exit(subprocess.run(command).returncode)
"""


@pytest.fixture(name="containers", scope="module")
def _containers(engine: Engine, directory: Path) -> Iterator[Containers]:
    engine.make_s3_image()
    settings = {
        "COMPOSE_PROFILES": "embedded,s3",
        "MQDLQ_LAKE": "s3://lake/dlq",
        "S3_IMAGE": S3_IMAGE,
    }
    containers = Containers(engine, directory, settings=settings)
    with containers.running():
        yield containers


def test_the_demo_runs_with_its_lake_in_an_object_store(
    containers: Containers,
    airflow: AirflowInContainers,
    tell: Callable[[str], None],
) -> None:
    wait_for_the_scheduled_run(airflow, containers)
    tell(f"scheduled run: {STORY}")
    tell(f"manual run: {run_once(airflow, containers)}")

    assert containers.state_of("s3") == ("running", "healthy")
    found = containers.inside("airflow-scheduler", "python", "-c", IN_THE_STORE).split()
    assert {"snapshots", "plans", "archive"} <= {*found}
    assert containers.inside("airflow-scheduler", "ls", "--almost-all", "/var/lib/mqdlq/lake") == ""
    check_the_account(airflow, containers)


def test_sparks_workers_evaluate_snapshots_in_the_object_store(containers: Containers) -> None:
    said = containers.inside("airflow-scheduler", "python", "-c", ALL_SNAPSHOTS)

    assert "evaluate_rules: 2 snapshots: " in said
    assert "evaluate_rules: plan all: " in said


def test_the_page_reads_the_object_store(
    containers: Containers, airflow: AirflowInContainers, tmp_path: Path
) -> None:
    with browser(tmp_path / "browser") as page:
        page.log_in(containers.address, airflow.token)
        page.open(f"{containers.address}/mqdlq/", "no MQDLH", "batch-unload")
