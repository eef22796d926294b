"""The page of one of the thousands of causes of a snapshot, compared with the inbox.

`causes_ms` and `home_ms` are medians in milliseconds of processor time of requests to Airflow's
app, with sign-in, checks of access and templates. Each request of the page reads the snapshot
again: the profile that a process keeps is forgotten before it. The goal is 300 ms on a quiet
machine. The ledger is SQLite, and lists each message with an outcome. MQDLQ_BENCH_FOUND sets the
number of messages, 50000 by default.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

from benchmarks.pages.message_search import environment_of, fill, get, new_world
from benchmarks.pages.stopwatch import Stopwatch
from mqdlq.stages.snapshot.taking import record_causes
from mqdlq.web import causes
from tests.support.web.airflow_app import airflow_app

MESSAGES = int(os.environ.get("MQDLQ_BENCH_FOUND", "50000"))
DESTINATIONS = 1_450
"""Three reasons at each: so many causes times three, less those that only some reasons have."""
_LETTERS = "ABCDEFGHIJKL"
_TIMES = 5


def measure() -> dict[str, Any]:
    """Return the processor times of both pages, and how many causes there are."""
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        world = new_world(Path(directory) / "world", "")
        stack.enter_context(world.ledger)
        stack.enter_context(patch.dict(os.environ, environment_of(world)))
        fill(world, MESSAGES, _dest_q_name)
        run = world.ledger.runs.get("many")
        assert run is not None  # noqa: S101
        record_causes(run, ledger=world.ledger)
        over_time = world.ledger.causes.of_queue(run.queue_manager, run.queue)
        cause_id = over_time.causes[0].cause.cause_id
        client = stack.enter_context(airflow_app(Path(directory) / "airflow")).client("admin")
        watch, times = Stopwatch(None), []
        for _ in range(_TIMES):
            causes._profile_of_minute.cache_clear()  # noqa: SLF001
            pages = (f"/mqdlq/dags/mq_dlq_test/causes/{cause_id}", "/mqdlq/")
            times.append([watch.time(partial(get, client, world, page))[0] for page in pages])
    found = {
        name: median(one[at] for one in times) for at, name in enumerate(("causes_ms", "home_ms"))
    }
    known = {(number % 3, number % DESTINATIONS) for number in range(MESSAGES)}
    return {"messages": MESSAGES, "causes": len(known), **found}


def _dest_q_name(number: int) -> str:
    """Return a name without digits, which would count as generated."""
    place, name = number % DESTINATIONS, ""
    for _ in range(4):
        place, letter = divmod(place, len(_LETTERS))
        name += _LETTERS[letter]
    return f"ORDERS.{name}"
