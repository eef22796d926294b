"""Three processes put and get while SIGKILL ends them at random: what must be true afterwards.

``python killed_in_flight.py ROUNDS [SEED]`` prints figures as JSON; an AssertionError says which
promise was broken. Each worker notes in its own log what it is about to do and what it has
done, a line by one system call, so that a kill leaves whole lines. After each round the logs say
what must be on the queues, in which order, and how often each message was backed out.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import embedded_mq

WORKERS = 3
LONGEST_LIFE_S = 0.08
TELL_EVERY = 100
MANY = 100
COMMITTED, COMMITTING = "committed", "committing"


class Worker:
    """One process: units of work that put new messages to IN and move some from IN to OUT.

    A unit of work may get what it has put itself.
    """

    def __init__(self, mqi: Any, log: Path, name: str, put_share: float) -> None:
        """Nothing is connected before `work`."""
        self.mqi, self.mq = mqi, mqi.CMQC
        self.log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.name = name
        self.random = random.Random(name)  # noqa: S311 (chance, not a secret)
        self.put_share = put_share
        self.puts = self.units = 0

    def note(self, *words: object) -> None:
        """Write a line to the log."""
        os.write(self.log, (" ".join(map(str, words)) + "\n").encode())

    def work(self) -> None:
        """Work until killed."""
        self.queue_manager = self.mqi.connect("QM1")
        self.source = self._open("IN", self.mq.MQOO_INPUT_SHARED | self.mq.MQOO_OUTPUT)
        self.target = self._open("OUT", self.mq.MQOO_OUTPUT)
        while True:
            self.units += 1
            self.note("unit", f"{self.name}.{self.units}")
            for _ in range(self.random.randint(1, 5)):
                step = self.put if self.random.random() < self.put_share else self.move
                step()
            if self.random.random() < 0.2:
                self.queue_manager.backout()
                self.note("end", "backed-out")
            else:
                self.note("end", COMMITTING)
                self.queue_manager.commit()
                self.note("end", COMMITTED)

    def _open(self, name: str, options: int) -> Any:
        return self.mqi.Queue(self.queue_manager, name, options)

    def put(self) -> None:
        """Put a new message to IN."""
        self.puts += 1
        message = f"{self.name}.{self.puts}"
        self.note("put", message)
        self._put(self.source, message, self.random.randint(0, 9))

    def move(self) -> None:
        """Move a message, if there is one, and say to OUT by which unit of work."""
        md = self.mqi.MD()
        self.note("getting")
        try:
            body = self.source.get(None, md, self.mqi.GMO(Options=self.mq.MQGMO_SYNCPOINT))
        except self.mqi.MQMIError as error:
            if error.reason != self.mq.MQRC_NO_MSG_AVAILABLE:
                raise
            self.note("none")
            return
        self.note("got", body.decode(), md.BackoutCount)
        self.puts += 1
        moved = f"{body.decode()} {self.name}.{self.units} {self.puts}"
        self._put(self.target, moved, md.Priority)

    def _put(self, queue: Any, message: str, priority: int) -> None:
        md = self.mqi.MD(Priority=priority, Persistence=self.mq.MQPER_PERSISTENT)
        queue.put(message.encode(), md, self.mqi.PMO(Options=self.mq.MQPMO_SYNCPOINT))


@dataclass
class Unit:
    """The record of one unit of work in a log; `is_asking` if an MQGET had not returned."""

    name: str
    puts: list[str] = field(default_factory=list)
    gets: dict[str, int] = field(default_factory=dict)
    end: str = ""
    is_asking: bool = False


def units_of(log: Path) -> Iterator[Unit]:
    """Read a worker's log."""
    unit: Unit | None = None
    for line in log.read_text().splitlines():
        what, *words = line.split()
        if what == "unit":
            if unit is not None:
                yield unit
            unit = Unit(words[0])
        assert unit is not None
        unit.is_asking = what == "getting"
        if what == "put":
            unit.puts.append(words[0])
        elif what == "got":
            assert words[0] not in unit.gets, f"{words[0]} was got twice by one unit of work"
            unit.gets[words[0]] = int(words[1])
        elif what == "end":
            unit.end = words[0]
    if unit is not None:
        yield unit


