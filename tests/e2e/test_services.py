"""A handler under Airflow's real services: a scheduled run, from its start to its report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mqdlq.airflow.run_ids import ledger_run_id
from tests.e2e.running.services import airflow
from tests.support.world import World

pytestmark = pytest.mark.e2e

RULES = """
WAIT(NO) RETRYINT(2)
DESTQ(PAYMENTS) ACTION(RETRY) RETRY(2)
DESTQ(ORDERS) ACTION(FWD) FWDQ(PARKED) HEADER(YES)
"""
EXTRA = {"queue_manager": "QM1", "transport": "embedded"}


def test_a_scheduled_run_completes_under_airflows_services(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "night.rules").write_text(RULES)
    (tmp_path / "rules" / "night.yaml").write_text(
        "connection: mq_night\nrules: night.rules\nschedule: 0 2 * * *\npool: nightly\n"
    )
    (tmp_path / "rules" / "broken.yaml").write_text("connection: mq_night\nrulez: a\n")
    world = World(tmp_path)
    for dest_q in ("PAYMENTS", "ORDERS", "ELSEWHERE"):
        world.dead_letter(dest_q=dest_q)
    connection = json.dumps({"conn_type": "ibmmq", "extra": EXTRA})

    with airflow(tmp_path, AIRFLOW_CONN_MQ_NIGHT=connection) as running:
        running.wait_for_dag("night")
        running.pause("night", paused=False)  # Airflow starts the run of the last interval
        running.wait(lambda: bool(running.runs("night")))
        (run,) = running.runs("night")
        ended = running.wait_for_run("night", run["dag_run_id"])

        assert run["run_type"] == "scheduled"
        assert ended == "success", running.tasks("night", run["dag_run_id"])
        assert running.outcomes("night", run["dag_run_id"]) == {
            "delivered": 1,
            "forwarded": 1,
            "unmatched": 1,
        }
        with running.ledger() as ledger:
            recorded = ledger.runs.get(ledger_run_id("night", run["dag_run_id"]))
            assert recorded is not None
            assert recorded.started_by == "the schedule"
        assert running.get("/pools/nightly")["slots"] == 1  # nobody but the run has made it
        (fault,) = running.get("/importErrors")["import_errors"]
        assert fault["filename"] == "mq_dlq_broken_handlers.py"
        assert "broken.yaml:2:1: unknown key rulez; did you mean rules?" in fault["stack_trace"]
        assert world.depths("DLQ", "PAYMENTS", "PARKED") == (1, 1, 1)
