"""One round: messages to be moved, a task that dies, and what must be true."""

from __future__ import annotations

import json
import os
import signal
import time
import traceback
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mqdlq.lake import settled_rows, snapshot_rows, storage
from mqdlq.lake.archive import full_digest, read_back
from mqdlq.ledger import Ledger, open_ledger
from mqdlq.ledger.tables import Attempt
from mqdlq.model import DEPARTED, AttemptState
from mqdlq.stages.execute import Execution, make_pass, settle
from tests.faults.kills import BY_CHANCE, Kill, calls_counted, count_calls, count_ledger
from tests.faults.recorded_moves import check_ramps
from tests.faults.targets import bare
from tests.support.world import World

TOO_LONG = b" and too long for the queue SMALL"


@dataclass(frozen=True)
class Scenario:
    """A rules table, where it has to bring the nth message, and by which outcome.

    With an `action` the messages have no MQDLH, and it is given for all of them by name. `keys` are
    those of the handler's YAML. With a `ramp` among them, the task makes all passes.
    """

    rules: str
    places: tuple[str, ...]
    outcomes: tuple[str, ...]
    destinations: tuple[str, ...] = ("PAYMENTS",)
    action: str = ""
    keys: Mapping[str, Any] = field(default_factory=dict)

    def place(self, number: int) -> str:
        return self.places[number % len(self.places)]

    def outcome(self, number: int) -> str:
        return self.outcomes[number % len(self.outcomes)]

    def destination(self, number: int) -> str:
        return self.destinations[number % len(self.destinations)]


ARCHIVE = "the archive"
ORDERED = ("PAYMENTS", "ORDERS", "PARKED")
MOST_PASSES = 120
"""So many are never needed; a state that no pass can leave would need more."""
SCENARIOS = {
    "RETRY": Scenario("ACTION(RETRY)", ("PAYMENTS",), ("delivered",)),
    "FWD": Scenario("ACTION(FWD) FWDQ(PARKED) HEADER(YES)", ("PARKED",), ("forwarded",)),
    "FWD HEADER(NO)": Scenario("ACTION(FWD) FWDQ(PARKED) HEADER(NO)", ("PARKED",), ("forwarded",)),
    "DISCARD": Scenario("ACTION(DISCARD)", (ARCHIVE,), ("discarded",)),
    "side by side": Scenario(
        "DESTQ(CLOSED) ACTION(DISCARD)\nACTION(RETRY)",
        ("PAYMENTS", "ORDERS", "PARKED", ARCHIVE),
        ("delivered", "delivered", "delivered", "discarded"),
        ("PAYMENTS", "ORDERS", "PARKED", "CLOSED"),
    ),
    "IGNORE": Scenario("ACTION(IGNORE)", ("DLQ",), ("left_by_rule",)),
    "FWD by name": Scenario(
        "ACTION(IGNORE)", ("PARKED",), ("forwarded",), action="ACTION(FWD) FWDQ(PARKED)"
    ),
    "DISCARD by name": Scenario(
        "ACTION(IGNORE)", (ARCHIVE,), ("discarded",), action="ACTION(DISCARD)"
    ),
    "ramp": Scenario(
        "ACTION(RETRY)",
        ("PAYMENTS",),
        ("delivered",),
        keys={"ramp": {"steps": [1, 4], "watch": 60, "forget_after": 1800}},
    ),
    "all of them": Scenario(
        "DESTQ(SMALL) ACTION(RETRY)\n"  # fails, is charged, and is forwarded in the next pass
        "DESTQ(SMALL) ACTION(FWD) FWDQ(PARKED) HEADER(NO)\n"
        "DESTQ(ORDERS) ACTION(DISCARD)\n"
        "DESTQ(CLOSED) ACTION(IGNORE)\n"
        "ACTION(RETRY)",
        ("PAYMENTS", "PAYMENTS", "PARKED", ARCHIVE, "PAYMENTS", "DLQ"),
        ("delivered", "delivered", "forwarded", "discarded", "delivered", "left_by_rule"),
        ("PAYMENTS", "PAYMENTS", "SMALL", "ORDERS", "PAYMENTS", "CLOSED"),
    ),
}
RAMPS = ("ramp",)
"""The scenarios of controls among them."""


