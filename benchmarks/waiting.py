"""Waiting: the processor time and memory of one triggerer for a thousand waiting queues.

Each case is `airflow triggerer` with this number of triggers. `nothing` is the floor, a triggerer
without triggers. The peer, `moments`, has as many of Airflow's own triggers that wait for a time.
`waits` are runs that wait for messages (DepthTrigger), and `events` are handlers with schedule
event (ArrivalTrigger), which also read the ledger. Each inquires a different queue of the embedded
queue manager: every second where a hundred wait, every ten seconds where a thousand do.

`start_up` is the time from the start of the triggerer until its processor time is steady: duration,
processor time, most threads, most resident memory. `steady` is the time after it: processor time in
a minute, threads, memory (PSS and resident). `noticed_s` is the delay from a put on a hundred of
the queues to Airflow's events: the median and the last. `load` is the machine's load average before
the case. MQDLQ_BENCH_QUEUES sets the number of queues, 1000 by default.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import create_engine, text

import embedded_mq
from mqdlq.ledger import open_ledger
from mqdlq.local.environment import environment, migrate
from mqdlq.mqi.connect import ConnectionSettings, connect
from mqdlq.rules import parse

QUEUES = int(os.environ.get("MQDLQ_BENCH_QUEUES", "1000"))
WATCHED = min(100, QUEUES)
LONGEST_START_S = 240
SETTLED_S = 20  # this time at a steady rate ends the start: every trigger has inquired once
MEASURED_S = 40
POLL_S = 10
PLAIN = "airflow.providers.standard.triggers.temporal.DateTimeTrigger"
DEPTH = "mqdlq.airflow.triggers.waiting.DepthTrigger"
ARRIVAL = "mqdlq.airflow.triggers.arrival.ArrivalTrigger"

PREPARE = """
import datetime, json, sys
from airflow.models.asset import AssetEvent, AssetModel, AssetWatcherModel
from airflow.models.trigger import Trigger
from airflow.utils.session import create_session
from sqlalchemy import delete
path, rows = json.load(sys.stdin)
with create_session() as session:
    for model in (AssetEvent, AssetWatcherModel, AssetModel, Trigger):
        session.execute(delete(model))
    for number, kwargs in enumerate(rows):
        if "moment" in kwargs:
            kwargs["moment"] = datetime.datetime.fromisoformat(kwargs["moment"])
        trigger = Trigger(classpath=path, kwargs=kwargs)
        asset = AssetModel(name=f"queue-{number}", uri=f"bench://queue/{number}")
        session.add_all([trigger, asset])
        session.flush()
        asset.add_trigger(trigger, f"watcher-{number}")
