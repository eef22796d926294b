"""Connections: one pass to eight queues over one connection and over four, elapsed time.

RETRY moves messages of 1 KiB from a dead-letter queue to eight queues in turn, with ledger, markers
and MQCMIT on disk as in production. The floor is one connection.

- `embedded`: the embedded queue manager as it is. It works inside this process, so that Python runs
  one call at a time, whatever the number of connections.
- `round_trip`: each MQGET, MQPUT1, MQINQ, MQCMIT and MQBACK takes ROUND_TRIP_S longer, in which the
  other threads run, as in a client that waits for its queue manager. The goal is 0.6.

MQDLQ_BENCH_MESSAGES sets the number of messages: 4000 by default, 100000 for figures to record.
MQDLQ_BENCH_CONNECTIONS names other numbers of connections than four, such as "2,4,8", and
MQDLQ_BENCH_ROUND_TRIP_MS another round trip than half a millisecond.
"""

from __future__ import annotations

import logging
import os
import tempfile
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import embedded_mq
from benchmarks.execution import BODY, fill
from mqdlq.stages.execute import make_pass
from tests.support.world import DEFINITIONS, World

MESSAGES = int(os.environ.get("MQDLQ_BENCH_MESSAGES", "4000"))
CONNECTIONS = [int(one) for one in os.environ.get("MQDLQ_BENCH_CONNECTIONS", "4").split(",")]
ROUND_TRIP_S = float(os.environ.get("MQDLQ_BENCH_ROUND_TRIP_MS", "0.5")) / 1000
VERBS = ("MQGET", "MQPUT1", "MQINQ", "MQCMIT", "MQBACK")
WAYS = {
    "embedded": "",
    "round_trip": ",".join(f"{verb}:1+:delay={ROUND_TRIP_S}:before" for verb in VERBS),
}
TARGETS = [f"TARGET.{number}" for number in range(8)]
QUEUES = "".join(f"DEFINE QLOCAL({name}) MAXDEPTH(999999)\n" for name in TARGETS)
DEEP = f"{QUEUES}ALTER QLOCAL(DLQ) MAXDEPTH(999999)\n"


def measure() -> dict[str, Any]:
    """Return elapsed and processor time a message for each way, and ratios to one connection."""
    logging.disable(logging.WARNING)
    figures: dict[str, Any] = {"messages": MESSAGES, "bytes": len(BODY), "queues": len(TARGETS)}
    for way, faults in WAYS.items():
        floor = 0.0
        for number in (1, *CONNECTIONS):
            wall, cpu = timed(number, faults)
            floor = floor or wall
            figures[f"{way}_{number}_us"] = wall / MESSAGES * 1e6
            figures[f"{way}_{number}_cpu_us"] = cpu / MESSAGES * 1e6
            figures[f"{way}_{number}_ratio"] = wall / floor
    return figures


def timed(connections: int, faults: str) -> tuple[float, float]:
    """Return the elapsed and the processor seconds of a pass."""
    home = os.environ.get("MQDLQ_HOME")
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory), definitions=DEFINITIONS + DEEP)
        fill(world, MESSAGES, TARGETS)
        execution = world.plan("ACTION(RETRY)", connections=connections)
        embedded_mq.faults.set(faults)
        wall, cpu = perf_counter(), process_time()
        moved = make_pass(execution).attempts
        taken = perf_counter() - wall, process_time() - cpu
        embedded_mq.faults.set("")
        world.ledger.close()
    if moved != MESSAGES:
        raise SystemExit(f"{moved} of {MESSAGES} messages were moved")
    if home:
        os.environ["MQDLQ_HOME"] = home
    return taken
