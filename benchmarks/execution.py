"""Execution: dead letters moved a second in units of work, and one message to a unit of work.

1 KiB messages go from a dead-letter queue to one destination by RETRY, with ledger, markers and
MQCMIT on disk as in production; only the number of messages to a unit of work differs. One to a
unit is what IBM's handler does. MQDLQ_BENCH_MESSAGES says how many: 5000, or 100000 for figures to
keep.
"""

from __future__ import annotations

import logging
import os
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from mqdlq.headers import DeadLetterHeader, encode_dlh
from world import DEFINITIONS, World

MESSAGES = int(os.environ.get("MQDLQ_BENCH_MESSAGES", "5000"))
BODY = bytes(1024)
DEEP = "".join(f"ALTER QLOCAL({queue}) MAXDEPTH(999999)\n" for queue in ("DLQ", "PAYMENTS"))
WAYS = {"one_to_a_unit": 1, "in_units": 128}


def measure() -> dict[str, Any]:
    """Return messages a second both ways, and their ratio; the goal is 4."""
    logging.disable(logging.WARNING)
    rates = {name: MESSAGES / timed(size) for name, size in WAYS.items()}
    return {
        "messages": MESSAGES,
        "bytes": len(BODY),
        **{f"{name}_per_second": round(rate) for name, rate in rates.items()},
        "ratio": rates["in_units"] / rates["one_to_a_unit"],
    }


def timed(messages_in_a_unit: int) -> float:
    """Return the seconds that a pass over a queue of so many messages takes."""
    home = os.environ.get("MQDLQ_HOME")
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory), definitions=DEFINITIONS + DEEP)
        fill(world)
        execution = world.plan("ACTION(RETRY)", messages_in_a_unit=messages_in_a_unit)
        begun = perf_counter()
        result = world.passes(execution, 1)[0]
        taken = perf_counter() - begun
        world.ledger.engine.dispose()
    if result.attempts != MESSAGES:
        raise SystemExit(f"{result.attempts} of {MESSAGES} messages were moved")
    if home:
        os.environ["MQDLQ_HOME"] = home
    return taken


def fill(world: World) -> None:
    """Put the dead letters, many to a unit of work."""
    header = DeadLetterHeader(
        2053, "PAYMENTS", "QM1", 546, 819, "MQSTR", 6, "mover", "20261121", "11000000"
    )
    packed = encode_dlh(header, encoding=546, ccsid=819)
    with world.connect() as queue_manager:
        module, constants = queue_manager.client.module, queue_manager.client.CMQC
        queue = queue_manager.open("DLQ", constants.MQOO_OUTPUT)
        for number in range(1, MESSAGES + 1):
            md = module.MD(
                Format=b"MQDEAD  ",
                Encoding=546,
                CodedCharSetId=819,
                Persistence=constants.MQPER_PERSISTENT,
            )
            queue.put(packed + BODY, md, module.PMO(Options=constants.MQPMO_SYNCPOINT))
            if number % 1000 == 0 or number == MESSAGES:
                queue_manager.handle.commit()
        queue.close()