"""


def measure() -> dict[str, Any]:
    """Return processor seconds in a minute, mebibytes and seconds to the event for each case."""
    waits = [_wait(number) for number in range(QUEUES)]
    moments = [{"moment": "2126-11-21T00:00:00+00:00"}] * QUEUES
    events = [{"handler": _name(number), "poll_s": POLL_S} for number in range(QUEUES)]
    cases: dict[str, tuple[str, list[dict[str, Any]]]] = {
        "nothing": (PLAIN, []),
        "moments": (PLAIN, moments),
        "waits": (DEPTH, waits),
        "events": (ARRIVAL, events),
    }
    found: dict[str, Any] = {"queues": QUEUES, "looks_every_s_at_most": POLL_S}
    with tempfile.TemporaryDirectory() as directory, _place(Path(directory)) as settings:
        for name, (path, rows) in cases.items():
            sys.stderr.write(f"waiting: {name}\n")
            found[name] = _case(path, rows, settings, Path(directory))
            sys.stderr.write(f"waiting: {json.dumps(found[name])}\n")
    return found


def _name(number: int) -> str:
    return f"q{number:04}"


def _rules(number: int) -> str:
    return f"INPUTQ(DLQ.{number:04})\nACTION(IGNORE)\n"


def _wait(number: int) -> dict[str, Any]:
    nothing = {"rules": None, "due_at": None, "due_why": "", "until": None}
    place = {"conn_id": "mq_bench", "queue_manager": "QM1", "queue": f"DLQ.{number:04}"}
    rules = {"handler": _name(number), "rules_digest": parse(_rules(number)).digest}
    return {"wait": {**place, **rules, **nothing, "known": 0}, "poll_s": POLL_S}


def _case(
    path: str, rows: list[dict[str, Any]], settings: dict[str, str], directory: Path
) -> dict[str, Any]:
    load = round(os.getloadavg()[0], 1)
    clear = (f"CLEAR QLOCAL(DLQ.{number:04})" for number in range(QUEUES))
    embedded_mq.run_mqsc("QM1", "\n".join(clear))
    subprocess.run(  # noqa: S603 (this very Python, a text of our own)
        [sys.executable, "-c", PREPARE],
        env=settings,
        input=json.dumps([path, rows]),
        text=True,
        check=True,
        capture_output=True,
    )
    with _triggerer(settings, directory) as processes:
        start_up = _start_up(processes)
        before, began = _processor_s(processes()), time.monotonic()
        time.sleep(MEASURED_S)
        used = _processor_s(processes()) - before
        minute = 60 * used / (time.monotonic() - began)
        memory = [one.memory_full_info() for one in processes()]
        steady = {
            "processor_s_per_minute": round(minute, 2),
            "threads": _threads(processes()),
            "pss_mib": round(sum(one.pss for one in memory) / 2**20),
            "resident_mib": round(sum(one.rss for one in memory) / 2**20),
        }
        noticed = _noticed(directory) if path != PLAIN else None
    found = {"load": load, "start_up": start_up, "steady": steady}
    return {**found, "noticed_s": noticed} if noticed else found


def _start_up(processes: Callable[[], list[psutil.Process]]) -> dict[str, Any]:
    """Watch a triggerer until it uses its processor time at a steady rate."""
    began, used = time.monotonic(), [0.0]
    threads = resident = 0
    while (after := time.monotonic() - began) < LONGEST_START_S:
        time.sleep(1)
        now = processes()
        used.append(_processor_s(now))
        threads = max(threads, _threads(now))
        resident = max(resident, sum(one.memory_info().rss for one in now))
        recent = used[-SETTLED_S:]
        is_quiet = recent[-1] - recent[0] < SETTLED_S / 3  # a third of a core
        if is_quiet and len(used) > 2 * SETTLED_S:
            break
    return {
        "seconds": round(max(0.0, after - SETTLED_S)),
        "processor_s": round(used[-1], 1),
        "most_threads": threads,
        "most_resident_mib": round(resident / 2**20),
    }


def _threads(processes: list[psutil.Process]) -> int:
    return sum(one.num_threads() for one in processes)


@contextmanager
def _place(directory: Path) -> Iterator[dict[str, str]]:
    """Create queues, handlers and Airflow's metadata, and yield the environment for processes."""
    rules = directory / "rules"
    rules.mkdir()
    for number in range(QUEUES):
        (rules / f"{_name(number)}.yaml").write_text(
            f"connection: mq_bench\nrules: {_name(number)}.rules\nschedule: event\n"
        )
        (rules / f"{_name(number)}.rules").write_text(_rules(number))
    before = dict(os.environ)
    extra = {"queue_manager": "QM1", "transport": "embedded"}
    os.environ |= {
        "MQDLQ_HOME": str(directory),
        "MQDLQ_RULES_DIR": str(rules),
        "MQDLQ_LEDGER_URL": f"sqlite:///{directory}/ledger.db",
        "AIRFLOW_CONN_MQ_BENCH": json.dumps({"conn_type": "ibmmq", "extra": extra}),
    }
    try:
        embedded_mq.create("QM1")
        definitions = (f"DEFINE QLOCAL(DLQ.{number:04})" for number in range(QUEUES))
        embedded_mq.run_mqsc("QM1", "\n".join(definitions))
        open_ledger().close()
        migrate()
        yield environment()
    finally:
        os.environ.clear()
        os.environ |= before


@contextmanager
def _triggerer(
    settings: dict[str, str], directory: Path
) -> Iterator[Callable[[], list[psutil.Process]]]:
    with (directory / "triggerer.log").open("wb") as log:
        started = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.e2e.running.parent_watch",
                "triggerer",
                "--skip-serve-logs",
            ],
            env={**settings, "AIRFLOW__TRIGGERER__CAPACITY": str(max(1000, QUEUES))},
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    leader = psutil.Process(started.pid)

    def processes() -> list[psutil.Process]:
        return [leader, *leader.children(recursive=True)]

    try:
        yield processes
    finally:
        ending = processes()
        for one in ending:
            one.kill()
        started.wait()
        psutil.wait_procs(ending)


def _processor_s(processes: list[psutil.Process]) -> float:
    return sum(sum(one.cpu_times()[:2]) for one in processes)


def _noticed(directory: Path) -> dict[str, float]:
    """Put a message on some queues, and return the delays until Airflow has their events."""
    step = QUEUES // WATCHED
    with connect(ConnectionSettings("QM1", transport="embedded")) as queue_manager:
        put_at = datetime.now(UTC)  # noqa: TID251 (Airflow's own events carry the wall clock)
        for number in range(0, QUEUES, step):
            queue_manager.handle.put1(f"DLQ.{number:04}".encode(), b"a message")
    engine = create_engine(f"sqlite:///{directory}/airflow/airflow.db")
    first = "SELECT asset_id, MIN(timestamp) FROM asset_event GROUP BY asset_id"
    deadline = time.monotonic() + 40
    rows: list[Any] = []
    while len(rows) < WATCHED and time.monotonic() < deadline:
        time.sleep(1)
        with engine.connect() as connection:
            rows = list(connection.execute(text(first)))
    engine.dispose()
    after = [
        (datetime.fromisoformat(at).replace(tzinfo=UTC) - put_at).total_seconds() for _, at in rows
    ]
    if not after:
        return {"queues": 0}
    median, last = statistics.median(after), max(after)
    return {"queues": len(after), "median": round(median, 1), "last": round(last, 1)}
