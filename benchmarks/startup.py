"""The start of commands: processor time and seconds, as multiples of a floor.

The floor is a process that imports click only. Floor and commands take turns, so that a busy
machine slows all alike; the fastest repetition counts. `limit` is the largest allowed ratio of
processor time for a command. The other commands are for comparison: `rules check` of a handler
needs pydantic and a YAML reader, `report --help` its own module.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

REPETITIONS = 10
LIMIT = 3.0
MQDLQ = str(Path(sysconfig.get_path("scripts")) / "mqdlq")
RULES = Path(__file__).parents[1] / "include" / "rules"
BARE = [sys.executable, "-c", "pass"]
FLOOR = [sys.executable, "-c", "import click"]
LIMITED = {
    "--help": [MQDLQ, "--help"],
    "--version": [MQDLQ, "--version"],
    "rules --help": [MQDLQ, "rules", "--help"],
    "rules check": [MQDLQ, "rules", "check", str(RULES / "demo.rules")],
}
OTHERS = {
    "rules check of a handler": [MQDLQ, "rules", "check", str(RULES / "demo.yaml")],
    "report --help": [MQDLQ, "report", "--help"],
}


def measure() -> dict[str, Any]:
    """Return for each command the fastest of ten runs, and its ratio to the floor's fastest."""
    commands = {"bare": BARE, "floor": FLOOR, **LIMITED, **OTHERS}
    best = {name: (float("inf"), float("inf")) for name in commands}
    for _ in range(REPETITIONS):
        for name, command in commands.items():
            best[name] = tuple(map(min, best[name], _run(command)))  # type: ignore[assignment]
    floor_cpu, floor_s = best["floor"]
    return {
        "bare_python_s": best["bare"][1],
        "floor_s": floor_s,
        "floor_processor_s": floor_cpu,
        "limit": LIMIT,
        "commands": {
            name: {
                "s": best[name][1],
                "ratio": best[name][1] / floor_s,
                "processor_ratio": best[name][0] / floor_cpu,
                "within_limit": best[name][0] <= LIMIT * floor_cpu if name in LIMITED else None,
            }
            for name in (*LIMITED, *OTHERS)
        },
    }


def _run(command: list[str]) -> tuple[float, float]:
    """Run a command, and return its processor and elapsed seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as home:
        start = perf_counter()
        subprocess.run(  # noqa: S603 (this project's own command)
            command, check=True, stdout=subprocess.DEVNULL, env={"MQDLQ_HOME": home}
        )
        took = perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, took
