"""Many handlers on one scheduler: Airflow's processor time for 1, 10 and 50 idle handlers.

Handlers of five embedded queue managers wait for a first message under Airflow's four services over
PostgreSQL, as in production. The processor time of each service in a minute is the cost of idle
handlers: parsing the DAG file, inquiring queues, keeping runs alive. Measured separately, with more
precision: one parse of the DAG file, and one whole run over a ledger with the runs of as many
handlers. The benchmark takes ten minutes and needs PostgreSQL.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
import time
from contextlib import ExitStack, redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from subprocess import run
from time import process_time
from typing import Any

import psutil
import pytest

import embedded_mq
from mqdlq import directories
from mqdlq.headers import DeadLetterHeader
from mqdlq.local.services import running
from tests.e2e.running.services import Airflow, airflow
from tests.support import postgresql
from tests.support.world import DEFINITIONS, World

NUMBERS = (1, 10, 50)
QUEUE_MANAGERS = ("QM1", "QM2", "QM3", "QM4", "QM5")
WINDOW_S = 60
SETTLE_S = 20
RUNS_BEFORE = 5
# A handler with the rules of a real one: twelve, and a wait that outlasts the measurement.
TABLE = "WAIT(3600) RETRYINT(60)\n" + "".join(
    f"DESTQ(APP{number}.*) REASON(MQRC_Q_FULL) ACTION(RETRY) RETRY(3)\n" for number in range(12)
)
PARSE = """
from airflow.dag_processing.dagbag import DagBag
bag = DagBag("{file}")
assert not bag.import_errors, bag.import_errors
assert len(bag.dags) == {number}, sorted(bag.dags)
"""


def measure() -> dict[str, Any]:
    """Return the processor time of each part for each number of handlers, and its growth."""
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="mqdlq-handlers-") as directory:
        services = under_airflow(Path(directory))
    parsing = {number: parse_s(number) for number in NUMBERS}
    return {
        "processor_time_of_a_minute_s": services,
        "growth_of_it": {
            name: services[str(NUMBERS[-1])][name] / max(services["1"][name], 0.01)
            for name in services["1"]
        },
        "parse_of_the_dag_file_s": parsing,
        "parse_of_a_further_handler_s": (parsing[NUMBERS[-1]] - parsing[1]) / (NUMBERS[-1] - 1),
        "run_over_the_ledger_s": run_over_the_ledger(),
    }


# Under Airflow


def under_airflow(directory: Path) -> dict[str, dict[str, float]]:
    """Return by number of handlers, then by service, seconds of processor time in a minute."""
    found: dict[str, dict[str, float]] = {}
    connections = {}
    with ExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).setenv("MQDLQ_HOME", str(directory))
        for name in QUEUE_MANAGERS:
            embedded_mq.create(name)
            extra = {"queue_manager": name, "transport": "embedded"}
            connections[f"AIRFLOW_CONN_{name}"] = json.dumps({"conn_type": "ibmmq", "extra": extra})
        rules = directory / "rules"
        rules.mkdir()
        (rules / "waiting.rules").write_text(TABLE)
        add_handlers(rules, range(NUMBERS[0]))
        server = postgresql.running_server()
        metadata = server.new_database_url()
        place = airflow(
            directory,
            **connections,
            MQDLQ_LEDGER_URL=server.new_ledger_url(),
            AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=metadata,
            AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC=metadata,
            AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL="30",  # Airflow's own
            AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME="1",
            AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC="5",
            AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL="1",
        )
        started = stack.enter_context(place)
        waiting = 0
        for number in NUMBERS:
            add_handlers(rules, range(max(waiting, NUMBERS[0]), number))
            began = spent(server)
            for one in range(waiting, number):
                started.wait_for_dag(handler(one))
                started.pause(handler(one), paused=False)
                started.trigger(handler(one))
            wait_until_deferred(started, range(waiting, number))
            begun = sum(spent(server).values()) - sum(began.values())
            time.sleep(SETTLE_S)
            before = spent(server)
            time.sleep(WINDOW_S)
            after = spent(server)
            found[str(number)] = {
                **{name: (after[name] - before[name]) * 60 / WINDOW_S for name in after},
                "all": (sum(after.values()) - sum(before.values())) * 60 / WINDOW_S,
                "beginning_a_run": begun / (number - waiting),
            }
            waiting = number
            tell(f"{number} handlers wait: {found[str(number)]}")
    return found


def handler(number: int) -> str:
    """Return a handler's name."""
    return f"h{number:02}"


