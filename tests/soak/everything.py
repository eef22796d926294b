"""Run the long proofs in order; print a line for each part, and a summary.

``python -m tests.soak.everything``, which is `make soak`. Each part tells how far it is; one that
fails does not keep the others from running, and the exit code is then 1.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass, field

from tests.support.paths import ROOT
from tests.support.postgresql import server

PYTEST = ("-m", "pytest", "--quiet", "--no-header")


@dataclass(frozen=True)
class Part:
    """One proof: what it shows, the arguments of Python that run it, and its settings."""

    shows: str
    arguments: tuple[str, ...]
    settings: dict[str, str] = field(default_factory=dict)


PARTS = (
    Part(
        "500 times three processes killed while they put and get",
        ("-m", "tests.soak.killed_in_flight", "500"),
    ),
    Part(
        "1000 executions and restorations killed",
        ("-m", "tests.faults.killed", "1000", "1", "sqlite", "50", "moves"),
    ),
    Part(
        "1000 kills over four connections, with and without controls",
        ("-m", "tests.faults.killed", "1000", "5", "sqlite", "50", "all"),
        {"MQDLQ_CONNECTIONS": "4"},
    ),
    Part(
        "100 executions and restorations killed, ledger in PostgreSQL",
        ("-m", "tests.faults.killed", "100", "2", "postgresql", "50", "moves"),
    ),
    Part(
        "1000 kills over ramps, quarantine, limits, repair and groups",
        ("-m", "tests.faults.killed", "1000", "3", "sqlite", "20", "controls"),
    ),
    Part(
        "100 kills over ramps, quarantine, limits, repair and groups, ledger in PostgreSQL",
        ("-m", "tests.faults.killed", "100", "4", "postgresql", "20", "controls"),
    ),
    Part(
        "100 kills over four connections, ledger in PostgreSQL",
        ("-m", "tests.faults.killed", "100", "6", "postgresql", "50", "all"),
        {"MQDLQ_CONNECTIONS": "4"},
    ),
    Part(
        "every reason code at every call, under both clients",
        (*PYTEST, "tests/faults/test_reasons.py"),
        {"MQDLQ_ALL_REASONS": "1"},
    ),
    Part(
        "every contract test with the client's own C extension",
        (*PYTEST, "tests/contract/objects/test_c_extension.py"),
        {"MQDLQ_ALL_CONTRACTS": "1"},
    ),
    Part(
        "both tasks killed at every call, under both clients",
        (*PYTEST, "tests/unit/stages/units/test_interruptions.py"),
        {"MQDLQ_ALL_REASONS": "1"},
    ),
    Part(
        "10,000 messages that all come back, and a ramp",
        (*PYTEST, "-m", "long", "tests/unit/controls/ramp/test_breaker.py"),
    ),
    Part(
        "every declared name hidden, and a test that notices it",
        ("-m", "tests.support.effects.shown"),
    ),
    Part(
        "1000 random worlds",
        (*PYTEST, "tests/property/test_handling.py"),
        {"MQDLQ_WORLDS": "1000"},
    ),
    Part(
        "300 random worlds with loops, ramps, breakers, limits, groups and keys",
        (*PYTEST, "tests/property/test_controlled_worlds.py"),
        {"MQDLQ_WORLDS": "300"},
    ),
    Part(
        "200 random worlds with keys and groups, over one connection and four",
        (*PYTEST, "tests/property/test_sequences.py"),
        {"MQDLQ_WORLDS": "200"},
    ),
    Part(
        "every lie of a queue manager found, under both clients",
        (*PYTEST, "tests/contract/certify/test_behaviours.py"),
        {"MQDLQ_ALL_CONTRACTS": "1"},
    ),
)


def run(part: Part) -> str:
    """Run one part with its words as they come; return how it ended, in a word or two."""
    if "postgresql" in part.arguments and server() is None:
        return "left out: PostgreSQL is not installed"
    ended = subprocess.run(
        [sys.executable, *part.arguments],
        cwd=ROOT,
        env={**os.environ, **part.settings},
        check=False,
    )
    return "FAILED" if ended.returncode else "ok"


def main() -> int:
    """Run all parts and sum up; return the exit code."""
    lines, failed = [], False
    for number, part in enumerate(PARTS, start=1):
        sys.stdout.write(f"\n{number} of {len(PARTS)}: {part.shows}\n")
        sys.stdout.flush()
        begun = time.monotonic()
        how = run(part)
        failed |= how == "FAILED"
        lines.append(f"  {how:<8} {time.monotonic() - begun:6.0f} s  {part.shows}\n")
    sys.stdout.write("\n" + "".join(lines))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
