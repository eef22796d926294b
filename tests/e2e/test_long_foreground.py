"""Runs in the foreground that share a home: first ones at once, and some beside the services."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

from mqdlq.ledger import open_ledger
from mqdlq.ledger.reading.runs import RunFilter
from tests.e2e.running.place import CONNECTION
from tests.e2e.running.services import airflow

pytestmark = [pytest.mark.e2e, pytest.mark.long]

MQDLQ = str(Path(sysconfig.get_path("scripts")) / "mqdlq")
HANDLERS = ("one", "two", "three")
DEFINITIONS = """\
DEFINE QLOCAL(DLQ.ONE)
DEFINE QLOCAL(DLQ.TWO)
DEFINE QLOCAL(DLQ.THREE)
DEFINE QLOCAL(MQDLQ.STATE) DEFPSIST(YES)
"""


def start(home: Path, *words: str) -> subprocess.Popen[str]:
    """Start a command as in a fresh shell: other tests may have an Airflow in this environment."""
    ours = ("MQDLQ_", "AIRFLOW_")
    shell = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    own = {"MQDLQ_HOME": str(home), "MQDLQ_RULES_DIR": f"{home}/rules"}
    return subprocess.Popen(
        [MQDLQ, *words],
        env={**shell, **own, "AIRFLOW_CONN_MQ_LONG": CONNECTION},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def call(home: Path, *words: str) -> str:
    process = start(home, *words)
    printed = process.communicate(timeout=900)[0]
    assert process.returncode == 0, printed
    return printed


@pytest.fixture(name="home")
def _home(tmp_path: Path) -> Path:
    """Make a home without ledger and Airflow, with handlers of queues with a stray message each."""
    (tmp_path / "rules").mkdir()
    (tmp_path / "definitions.mqsc").write_text(DEFINITIONS)
    call(tmp_path, "qm", "create", "QM1", "--mqsc", f"{tmp_path}/definitions.mqsc")
    for name in HANDLERS:
        queue = f"DLQ.{name.upper()}"
        call(tmp_path, "qm", "put", "QM1", queue, "a stray message")
        yaml = f"connection: mq_long\nrules: {name}.rules\n"
        (tmp_path / "rules" / f"{name}.yaml").write_text(yaml)
        table = f"INPUTQ({queue}) WAIT(NO)\nACTION(IGNORE)\n"
        (tmp_path / "rules" / f"{name}.rules").write_text(table)
    return tmp_path


def test_first_runs_at_once_in_a_fresh_home_all_succeed(home: Path) -> None:
    started = [start(home, "run", handler) for handler in HANDLERS]

    printed = [process.communicate(timeout=900)[0] for process in started]

    assert [process.returncode for process in started] == [0, 0, 0], "\n".join(printed)
    assert all("1 message: " in text for text in printed)
    with open_ledger(f"sqlite:///{home}/ledger.db") as ledger:
        assert [ledger.run_lists.count(handler, RunFilter()) for handler in HANDLERS] == [1, 1, 1]


def test_a_running_scheduler_leaves_a_run_in_the_foreground_alone(home: Path) -> None:
    with airflow(home, AIRFLOW_CONN_MQ_LONG=CONNECTION) as running:
        running.wait_for_dag("one")
        running.pause("one", paused=False)

        call(home, "run", "one")

        log = (home / "logs" / "scheduler.log").read_text(encoding="utf-8")
        events = [line for line in log.splitlines() if "Received executor event" in line]
        assert events == []
