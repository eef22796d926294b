"""`mqdlq airflow`: Airflow's own command line over the project's own Airflow."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mqdlq import directories

MQDLQ = Path(sys.executable).with_name("mqdlq")


def settings(directory: Path) -> dict[str, str]:
    """Return an environment that names no Airflow."""
    kept = {name: value for name, value in os.environ.items() if name != "AIRFLOW_HOME"}
    return {**kept, "MQDLQ_HOME": str(directory)}


def airflow(directory: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [MQDLQ, "airflow", *arguments],
        env=settings(directory) | more,
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


@pytest.mark.parametrize("way", ["variable", "configuration"])
def test_mqdlq_airflow_uses_the_metadata_that_are_configured(tmp_path: Path, way: str) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    url = f"sqlite:///{theirs / 'their.db'}"
    more = {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": url}
    if way == "configuration":
        (theirs / "airflow.cfg").write_text(f"[database]\nsql_alchemy_conn = {url}\n")
        more = {"AIRFLOW_HOME": str(theirs)}

    shown = airflow(
        tmp_path / "ours", "config", "get-value", "database", "sql_alchemy_conn", **more
    )

    assert (shown.returncode, shown.stdout) == (0, f"{url}\n")
    assert list(tmp_path.glob("**/*.db")) == []


def test_of_first_commands_at_once_one_creates_the_metadata(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from mqdlq.local.environment import migrate; migrate()"]
    started = [
        subprocess.Popen(
            command,
            env={**os.environ, "MQDLQ_HOME": str(tmp_path)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]

    printed = [process.communicate(timeout=300)[1] for process in started]

    assert [process.returncode for process in started] == [0, 0, 0], printed
    assert sorted(printed) == ["", "", "Preparing Airflow's metadata, this once\n"]


def test_ctrl_c_reaches_the_airflow_process(tmp_path: Path) -> None:
    with subprocess.Popen(
        [MQDLQ, "airflow", "db", "check-migrations", "--migration-wait-timeout", "600"],
        env=settings(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        assert running.stdout is not None
        while "Waiting for migrations" not in running.stdout.readline():
            assert running.poll() is None

        running.send_signal(signal.SIGINT)

        try:
            assert running.wait(timeout=30) != 0
        finally:
            running.kill()  # where it ignores the signal, the end of the block would wait for it
