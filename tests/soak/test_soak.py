"""Durability: what three processes put and get survives SIGKILL, at whatever moment it comes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

ROUNDS = os.environ.get("MQDLQ_SOAK_ROUNDS", "5")


@pytest.mark.slow
def test_killed_processes_leave_every_message_exactly_once_and_in_order() -> None:
    """IBM MQ docs, "Syncpoint considerations": what was not committed is backed out, whole.

    `make soak` runs 500 rounds of this.
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.soak.killed_in_flight", ROUNDS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["rounds"] == int(ROUNDS)
    assert min(figures["units committed"], figures["units backed out"]) > 0
