"""Execution: dead letters moved each second, with many and with one message in a unit of work.

RETRY moves messages of 1 KiB from a dead-letter queue to one destination, with ledger, markers and
MQCMIT on disk as in production. Only the number of messages in a unit of work differs; IBM's
handler has one. The floor is a bare loop of browse, get, put and MQCMIT, without ledger and marker,
which could not recover after a crash. MQDLQ_BENCH_MESSAGES sets the number of messages: 5000 by
default, 100000 for figures to record.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from mqdlq.headers import DeadLetterHeader
from mqdlq.model import Action, PutAuthority, Step
from mqdlq.mqi.browse import BrowseCursor
from mqdlq.mqi.unit_of_work import UnitOfWork
from mqdlq.stages.execute.dead_letters import build_delivery
from tests.support.world import DEFINITIONS, World

MESSAGES = int(os.environ.get("MQDLQ_BENCH_MESSAGES", "5000"))
BODY = bytes(1024)
DEEP = "".join(f"ALTER QLOCAL({queue}) MAXDEPTH(999999)\n" for queue in ("DLQ", "PAYMENTS"))
WAYS = {"one_to_a_unit": 1, "in_units": 128}


def measure() -> dict[str, Any]:
    """Return messages each second and processor time of both ways, and their ratio; the goal is 4.

    The ratio is to a handler that keeps the same account with one message in a unit.
    """
    logging.disable(logging.WARNING)
    ways = {name: timed(by_handler(size)) for name, size in WAYS.items()}
    ways["bare_loop"] = timed(by_bare_loop)
    rates = {name: MESSAGES / wall for name, (wall, _) in ways.items()}
    return {
        "messages": MESSAGES,
        "bytes": len(BODY),
        **{f"{name}_per_second": round(rate) for name, rate in rates.items()},
        **{f"{name}_cpu_us": cpu / MESSAGES * 1e6 for name, (_, cpu) in ways.items()},
        "ratio": rates["in_units"] / rates["one_to_a_unit"],
        "ratio_of_cpu": ways["one_to_a_unit"][1] / ways["in_units"][1],
        "ratio_to_bare_loop": rates["in_units"] / rates["bare_loop"],
    }


def timed(way: Callable[[World], Callable[[], int]]) -> tuple[float, float]:
    """Return the elapsed and the processor seconds for a queue of messages."""
    home = os.environ.get("MQDLQ_HOME")
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory), definitions=DEFINITIONS + DEEP)
        fill(world, MESSAGES)
        work = way(world)
        wall, cpu = perf_counter(), process_time()
        moved = work()
        taken = perf_counter() - wall, process_time() - cpu
        world.ledger.close()
    if moved != MESSAGES:
        raise SystemExit(f"{moved} of {MESSAGES} messages were moved")
    if home:
        os.environ["MQDLQ_HOME"] = home
    return taken


def by_handler(max_messages_per_unit: int) -> Callable[[World], Callable[[], int]]:
    """Move the messages by a pass of the handler; make its plan before the clock starts."""

    def prepare(world: World) -> Callable[[], int]:
        execution = world.plan("ACTION(RETRY)", max_messages_per_unit=max_messages_per_unit)
        return lambda: world.passes(execution, 1)[0].attempts

    return prepare


def by_bare_loop(world: World) -> Callable[[], int]:
    """Move the messages one by one, without a record."""
    step = Step(1, 1, Action.RETRY, "PAYMENTS", "QM1", False, PutAuthority.DEF, 1)

    def work() -> int:
        moved = 0
        with world.connect() as queue_manager:
            constants = queue_manager.client.CMQC
            options = constants.MQOO_BROWSE | constants.MQOO_INPUT_AS_Q_DEF
            queue = queue_manager.open("DLQ", options | constants.MQOO_SAVE_ALL_CONTEXT)
            cursor = BrowseCursor(queue_manager, queue, "DLQ")
            for browsed in cursor.messages():
                with UnitOfWork(cursor) as unit:
                    got = unit.get_under_cursor(browsed.total_length)
                    unit.put(got, build_delivery(step, got))
                    unit.commit()
                moved += 1
            queue_manager.close(queue)
        return moved

    return work


def fill(world: World, messages: int, targets: Sequence[str] = ("PAYMENTS",)) -> None:
    """Put the dead letters, many in a unit of work; their destinations take turns."""
    packed = [
        DeadLetterHeader(
            2053, name, "QM1", 546, 819, "MQSTR", 6, "mover", "20261121", "11000000"
        ).encode(encoding=546, ccsid=819)
        for name in targets
    ]
    with world.connect() as queue_manager:
        module, constants = queue_manager.client.module, queue_manager.client.CMQC
        queue = queue_manager.open("DLQ", constants.MQOO_OUTPUT)
        for number in range(1, messages + 1):
            md = module.MD(
                Format=b"MQDEAD  ",
                Encoding=546,
                CodedCharSetId=819,
                Persistence=constants.MQPER_PERSISTENT,
            )
            body = packed[number % len(packed)] + BODY
            queue.put(body, md, module.PMO(Options=constants.MQPMO_SYNCPOINT))
            if number % 1000 == 0 or number == messages:
                queue_manager.handle.commit()
        queue.close()
