"""The application on a real cluster: a master, two workers, and executors that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import local_cluster
import pytest

from mqdlq import lake
from mqdlq.directories import PROJECT
from mqdlq.evaluation.spark_conf import submit_conf, submit_environment
from mqdlq.evaluation.workers import write_archive
from tests.support.evaluation.equality import expected, random_rows, random_table
from tests.support.evaluation.snapshot_builders import write_rows
from tests.support.plan_hashes import plan_hash

pytestmark = pytest.mark.spark


@pytest.fixture(name="cluster", scope="module")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Start a cluster; yield its master's URL, and the directory of its workers."""
    directory = tmp_path_factory.mktemp("cluster")
    try:
        yield local_cluster.start(directory), directory
    finally:
        local_cluster.stop(directory)


def bare_python(directory: Path) -> Path:
    """Make a Python for the workers that has PyArrow, but knows nothing of this project."""
    place = directory / "python"
    libraries = Path(pytest.__file__).parents[1]
    linked = directory / "site"
    linked.mkdir()
    for entry in libraries.iterdir():
        if "mqdlq" not in entry.name and entry.suffix != ".pth":
            (linked / entry.name).symlink_to(entry)
    base = Path(sys.base_prefix) / "bin" / "python3"
    place.write_text(f'#!/bin/sh\nPYTHONPATH="{linked}:$PYTHONPATH" exec {base} -s "$@"\n')
    place.chmod(0o755)
    return place


def executors(directory: Path) -> set[int]:
    """Return the process ids of the executors that the workers of a cluster have started."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it may have ended meanwhile
            is_executor = b"CoarseGrainedExecutorBackend" in (process / "cmdline").read_bytes()
            if is_executor and (process / "cwd").resolve().is_relative_to(directory):
                found.add(int(process.name))
    return found


def at_work(executors_of_cluster: set[int]) -> set[int]:
    """Return those executors that have started Python for a task."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if b"pyspark.daemon" in (process / "cmdline").read_bytes():
                found.add(int((process / "stat").read_text().rpartition(")")[2].split()[1]))
    return found & executors_of_cluster


def kill_an_executor(directory: Path, killed: list[int]) -> None:
    """Kill an executor that has begun with its part of the plan."""
    for _ in range(6000):
        if found := at_work(executors(directory)):
            victim = min(found)
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
                killed.append(victim)
            return
        time.sleep(0.02)


@pytest.mark.long
def test_an_evaluation_with_shipped_code_survives_a_killed_executor(
    cluster: tuple[str, Path], tmp_path: Path
) -> None:
    master, directory = cluster
    table, rows = random_table(3, 7), random_rows(3, 140_000)  # too many for the driver alone
    snapshot = write_rows(str(tmp_path), rows, table, rows_to_a_group=1000)
    plan = lake.plan_directory(str(tmp_path), "p")
    archive = tmp_path / "mqdlq.zip"
    write_archive(archive)
    python = str(bare_python(tmp_path))
    confs = {
        **submit_conf(0),
        "spark.pyspark.python": python,
        "spark.executor.memory": "768m",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.files.maxPartitionBytes": "20000",
        "spark.sql.shuffle.partitions": "8",
    }
    command = [
        str(Path(sys.executable).with_name("spark-submit")),
        *("--master", master, "--py-files", str(archive)),
        *(word for item in confs.items() for word in ("--conf", "=".join(item))),
        str(PROJECT / "spark" / "evaluate_rules.py"),
        *("--snapshot", snapshot, "--plan", plan),
    ]
    killed: list[int] = []
    killer = threading.Thread(target=kill_an_executor, args=(directory, killed))
    killer.start()
    ended = subprocess.run(
        command,
        env={**os.environ, **submit_environment(), "PYSPARK_PYTHON": python},
        capture_output=True,
        text=True,
        check=False,
    )
    killer.join()

    assert ended.returncode == 0, ended.stderr[-3000:]
    assert killed
    assert "Lost executor" in ended.stderr
    assert "strategy row groups" in ended.stdout
    wanted = list(expected(rows, table))
    assert lake.read_plan(plan).plan_hash == plan_hash(wanted)
    assert [row.message_key for row in lake.planned_messages(plan)] == [
        row["message_key"] for row in rows
    ]
    assert not (Path(plan) / "_attempts").exists()
