"""Snapshots: processor time for a deep queue, compared with a plain browse of the same queue.

`throughput` takes a snapshot of 1 KiB messages. Its peer is a loop with ibmmq's classes that
browses them and stores nothing; the goal is a ratio of at most 1. `incremental` does the work of a
run for 100 new messages on a backlog of settled ones (snapshot, reading for the evaluation,
booking). Its floor is one browse of that queue by mqdlq's cursor. `memory` is the peak of a process
that takes a snapshot, divided by that of one that browses: of a queue, of one four times as deep,
and of a queue with one message of 100 MiB whose payload is stored. MQDLQ_BENCH_MESSAGES sets the
number of messages: 20000 by default, 100000 for figures to record. The backlog is twice as large.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from mqdlq import lake
from mqdlq.headers import PREFIX_LENGTH, DeadLetterHeader
from mqdlq.mqi.browse import BrowseCursor
from mqdlq.stages.execute import accept_plan, settle
from mqdlq.stages.snapshot.capture import SnapshotOptions
from mqdlq.stages.snapshot.taking import take_snapshot
from tests.support.world import DEFINITIONS, World

MESSAGES = int(os.environ.get("MQDLQ_BENCH_MESSAGES", "20000"))
NEW = 100
LONG = 100 << 20
RULES = "WAIT(NO)\nDESTQ(PAYMENTS) ACTION(IGNORE)\n"
DEEP = f"ALTER QMGR MAXMSGL({LONG})\nALTER QLOCAL(DLQ) MAXDEPTH(999999) MAXMSGL({LONG})\n"
HEADER = DeadLetterHeader(
    2053, "PAYMENTS", "QM1", 546, 819, "MQSTR", 6, "m", "20261121", "11000000"
).encode(
    encoding=546,
    ccsid=819,
)


def measure() -> dict[str, Any]:
    """Return seconds of processor time, ratios and mebibytes."""
    logging.disable(logging.WARNING)
    return {
        "messages": MESSAGES,
        "throughput": throughput(),
        "incremental": incremental(),
        "memory": memory(),
    }


@contextmanager
def world() -> Iterator[World]:
    """Create a queue manager with deep queues in a new directory."""
    home = os.environ.get("MQDLQ_HOME")
    with tempfile.TemporaryDirectory() as directory:
        made = World(Path(directory), client="ibmmq", definitions=DEFINITIONS + DEEP)
        yield made
        made.ledger.close()
    if home:
        os.environ["MQDLQ_HOME"] = home


def fill(made: World, messages: int, body: bytes = bytes(1024)) -> None:
    """Put dead letters, many in a unit of work."""
    with made.connect() as queue_manager:
        module, constants = queue_manager.client.module, queue_manager.client.CMQC
        queue = queue_manager.open("DLQ", constants.MQOO_OUTPUT)
        for number in range(1, messages + 1):
            md = module.MD(Format=b"MQDEAD  ", Encoding=546, CodedCharSetId=819)
            queue.put(HEADER + body, md, module.PMO(Options=constants.MQPMO_SYNCPOINT))
            if number % 1000 == 0 or number == messages:
                queue_manager.handle.commit()
        queue.close()


def throughput() -> dict[str, float]:
    """Measure a snapshot and a plain browse."""
    with world() as made:
        fill(made, MESSAGES)
        plain = cpu(lambda: browse_plainly(made))
        taken = cpu(lambda: take(made))
    return {"plain_s": plain, "snapshot_s": taken, "ratio": taken / plain}


def incremental() -> dict[str, float]:
    """Measure a run with a few new messages on a backlog, and one browse."""
    with world() as made:
        fill(made, 2 * MESSAGES)
        everything = cpu(lambda: whole_run(made))
        fill(made, NEW)
        plain = cpu(lambda: browse_plainly(made, 2 * MESSAGES + NEW))
        browse, wall = cpu(lambda: browse_only(made)), perf_counter()
        seconds = cpu(lambda: whole_run(made))
        wall = perf_counter() - wall
        without = cpu(lambda: settle(made.execution(take(made))))
    taken = parts["snapshot"] + parts["plan_input"] + parts["booking"]
    return {
        "backlog": 2 * MESSAGES,
        "new": NEW,
        "browse_s": browse,
        "browse_by_the_clients_own_classes_s": plain,
        "first_run_s": everything,
        "snapshot_s": parts["snapshot"],
        "plan_input_s": parts["plan_input"],
        "booking_s": parts["booking"],
        "ratio": taken / browse,
        "ratio_to_the_clients_own": taken / plain,
        "with_last_browse_ratio": seconds / browse,
        "nothing_new_ratio": without / browse,
        "wall_s": wall,
    }


parts: dict[str, float] = {}


def whole_run(made: World) -> None:
    """Take a snapshot, evaluate it, accept the plan and settle; rules leave every message."""
    started = process_time()
    run = take(made)
    parts["snapshot"], started = process_time() - started, process_time()
    snapshot = made.recorded_snapshot(run.run_id)
    rows = sum(1 for _ in lake.snapshot_rows(snapshot.location))
    parts["plan_input"], started = process_time() - started, process_time()
    plan = made.evaluate(run)
    evaluated = process_time() - started
    started = process_time()
    accept_plan(made.execution(run), plan)
    settle(made.execution(run))
    parts["booking"] = process_time() - started - cpu(lambda: browse_only(made))
    parts["evaluated"], parts["rows"] = evaluated, rows


def take(made: World, payload: str = "none") -> Any:
    """Start a run a second later, take its snapshot, return the run."""
    made.clock.sleep(1)
    run = made.start(RULES)
    take_snapshot(made.execution(run), SnapshotOptions(payload=payload))
    return run


def browse_plainly(made: World, messages: int = MESSAGES) -> None:
    """Browse with the client's own classes and store nothing."""
    import ibmmq

    with made.connect() as queue_manager, queue_manager.browsing("DLQ") as queue:
        for _ in range(messages):
            gmo = ibmmq.GMO(Options=ibmmq.CMQC.MQGMO_BROWSE_NEXT)
            queue.get(None, ibmmq.MD(), gmo)


