"""Transient faults under Airflow's real services: the task runs again, and the run succeeds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mqdlq.airflow.run_ids import ledger_run_id
from mqdlq.ledger import open_ledger
from tests.e2e.running.services import airflow
from tests.support import postgresql
from tests.support.world import World

pytestmark = [pytest.mark.e2e, pytest.mark.long]

EXTRA = {"queue_manager": "QM1", "transport": "embedded"}


def test_airflow_retries_a_lost_connection_and_not_a_missing_authority(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "shaky.rules").write_text("WAIT(NO)\nACTION(RETRY)\n")
    (tmp_path / "rules" / "shaky.yaml").write_text("connection: mq_shaky\nrules: shaky.rules\n")
    world = World(tmp_path)
    connection = json.dumps({"conn_type": "ibmmq", "extra": EXTRA})

    with airflow(tmp_path, AIRFLOW_CONN_MQ_SHAKY=connection) as running:
        running.wait_for_dag("shaky")
        running.pause("shaky", paused=False)

        world.dead_letter(dest_q="PAYMENTS")
        world.mqsc("SET FAULT('MQPUT1[PAYMENTS]:1:2009:before')")
        run = running.trigger("shaky")
        running.wait_for_task("shaky", run, "execute", "up_for_retry")

        assert running.wait_for_run("shaky", run) == "success", running.tasks("shaky", run)
        assert world.depths("DLQ", "PAYMENTS") == (0, 1)
        path = f"/dags/mq_dlq_shaky/dagRuns/{run}/taskInstances/execute"
        assert running.get(path)["try_number"] == 2
        with running.ledger() as ledger:
            assert "failed" not in ledger.alerts.sent(ledger_run_id("shaky", run))
            recorded = ledger.runs.get(ledger_run_id("shaky", run))
            assert recorded is not None
            assert recorded.started_by == "admin in Airflow"

        world.dead_letter(dest_q="PAYMENTS")
        world.mqsc("SET FAULT('MQGET[DLQ]:1+:2016:before')")
        run = running.trigger("shaky")

        assert running.wait_for_run("shaky", run) == "failed"
        states = {
            task["task_id"]: task
            for task in running.get(f"/dags/mq_dlq_shaky/dagRuns/{run}/taskInstances")[
                "task_instances"
            ]
        }
        assert (states["snapshot"]["state"], states["snapshot"]["try_number"]) == ("failed", 1)
        with running.ledger() as ledger:
            assert "failed" in ledger.alerts.sent(ledger_run_id("shaky", run))


def test_an_approval_given_while_the_ledger_is_unavailable_is_kept(
    tmp_path: Path,
) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "ask.rules").write_text("WAIT(NO)\nACTION(DISCARD)\n")
    (tmp_path / "rules" / "ask.yaml").write_text(
        "connection: mq_ask\nrules: ask.rules\napproval: {discard: yes}\n"
    )
    server = postgresql.Server(postgresql.running_server()._programs)
    ledger_url = server.new_ledger_url()
    world = World(tmp_path, ledger_url=ledger_url)
    world.dead_letter(dest_q="QUOTES")
    connection = json.dumps({"conn_type": "ibmmq", "extra": EXTRA})

    with airflow(tmp_path, AIRFLOW_CONN_MQ_ASK=connection, MQDLQ_LEDGER_URL=ledger_url) as running:
        running.wait_for_dag("ask")
        running.pause("ask", paused=False)
        run = running.trigger("ask")
        running.wait_for_question("ask", run)
        world.ledger.close()
        server.kill()
        task = f"/dags/mq_dlq_ask/dagRuns/{run}/taskInstances/approve"
        answer = {"chosen_options": ["Approve"], "params_input": {}}
        answered = running.call("PATCH", f"{task}/-1/hitlDetails", **answer)
        assert answered.status_code == 200, answered.text
        running.wait_for_task("ask", run, "approve", "up_for_retry")
        server.start()

        assert running.wait_for_run("ask", run) == "success", running.tasks("ask", run)
        assert world.depths("DLQ") == (0,)
        with open_ledger(ledger_url) as ledger:
            approval = ledger.plans.last_approval(ledger_run_id("ask", run))
        assert approval is not None
        assert (approval.decision, approval.who) == ("approved", "admin")
        assert "approved by admin" in running.log("ask", run, "approve", attempt=2)
        assert "waiting for a person to approve" not in running.log(
            "ask", run, "approve", attempt=2
        )
