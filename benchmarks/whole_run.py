"""A whole run, stage by stage: what each further message costs, compared with a plain loop.

Every stage runs in a process of its own, as in Airflow, for two numbers of messages; all of them
are moved by RETRY. The difference of the two is the cost of further messages: processor time, and
growth of the peak memory. The report is written after the account is settled; no message needs a
second pass. The floor is what people write instead with the same client: browse, look the
DestQName up, get and put, 100 messages in a unit of work, without ledger and marker: `plain_loop`
with the client's own classes, `tuned_loop` with those of `mqdlq.mqi.packed_descriptors`. `ledger`
has the bytes of a message in the ledger, by table and index. MQDLQ_BENCH_SIZES sets the numbers:
10000,60000 by default, 50000,300000 for figures to record.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from threading import Event, Thread
from time import process_time
from typing import Any, Final, Self

from benchmarks import spark_cold
from benchmarks.snapshots import DEEP, HEADER, fill
from mqdlq import lake
from mqdlq.evaluation.spark_conf import submit_command
from mqdlq.handlers.operation import ApprovalGuards
from mqdlq.ledger.tables import Run
from mqdlq.model import Outcome
from mqdlq.mqi.connect import QueueManager
from mqdlq.reading.report.files import write_report
from mqdlq.stages.approve import review_plan
from mqdlq.stages.execute import make_pass, settle
from mqdlq.structures import MQDLH
from tests.support.world import DEFINITIONS, World

SIZES = [int(size) for size in os.environ.get("MQDLQ_BENCH_SIZES", "10000,60000").split(",")]
DEEP_TARGET = "ALTER QLOCAL(PAYMENTS) MAXDEPTH(9999999)\nALTER QLOCAL(DLQ) MAXDEPTH(9999999)\n"
EVALUATE = Path(__file__).resolve().parents[1] / "spark" / "evaluate_rules.py"
RUN_ID = "orders-scheduled__2026-11-21T12-00-00.000000"
LOOPS = ("plain_loop", "tuned_loop")
STAGES = ("snapshot", "evaluate", "approve", "execute", "settle", "report")
IN_A_UNIT = 100


def measure() -> dict[str, Any]:
    """Return, by stage, microseconds for each further message, and ratios to the plain loop."""
    small, large = (run_of(size) for size in SIZES)
    further = SIZES[1] - SIZES[0]
    cost = {
        stage: (large[stage]["cpu"] - small[stage]["cpu"]) / further * 1e6
        for stage in (*STAGES, *LOOPS)
    }
    whole = sum(cost[stage] for stage in STAGES)
    beside = sum(cost[stage] for stage in ("approve", "settle", "report"))
    peaks = [max(size[stage]["peak"] for stage in STAGES) for size in (small, large)]
    return {
        "messages": SIZES,
        "us_for_each_further_message": {
            **{stage: round(us) for stage, us in cost.items()},
            "whole_run": round(whole),
        },
        **{f"ratio_to_{name}": round(whole / cost[name], 2) for name in LOOPS},
        "approve_settle_report_to_execute": round(beside / cost["execute"], 2),
        "peak_MiB": {
            stage: [round(size[stage]["peak"]) for size in (small, large)] for stage in STAGES
        },
        "peak_MiB_grows_by": round(peaks[1] - peaks[0]),
        "ledger_bytes_of_a_message": round(
            (large["ledger"]["bytes"] - small["ledger"]["bytes"]) / further
        ),
        "ledger": large["ledger"]["parts"],
    }


def run_of(messages: int) -> dict[str, Any]:
    """Make one run over so many messages, and the plain loop over as many."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as directory:
        for stage in ("prepare", *STAGES):
            found[stage] = in_a_process(stage, directory, messages)
        found["ledger"] = ledger_of(Path(directory), messages)
    for name in LOOPS:
        with tempfile.TemporaryDirectory() as directory:
            in_a_process("prepare", directory, messages)
            found[name] = in_a_process(name, directory, messages)
    return found


