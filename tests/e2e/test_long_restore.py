"""Discarded messages of the demo come back by `mqdlq restore run`, also after a kill."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.e2e.test_demo import DLQ, MQDLQ, call, fill, messages, run_demo

pytestmark = [pytest.mark.e2e, pytest.mark.long]


def restore(home: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return call(home, MQDLQ, "restore", *words, **environment)


def test_the_next_attempt_finishes_a_restoration_killed_after_its_commit(
    tmp_path: Path,
) -> None:
    before = fill(tmp_path, "ibmmq")
    assert run_demo(tmp_path, "ibmmq").returncode == 0
    listed = restore(tmp_path, "list", "--format", "json")
    archived = json.loads(listed.stdout)["archived"]
    run = archived[0]["run"]

    killed = restore(tmp_path, "run", "demo", "--run", run, MQDLQ_FAULTS="MQCMIT:3:kill:after")
    assert killed.returncode == 1
    ended = restore(tmp_path, "run", "demo", "--run", run)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "2 messages of restoration restore-manual" in ended.stdout
    assert "12 messages: 9 restored, 3 refused" in ended.stdout
    quotes = [m for m in before if str(m["PutApplName"]).strip(" \0") == "ticker"]
    there = {m["MsgId"]: m for m in messages(tmp_path, DLQ)}
    assert len(archived) == len(quotes) == 12
    assert [there[m["MsgId"]] for m in quotes] == quotes
    assert len(there) == 10 + 12
