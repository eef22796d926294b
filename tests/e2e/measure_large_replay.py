"""Replay many messages of one cause from the page by a ramp, and watch the api-server's memory.

``python -m tests.e2e.measure_large_replay`` starts Airflow's services over the embedded queue
manager, with MQDLQ_REPLAY_MESSAGES dead letters of one cause (500,000), replays them by the forms
of the page, asks for the live progress more often than a browser does, and prints JSON: times,
the resident memory of the api-server before, at its highest and after, and what the account says.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from mqdlq.airflow.run_ids import ledger_run_id
from mqdlq.local.services import running as services
from tests.e2e.running.forms import Forms
from tests.e2e.running.outage import HANDLER, Outage, outage
from tests.e2e.running.services import Airflow

MESSAGES = int(os.environ.get("MQDLQ_REPLAY_MESSAGES", "500000"))
LIMIT_S = 3600.0
MIB = 2**20


def main() -> None:
    """Measure one replay."""
    with (
        tempfile.TemporaryDirectory(prefix="mqdlq-replay-") as directory,
        outage(
            Path(directory), messages=MESSAGES, ramp="{steps: [1, 1000], watch: PT10S}"
        ) as found,
    ):
        sys.stdout.write(json.dumps(measure(*found), indent=1) + "\n")


def measure(place: Outage, running: Airflow) -> dict[str, Any]:
    """Return the numbers of a replay."""
    place.fill()
    began = time.monotonic()
    first = running.trigger(HANDLER)
    assert running.wait_for_run(HANDLER, first, LIMIT_S) == "success"
    looked_s = time.monotonic() - began
    page = Forms(running)
    before = rss()
    began = time.monotonic()
    run = page.replay_all()
    answered_s = time.monotonic() - began
    running.wait_for_question(HANDLER, run)
    page.approve(run)
    # Until here the api-server has loaded what the tasks and the page ask of it.
    memory = [rss()]
    requests: list[float] = []

    def has_ended() -> bool:
        requests.append(page.progress(run))
        memory.append(rss())
        return running.run(HANDLER, run)["state"] in {"success", "failed"}

    running.wait(has_ended, LIMIT_S)
    verdict_id = ledger_run_id(HANDLER, run)
    with running.ledger() as ledger:
        verdict = ledger.accounts.verdict_of(verdict_id)
    return {
        "messages": MESSAGES,
        "first run, s": round(looked_s),
        "preview and start, s": round(answered_s, 1),
        "replay with its end, s": round(time.monotonic() - began),
        "api-server, MiB": {
            "before the preview": round(before / MIB),
            "when the plan was approved": round(memory[0] / MIB),
            "at most, from then on": round(max(memory) / MIB),
            "after": round(rss() / MIB),
        },
        "progress, ms": {
            "median": round(1000 * sorted(requests)[len(requests) // 2]),
            "slowest": round(1000 * max(requests)),
            "asked": len(requests),
        },
        "state": running.run(HANDLER, run)["state"],
        "outcomes": running.outcomes(HANDLER, run),
        "account adds up": verdict is not None and verdict.adds_up,
        "depths": {queue: place.depth(queue) for queue in ("DLQ", "PAYMENTS")},
    }


def rss() -> int:
    """Return the resident memory of the api-server and of the processes that it started."""
    leader: psutil.Process = services()["api-server"]
    return sum(one.memory_info().rss for one in (leader, *leader.children(recursive=True)))


if __name__ == "__main__":
    main()
