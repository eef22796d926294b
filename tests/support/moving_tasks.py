"""The two tasks that move messages in units of work, behind one interface for tests of both."""

from __future__ import annotations

import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, ClassVar

from mqdlq.ledger.tables import CopyState
from mqdlq.model import AttemptState, Outcome, RestorationState
from mqdlq.reasons import words_of
from mqdlq.stages.execute import Execution, PassResult, make_pass, settle
from mqdlq.stages.restore.restoration import RestorationResources, restore
from tests.support.paths import ROOT
from tests.support.restorations import attempt_and_count, copy_states, discard, prepare_restoration
from tests.support.world import World

FAILED_STATES = {RestorationState.FAILED, RestorationState.NOT_ATTEMPTED}


@dataclass
class MovingTask(ABC):
    """A task that moves messages to a queue in units of work, and its results.

    `markers_before` is the number of units that the task commits before the first unit that moves
    messages; each has a marker. `looks_for_markers` is the number of MQGETs of the state queue that
    find none before the first unit, and `inquiries_before` the number of MQINQs of queues before
    that of the queue manager.
    """

    world: World
    markers_before: ClassVar[int]
    looks_for_markers: ClassVar[int]
    inquiries_before: ClassVar[int]
    script: ClassVar[str]
    moves_per_maxumsgs: ClassVar[dict[int, int]]
    """How many messages fit in a unit of work, by MAXUMSGS."""
    words: ClassVar[dict[str, str]]
    """Log texts of this task by the corresponding texts of an execution."""

    @abstractmethod
    def prepare(self, *bodies: bytes, to: str = "PAYMENTS", **fields: Any) -> None:
        """Prepare messages with these bodies for a move to a queue; nothing is moved yet."""

    @abstractmethod
    def attempt(self) -> None:
        """Make an attempt at the task."""

    @abstractmethod
    def bring_to_the_end(self) -> None:
        """Make attempts until the task has ended; it must have moved every message."""

    @abstractmethod
    def sizes(self) -> list[int]:
        """Return the number of messages in each committed unit, in commit order."""

    @abstractmethod
    def failed(self) -> list[int]:
        """Return the reasons of the moves that are recorded as failed."""

    @abstractmethod
    def whys(self) -> str:
        """Return the explanations in the ledger of messages that were not moved."""

    @abstractmethod
    def name(self) -> str:
        """Return the id of the run or restoration."""

    def nth(self, unit: int) -> int:
        """Return the number of the commit, and marker, of the nth unit that moves messages."""
        return self.markers_before + unit

    def attempt_elsewhere(self, fault: str) -> int:
        """Make an attempt under a fault in another process; return its exit status."""
        world = self.world
        return subprocess.run(
            [
                *(sys.executable, "-m", self.script),
                *(str(world.directory), self.name(), world.client or ""),
            ],
            env={**os.environ, "MQDLQ_FAULTS": fault, "MQDLQ_HOME": str(world.directory)},
            cwd=ROOT,
            capture_output=True,
            check=False,
        ).returncode


@dataclass
class ExecutionTask(MovingTask):
    """Dead letters, and a run that retries them."""

    markers_before = 0
    looks_for_markers = 3
    inquiries_before = 0
    script = "tests.support.run_one_pass"
    moves_per_maxumsgs: ClassVar = {6: 2}
    words: ClassVar = {}
    rules: str = "RETRYINT(60) WAIT(NO)\nACTION(RETRY) RETRY(2)"
    connections: int = 1

    def prepare(self, *bodies: bytes, to: str = "PAYMENTS", **fields: Any) -> None:
        for body in bodies:
            self.world.dead_letter(body, dest_q=to, **fields)
        self.execution: Execution = self.world.plan(self.rules, connections=self.connections)

    def attempt(self) -> None:
        self.result: PassResult = make_pass(self.execution)

    def bring_to_the_end(self) -> None:
        self.attempt()
        while self.result.next_pass_at is not None:
            self.world.clock.now = self.result.next_pass_at
            self.attempt()
        assert settle(self.execution).keys() == {Outcome.DELIVERED}

    def sizes(self) -> list[int]:
        attempts = self.world.ledger.attempts.of_run(self.name())
        units = [a.unit for a in attempts if a.state is AttemptState.CONFIRMED]
        return list(Counter(units).values())

    def failed(self) -> list[int]:
        attempts = self.world.ledger.attempts.of_run(self.name())
        return [a.mqrc for a in attempts if a.state is AttemptState.FAILED]

    def whys(self) -> str:
        return ""

    def name(self) -> str:
        return self.execution.run.run_id


@dataclass
class LanesTask(ExecutionTask):
    """The same over several connections: one browses, and another one moves the messages."""

    connections: int = 4


@dataclass
class RestorationTask(MovingTask):
    """Archived copies, and a restoration of them without their MQDLH."""

    markers_before = 1
    looks_for_markers = 2
    inquiries_before = 3
    script = "tests.support.run_one_restoration"
    moves_per_maxumsgs: ClassVar = {6: 4}
    words: ClassVar = {"AMQ8722": "PAYMENTS"}
    archived: dict[tuple[bytes, ...], str] = field(default_factory=dict)
    restorations: int = 0

    def prepare(self, *bodies: bytes, to: str = "PAYMENTS", **fields: Any) -> None:
        """Let a run discard the bodies, unless an earlier case did, and select the copies."""
        if bodies not in self.archived:
            self.archived[bodies] = discard(self.world, *bodies, **fields)
            self.world.mqsc("CLEAR QLOCAL(MQDLQ.STATE)")  # of the discarding run's marker
        self.restorations += 1
        asked: dict[str, Any] = {
            "run_id": self.archived[bodies],
            "to_queue": to,
            "header": False,
            "again": True,
        }
        self.work: RestorationResources = prepare_restoration(
            self.world, f"restoration-{self.restorations}", **asked
        )

    def attempt(self) -> None:
        restore(self.work)

    def bring_to_the_end(self) -> None:
        assert attempt_and_count(self.work).keys() == {"restored"}

    def sizes(self) -> list[int]:
        found = [s for s in self._states() if s.state is RestorationState.RESTORED]
        units = Counter(state.unit for state in sorted(found, key=lambda state: state.message_id))
        return list(units.values())

    def failed(self) -> list[int]:
        return [state.mqrc for state in self._states() if state.state in FAILED_STATES]

    def whys(self) -> str:
        return " ".join(words_of(state.why) for state in self._states())

    def name(self) -> str:
        return self.work.restoration.restoration_id

    def _states(self) -> list[CopyState]:
        return copy_states(self.world, self.name())


KINDS: dict[str, type[MovingTask]] = {
    "execution": ExecutionTask,
    "restoration": RestorationTask,
    "lanes": LanesTask,
}
