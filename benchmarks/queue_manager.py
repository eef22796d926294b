"""The embedded queue manager: messages a second through a client, and what SQLite alone would take.

1 KiB messages are put, browsed and moved from queue to queue through ibmmq's own classes, 50 to a
unit of work. The floor, taken in the same run, does the same to a bare table by plain SQL with the
same durability. MQDLQ_BENCH_MESSAGES says how many messages: 20000, or 100000 for figures to keep.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from mqdlq.mqi import embedded

MESSAGES = int(os.environ.get("MQDLQ_BENCH_MESSAGES", "20000"))
BATCH = 50
BODY = bytes(1024)
DESCRIPTOR = bytes(364)


def measure() -> dict[str, Any]:
    """Return for each step rates, CPU microseconds a message, and their ratio to the floor's."""
    with tempfile.TemporaryDirectory() as directory:
        floor = timed(Floor(Path(directory)))
        taken = timed(Client(Path(directory)))
    steps = {
        name: {
            "per_second": round(MESSAGES / wall),
            "cpu_us": cpu / MESSAGES * 1e6,
            "floor_per_second": round(MESSAGES / floor[name][0]),
            "floor_cpu_us": floor[name][1] / MESSAGES * 1e6,
            "ratio_of_cpu": cpu / floor[name][1],
            "ratio_of_time": wall / floor[name][0],
        }
        for name, (wall, cpu) in taken.items()
    }
    return {"messages": MESSAGES, "bytes": len(BODY), "unit_of_work": BATCH, **steps}


def timed(steps: Floor | Client) -> dict[str, tuple[float, float]]:
    """Return the seconds each step takes, and those the processor works for it."""
    taken = {}
    for step in (steps.put, steps.browse, steps.move):
        wall, cpu = perf_counter(), process_time()
        step()
        taken[step.__name__] = perf_counter() - wall, process_time() - cpu
    return taken


def batches(end: Callable[[], object]) -> Iterator[None]:
    """Yield once for each message, and end the unit of work after every 50."""
    for number in range(1, MESSAGES + 1):
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
        place = 0
        for _ in range(MESSAGES):
            place, *_ = self.execute(self.FIRST, (place,)).fetchone()

    def move(self) -> None:
        """Select, delete and insert."""
        for _ in batches(self.commit):
            place, descriptor, body = self.execute(self.FIRST, (0,)).fetchone()
            self.execute("DELETE FROM m WHERE place = ?", (place,))
            self.execute(self.INSERT, (2, descriptor, body))


class Client:
    """Messages of an embedded queue manager, by way of ibmmq."""

    def __init__(self, directory: Path) -> None:
        """Make the queue manager and connect."""
        embedded.install(directory)
        embedded.create("QM1")
        deep = "MAXDEPTH(999999)"
        embedded.run_mqsc("QM1", f"DEFINE QLOCAL(A) {deep}\nDEFINE QLOCAL(B) {deep}")
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
        for _ in range(MESSAGES):
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