@dataclass(frozen=True)
class BrowsedMessage:
    """A message as it lies on a queue."""

    body: str
    priority: int
    backout_count: int


class Audit:
    """Goes over the queues after each round."""

    def __init__(self, mqi: Any) -> None:
        """Nothing has been put so far."""
        self.mqi, self.mq = mqi, mqi.CMQC
        self.waiting: dict[str, int] = {}
        """The messages on IN, and how often each was backed out."""
        self.figures: Counter[str] = Counter()

    def check(self, units: list[Unit]) -> None:
        """Compare the queues with the logs of a round; then empty OUT."""
        queue_manager = self.mqi.connect("QM1")
        on_in, on_out = self._browse(queue_manager, "IN"), self._browse(queue_manager, "OUT")
        self._check_order(on_in, on_out)
        moves: dict[str, set[str]] = defaultdict(set)  # by unit of work
        for message in on_out:
            name, unit, _ = message.body.split()
            moves[unit].add(name)
        present = [message.body for message in on_in]
        delivered = [message.body.split()[0] for message in on_out]
        twice = [name for name, n in Counter(present + delivered).items() if n > 1]
        assert not twice, f"there more than once: {twice}"
        expected = self._settle(units, moves, {*present, *delivered})
        assert set(present) == expected.keys(), "IN does not hold what was committed"
        self._check_backouts(units, on_in, expected)
        self.waiting = {message.body: message.backout_count for message in on_in}
        self._empty(queue_manager, "OUT", len(on_out))
        queue_manager.disconnect()
        self.figures["messages moved"] += len(on_out)
        self.figures["rounds"] += 1

    def _settle(
        self, units: list[Unit], moves: dict[str, set[str]], there: set[str]
    ) -> dict[str, int]:
        """Return what must be on IN, each with its known backouts, all units being whole or not."""
        gone: set[str] = set()
        expected = dict(self.waiting)
        for unit in units:
            effects = [name in there for name in unit.puts]
            effects += [name in moves[unit.name] for name in unit.gets]
            if not effects:
                continue
            if unit.end == COMMITTED:
                assert all(effects), f"a committed unit of work lost something: {unit}"
            elif unit.end == COMMITTING:
                assert all(effects) or not any(effects), f"committed by half: {unit}"
            else:
                assert not any(effects), f"never committed, yet there: {unit}"
            is_committed = all(effects)
            if is_committed:
                expected |= {name: expected.get(name, 0) for name in unit.puts}
                gone |= unit.gets.keys()
            else:
                for name in unit.gets.keys() - set(unit.puts):
                    expected[name] = expected.get(name, 0) + 1
            self.figures["units committed" if is_committed else "units backed out"] += 1
            self.figures["killed in MQCMIT"] += unit.end == COMMITTING
        assert gone == set().union(*moves.values()), "OUT does not hold what was committed"
        self._failures = expected
        return {name: count for name, count in expected.items() if name not in gone}

    def _check_backouts(
        self, units: list[Unit], on_in: Iterable[BrowsedMessage], expected: dict[str, int]
    ) -> None:
        """Compare each BackoutCount; an MQGET cut off may have raised one that no log knows of."""
        asking = sum(unit.is_asking for unit in units)
        surplus = 0
        for message in on_in:
            surplus += self._surplus(message.body, message.backout_count, expected[message.body])
        seen: dict[str, list[int]] = defaultdict(list)
        for unit in units:
            for name, count in unit.gets.items():
                seen[name].append(count)
        for name, counts in seen.items():
            assert len(set(counts)) == len(counts), f"{name}: BackoutCount {counts} at its gets"
            if name in self._failures.keys() - expected.keys():
                surplus += self._surplus(name, max(counts), self._failures[name])
        assert surplus <= asking, f"{surplus} backouts more than gets, {asking} gets were cut off"
        self.figures["killed in MQGET"] += asking
        self.figures["backouts counted"] += sum(message.backout_count for message in on_in)

    @staticmethod
    def _surplus(name: str, count: int, known: int) -> int:
        assert count >= known, f"{name}: BackoutCount {count}, backed out {known} times"
        return count - known

    @staticmethod
    def _check_order(on_in: list[BrowsedMessage], on_out: list[BrowsedMessage]) -> None:
        for messages, place in (
            (on_in, lambda body: body.rpartition(".")),
            (on_out, lambda body: (body.split()[1].rpartition(".")[0], "", body.split()[2])),
        ):
            last: dict[tuple[int, str], int] = {}
            priorities = [message.priority for message in messages]
            assert priorities == sorted(priorities, reverse=True), "priorities are mixed up"
            for message in messages:
                worker, _, number = place(message.body)
                before = last.get((message.priority, worker), -1)
                assert before < int(number), f"{message} stands behind number {before}"
                last[message.priority, worker] = int(number)

    def _browse(self, queue_manager: Any, name: str) -> list[BrowsedMessage]:
        options = self.mq.MQOO_BROWSE | self.mq.MQOO_INQUIRE
        queue = self.mqi.Queue(queue_manager, name, options)
        found = []
        while True:
            md, gmo = self.mqi.MD(), self.mqi.GMO(Options=self.mq.MQGMO_BROWSE_NEXT)
            try:
                body = queue.get(None, md, gmo)
            except self.mqi.MQMIError as error:
                if error.reason != self.mq.MQRC_NO_MSG_AVAILABLE:
                    raise
                break
            found.append(BrowsedMessage(body.decode(), md.Priority, md.BackoutCount))
        depth = queue.inquire(self.mq.MQIA_CURRENT_Q_DEPTH)
        assert depth == len(found), f"{name}: CURDEPTH {depth}, browsed {len(found)}"
        queue.close()
        return found

    def _empty(self, queue_manager: Any, name: str, messages: int) -> None:
        queue = self.mqi.Queue(queue_manager, name, self.mq.MQOO_INPUT_EXCLUSIVE)
        for _ in range(messages):
            queue.get(None, self.mqi.MD(), self.mqi.GMO(Options=self.mq.MQGMO_SYNCPOINT))
        queue_manager.commit()
        queue.close()


