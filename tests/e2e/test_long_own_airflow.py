"""The lines that `mqdlq init --embedded` prints lead to a run, and into the user's Airflow.

The package is installed as from a wheel: then `mqdlq run` writes a second DAG file.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.running.services import free_port
from tests.support.paths import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.long]

PARSES = 5
LIMIT_S = 900


@pytest.fixture(scope="module", name="installed")
def _installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel to a directory, without the packages it needs."""
    wheel, target = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    subprocess.run([*command, "--directory", wheel], cwd=ROOT, check=True, capture_output=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", target, *wheel.glob("*.whl")], check=True)
    return target


@pytest.fixture(name="shell")
def _shell(installed: Path, tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path, installed)
    yield shell
    shell.close()


class Shell:
    """A shell in an empty directory, of a user whose home directory it is."""

    def __init__(self, directory: Path, installed: Path) -> None:
        ours = ("MQDLQ_", "AIRFLOW_", "PYTHON")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        port = str(free_port())
        self.directory = directory
        self.environment = {
            **kept,
            "HOME": str(directory),
            "PATH": os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]]),
            "PYTHONPATH": str(installed),
            # The services of a machine that others use, too: their ports, and parses in seconds.
            "AIRFLOW__API__PORT": port,
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "5",
            "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "30",
        }
        self._lines: list[str] = []
        self._started: list[subprocess.Popen[bytes]] = []

    def type(self, line: str) -> str:
        """Run a line, after the lines that export variables; return its output."""
        if line.startswith("export "):
            self._lines.append(line)
            return ""
        done = subprocess.run(
            self._bash(line),
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}"
        return done.stdout

    def start(self, line: str) -> None:
        """Start a line that does not end by itself."""
        with (self.directory / "standalone.log").open("wb") as log:
            started = subprocess.Popen(
                self._bash(f"exec {line}"),
                cwd=self.directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._started.append(started)

    def close(self) -> None:
        for started in self._started:
            os.killpg(started.pid, signal.SIGTERM)
            try:
                started.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(started.pid, signal.SIGKILL)
                started.wait()

    def _bash(self, line: str) -> list[str]:
        return [shutil.which("bash") or "bash", "-ec", "\n".join([*self._lines, line])]


def sections(printed: str) -> dict[str, list[str]]:
    """Return the indented lines below each other line."""
    found: dict[str, list[str]] = {}
    for line in printed.splitlines():
        if line.startswith("  "):
            found[next(reversed(found))].append(line.strip())
        else:
            found[line] = []
    return found


def wait(holds: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    deadline = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(1)


def test_the_printed_lines_lead_into_an_airflow_that_finds_each_dag_once(shell: Shell) -> None:
    printed = sections(shell.type("mqdlq init dlq --embedded QM7"))
    for line in printed["Next:"]:
        shell.type(line)
    assert list((shell.directory / "dlq" / "var" / "airflow").glob("dag_bundles/**/*.py"))

    # The user's Airflow has run before.
    shell.type("AIRFLOW_HOME=$HOME/airflow airflow db migrate")
    own = printed["Or in your own Airflow:"]
    (services,) = (line for line in own if line.startswith("airflow standalone"))
    before, after = own[: own.index(services)], own[own.index(services) + 1 :]
    for line in before:
        shell.type(line)
    shell.start(services)
    database = shell.directory / "airflow" / "airflow.db"

    def rows(query: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(database, timeout=60)) as connection:
            return connection.execute(query).fetchall()

    parsed = "SELECT last_parsed_time FROM dag WHERE dag_id = 'mq_dlq_qm7'"
    wait(lambda: rows(parsed))
    for line in after:
        shell.type(line)
    states = "SELECT state FROM dag_run WHERE dag_id = 'mq_dlq_qm7'"
    wait(lambda: rows(states) in ([("success",)], [("failed",)]))
    assert rows(states) == [("success",)]

    versions = "SELECT dag_id, version_number, created_at FROM dag_version ORDER BY 1, 2"
    first = rows(versions)
    for _ in range(PARSES):
        at = rows(parsed)
        wait(lambda at=at: rows(parsed) != at)  # type: ignore[misc]
    assert rows(versions) == first
    assert {number for _, number, _ in first} == {1}
    files = rows("SELECT DISTINCT relative_fileloc FROM dag")
    assert files == [("mq_dlq.py",)]
    assert rows("SELECT filename FROM import_error") == []

    # And where the whole directory is linked, the state in it stays unread.
    (shell.directory / "airflow" / "dags" / "mq_dlq.py").unlink()
    shell.type("ln -s $PWD/dlq airflow/dags/mqdlq")
    listed = shell.type(
        f"{sys.executable} -c 'from airflow.utils.file import list_py_file_paths;"
        ' print(list_py_file_paths("airflow/dags"))\''
    )
    assert listed.splitlines()[-1] == "['airflow/dags/mqdlq/mq_dlq.py']"
