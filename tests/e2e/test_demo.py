"""The demo as a user runs it, through Airflow: `python -m mqdlq.local.demo`, `mqdlq run demo`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mqdlq.headers import DLH_LENGTH
from mqdlq.ledger import open_ledger

pytestmark = pytest.mark.e2e

DLQ = "SYSTEM.DEAD.LETTER.QUEUE"
MQDLQ = str(Path(sysconfig.get_path("scripts")) / "mqdlq")
CONTEXT = ("UserIdentifier", "PutApplType", "PutApplName", "PutDate", "PutTime")
STORY = {
    "delivered": 25,
    "forwarded": 24,
    "discarded": 12,
    "left_by_rule": 3,
    "unmatched": 2,
    "unprocessable": 5,
}


def call(home: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command as in a fresh shell: other tests may have an Airflow in this environment."""
    ours = ("MQDLQ_", "AIRFLOW_")
    shell = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return subprocess.run(
        words,
        env={**shell, "MQDLQ_HOME": str(home), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,  # the machine may be busy
    )


def fill(home: Path, client: str) -> list[dict[str, Any]]:
    """Put the story on QM1; return what is on its dead-letter queue."""
    filled = call(home, sys.executable, "-m", "mqdlq.local.demo", "--client", client)
    assert filled.returncode == 0, filled.stderr
    return messages(home, DLQ)


def run_demo(home: Path, client: str, **environment: str) -> subprocess.CompletedProcess[str]:
    extra = {"queue_manager": "QM1", "transport": "embedded", "client": client}
    connection = json.dumps({"conn_type": "ibmmq", "extra": extra})
    return call(home, MQDLQ, "run", "demo", AIRFLOW_CONN_MQ_DEMO=connection, **environment)


def messages(home: Path, queue: str) -> list[dict[str, Any]]:
    shown = call(home, MQDLQ, "qm", "browse", "QM1", queue, "--format", "json")
    assert shown.returncode == 0, shown.stderr
    return [json.loads(line) for line in shown.stdout.splitlines()]


def application(message: dict[str, Any]) -> str:
    return str(message["PutApplName"]).rstrip(" \0")


def without_header(body: str) -> str:
    return body[2 * DLH_LENGTH :]


def assert_the_story_came_true(
    before: list[dict[str, Any]], browse: Callable[[str], list[dict[str, Any]]]
) -> None:
    """Every message is where its rule sends it, byte for byte, and nowhere else.

    `browse` returns the messages of a queue as `mqdlq qm browse` prints them.
    """
    by_id = {message["MsgId"]: message for message in before}
    arrived = {
        queue: [m for m in browse(queue) if m["MsgId"] in by_id]
        for queue in ("PAYMENTS.IN", "PAYMENTS.PARKED", "ORDERS.PARKED", "REPLIES.LATE", DLQ)
    }
    counts = {queue: len(found) for queue, found in arrived.items()}
    assert counts == {
        "PAYMENTS.IN": 25,
        "PAYMENTS.PARKED": 8,
        "ORDERS.PARKED": 10,
        "REPLIES.LATE": 6,
        DLQ: 10,
    }
    for queue in ("PAYMENTS.IN", "REPLIES.LATE"):
        for message in arrived[queue]:
            origin = by_id[message["MsgId"]]
            assert message["body"] == without_header(origin["body"])
            assert [message[name] for name in CONTEXT] == [origin[name] for name in CONTEXT]
            assert str(message["Format"]).strip() == "MQSTR"
    for queue in ("PAYMENTS.PARKED", "ORDERS.PARKED", DLQ):
        for message in arrived[queue]:
            origin = by_id[message["MsgId"]]
            assert {**message, "BackoutCount": 0} == {**origin, "BackoutCount": 0}
    left = Counter(application(message) for message in arrived[DLQ])
    assert left == {
        "legal-hold-export": 3,
        "payroll": 2,
        "batch-unload": 3,
        "old-bridge": 1,
        "unload-zos": 1,
    }


def outcomes(home: Path) -> Counter[str]:
    """Return the outcomes of all runs together, counted."""
    with open_ledger(f"sqlite:///{home}/ledger.db") as ledger, ledger.engine.connect() as reading:
        rows = reading.exec_driver_sql("SELECT outcome FROM outcomes")
        return Counter(row[0] for row in rows)


def test_the_demo_goes_from_messages_to_actions_to_a_report(tmp_path: Path) -> None:
    before = fill(tmp_path, "ibmmq")

    ended = run_demo(tmp_path, "ibmmq")

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert_the_story_came_true(before, partial(messages, tmp_path))
    assert outcomes(tmp_path) == STORY
    page = re.search(r"\S+/report\.html", ended.stdout)
    assert page is not None
    assert "71" in Path(page[0]).read_text(encoding="utf-8")


@pytest.mark.long
def test_the_next_run_completes_a_run_that_was_killed_during_execution(tmp_path: Path) -> None:
    """SIGKILL between a commit and its entry in the ledger: nothing is lost or done twice."""
    before = fill(tmp_path, "pymqi")

    killed = run_demo(tmp_path, "pymqi", MQDLQ_FAULTS="MQCMIT:6:kill:after")
    assert killed.returncode != 0
    ended = run_demo(tmp_path, "pymqi")

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "committed: its marker is on the state queue" in ended.stdout
    assert_the_story_came_true(before, partial(messages, tmp_path))
    assert outcomes(tmp_path) == STORY
