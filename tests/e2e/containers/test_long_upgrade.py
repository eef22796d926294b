"""The containers of an earlier commit, upgraded as docs/how-to/upgrade.md says, between runs.

The image of the earlier commit is built from its own files. It gets the place of a release as soon
as there is one.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.containers.account import complete, rows, run_once, wait_for_the_scheduled_run
from tests.e2e.containers.engine import PROJECT, Engine
from tests.e2e.containers.services import AirflowInContainers, Containers

pytestmark = [pytest.mark.e2e, pytest.mark.long]

BEFORE = "98968d41"


@pytest.fixture(name="containers", scope="module")
def _containers(engine: Engine, directory: Path) -> Iterator[Containers]:
    """Start the containers of the earlier commit."""
    command = ["/usr/bin/git", "-C", f"{PROJECT}", "archive", BEFORE]
    archive = subprocess.run(command, capture_output=True, check=False)
    if archive.returncode:
        pytest.skip(f"this checkout does not have the commit {BEFORE}")
    before = directory / "before"
    before.mkdir()
    subprocess.run(["/bin/tar", "-x", "-C", before], input=archive.stdout, check=True)
    containers = Containers(engine, directory, before)
    with containers.running():
        yield containers


def image_of(containers: Containers) -> str:
    (said,) = json.loads(containers.engine.podman("inspect", "mqdlq-here-airflow-scheduler-1"))
    return str(said["Image"])


def test_the_next_image_goes_on_with_the_account_of_the_one_before(
    containers: Containers,
    airflow: AirflowInContainers,
    tell: Callable[[str], None],
    directory: Path,
) -> None:
    wait_for_the_scheduled_run(airflow, containers)
    run_once(airflow, containers)
    account, image = rows(airflow), image_of(containers)
    tell(f"two runs of {BEFORE}: {account}")

    airflow.pause("demo", paused=True)
    containers.script("deploy/compose-backup.sh", "backup", str(directory / "backup"))
    containers.take_over(PROJECT)
    # The example's value of MQ_CLIENT has changed since then.
    shutil.copy(containers.directory / ".env.example", containers.directory / ".env")
    tell(containers.up())

    assert image_of(containers) != image
    assert rows(airflow) == account
    airflow.log_in()
    airflow.pause("demo", paused=False)
    complete(airflow, containers, tell)