def in_a_process(stage: str, directory: str, messages: int) -> dict[str, float]:
    """Return processor seconds and peak memory, in MiB, of a stage in a new process."""
    command = [sys.executable, "-m", "benchmarks.whole_run", stage, directory, str(messages)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
    print(f"{messages} messages, {stage}: {done.stdout.strip()}", flush=True)
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def ledger_of(directory: Path, messages: int) -> dict[str, Any]:
    """Return the bytes of the ledger once it is compact, and of a message by table and index."""
    with closing(sqlite3.connect(directory / "ledger.db")) as database:
        database.execute("VACUUM")
        parts = database.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY 1 ORDER BY 2 DESC")
        sizes = dict(parts.fetchall())
    large = {name: round(size / messages, 1) for name, size in sizes.items() if size > messages}
    return {"bytes": sum(sizes.values()), "parts": large}


# What each process does.


def child(stage: str, directory: str, messages: str) -> None:
    """Make a stage of the run, and print what it took."""
    logging.disable(logging.WARNING)
    world = World(Path(directory), client="ibmmq", definitions=DEFINITIONS + DEEP + DEEP_TARGET)
    run: Any = world.ledger.runs.get(RUN_ID)
    started = process_time()
    with PeakMemory() as memory:
        _STAGES[stage](world, run, int(messages))
    own, peak = process_time() - started, memory.mib
    if stage == "evaluate":  # Spark's processes are its children
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        own, peak = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    print(json.dumps({"cpu": own, "peak": peak}))


class PeakMemory:
    """The peak of the memory that this process allocates, in MiB, while a block runs.

    Pages of mapped files do not count: the embedded queue manager maps up to 256 MiB of its file
    into the process, which no client of a queue manager does. So VmHWM is of no use.
    """

    def __enter__(self) -> Self:
        self.mib, self._ends = 0.0, Event()
        self._thread = Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ends.wait(0.02):
            status = Path("/proc/self/status").read_text(encoding="ascii")
            (line,) = [line for line in status.splitlines() if line.startswith("RssAnon:")]
            self.mib = max(self.mib, int(line.split()[1]) / 1024)


def prepare(world: World, _: Run | None, messages: int) -> None:
    """Put the dead letters, and start the run."""
    fill(world, messages)
    world.start("ACTION(RETRY)", run_id=RUN_ID)


def snapshot(world: World, run: Run, _: int) -> None:
    """Take the snapshot."""
    world.snapshot(run)


def evaluate(world: World, run: Run, messages: int) -> None:
    """Evaluate in Spark."""
    place = [
        "--snapshot",
        world.recorded_snapshot(run.run_id).location,
        "--plan",
        plan_of(world, run),
    ]
    command = submit_command(EVALUATE, place, messages=messages, master="local[2]")
    spark_cold.run(command, world.directory)


def plan_of(world: World, run: Run) -> str:
    """Return the directory of the run's plan."""
    plan_id = lake.plan_id(world.recorded_snapshot(run.run_id).snapshot_id, run.rules_digest)
    return lake.plan_directory(world.lake_root, plan_id)


def approve(world: World, run: Run, _: int) -> None:
    """Check the plan by all guards, and accept it."""
    review_plan(world.execution(run), Path(plan_of(world, run)).name, ApprovalGuards())


def execute(world: World, run: Run, messages: int) -> None:
    """Move every message."""
    result = make_pass(world.execution(run))
    if (result.attempts, result.pending) != (messages, 0):
        raise SystemExit(f"{result} of {messages} messages")


def close_account(world: World, run: Run, messages: int) -> None:
    """Settle the run's account, as the task retry does where no message is pending."""
    if settle(world.execution(run)) != Counter({Outcome.DELIVERED: messages}):
        raise SystemExit("not every message was delivered")


def report(world: World, run: Run, _: int) -> None:
    """Write the report."""
    write_report(
        run.run_id, ledger=world.ledger, lake_root=world.lake_root, stages={}, clock=world.clock
    )


def plain_loop(world: World, _: Run | None, messages: int) -> None:
    """Move every message by the loop with the client's own classes."""
    with world.connect() as queue_manager:
        loop(queue_manager, queue_manager.client.module, messages)


def tuned_loop(world: World, _: Run | None, messages: int) -> None:
    """Move every message by the loop with mqdlq's faster classes."""
    with world.connect() as queue_manager:
        loop(queue_manager, queue_manager.client.packed, messages)


def loop(queue_manager: QueueManager, classes: Any, messages: int) -> None:
    """Browse, look up the destination, get and put; commit now and then."""
    client, targets, moved = queue_manager.client.module, {b"PAYMENTS": b"PAYMENTS"}, 0
    handle, constants = queue_manager.handle, client.CMQC
    options = constants.MQOO_BROWSE | constants.MQOO_INPUT_AS_Q_DEF
    queue = client.Queue(handle, "DLQ", options | constants.MQOO_SAVE_ALL_CONTEXT)
    options = constants.MQOO_OUTPUT | constants.MQOO_PASS_ALL_CONTEXT
    opened = {name: client.Queue(handle, name, options) for name in targets.values()}
    browse = classes.GMO(Options=constants.MQGMO_BROWSE_NEXT)
    get = classes.GMO(Options=constants.MQGMO_MSG_UNDER_CURSOR | constants.MQGMO_SYNCPOINT)
    put = classes.PMO(Options=constants.MQPMO_SYNCPOINT | constants.MQPMO_PASS_ALL_CONTEXT)
    put.Context = queue.get_handle()
    while True:
        try:
            body = queue.get(None, classes.MD(), browse)
        except client.MQMIError as error:
            if error.reason != constants.MQRC_NO_MSG_AVAILABLE:
                raise
            break
        if (target := targets.get(body[12:60].strip())) is None:
            continue
        md = classes.MD()
        body = queue.get(None, md, get)
        md.Format = body[MQDLH.slice_of("format")]
        opened[target].put(body[len(HEADER) :], md, put)
        moved += 1
        if moved % IN_A_UNIT == 0:
            handle.commit()
    handle.commit()
    if moved != messages:
        raise SystemExit(f"{moved} of {messages} messages were moved")


_STAGES: Final[Mapping[str, Callable[[World, Any, int], None]]] = {
    "prepare": prepare,
    "snapshot": snapshot,
    "evaluate": evaluate,
    "approve": approve,
    "execute": execute,
    "settle": close_account,
    "report": report,
    "plain_loop": plain_loop,
    "tuned_loop": tuned_loop,
}

if __name__ == "__main__":
    child(*sys.argv[1:])
