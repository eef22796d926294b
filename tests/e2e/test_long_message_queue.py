"""Another DAG waits for a handler's dead letters by Airflow's MessageQueueTrigger."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.running.services import airflow
from tests.support.world import World

pytestmark = [pytest.mark.e2e, pytest.mark.long]

DAG = """
from airflow.providers.common.messaging.triggers.msg_queue import MessageQueueTrigger
from airflow.sdk import DAG, Asset, AssetWatcher, task

trigger = MessageQueueTrigger(scheme="mqdlq", handler="night")
letters = Asset("dead_letters", watchers=[AssetWatcher(name="of_night", trigger=trigger)])

with DAG("mq_dlq_others", schedule=[letters], is_paused_upon_creation=False):

    @task
    def told(triggering_asset_events):
        ((event,),) = triggering_asset_events.values()
        print("TOLD", event.extra["payload"])

    told()
"""


def test_a_dag_of_others_starts_when_dead_letters_arrive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    world = World(tmp_path)
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "night.rules").write_text("INPUTQ(DLQ)\nACTION(IGNORE)\n")
    (tmp_path / "rules" / "night.yaml").write_text("connection: mq_night\nrules: night.rules\n")
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "others.py").write_text(DAG)
    bundle = {
        "name": "others",
        "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
        "kwargs": {"path": str(tmp_path / "others")},
    }
    extra = {"queue_manager": "QM1", "transport": "embedded"}
    with (
        world.ledger,
        airflow(
            tmp_path,
            AIRFLOW_CONN_MQ_NIGHT=json.dumps({"conn_type": "mqdlq", "extra": extra}),
            AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST=json.dumps([bundle]),
        ) as found,
    ):
        found.wait_for_dag("others")
        assert found.runs("others") == []
        world.dead_letter()
        world.dead_letter()

        found.wait(lambda: bool(found.runs("others")))
        (run, *_) = found.runs("others")
        assert found.wait_for_run("others", run["dag_run_id"]) == "success"
        log = json.dumps(found.log("others", run["dag_run_id"], "told"))
        assert "'depth': " in log
        assert world.depths("DLQ") == (2,)
