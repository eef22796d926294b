"""Kills while many messages are replayed from the page: nothing is lost, and nothing comes twice.

MQDLQ_KILL_MESSAGES is the number of messages, by default 50,000.
"""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from mqdlq.airflow.run_ids import ledger_run_id
from mqdlq.local.services import running as services
from tests.e2e.running.forms import Forms
from tests.e2e.running.outage import HANDLER, outage
from tests.e2e.running.services import Airflow
from tests.support import postgresql

pytestmark = [pytest.mark.e2e, pytest.mark.long]

MESSAGES = int(os.environ.get("MQDLQ_KILL_MESSAGES", "50000"))
LIMIT_S = 900.0


def test_kills_in_the_middle_of_a_replay_lose_no_message_and_move_none_twice(
    tmp_path: Path,
) -> None:
    metadata = postgresql.running_server().new_database_url()
    more = {
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": metadata,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": metadata,
        # Else the next scheduler takes up what a dead one was running after five minutes only.
        "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "15",
        "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "20",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "20",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    }
    ramp = "{steps: [1], watch: PT5S}"
    with outage(tmp_path, messages=MESSAGES, ramp=ramp, **more) as (place, running):
        place.fill()
        first = running.trigger(HANDLER)
        assert running.wait_for_run(HANDLER, first, LIMIT_S) == "success"
        page = Forms(running)
        run = page.replay_all()
        running.wait_for_question(HANDLER, run)
        page.approve(run)

        killed_at = []
        for part, kill in enumerate((kill_the_task, kill_the_scheduler, kill_the_api_server), 1):
            enough = MESSAGES * part // 5
            running.wait(lambda: place.depth("PAYMENTS") >= enough, LIMIT_S)  # noqa: B023
            killed_at.append(place.depth("PAYMENTS"))
            kill(running)

        assert running.wait_for_run(HANDLER, run, LIMIT_S) == "success", running.tasks(HANDLER, run)
        assert killed_at == sorted(killed_at)
        assert killed_at[-1] < MESSAGES, "all had moved before the last kill"
        place.check_delivered()
        assert running.outcomes(HANDLER, run) == {"delivered": MESSAGES}
        with running.ledger() as ledger:
            verdict = ledger.accounts.verdict_of(ledger_run_id(HANDLER, run))
        assert verdict is not None
        assert verdict.adds_up


def kill_the_task(running: Airflow) -> None:
    """Kill the process that moves messages, as a host without memory does."""
    del running
    leader: psutil.Process = services()["scheduler"]
    found = [one for one in leader.children(recursive=True) if uses_queue_manager(one)]
    assert found, "no task is at work"
    for one in found:
        one.kill()


def uses_queue_manager(process: psutil.Process) -> bool:
    """Return whether a process has a file of the queue manager open."""
    try:
        return any("queue_managers" in one.path for one in process.open_files())
    except psutil.Error:
        return False


def kill_the_scheduler(running: Airflow) -> None:
    running.restart("scheduler")


def kill_the_api_server(running: Airflow) -> None:
    running.restart("api-server")
    running.wait(running.services.is_healthy, LIMIT_S)
