"""A run waits in the triggerer until a destination is fixed, over a restart, and then goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mqdlq.airflow.run_ids import ledger_run_id
from tests.e2e.running.services import airflow
from tests.support.world import World

pytestmark = [pytest.mark.e2e, pytest.mark.long]

KEYS = """\
connection: mq_held
rules: held.rules
hold_until_fixed: {look_every: PT15S}
ramp: {steps: [1], watch: PT15S}
"""
EXTRA = {"queue_manager": "QM1", "transport": "embedded"}


def test_a_run_waits_for_a_fix_over_a_restart_of_the_triggerer(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    rules = "WAIT(NO) RETRYINT(15)\nACTION(RETRY) RETRY(2)\n"
    (tmp_path / "rules" / "held.rules").write_text(rules)
    (tmp_path / "rules" / "held.yaml").write_text(KEYS)
    world = World(tmp_path)
    for number in range(3):
        world.dead_letter(b"%d" % number, dest_q="CLOSED")
    connection = json.dumps({"conn_type": "ibmmq", "extra": EXTRA})

    with airflow(tmp_path, AIRFLOW_CONN_MQ_HELD=connection) as running:
        running.wait_for_dag("held")
        running.pause("held", paused=False)
        run = running.trigger("held")
        running.wait_for_task("held", run, "retry", "deferred")
        with running.ledger() as ledger:
            began = ledger.runs.passes(ledger_run_id("held", run))

        running.restart("triggerer")
        running.wait(running.services.is_healthy)

        assert running.tasks("held", run)["retry"] == "deferred"
        with running.ledger() as ledger:
            # The triggerer asks; no pass is made, and no message is tried.
            assert ledger.runs.passes(ledger_run_id("held", run)) == began
            assert ledger.attempts.of_run(ledger_run_id("held", run)) == []
        world.mqsc("ALTER QLOCAL(CLOSED) PUT(ENABLED)")
        assert running.wait_for_run("held", run) == "success", running.tasks("held", run)
        assert (world.depths("DLQ", "CLOSED"), running.outcomes("held", run)) == (
            (0, 3),
            {"delivered": 3},
        )