class Round(ABC):
    """Messages that a task moves in units of work, and dies over."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.left_open = False

    @abstractmethod
    def attempt(self, ledger: Ledger) -> None:
        """Make an attempt at the task."""

    @abstractmethod
    def is_open(self) -> bool:
        """Return whether units of work are not settled."""

    @abstractmethod
    def check_what_is_known(self) -> None:
        """Settle the open attempts without moving a message: the ledger must catch up."""

    @abstractmethod
    def finish(self, *, by_another_run: bool) -> None:
        """Bring the task to its end, or let another one take over before."""

    @abstractmethod
    def check_the_end(self) -> None:
        """Every message is where it must be, in order, and the ledger says so."""

    def _fork(self, work: Callable[[Ledger], None]) -> int:
        self.world.ledger.close()  # connections are not to be inherited
        pid = os.fork()
        if pid == 0:
            try:
                with open_ledger(self.world.ledger_url) as ledger:
                    self.world.ledger = ledger
                    work(ledger)
            except BaseException:  # noqa: BLE001 (a child must not continue as its parent)
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        return pid

    def die(self, kill: Kill) -> bool:
        """Make an attempt in a child that is killed; return whether it was before its end."""

        def work(ledger: Ledger) -> None:
            kill.prepare(ledger)
            self.attempt(ledger)

        pid = self._fork(work)
        if kill.step == BY_CHANCE:
            time.sleep(kill.after_s)
            os.kill(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert status in {0, -signal.SIGKILL}, f"the task failed by itself: {status}"
        self.left_open = self.is_open()
        return status != 0

    def count_steps(self) -> Counter[str]:
        """Make an attempt in a child that counts its steps."""
        reader, writer = os.pipe()

        def work(ledger: Ledger) -> None:
            ledger_steps: Counter[str] = Counter()
            count_calls()
            count_ledger(ledger, lambda step, _: ledger_steps.update({step: 1}))
            self.attempt(ledger)
            os.write(writer, json.dumps(ledger_steps + calls_counted()).encode())

        pid = self._fork(work)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert status == 0, f"the task failed, and nothing has killed it: {status}"
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            return Counter(json.loads(pipe.read()))

    def clear(self) -> None:
        """Leave the queues empty for the next round, but not the state queue."""
        self.world.clear("DLQ", *ORDERED)
        self.world.clock.sleep(3600)


class ExecutionRound(Round):
    """Dead letters on the queue, and a run with an accepted plan for them."""

    def __init__(self, world: World, scenario: Scenario, messages: int) -> None:
        super().__init__(world)
        self.scenario = scenario
        self.bodies = [
            b"%d.%02d" % (world.runs, n) + (TOO_LONG if scenario.destination(n) == "SMALL" else b"")
            for n in range(messages)
        ]
        for number, body in enumerate(self.bodies):
            if scenario.action:
                world.put("DLQ", body)
            else:
                world.dead_letter(body, dest_q=scenario.destination(number))
        self.originals = {
            bare(body): full_digest(md.pack(), body) for md, body in world.messages("DLQ")
        }
        self.execution = self._plan()
        self.run_id = self.execution.run.run_id
        self.runs = [self.run_id]

    def _plan(self) -> Execution:
        """Start a run by the scenario's rules, or by its action for all messages by name."""
        world, scenario = self.world, self.scenario
        if not scenario.action:
            return world.plan(scenario.rules, **scenario.keys)
        whole = world.plan(scenario.rules, dry_run=True).run.run_id
        keys = tuple(m.message_key.hex() for m in world.ledger.messages.of_run(whole))
        return world.plan(scenario.rules, message_keys=keys or ("0" * 64,), action=scenario.action)

    def attempt(self, ledger: Ledger) -> None:
        execution = replace(self.execution, ledger=ledger)
        (pass_to_the_end if self.scenario.keys else make_one_pass)(self.world, execution)

    def is_open(self) -> bool:
        return bool(self.intended())

    def intended(self) -> list[Attempt]:
        """Return the attempts that are not settled."""
        return self.world.ledger.attempts.intended(self.world.settings.queue_manager, "DLQ")

    # Invariants

    def places(self) -> dict[bytes, str]:
        """Return where each message is; it may not be anywhere twice."""
        found: dict[bytes, str] = {}
        for queue in ("DLQ", "PAYMENTS", "PARKED", "SMALL", "ORDERS", "CLOSED"):
            for body in map(bare, self.world.bodies(queue)):
                assert body not in found, f"{body!r} is on {found[body]} and on {queue}"
                found[body] = queue
        return found

    def archived(self) -> set[str]:
        """Return the digests of the run's copies, computed again from the archive."""
        folder = f"{self.world.lake_root}/archive/{self.run_id}"
        if not Path(folder).exists():
            return set()
        names = storage.file_names(folder, ".parquet")
        return {d for name in names for d in read_back(f"{folder}/{name}").values()}

    def check_what_is_known(self) -> None:
        """Let a run that only ignores settle the open attempts: the ledger must catch up."""
        world = self.world
        idle = world.plan("ACTION(IGNORE)")
        make_pass(idle)
        settle(idle)
        assert not self.intended(), "a unit of work is still unsettled"
        places = self.places()
        confirmed, listed = set(), world.ledger.messages.of_run(self.run_id)
        for attempt in world.ledger.attempts.of_run(self.run_id):
            assert attempt.state is not AttemptState.UNKNOWN, "an attempt is unknown"
            if attempt.state is AttemptState.CONFIRMED:
                confirmed.add(attempt.message_id)
        outcomes = world.ledger.outcomes.of_run(self.run_id)
        acts = self.scenario.action or self.scenario.rules
        archived = self.archived() if "DISCARD" in acts else set()
        for body, message in zip(self.bodies, listed, strict=True):
            number = message.browse_seq - 1
            has_left = places.get(body) != "DLQ"
            assert has_left == (message.message_id in confirmed), f"{body!r}: not as booked"
            fact = outcomes.get(message.message_id)
            assert has_left == (fact is not None and fact.outcome in DEPARTED), "wrong outcome"
            if not has_left:
                continue
            if self.scenario.place(number) == ARCHIVE:
                assert self.originals[body] in archived, f"{body!r} left without a copy"
                assert body not in places
            else:
                assert body in places, f"{body!r} is lost"

    def finish(self, *, by_another_run: bool) -> None:
        """Bring the run to its end, or let another one take over before."""
        world = self.world
        if by_another_run:
            other = self._plan()
            self.runs.append(other.run.run_id)
            pass_to_the_end(world, other)
            settle(other)
        pass_to_the_end(world, self.execution)
        settle(self.execution)

    def check_the_end(self) -> None:
        """Everything is where the rules want it, in order, and every run says so."""
        check_ramps(self.world.ledger, self.runs)
        places = self.places()
        for number, body in enumerate(self.bodies):
            wanted = self.scenario.place(number)
            assert places.get(body, ARCHIVE) == wanted, f"{body!r} is not in {wanted}"
        for queue in ORDERED:
            bodies = [bare(body) for body in self.world.bodies(queue)]
            assert bodies == sorted(bodies), f"{queue} is out of order"
        ended: dict[int, list[str]] = {n: [] for n in range(len(self.bodies))}
        for run_id in self.runs:
            run = self.world.ledger.runs.get(run_id)
            assert run is not None
            for seq, outcome in self.world.outcomes(run).items():
                ended[self._number_of(run_id, seq)].append(outcome)
        for number, outcomes in ended.items():
            wanted = self.scenario.outcome(number)
            rest = Counter(outcomes) - Counter([wanted])
            allowed = {"leased_by_run"} | ({wanted} if wanted == "left_by_rule" else set())
            assert wanted in outcomes, f"message {number} should be {wanted}, is {outcomes}"
            assert set(rest) <= allowed, f"message {number} should be {wanted}, is {outcomes}"

    def _number_of(self, run_id: str, seq: int) -> int:
        """Tell which message a run's browse met at that place; it may have settled it."""
        keys = [m.message_key for m in self.world.ledger.messages.of_run(self.run_id)]
        snapshot = self.world.ledger.snapshots.of_run(run_id)
        assert snapshot is not None
        columns = ["browse_seq", "message_key"]
        listed = snapshot_rows(snapshot.location, columns)
        settled = (
            row for batch in settled_rows(snapshot.location, columns) for row in batch.to_pylist()
        )
        (key,) = {row["message_key"] for row in (*listed, *settled) if row["browse_seq"] == seq}
        return keys.index(key)


def make_one_pass(_: World, execution: Execution) -> None:
    make_pass(execution)


def pass_to_the_end(world: World, execution: Execution) -> None:
    for _ in range(MOST_PASSES):
        result = make_pass(execution)
        if result.next_pass_at is None:
            return
        world.clock.now = result.next_pass_at
    raise AssertionError(f"a run is not at its end after {MOST_PASSES} passes")
