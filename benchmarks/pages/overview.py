"""The overview of 1,000 handlers with 100 runs each, beside that of one handler with one run.

Measured are the SQL statements, the view and the template, not Airflow and its checks of access.
"""

from __future__ import annotations

import logging
import math
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from sqlalchemy import Table, insert

from benchmarks.pages.stopwatch import Stopwatch
from mqdlq.ledger import Ledger, open_ledger
from mqdlq.ledger.tables import (
    looks,
    runs,
    sightings,
    snapshots,
    verdict_outcomes,
    verdicts,
)
from mqdlq.reading.fleet import HandlerFiles, QueueState, read_fleet
from mqdlq.reading.page_paths import Paths
from mqdlq.web.overview import OverviewQuery, choose
from mqdlq.web.rendering import environment
from tests.support.postgresql import server
from tests.support.run_records import run_record

HANDLERS, RUNS = 1_000, 100
START = datetime(2026, 11, 1, tzinfo=UTC)
TABLE = "".join(f"DESTQ(APP{number}.*) ACTION(RETRY) RETRY(3)\n" for number in range(12))
PART = 5_000
PAGES = 7


def measure() -> dict[str, Any]:
    """Return the milliseconds of processor time of a page of both fleets, and their ratio.

    The ledger is SQLite, and PostgreSQL too where it is installed.
    """
    logging.disable(logging.WARNING)
    kinds = ["sqlite", "postgresql"] if server() else ["sqlite"]
    return {"handlers": HANDLERS, "runs_of_each": RUNS, **{kind: _compare(kind) for kind in kinds}}


def _compare(kind: str) -> dict[str, Any]:
    one, many = (_page(kind, number, each) for number, each in ((1, 1), (HANDLERS, RUNS)))
    ratio = round(many["median"] / one["median"], 1)
    return {"one_handler_ms": one, "many_handlers_ms": many, "ratio": ratio}


def _page(kind: str, handlers: int, each: int) -> dict[str, float]:
    running = server() if kind == "postgresql" else None
    with tempfile.TemporaryDirectory(prefix="mqdlq-overview-") as directory:
        folder = Path(directory) / "rules"
        folder.mkdir()
        for number in range(handlers):
            name = f"h{number:04}"
            text = f"connection: mq\nrules: {name}.rules\nschedule: '@hourly'\n"
            (folder / f"{name}.yaml").write_text(text)
            (folder / f"{name}.rules").write_text(TABLE)
        url = running.new_ledger_url() if running else f"sqlite:///{directory}/ledger.db"
        with open_ledger(url) as ledger:
            _fill(ledger, handlers, each)
            if running:
                with ledger.engine.begin() as connection:
                    connection.exec_driver_sql("ANALYZE")  # it does this by itself, but later
            files = HandlerFiles()
            now = START + timedelta(hours=each)
            began = time.perf_counter()
            files.read(folder, check_for_s=math.inf)
            checked = time.perf_counter() - began
            watch = Stopwatch(running.pid() if running else None)
            page = partial(_render, ledger, files, folder, now)
            times = [watch.time(page)[0] for _ in range(PAGES)]
    return {"median": round(median(times), 1), "first_check_of_all_rules_s": round(checked, 1)}


def _render(ledger: Ledger, files: HandlerFiles, folder: Path, now: datetime) -> str:
    rows = read_fleet(ledger, files.read(folder), frozenset, now)
    return (
        environment()
        .get_template("overview/overview.html")
        .render(
            fleet=choose(rows, OverviewQuery()),
            filters=OverviewQuery(),
            states=tuple(QueueState),
            in_airflow={row.handler for row in rows},
            lost_work=None,
            now=now,
            paths=Paths(),
            person=None,
            handler=None,
            here="/mqdlq/",
        )
    )


def _fill(ledger: Ledger, handlers: int, each: int) -> None:
    """Record runs that each leave two messages without a rule."""
    rows: dict[Table, list[dict[str, Any]]] = {}
    for table, row in _rows(handlers, each):
        rows.setdefault(table, []).append(row)
    order = (runs, looks, snapshots, sightings, verdicts, verdict_outcomes)
    with ledger.engine.begin() as connection:
        for table in order:
            for at in range(0, len(rows[table]), PART):
                connection.execute(insert(table), rows[table][at : at + PART])


def _rows(handlers: int, each: int) -> Iterator[tuple[Table, dict[str, Any]]]:
    for number in range(handlers * each):
        handler, hour = f"h{number % handlers:04}", number // handlers
        at = START + timedelta(hours=hour, seconds=number % handlers)
        own = {"run_id": f"{handler}-{hour}", "handler": handler, "started_at": at}
        place = {"queue_manager": f"QM{number % 20}", "queue": f"DLQ.{handler}"}
        run = run_record(**own, **place, run_type="scheduled", rules_text=TABLE)
        run_id = {"run_id": run.run_id}
        end = at + timedelta(seconds=20)
        yield runs, asdict(run)
        seen = {"depth": 5, "is_work": True, "why": "", "at": at, "max_depth": 5000}
        yield looks, {**run_id, **seen}
        taken = {
            "snapshot_id": run.run_id,
            "location": "",
            "messages": 5,
            "settled": 0,
            "absent": 0,
            "taken_at": at,
        }
        yield snapshots, {**run_id, **taken}
        seen = {"depth": 2, "seen": 2, "returned": 0, "arrived": 0, "at": end, "oldest_left": at}
        yield sightings, {**run_id, **seen}
        yield (
            verdicts,
            {
                **run_id,
                "seq": number + 1,
                "verdict": "attention",
                "headline": "5 messages: 3 handled, 2 need attention. The account adds up.",
                "why": "",
                "messages": 5,
                "failed_tasks": (),
                "adds_up": True,
                "attention": 2,
                "at": end,
            },
        )
        for outcome, rule, messages in (("delivered", 1, 3), ("unmatched", 0, 2)):
            kind = {"outcome": outcome, "rule": rule, "messages": messages}
            where = {"action": "RETRY" if rule else "", "target_q": "", "target_q_mgr": ""}
            yield verdict_outcomes, {**run_id, "verdict_seq": number + 1, **kind, **where}
