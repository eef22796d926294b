"""`mqdlq airflow`: Airflow's own command line over the project's own Airflow."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from mqdlq import directories

MQDLQ = Path(sys.executable).with_name("mqdlq")


def airflow(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [MQDLQ, "airflow", *arguments],
        env={**os.environ, "MQDLQ_HOME": str(directory), "AIRFLOW_HOME": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_mqdlq_airflow_help_is_airflows_and_creates_no_metadata(tmp_path: Path) -> None:
    shown = airflow(tmp_path, "--help")

    assert shown.returncode == 0
    assert shown.stdout.startswith("Usage: airflow [-h] GROUP_OR_COMMAND ...")
    assert list(tmp_path.glob("**/airflow.db")) == []


def test_mqdlq_airflow_ends_with_airflows_exit_code(tmp_path: Path) -> None:
    assert airflow(tmp_path, "dags", "--help").returncode == 0
    assert airflow(tmp_path, "db", "no-such-command").returncode == 2


def test_the_first_mqdlq_airflow_creates_the_metadata_and_prints_only_its_output(
    tmp_path: Path,
) -> None:
    listed = airflow(tmp_path, "dags", "list-import-errors", "--output", "json")

    assert (listed.returncode, json.loads(listed.stdout)) == (0, [])
    assert listed.stderr.startswith("Preparing Airflow's metadata, this once\n")
    assert (tmp_path / "airflow" / "airflow.db").exists()

    folder = airflow(tmp_path, "config", "get-value", "core", "dags_folder")

    assert folder.stdout == f"{directories.PROJECT / 'dags'}\n"


def test_ctrl_c_reaches_the_airflow_process(tmp_path: Path) -> None:
    with subprocess.Popen(
        [MQDLQ, "airflow", "db", "check-migrations", "--migration-wait-timeout", "600"],
        env={**os.environ, "MQDLQ_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        assert running.stdout is not None
        while "Waiting for migrations" not in running.stdout.readline():
            assert running.poll() is None

        running.send_signal(signal.SIGINT)

        assert running.wait(timeout=30) != 0
