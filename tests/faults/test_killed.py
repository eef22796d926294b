"""SIGKILL at a step chosen by chance: no message lost or doubled, and the ledger catches up.

`make soak` kills thousands, over one connection and four with each database. MQDLQ_KILLS says how
many here, MQDLQ_SEED which. Scenarios are drawn.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys

import pytest

from tests.support.paths import ROOT
from tests.support.postgresql import running_server
from tests.support.world import CONNECTIONS

pytestmark = pytest.mark.slow

MANY = "12"  # units of 1, 2, 4 and 5; the long form has 50 messages in a round


@pytest.mark.parametrize(
    ("database", "kills", "connections"),
    [("sqlite", 6, "4"), ("postgresql", 3, "1")],
)
def test_a_killed_execution_loses_and_doubles_no_message(
    database: str, kills: int, connections: str
) -> None:
    if database == "postgresql":
        running_server()
    seed = os.environ.get("MQDLQ_SEED") or str(random.randrange(10**6))  # noqa: S311 (chance)
    kills = int(os.environ.get("MQDLQ_KILLS") or kills)

    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-m",
            "tests.faults.killed",
            str(kills),
            seed,
            database,
            MANY,
        ],
        cwd=ROOT,
        env={**os.environ, CONNECTIONS: connections},
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )

    assert done.returncode == 0, f"killed.py {kills} {seed} {database} {MANY}\n{done.stderr}"
    assert json.loads(done.stdout)["kills"] == kills
