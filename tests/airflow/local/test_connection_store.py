"""Connections that `mqdlq connection` stores in Airflow's metadata database, and tests."""

from __future__ import annotations

import os
import secrets
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import embedded_mq

PASSWORD = secrets.token_hex(8)
QM1 = ("--queue-manager", "QM1", "--mqserver", "DLQ.SVRCONN/TCP/mq1.example.com(1415)")
STORED = "connection {} is stored in the Airflow of {}\ntest it: mqdlq connection test {}\n"


@pytest.fixture(scope="module", name="airflow_home")
def _airflow_home(
    tmp_path_factory: pytest.TempPathFactory, metadata: Callable[[Path], None]
) -> Path:
    """Make an Airflow with a metadata database; it makes a key that encrypts passwords."""
    home = tmp_path_factory.mktemp("airflow")
    metadata(home)
    return home


def call(
    home: Path, *command: str, given: str = "", **settings: str
) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_")}
    return subprocess.run(
        command,
        env=kept | {"AIRFLOW_HOME": str(home)} | settings,
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def connection(
    home: Path, *arguments: str, given: str = "", **settings: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from mqdlq.cli import app; app()", "connection"]
    return call(home, *command, *arguments, given=given, **settings)


def rows(home: Path, conn_id: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(home / "airflow.db") as database:
        found = "SELECT host, port, login, password FROM connection WHERE conn_id = ?"
        return database.execute(found, [conn_id]).fetchall()


def test_a_stored_connection_is_airflows_and_its_password_is_encrypted(airflow_home: Path) -> None:
    done = connection(
        airflow_home, "add", "mq_qm1", *QM1, "--user", "dlq", "--password-stdin", given=PASSWORD
    )

    ((host, port, login, password),) = rows(airflow_home, "mq_qm1")
    read = call(airflow_home, sys.executable, "-m", "airflow", "connections", "get", "mq_qm1")
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        STORED.format("mq_qm1", airflow_home, "mq_qm1"),
        "",
    )
    assert (host, port, login) == ("mq1.example.com", 1415, "dlq")
    assert PASSWORD not in str(password)
    assert PASSWORD in read.stdout


def test_an_id_in_use_is_replaced_only_if_asked_for(airflow_home: Path) -> None:
    first = connection(airflow_home, "add", "mq_two", *QM1)

    again = connection(
        airflow_home, "add", "mq_two", "--queue-manager", "QM2", "--host", "mq2", "--channel", "C"
    )
    replaced = connection(
        airflow_home,
        "add",
        "mq_two",
        "--queue-manager",
        "QM2",
        "--host",
        "mq2",
        "--channel",
        "C",
        "--replace",
    )

    assert first.returncode == 0
    assert (again.returncode, again.stdout, again.stderr) == (
        1,
        "",
        (
            "mqdlq: connection 'mq_two' is already defined in this Airflow; choose another id, or"
            " replace it with --replace [MQDLQ-149]\n"
        ),
    )
    assert (replaced.returncode, replaced.stderr) == (0, "")
    assert rows(airflow_home, "mq_two") == [("mq2", None, None, None)]


def test_an_airflow_without_a_database_is_one_sentence(tmp_path: Path) -> None:
    done = connection(tmp_path, "add", "mq_qm1", *QM1)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "mqdlq: Airflow's metadata database cannot be used (no such table: connection); prepare it"
        " by `airflow db migrate` [MQDLQ-840]\n"
    )


def test_a_weakness_of_a_stored_connection_is_a_warning(airflow_home: Path) -> None:
    done = connection(
        airflow_home,
        *("add", "mq_plain", *QM1, "--user", "dlq", "--password-stdin"),
        given=PASSWORD,
        AIRFLOW__CORE__FERNET_KEY="",
        AIRFLOW_CONN_MQ_PLAIN="{}",
    )

    assert done.stderr == (
        "warning: the password is stored in plain text, because this Airflow has no"
        " [core] fernet_key [MQDLQ-841]\n"
        "warning: AIRFLOW_CONN_MQ_PLAIN in this environment defines the same connection, and"
        " Airflow prefers it [MQDLQ-842]\n"
    )


def test_a_connection_is_tested_without_a_handler(
    airflow_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    embedded_mq.create("QM1")
    embedded_mq.run_mqsc("QM1", "ALTER QMGR DEADQ(DLQ); DEFINE QLOCAL(DLQ)")
    connection(airflow_home, "add", "mq_near", "--queue-manager", "QM1", "--transport", "embedded")

    done = connection(airflow_home, "test", "mq_near")
    unknown = connection(airflow_home, "test", "mq_none")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1:3] == [
        "sense: no authority is missing",
        "dry run: no authority is missing",
    ]
    assert "MQDLQ.STATE" in done.stdout.splitlines()[3]
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert unknown.stderr.startswith("mqdlq: connection 'mq_none' is not defined in this Airflow")
