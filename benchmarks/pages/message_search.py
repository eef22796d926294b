"""The pages Search and Message over many messages, compared with the same pages of no messages.

`pages` are medians in milliseconds of processor time of requests to Airflow's app, with sign-in,
checks of access and templates; `ratio` is the median of them over the messages, divided by that of
an empty ledger. The goal is a ratio of at most 3. The messages are in one snapshot, and the ledger
lists each with an outcome. MQDLQ_BENCH_FOUND sets their number: 100000 by default, 1000000 for
figures to record. The ledger is SQLite, and PostgreSQL too where it is installed.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from mqdlq.lake import SnapshotWriter
from mqdlq.lake.schema import HEADERS
from mqdlq.ledger import Ledger, TakenSnapshot
from mqdlq.ledger.database import add
from mqdlq.ledger.tables.messages import messages, outcomes, run_messages
from mqdlq.model import Disposition, Outcome
from tests.support.postgresql import server
from tests.support.web.airflow_app import airflow_app
from tests.support.world import NOON, World

MESSAGES = int(os.environ.get("MQDLQ_BENCH_FOUND", "100000"))
_AT_ONCE = 10_000
_TIMES = 7


def measure() -> dict[str, Any]:
    """Return processor times and ratios, for each kind of ledger."""
    urls = {"sqlite": ""}
    if running := server():
        urls["postgresql"] = running.new_ledger_url()
    return {"messages": MESSAGES, **{name: _compare(url) for name, url in urls.items()}}


def _compare(ledger_url: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory, patch.dict(os.environ):
        world = _world(Path(directory), ledger_url)
        with world.ledger, airflow_app(world.directory / "airflow") as airflow:
            client = airflow.client("admin")
            empty = _times(client, _paths(0))
            fill(world, MESSAGES)
            full = _times(client, _paths(MESSAGES))
    ratio = median(full.values()) / median(empty.values())
    return {"empty": empty, "pages": full, "ratio": round(ratio, 2)}


def _world(directory: Path, ledger_url: str) -> World:
    os.environ["MQDLQ_HOME"] = str(directory)
    handlers = directory / "handlers"
    handlers.mkdir()
    (handlers / "test.yaml").write_text("connection: mq\nrules: test.rules\n", encoding="utf-8")
    (handlers / "test.rules").write_text("ACTION(IGNORE)\n", encoding="utf-8")
    os.environ["MQDLQ_RULES_DIR"] = str(handlers)
    if ledger_url:
        os.environ["MQDLQ_LEDGER_URL"] = ledger_url
    return World(directory, ledger_url=ledger_url)


def _paths(number: int) -> list[str]:
    """Return the pages: what people search for most, and a message."""
    searches = ["", "handler=test", "application=app7", "text=app3", "reason=2085&dest_q_name=Q.5"]
    searches += ["since=2026-11-20", "state=unmatched", f"msg_id={_key(number // 2)[:24].hex()}"]
    paths = [f"/mqdlq/search?{query}" for query in searches]
    key = _key(number // 2).hex()
    page = f"/mqdlq/dags/mq_dlq_test/messages/{key}" if number else "/mqdlq/dags/mq_dlq_test"
    return [*paths, page]


def _times(client: Any, paths: list[str]) -> dict[str, float]:
    """Return the median processor time of each page in milliseconds."""
    found = {}
    for path in paths:
        times = []
        for _ in range(_TIMES):
            begun = process_time()
            assert client.get(path).status_code == 200, path  # noqa: PLR2004, S101
            times.append((process_time() - begun) * 1000)
        found[path.split("messages/")[0]] = round(median(times), 1)
    return found


def fill(world: World, many: int) -> None:
    """Write a snapshot of many messages, and list each in the ledger with an outcome."""
    folder = world.directory / "handlers"
    run = world.start((folder / "test.rules").read_text(encoding="utf-8"), run_id="many")
    ledger = world.ledger
    with SnapshotWriter(world.lake_root, run.queue_manager, run.queue, "many") as writer:
        for start in range(0, many, _AT_ONCE):
            batch = _batch(range(start, min(start + _AT_ONCE, many)))
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


def _batch(numbers: range) -> pa.RecordBatch:
    many, keys = len(numbers), [_key(number) for number in numbers]
    given: dict[str, Any] = {
        "browse_seq": [number + 1 for number in numbers],
        "message_key": keys,
        "class": ["dead_letter"] * many,
        "msg_id": [key[:24] for key in keys],
        "correl_id": [key[8:] for key in keys],
        "put_appl_name": [f"app{number % 40}" for number in numbers],
        "user_identifier": [f"user{number % 200}" for number in numbers],
        "dlh_dest_q_name": [f"Q.{number % 300}" for number in numbers],
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
    decision = {"rule": 0, "action": "", "target_q": "", "target_q_mgr": "", "at": NOON}
    end = {"run_id": run_id, "outcome": Outcome.UNMATCHED, "why": "no rule matches", **decision}
    listed = {"run_id": run_id, "disposition": Disposition.UNMATCHED}
    pairs = zip(ids, keys, strict=True)
    with ledger.engine.begin() as connection:
        rows: Iterator[dict[str, Any]] = (
            {**identity, "message_id": one, "message_key": key} for one, key in pairs
        )
        add(connection, messages, list(rows))
        add(connection, run_messages, [{**listed, "message_id": i, "browse_seq": i} for i in ids])
        add(connection, outcomes, [{**end, "message_id": one} for one in ids])
