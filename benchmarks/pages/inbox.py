"""The inbox of 1,000 handlers with 4,000 causes, beside an empty one.

Measured are the SQL statements, the view and the template, not Airflow and its checks of access.
"""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta
from functools import partial
from statistics import median
from typing import Any

from benchmarks.pages.stopwatch import Stopwatch
from mqdlq.causes import find_cause
from mqdlq.ledger import Ledger, open_ledger
from mqdlq.ledger.tables import CauseChange, CauseNumbers
from mqdlq.model import ChangeKind
from mqdlq.reading.page_paths import Paths
from mqdlq.web.inbox import InboxFilters, list_causes
from mqdlq.web.rendering import environment
from tests.support.postgresql import server
from tests.support.run_records import run_record

HANDLERS, CAUSES_OF_EACH, HOURS, CHANGED = 1_000, 4, 24, 500
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
PAGES = 7


def measure() -> dict[str, Any]:
    """Return the milliseconds of processor time of the page, on SQLite and on PostgreSQL."""
    kinds = ["sqlite", "postgresql"] if server() else ["sqlite"]
    found = {kind: {"empty_ms": _page(kind, 0), "full_ms": _page(kind, HANDLERS)} for kind in kinds}
    return {"handlers": HANDLERS, "causes": HANDLERS * CAUSES_OF_EACH, **found}


def _page(kind: str, handlers: int) -> float:
    running = server() if kind == "postgresql" else None
    with tempfile.TemporaryDirectory(prefix="mqdlq-inbox-") as directory:
        url = running.new_ledger_url() if running else f"sqlite:///{directory}/ledger.db"
        with open_ledger(url) as ledger:
            _fill(ledger, handlers)
            watch = Stopwatch(running.pid() if running else None)
            page = partial(_render, ledger, frozenset(f"h{one}" for one in range(handlers)))
            return median(watch.time(page)[0] for _ in range(PAGES))


def _render(ledger: Ledger, handlers: frozenset[str]) -> str:
    given = list_causes(ledger, handlers, InboxFilters(), NOON)
    about: dict[str, Any] = {
        "may_change": True,
        "paths": Paths(),
        "person": None,
        "handler": None,
        "here": "/mqdlq/",
    }
    return environment().get_template("inbox/inbox.html").render(**given, **about)


def _fill(ledger: Ledger, handlers: int) -> None:
    changed = []
    for number in range(handlers):
        place = {"queue_manager": f"QM{number % 20}", "queue": f"DLQ.{number}"}
        run = run_record(run_id=f"r{number}", handler=f"h{number}", started_at=NOON, **place)
        ledger.runs.record(run)
        causes = [
            find_cause("dead_letter", 2053 + one, f"APP{number}.IN", place["queue_manager"])
            for one in range(CAUSES_OF_EACH)
        ]
        found = [
            CauseNumbers(
                message_class="dead_letter",
                reason=cause.reason,
                cause_id=cause.cause_id,
                dest_q_name=cause.dest_q_name,
                dest_q_mgr_name=cause.dest_q_mgr_name,
                messages=50,
                attention=20,
                oldest_at=NOON - timedelta(hours=HOURS),
                first_at=NOON - timedelta(hours=HOURS),
                last_at=NOON,
                applications='{"orders": 40, "payments": 10}',
            )
            for cause in causes
        ]
        hours = [NOON - timedelta(hours=one) for one in range(HOURS)]
        arrived = {(cause.cause_id, hour): 2 for cause in causes for hour in hours}
        ledger.inbox.book(run, found, NOON, arrived, is_judged=True)
        changed.append(causes[0].cause_id)
    kind = ChangeKind.ACKNOWLEDGED
    ledger.cause_changes.add([CauseChange(one, NOON, "ann", kind) for one in changed[:CHANGED]])
