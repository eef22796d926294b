"""The embedded queue manager: messages each second, compared with plain SQLite and a prototype.

Messages of 1 KiB are put, browsed and moved between queues through ibmmq's classes, 50 in a unit of
work. The floor does the same with a bare table by plain SQL, with the same durability. The peer is
the prototype that preceded this queue manager, under the same classes. MQDLQ_PROTOTYPE names its
directory (by default ../shared/spikes/embedded_mq); without it the peer is skipped. Each side has
its own process, and they take turns, so that other load of the machine affects all alike.
MQDLQ_BENCH_MESSAGES sets the number of messages: 20000 by default, 100000 for figures to record.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

MESSAGES = int(os.environ.get("MQDLQ_BENCH_MESSAGES", "20000"))
BATCH = 50
ROUNDS = 20
BODY = bytes(1024)
DESCRIPTOR = bytes(364)
STEPS = ("put", "browse", "move")
PROTOTYPE = Path(
    os.environ.get("MQDLQ_PROTOTYPE")
    or Path(__file__).resolve().parents[2] / "shared" / "spikes" / "embedded_mq"
)


def measure() -> dict[str, Any]:
    """Return rate and processor microseconds of a message for each step and side, with ratios."""
    sides = ["floor", "embedded"] + (["prototype"] if PROTOTYPE.is_dir() else [])
    taken = timed(sides)
    steps: dict[str, Any] = {}
    for step in STEPS:
        floor = taken["floor", step]
        steps[step] = {side: figures(*taken[side, step], floor) for side in sides}
        if "prototype" in sides:
            ours, peer = taken["embedded", step][1], taken["prototype", step][1]
            steps[step]["cpu_of_embedded_to_prototype"] = round(ours / peer, 3)
    if "prototype" not in sides:
        steps["prototype"] = f"skipped: there is no prototype in {PROTOTYPE}"
    return {"messages": MESSAGES, "bytes": len(BODY), "unit_of_work": BATCH, **steps}


def figures(wall: float, cpu: float, floor: tuple[float, float]) -> dict[str, float]:
    """Return the time of one side for one step, and its multiple of the floor."""
    return {
        "per_second": round(MESSAGES / wall),
        "cpu_us": round(cpu / MESSAGES * 1e6, 1),
        "cpu_to_floor": round(cpu / floor[1], 2),
        "time_to_floor": round(wall / floor[0], 2),
    }


def timed(sides: list[str]) -> dict[tuple[str, str], tuple[float, float]]:
    """Return the elapsed and the processor seconds of each side for each step."""
    taken: dict[tuple[str, str], tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    workers = {
        side: subprocess.Popen(  # noqa: S603 (this very module)
            [sys.executable, "-m", "benchmarks.queue_manager", side],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for side in sides
    }
    for step in STEPS:
        for _ in range(ROUNDS):
            for side, worker in workers.items():
                wall, cpu = ask(worker, step)
                so_far = taken[side, step]
                taken[side, step] = so_far[0] + wall, so_far[1] + cpu
    for worker in workers.values():
        worker.communicate()
    return taken


def ask(worker: subprocess.Popen[str], step: str) -> tuple[float, float]:
    """Let a worker make one round of a step."""
    assert worker.stdin is not None  # noqa: S101 (a pipe, as asked for)
    assert worker.stdout is not None  # noqa: S101
    worker.stdin.write(f"{step}\n")
    worker.stdin.flush()
    wall, cpu = json.loads(worker.stdout.readline())
    return wall, cpu


def work(side: str) -> None:
    """Run the rounds that standard input names, and print the time of each."""
    with tempfile.TemporaryDirectory() as directory:
        worker = {"floor": Floor, "embedded": embedded, "prototype": prototype}[side](
            Path(directory)
        )
        for line in sys.stdin:
            step = getattr(worker, line.strip())
            wall, cpu = perf_counter(), process_time()
            step()
            print(json.dumps([perf_counter() - wall, process_time() - cpu]), flush=True)


def batches(end: Callable[[], object]) -> Iterator[None]:
    """Yield once for each message of a round, and end the unit of work after every 50."""
    for number in range(1, MESSAGES // ROUNDS + 1):
        yield
        if number % BATCH == 0:
            end()


class Floor:
    """Rows of a table, by plain SQL."""

    INSERT = "INSERT INTO m(queue, rank, descriptor, body) VALUES(?, 5, ?, ?)"
    FIRST = (
        "SELECT place, descriptor, body FROM m WHERE queue = 1 AND rank = 5 AND place > ?"
        " ORDER BY place LIMIT 1"
    )

    def __init__(self, directory: Path) -> None:
        """Make the table."""
        database = sqlite3.connect(directory / "floor.sqlite", isolation_level=None)
        self.place = 0
        self.execute = database.execute
        self.execute("PRAGMA journal_mode = WAL")
        self.execute("PRAGMA synchronous = FULL")
        self.execute(
            "CREATE TABLE m(place INTEGER PRIMARY KEY AUTOINCREMENT, queue INTEGER, rank INTEGER,"
            " descriptor BLOB, body BLOB)"
        )
        self.execute("CREATE INDEX by_rank ON m(queue, rank)")
        self.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """End a transaction, begin another."""
        self.execute("COMMIT")
        self.execute("BEGIN IMMEDIATE")

    def put(self) -> None:
        """Insert."""
        for _ in batches(self.commit):
            self.execute(self.INSERT, (1, DESCRIPTOR, BODY))

    def browse(self) -> None:
        """Select one by one."""
        for _ in range(MESSAGES // ROUNDS):
            self.place, *_ = self.execute(self.FIRST, (self.place,)).fetchone()

    def move(self) -> None:
        """Select, delete and insert."""
        for _ in batches(self.commit):
            place, descriptor, body = self.execute(self.FIRST, (0,)).fetchone()
            self.execute("DELETE FROM m WHERE place = ?", (place,))
            self.execute(self.INSERT, (2, descriptor, body))


def embedded(directory: Path) -> Client:
    """Create an embedded queue manager, and return its client."""
    import embedded_mq  # noqa: PLC0415 (one side a process)

    embedded_mq.install(directory)
    embedded_mq.create("QM1")
    deep = "MAXDEPTH(999999)"
    embedded_mq.run_mqsc("QM1", f"DEFINE QLOCAL(A) {deep}\nDEFINE QLOCAL(B) {deep}")
    return Client()


def prototype(directory: Path) -> Client:
    """Create a queue manager of the prototype, and return its client."""
    sys.path.insert(0, str(PROTOTYPE))
    sys.modules["mqotel"] = None  # type: ignore[assignment]
    eqm, inject = import_module("eqm"), import_module("inject")

    path = str(directory / "prototype.sqlite")
    eqm.create(path, "QM1", {"A": {}, "B": {}})
    inject.QMGRS["QM1"] = (path, "FULL")
    inject.install_ibmmq(version("ibmmq"))
    return Client()


class Client:
    """Client that handles messages on two queues through ibmmq."""

    def __init__(self) -> None:
        """Connect to the installed queue manager."""
        import ibmmq

        self.mqi, self.mq = ibmmq, ibmmq.CMQC
        self.connection = ibmmq.connect("QM1")
        self.source = self._open(
            "A",
            self.mq.MQOO_OUTPUT
            | self.mq.MQOO_BROWSE
            | self.mq.MQOO_INPUT_SHARED
            | self.mq.MQOO_SAVE_ALL_CONTEXT,
        )
        self.target = self._open("B", self.mq.MQOO_OUTPUT | self.mq.MQOO_PASS_ALL_CONTEXT)

    def _open(self, queue: str, options: int) -> Any:
        return self.mqi.Queue(self.connection, queue, options)

    def put(self) -> None:
        """Put under syncpoint."""
        for _ in batches(self.connection.commit):
            md = self.mqi.MD(Persistence=self.mq.MQPER_PERSISTENT)
            self.source.put(BODY, md, self.mqi.PMO(Options=self.mq.MQPMO_SYNCPOINT))

    def browse(self) -> None:
        """Browse with a cursor."""
        for _ in range(MESSAGES // ROUNDS):
            gmo = self.mqi.GMO(Options=self.mq.MQGMO_BROWSE_NEXT)
            self.source.get(None, self.mqi.MD(), gmo)

    def move(self) -> None:
        """Get and put with all context, under syncpoint."""
        passing = self.mq.MQPMO_SYNCPOINT | self.mq.MQPMO_PASS_ALL_CONTEXT
        for _ in batches(self.connection.commit):
            md = self.mqi.MD()
            body = self.source.get(None, md, self.mqi.GMO(Options=self.mq.MQGMO_SYNCPOINT))
            pmo = self.mqi.PMO(Options=passing, Context=self.source.get_handle())
            self.target.put(body, md, pmo)


if __name__ == "__main__":
    work(sys.argv[1])
