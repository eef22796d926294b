"""Test that the services of the compose file write to no file of the image.

The services run as in the rehearsal, each on read-only file systems: only the volumes and
temporary directories of the compose file are writable. A run of the demo handles its queue.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from mqdlq import directories
from tests.e2e.rehearsal.test_rehearsal import STORY, Rehearsed
from tests.e2e.running.confinement import can_confine, confined
from tests.e2e.running.containers import SERVICES, Containers

pytestmark = [pytest.mark.e2e, pytest.mark.long]


@pytest.fixture(name="directory")
def _directory() -> Iterator[Path]:
    if not can_confine():
        pytest.skip("only root can make file systems read-only for one process")
    # Not below pytest's own directory, which the user PostgreSQL runs as could not enter.
    directory = Path(tempfile.mkdtemp(prefix="mqdlq-read-only-"))
    yield directory
    shutil.rmtree(directory)


def test_a_confined_process_can_write_to_its_directory_only(directory: Path) -> None:
    allowed, refused = directory / "a", directories.PROJECT / "a"

    done = subprocess.run(
        confined(directory, ["touch", str(allowed), str(refused)]),
        capture_output=True,
        text=True,
        check=False,
    )

    assert (allowed.exists(), refused.exists()) == (True, False)
    assert "Read-only file system" in done.stderr


def test_the_compose_files_services_run_on_read_only_file_systems(directory: Path) -> None:
    containers = Containers(directory)
    try:
        containers.start_all()
        for service in SERVICES:
            containers.wait(partial(containers.is_healthy, service), f"{service} is healthy")
        airflow = Rehearsed(containers)
        airflow.log_in()
        airflow.wait_for_dag("demo")
        airflow.pause("demo", paused=False)
        airflow.wait(lambda: bool(airflow.runs("demo")))
        (run,) = airflow.runs("demo")
        state = airflow.wait_for_run("demo", run["dag_run_id"])
        assert state == "success", containers.last_words()
        assert airflow.outcomes("demo", run["dag_run_id"]) == STORY
        airflow._http.close()
    finally:
        containers.close()

    logs = [*directory.glob("logs/*.log"), *directory.glob("airflow/logs/**/*.log")]
    assert len(logs) > len(SERVICES)
    refused = {
        log.name: line
        for log in logs
        for line in log.read_text(errors="replace").splitlines()
        if "EROFS" in line or "Read-only file system" in line
    }
    assert refused == {}
