"""Executions are killed in flight: no message is lost or doubled, and the ledger catches up.

``make prove`` runs it; MQDLQ_KILLS says how many executions. Each is a separate process, as a task
is, so that it has its own connection to the queue manager.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from mqdlq.ledger.tables import Run
from tests.faults.executor import READY, SETTINGS
from tests.faults.kills import BY_CHANCE, Kill
from tests.faults.rounds import SCENARIOS, ExecutionRound
from tests.proof.queue_managers import KILLS, GivenWorld, given_settings
from tests.support.paths import ROOT

STEPS = ("intended", "MQCMIT", "confirmed", BY_CHANCE, BY_CHANCE)
"""Before attempts are recorded, before MQCMIT, after it, and at two moments of chance."""
NAMES = tuple(name for name in SCENARIOS if name != "IGNORE")
"""Scenarios with units of work."""
MANY = 12
LATEST_S = 0.5
"""When an execution is killed at the latest; after this time it may have ended by itself."""
QUEUES = ("DLQ", "PAYMENTS", "PARKED", "ORDERS", "SMALL.BASE", "MQDLQ.STATE")
EXECUTIONS = int(os.environ.get(KILLS, "4"))


class KillsWorld(GivenWorld):
    """A world whose handler reads the queue DLQ, which is not the dead-letter queue."""

    def start(self, rules: str, **options: Any) -> Run:
        return super().start(f"INPUTQ(DLQ)\n{rules}", **options)


class ProcessRound(ExecutionRound):
    """A round whose execution is a separate process."""

    def die(self, kill: Kill) -> bool:
        """Kill an execution; return whether it was before its end."""
        step = "" if kill.step == BY_CHANCE else kill.step
        settings = json.dumps(asdict(self.world.settings))
        with subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.faults.executor",
                self.world.directory,
                self.run_id,
                step,
            ],
            cwd=ROOT,
            env={**os.environ, SETTINGS: settings},
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == READY, "the execution did not begin"
            if step:
                os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            else:
                time.sleep(kill.after_s)
            process.kill()
        assert process.returncode in {0, -signal.SIGKILL}, "the execution failed by itself"
        return process.returncode != 0


@pytest.fixture(name="world")
def _world(tmp_path: Path) -> Iterator[KillsWorld]:
    world = KillsWorld(tmp_path, given=given_settings())
    with world.ledger:
        yield world


@pytest.mark.parametrize("number", range(EXECUTIONS))
def test_a_killed_execution_loses_and_doubles_no_message(world: KillsWorld, number: int) -> None:
    name, step = NAMES[number % len(NAMES)], STEPS[number % len(STEPS)]
    latest, was_killed = LATEST_S, False
    while not was_killed:
        world.clear(*QUEUES)
        one = ProcessRound(world, SCENARIOS[name], MANY)
        after = random.uniform(0, latest)  # noqa: S311 (chance, not a secret)
        was_killed = one.die(Kill(step, after_s=after))
        one.check_what_is_known()
        one.finish(by_another_run=bool(number % 2))
        one.check_the_end()
        latest /= 2
