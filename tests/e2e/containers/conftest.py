"""The services of the compose file in containers, started once for each file of tests."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.containers.engine import Engine, why_not
from tests.e2e.containers.services import AirflowInContainers, Containers
from tests.e2e.running.services import now


@pytest.fixture(name="directory", scope="module")
def _directory() -> Iterator[Path]:
    if reason := why_not():
        pytest.skip(reason)
    directory = Path(tempfile.mkdtemp(prefix="mqdlq-containers-", dir="/var/tmp"))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(name="engine", scope="module")
def _engine(directory: Path) -> Iterator[Engine]:
    assert directory.exists()
    engine = Engine()
    try:
        engine.make_base_images()
        yield engine
    finally:
        engine.close()


@pytest.fixture(name="containers", scope="module")
def _containers(engine: Engine, directory: Path) -> Iterator[Containers]:
    containers = Containers(engine, directory)
    with containers.running():
        yield containers


@pytest.fixture(name="airflow", scope="module")
def _airflow(containers: Containers) -> Iterator[AirflowInContainers]:
    airflow = AirflowInContainers(containers)
    airflow.log_in()
    airflow.wait_for_dag("demo")
    airflow.pause("demo", paused=False)  # Airflow starts the run of the last interval
    yield airflow
    airflow._http.close()


@pytest.fixture(name="tell")
def _tell(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    def tell(what: str) -> None:
        with capsys.disabled():
            print(f"{now():%H:%M:%S}  {what}", flush=True)  # noqa: T201

    return tell