def add_handlers(rules: Path, numbers: range) -> None:
    """Write handlers, each with its own dead-letter queue and state queue."""
    for number in numbers:
        name = handler(number)
        queue_manager = QUEUE_MANAGERS[number % len(QUEUE_MANAGERS)]
        embedded_mq.run_mqsc(queue_manager, f"DEFINE QLOCAL(DLQ.{name.upper()})")
        (rules / f"{name}.rules").write_text(f"INPUTQ(DLQ.{name.upper()}) {TABLE}")
        (rules / f"{name}.yaml").write_text(
            f"connection: {queue_manager.lower()}\nrules: {name}.rules\n"
            f"state_queue: STATE.{name.upper()}\n"
        )


def wait_until_deferred(started: Airflow, numbers: range) -> None:
    """Wait until one run of each handler is deferred."""
    for number in numbers:
        name = handler(number)
        (found,) = started.runs(name)
        started.wait_for_task(name, found["dag_run_id"], "sense", "deferred")


def spent(server: postgresql.Server) -> dict[str, float]:
    """Return the processor seconds of each service and its descendants."""
    found = {name: _of_family(process) for name, process in running().items()}
    return {**found, "postgresql": _of_family(psutil.Process(server.pid()))}


def _of_family(process: psutil.Process) -> float:
    times = []
    for one in [process, *process.children(recursive=True)]:
        try:
            times.append(one.cpu_times())
        except psutil.NoSuchProcess:
            continue
    # The parent's times include ended processes.
    return float(sum(t.user + t.system + t.children_user + t.children_system for t in times))


# Apart from the services


def parse_s(number: int) -> float:
    """Return the processor time of parsing the DAG file once, including imports."""
    with tempfile.TemporaryDirectory() as directory:
        rules = Path(directory) / "rules"
        rules.mkdir()
        for one in range(number):
            (rules / f"{handler(one)}.rules").write_text(TABLE)
            (rules / f"{handler(one)}.yaml").write_text(
                f"connection: qm1\nrules: {handler(one)}.rules\n"
            )
        program = PARSE.format(file=directories.PROJECT / "dags" / "mq_dlq.py", number=number)
        environment = {
            **os.environ,
            "MQDLQ_HOME": directory,
            "MQDLQ_RULES_DIR": str(rules),
            "AIRFLOW_HOME": directory,
        }
        times = []
        for _ in range(3):
            before = getrusage(RUSAGE_CHILDREN)
            run(  # noqa: S603 (our own program)
                [sys.executable, "-W", "ignore", "-c", program],
                env=environment,
                check=True,
                stdout=sys.stderr,  # for Airflow's log; standard output has JSON only
            )
            after = getrusage(RUSAGE_CHILDREN)
            user = after.ru_utime - before.ru_utime
            times.append(user + after.ru_stime - before.ru_stime)
        return min(times)


def run_over_the_ledger() -> dict[int, float]:
    """Return the processor time of a run of ten messages, by number of handlers in the ledger."""
    found = {}
    before = os.environ.get("MQDLQ_HOME")
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory), definitions=DEFINITIONS)
        with world.ledger:
            known = 0
            for number in NUMBERS:
                for one in range(known, number):
                    queues = (f"DLQ.{one}", f"STATE.{one}")
                    world.mqsc("".join(f"DEFINE QLOCAL({queue})\n" for queue in queues))
                    for _ in range(RUNS_BEFORE):
                        handle(world, one)
                known = number
                found[number] = min(handle(world, number - 1) for _ in range(5))
    if before:
        os.environ["MQDLQ_HOME"] = before
    return found


def handle(world: World, number: int) -> float:
    """Return the processor time of a run of ten messages without Airflow and Spark."""
    for _ in range(10):
        put(world, f"DLQ.{number}")
    began = process_time()
    world.handle(
        f"INPUTQ(DLQ.{number}) RETRYINT(5)\nACTION(RETRY)\n", state_queue=f"STATE.{number}"
    )
    return process_time() - began


def put(world: World, queue: str) -> None:
    """Put a dead letter whose destination has room."""
    header = DeadLetterHeader(
        2053, "PAYMENTS", "QM1", 546, 819, "MQSTR", 6, "mover", "20261121", "11000000"
    )
    body = header.encode(encoding=546, ccsid=819) + b"a dead letter"
    world.put(queue, body, Format=b"MQDEAD  ", Encoding=546, CodedCharSetId=819)


def tell(what: str) -> None:
    """Print the progress."""
    now = datetime.now(UTC)  # noqa: TID251 (progress for the user)
    sys.stderr.write(f"{now:%H:%M:%S} {what}\n")


if __name__ == "__main__":
    with redirect_stdout(sys.stderr):
        found = measure()
    print(json.dumps(found, indent=2))