def browse_only(made: World) -> None:
    """Browse like a snapshot and store nothing."""
    with made.connect() as queue_manager, queue_manager.browsing("DLQ") as queue:
        for _ in BrowseCursor(queue_manager, queue, "DLQ", PREFIX_LENGTH).messages():
            pass


def cpu(done: Callable[[], object]) -> float:
    """Return the processor seconds of a function."""
    started = process_time()
    done()
    return process_time() - started


def memory() -> dict[str, dict[str, float]]:
    """Return the peak memory, in MiB, of processes that browse or take a snapshot."""
    found = {}
    for name, messages, longest, payload in (
        ("messages", MESSAGES, 0, "none"),
        ("four_times_as_many", 4 * MESSAGES, 0, "none"),
        ("one_of_100_MiB_captured", 1000, LONG - 1024, "full"),
        ("one_of_100_MiB", 1000, LONG - 1024, "none"),
    ):
        with world() as made:
            fill(made, messages)
            if longest:
                fill(made, 1, bytes(longest))
            peaks = {way: peak(made, way, payload) for way in ("browse", "snapshot")}
        found[name] = {**peaks, "more": peaks["snapshot"] - peaks["browse"]}
    return found


def peak(made: World, way: str, payload: str) -> float:
    """Return the peak memory, in MiB, of a new process."""
    command = [sys.executable, "-m", "benchmarks.snapshots", str(made.directory), way, payload]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    return float(done.stdout)


def child(directory: str, way: str, payload: str) -> None:
    """Browse or take a snapshot on an existing queue manager, and print the peak memory."""
    made = World(Path(directory), client="ibmmq")
    if way == "browse":
        browse_only(made)
    else:
        take(made, payload)
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    print(int(line.split()[1]) / 1024)


if __name__ == "__main__":
    child(*sys.argv[1:])