def start(worker: Worker) -> int:
    """Let a worker run in its own process."""
    pid = os.fork()
    if pid == 0:
        try:
            worker.work()
        except BaseException:  # noqa: BLE001 (a child must not continue as its parent)
            traceback.print_exc()
        os._exit(1)
    os.close(worker.log)
    return pid


def run(directory: Path, rounds: int, seed: str) -> dict[str, int]:
    """Run the rounds and return the figures."""
    embedded_mq.install(directory)
    embedded_mq.create("QM1")
    embedded_mq.run_mqsc("QM1", "DEFINE QLOCAL(IN)\nDEFINE QLOCAL(OUT)")
    import ibmmq

    audit = Audit(ibmmq)
    chance = random.Random(seed)  # noqa: S311 (chance, not a secret)
    for number in range(rounds):
        put_share = 0.6 if len(audit.waiting) < MANY else 0.4
        names = [f"{seed}-{number}-{worker}" for worker in range(WORKERS)]
        logs = [directory / f"{name}.log" for name in names]
        workers = [
            Worker(ibmmq, log, name, put_share) for log, name in zip(logs, names, strict=True)
        ]
        deaths = sorted((chance.uniform(0, LONGEST_LIFE_S), start(worker)) for worker in workers)
        begun = time.monotonic()
        for at, pid in deaths:
            time.sleep(max(0, begun + at - time.monotonic()))
            os.kill(pid, signal.SIGKILL)
        for _, pid in deaths:
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            assert status == -signal.SIGKILL, f"a worker ended by itself: {status}"
        audit.check([unit for log in logs for unit in units_of(log)])
        for log in logs:
            log.unlink()
        if (number + 1) % TELL_EVERY == 0:
            sys.stderr.write(f"{number + 1} of {rounds} rounds\n")
    return dict(audit.figures)


def main() -> int:
    """Run as many rounds as the command line says."""
    rounds, seed = int(sys.argv[1]), (sys.argv[2:] or ["1"])[0]
    with tempfile.TemporaryDirectory() as directory:
        begun = time.monotonic()
        figures = run(Path(directory), rounds, seed)
    figures["seconds"] = round(time.monotonic() - begun)
    sys.stdout.write(json.dumps(figures) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
