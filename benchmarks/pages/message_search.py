"""The pages Search and Message over many messages, compared with the same pages of no messages.

`pages` are medians in milliseconds of processor time of requests to Airflow's app, with sign-in,
checks of access and templates, and of PostgreSQL if it has the ledger; `ratio` is the median of
them over the messages, divided by that of an empty ledger. The goal is a ratio of at most 3.
`slowest_s` is the longest median of the time that passes, which depends on what else the machine
does; the goal for a million messages is a second. The messages are in one snapshot, and the ledger
lists each with an outcome. MQDLQ_BENCH_FOUND sets their number: 100000 by default, 1000000 for
figures to record. The ledger is SQLite, and PostgreSQL too where it is installed.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from sqlalchemy import text

from benchmarks.pages.stopwatch import Stopwatch
from mqdlq.lake import SnapshotWriter
from mqdlq.lake.schema import HEADERS
from mqdlq.ledger import Ledger
from mqdlq.ledger.database import add, in_turn
from mqdlq.ledger.messages import OutcomeLot, book, run_number
from mqdlq.ledger.tables import Ending, TakenSnapshot, listed_messages, messages
from mqdlq.model import Disposition, Outcome
from mqdlq.reasons import Why
from tests.support.postgresql import server
from tests.support.web.airflow_app import airflow_app
from tests.support.world import NOON, World

MESSAGES = int(os.environ.get("MQDLQ_BENCH_FOUND", "100000"))
_AT_ONCE = 8_192
_TIMES = 7
_SEARCHES = (
    "",
    "handler=test",
    "application=app7",
    "text=app3",
    "reason=2085&dest_q_name=Q.4",
    "since=2026-11-20",
    "state=unmatched",
    "state=unknown",
    "msg_id={msg_id}",
    "message",
)
"""Frequent searches, and the page of a message."""


def measure() -> dict[str, Any]:
    """Return processor times and ratios, for each kind of ledger."""
    kinds = ["sqlite", "postgresql"] if server() else ["sqlite"]
    return {"messages": MESSAGES, **{kind: _compare(kind) for kind in kinds}}


def _compare(kind: str) -> dict[str, Any]:
    running = server() if kind == "postgresql" else None
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        empty, full = (
            new_world(Path(directory) / name, running.new_ledger_url() if running else "")
            for name in ("empty", "full")
        )
        for world in (empty, full):
            stack.enter_context(world.ledger)
        stack.enter_context(patch.dict(os.environ, environment_of(full)))
        fill(full, MESSAGES)
        if running:
            with full.ledger.engine.begin() as connection:
                connection.execute(text("ANALYZE"))  # PostgreSQL does this by itself, but later
        client = stack.enter_context(airflow_app(Path(directory) / "airflow")).client("admin")
        watch = Stopwatch(running.pid() if running else None)
        times = [_times(client, empty, full, search, watch) for search in _SEARCHES]
    names = [name or "all" for name in _SEARCHES]
    without, within = ([median(one[place]) for one in times] for place in (0, 1))
    return {
        "empty": dict(zip(names, without, strict=True)),
        "pages": dict(zip(names, within, strict=True)),
        "ratio": round(median(within) / median(without), 2),
        "slowest_s": round(max(median(one[2]) for one in times) / 1000, 2),
    }


def new_world(directory: Path, ledger_url: str) -> World:
    handlers = directory / "handlers"
    handlers.mkdir(parents=True)
    (handlers / "test.yaml").write_text("connection: mq\nrules: test.rules\n", encoding="utf-8")
    (handlers / "test.rules").write_text("ACTION(IGNORE)\n", encoding="utf-8")
    with patch.dict(os.environ, {"MQDLQ_HOME": str(directory)}):
        return World(directory, ledger_url=ledger_url)


def environment_of(world: World) -> dict[str, str]:
    return {
        "MQDLQ_HOME": str(world.directory),
        "MQDLQ_RULES_DIR": str(world.directory / "handlers"),
        "MQDLQ_LEDGER_URL": world.ledger_url,
    }


def _times(
    client: Any, empty: World, full: World, search: str, watch: Stopwatch
) -> tuple[list[float], list[float], list[float]]:
    """Return the processor times of a page without and with messages, and the latter's duration.

    The two take turns, because the speed of a processor depends on what else it does.
    """
    without, within, passed = [], [], []
    for _ in range(_TIMES):
        without.append(watch.time(partial(get, client, empty, _path(search, 0)))[0])
        used, seen = watch.time(partial(get, client, full, _path(search, MESSAGES)))
        within.append(used)
        passed.append(seen)
    return without, within, passed


def _path(search: str, number: int) -> str:
    """Return the path of a search; for the page of a message, the one of its handler if none."""
    key = _key(number // 2)
    if search != "message":
        return f"/mqdlq/search?{search.format(msg_id=key[:24].hex())}"
    return f"/mqdlq/dags/mq_dlq_test{f'/messages/{key.hex()}' if number else ''}"


def get(client: Any, world: World, path: str) -> None:
    with patch.dict(os.environ, environment_of(world)):
        assert client.get(path).status_code == 200, path  # noqa: PLR2004, S101


def fill(world: World, many: int, dest_q_name: Callable[[int], str] | None = None) -> None:
    """Write a snapshot of many messages, and list each in the ledger with an outcome.

    `dest_q_name` names the destination of a message by its number; there are 300 by default.
    """
    folder = world.directory / "handlers"
    run = world.start((folder / "test.rules").read_text(encoding="utf-8"), run_id="many")
    ledger = world.ledger
    with SnapshotWriter(world.lake_root, run.queue_manager, run.queue, "many") as writer:
        for start in range(0, many, _AT_ONCE):
            batch = _batch(range(start, min(start + _AT_ONCE, many)), dest_q_name or _dest_q_name)
            for key in batch.column("message_key").to_pylist():
                writer.count(key, 1024)
            writer.write_batch(batch)
            _list(ledger, run.run_id, batch, (run.queue_manager, run.queue))
        writer.finish(
            taken_at=NOON, taken_by="", rules_digest=run.rules_digest, rules_text=run.rules_text
        )
    taken = TakenSnapshot(run.run_id, "many", writer.directory, many, NOON)
    ledger.snapshots.record(taken)


def _key(number: int) -> bytes:
    return hashlib.sha256(number.to_bytes(8, "big")).digest()


def _dest_q_name(number: int) -> str:
    return f"Q.{number % 300}"


def _batch(numbers: range, dest_q_name: Callable[[int], str]) -> pa.RecordBatch:
    many, keys = len(numbers), [_key(number) for number in numbers]
    given: dict[str, Any] = {
        "browse_seq": [number + 1 for number in numbers],
        "message_key": keys,
        "class": ["dead_letter"] * many,
        "msg_id": [key[:24] for key in keys],
        "correl_id": [key[8:] for key in keys],
        "put_appl_name": [f"app{number % 40}" for number in numbers],
        "user_identifier": [f"user{number % 200}" for number in numbers],
        "dlh_dest_q_name": [dest_q_name(number) for number in numbers],
        "dlh_reason": [(2053, 2085, 2035)[number % 3] for number in numbers],
        "dead_lettered_at": [NOON - timedelta(seconds=number) for number in numbers],
    }
    columns = []
    for field in HEADERS:
        if field.name in given:
            columns.append(pa.array(given[field.name], field.type))
        elif pa.types.is_integer(field.type):
            columns.append(pa.array(np.zeros(many, np.int32)).cast(field.type))
        elif field.type == pa.string():
            columns.append(pa.array([""] * many, field.type))
        else:
            columns.append(pa.nulls(many, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=HEADERS)


def _list(ledger: Ledger, run_id: str, batch: pa.RecordBatch, place: tuple[str, str]) -> None:
    ids = batch.column("browse_seq").to_pylist()
    keys = batch.column("message_key").to_pylist()
    identity = {"queue_manager": place[0], "queue": place[1], "occurrence": 0, "residence": 0}
    lot = OutcomeLot(Ending(0, "", "", "", Outcome.UNMATCHED), Why.NO_RULE_MATCHES(), NOON, ids)
    pairs = zip(ids, keys, strict=True)
    with in_turn(ledger.engine) as connection:
        rows: Iterator[dict[str, Any]] = (
            {**identity, "message_id": one, "message_key": key} for one, key in pairs
        )
        add(connection, messages, list(rows))
        run_no = run_number(connection, run_id)
        listed = {"run_no": run_no, "disposition": Disposition.UNMATCHED}
        rows = ({**listed, "message_id": one, "browse_seq": one} for one in ids)
        add(connection, listed_messages, list(rows))
        book(connection, run_no, [lot])
