"""Executions and restorations ended by SIGKILL at every step, and what must be true afterwards.

``python killed.py KILLS [SEED] [sqlite|postgresql] [MESSAGES] [SCENARIOS]`` prints figures as JSON,
and how far it is as it goes; an error says which promise was broken, and by which kill.
SCENARIOS is all, moves, controls, or the name of one scenario.

Each round puts dead letters on the queue and plans a run, or has them discarded and selects them
for a restoration. A child makes the pass, or restores, and is killed: at
the nth call of an MQ verb, at the nth statement or commit of the ledger, or at a moment of chance,
which may well be inside MQCMIT. Then a run that does nothing but settle the open attempts must
know of every message where it is, and the run itself, or another one, must bring all to its end.
"""

from __future__ import annotations

import json
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mqdlq.mqi.connect import ConnectionSettings
from tests.faults.kills import BY_CHANCE, WEIGHTS, Kill
from tests.faults.repair_rounds import REPAIRS, RepairRound
from tests.faults.restoration_rounds import RestorationRound
from tests.faults.rounds import RAMPS, SCENARIOS, ExecutionRound, Round
from tests.faults.shared_clock import SharedClock
from tests.faults.stories import STORIES, StoryRound
from tests.support.postgresql import server
from tests.support.world import DEFINITIONS, World

MANY = 50
"""Messages in a round, if not one: units of 1, 2, 4, 8, 16 and 19."""
TELL_EVERY = 50
RESTORATIONS = {"restoration": True, "restoration without MQDLH": False}
"""Whether each puts the messages with their MQDLH."""
GROUPS = {
    "moves": (*(name for name in SCENARIOS if name not in RAMPS), *RESTORATIONS),
    "controls": (*RAMPS, *REPAIRS, *STORIES),
}
ALL = "all"


def names_of(group: str) -> list[str]:
    """Return the scenarios of a group or of all groups, or the one with this name."""
    return [name for one, names in GROUPS.items() for name in names if group in {ALL, one, name}]


@dataclass
class Audit:
    """One world that all rounds share, and what happened in it."""

    world: World
    chance: random.Random
    many: int = MANY
    figures: Counter[str] = field(default_factory=Counter)
    steps: dict[tuple[str, int], Counter[str]] = field(default_factory=dict)
    seconds: dict[tuple[str, int], float] = field(default_factory=dict)

    def round(self, name: str, messages: int) -> None:
        """Kill one execution, and see that nothing is lost, doubled or forgotten."""
        client = self.chance.choice(["pymqi", "ibmmq"])
        self.world.settings = ConnectionSettings("QM1", transport="embedded", client=client)
        if (name, messages) not in self.steps:
            self._measure(name, messages)
        first = self._begin(name, messages)
        kill = self._choose(name, messages)
        killed = first.die(kill)
        try:
            first.check_what_is_known()
            first.finish(by_another_run=self.chance.random() < 0.5)
            first.check_the_end()
        except Exception as error:
            error.add_note(f"{name}, {messages} messages, killed {kill}")
            raise
        finally:
            first.clear()
        self.figures["rounds"] += 1
        if killed:
            self.figures["kills"] += 1
            self.figures[f"of {name}"] += 1
            self.figures[f"kills: {kill.step}"] += 1
            self.figures["kills that left a unit to be settled"] += first.left_open

    def _begin(self, name: str, messages: int) -> Round:
        if name in RESTORATIONS:
            return RestorationRound(self.world, messages, header=RESTORATIONS[name])
        if name in REPAIRS:
            return RepairRound(self.world, name, messages)
        if name in STORIES:
            trips = self.chance.randint(0, STORIES[name].trips)
            return StoryRound(self.world, STORIES[name], messages, trips)
        return ExecutionRound(self.world, SCENARIOS[name], messages)

    def _measure(self, name: str, messages: int) -> None:
        """Make a pass that nobody kills, and count its steps."""
        probe = self._begin(name, messages)
        begun = time.monotonic()
        self.steps[name, messages] = probe.count_steps()
        self.seconds[name, messages] = time.monotonic() - begun
        probe.finish(by_another_run=False)
        probe.check_the_end()
        probe.clear()

    def _choose(self, name: str, messages: int) -> Kill:
        """Choose the kind of step first, or browses would take nearly all the kills."""
        steps = self.steps[name, messages]
        names = [*steps, BY_CHANCE]
        (step,) = self.chance.choices(names, [WEIGHTS.get(name, 1) for name in names])
        if step == BY_CHANCE:
            longest = self.seconds[name, messages]
            return Kill(step, after_s=self.chance.uniform(0, longest))
        nth = self.chance.randint(1, steps[step])
        return Kill(step, nth, self.chance.choice(["before", "after"]))


def rounds(audit: Audit, kills: int, group: str) -> Iterator[None]:
    """Go through all scenarios, many messages and one, until so many were killed.

    The order is drawn, so that a few kills are not always of the same scenarios.
    """
    names = names_of(group)
    assert names, f"{group} is neither a group of scenarios nor one of them"
    audit.chance.shuffle(names)
    while True:
        for messages in (audit.many, 1):
            for name in names:
                if audit.figures["kills"] >= kills:
                    return
                audit.round(name, messages)
                yield


def run(
    directory: Path, kills: int, seed: str, database: str, *, many: int, group: str
) -> dict[str, Any]:
    """Kill so many executions and return the figures."""
    url = ""
    if database == "postgresql":
        found = server()
        assert found is not None, "PostgreSQL is not installed"
        url = found.new_ledger_url()
    # The target of an alias is not known before the first put.
    own = "DEFINE QLOCAL(SMALL.BASE) MAXMSGL(20)\nDEFINE QALIAS(SMALL) TARGET(SMALL.BASE)\n"
    own += "DEFINE QLOCAL(ACCEPTED) DEFPSIST(YES)\n"
    audit = Audit(
        World(directory, definitions=DEFINITIONS + own, clock=SharedClock(), ledger_url=url),
        random.Random(seed),  # noqa: S311 (chance, not a secret)
        many,
    )
    for _ in rounds(audit, kills, group):
        if audit.figures["rounds"] % TELL_EVERY == 0:
            sys.stderr.write(f"{audit.figures['kills']} of {kills} tasks killed\n")
    audit.world.ledger.close()
    return {
        "seed": seed,
        "ledger": database,
        "messages": many,
        **dict(sorted(audit.figures.items())),
    }


def main() -> int:
    """Kill as often as the command line says."""
    logging.disable(logging.WARNING)
    defaults = ["1000", "1", "sqlite", str(MANY), ALL]
    kills, seed, database, many, group = [*sys.argv[1:], *defaults[len(sys.argv) - 1 :]]
    place = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 (processes die, not machines)
    with tempfile.TemporaryDirectory(dir=place) as directory:
        begun = time.monotonic()
        figures = run(Path(directory), int(kills), seed, database, many=int(many), group=group)
    figures["seconds"] = round(time.monotonic() - begun)
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
