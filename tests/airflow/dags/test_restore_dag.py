"""The DAG that restores from the archive: its form, its tasks, and what a second run does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

import embedded_mq
from mqdlq import directories
from mqdlq.airflow.operators.restore import Restore, Select
from mqdlq.airflow.params import fault, reason_number, schemas
from mqdlq.errors import HandlerError, LedgerError, RestoreError
from mqdlq.handlers import load_handler
from tests.support.restorations import discard
from tests.support.world import World

ID = "restore-one"
MIND = (
    "the next run of test meets them again and, by the rules that discarded them, discards them"
    " again: change the rules first, or name another queue"
)


def handlers(directory: Path, *names: str) -> None:
    (directory / "any.rules").write_text("INPUTQ(DLQ)\nACTION(IGNORE)\n")
    for name in names:
        (directory / f"{name}.yaml").write_text("connection: mq\nrules: any.rules\n")


@pytest.fixture(name="world")
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    monkeypatch.setenv("MQDLQ_RULES_DIR", str(tmp_path / "rules"))
    extra = {"queue_manager": "QM1", "transport": "embedded"}
    monkeypatch.setenv("AIRFLOW_CONN_MQ", json.dumps({"conn_type": "ibmmq", "extra": extra}))
    world = World(tmp_path)
    (tmp_path / "rules").mkdir()
    handlers(tmp_path / "rules", "test")
    with world.ledger:
        yield world
    embedded_mq.faults.set("")


def context(dag_run_id: str = "one", **params: Any) -> Any:
    run = SimpleNamespace(
        run_id=dag_run_id,
        run_type=SimpleNamespace(value="manual"),
        conf=params,
        triggering_user_name="alex",
    )
    defaults = {name: schema.get("default") for name, schema in schemas().items()}
    return {"params": {**defaults, **params}, "dag_run": run}


def run_all(dag_run_id: str = "one", **params: Any) -> dict[str, Any]:
    """Run both tasks, as a DAG run does; return what the second leaves for others."""
    given = context(dag_run_id, **params)
    assert Select(task_id="select").choose_branch(given) == "restore_test"
    return Restore(task_id="restore_test", handler="test").execute(given)


def bag(rules: Path) -> DagBag:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MQDLQ_RULES_DIR", str(rules))
        return DagBag(dag_folder=directories.PROJECT / "dags" / "mq_dlq_restore.py")


def test_the_restore_dag_has_a_task_for_each_handler_in_its_pool(tmp_path: Path) -> None:
    handlers(tmp_path, "day", "night")
    (tmp_path / "own.yaml").write_text("connection: other\nrules: any.rules\npool: mine\n")
    (tmp_path / "broken.yaml").write_text("connection: mq\n")

    found = bag(tmp_path)

    assert found.import_errors == {}
    dag: DAG = found.dags["mq_dlq_restore"]
    pools = {task.task_id: task.pool for task in dag.tasks if task.task_id != "select"}
    assert pools == {
        "restore_day": "mq_dlq_day",
        "restore_night": "mq_dlq_day",
        "restore_own": "mine",
    }
    assert {task.max_active_tis_per_dag for task in dag.tasks[1:]} == {1}
    assert {"schedule": dag.schedule, "tags": dag.tags} == {
        "schedule": None,
        "tags": {"mq", "dead-letter-queue", "restore"},
    }
    assert "clear" in (dag.doc_md or "")
    params = {name: dag.params.get_param(name) for name in dag.params}
    assert all(p.description and p.schema["type"] and p.schema["title"] for p in params.values())
    assert params["handler"].schema["enum"] == ["day", "night", "own"]
    (tmp_path / "day.yaml").unlink()
    (tmp_path / "own.yaml").unlink()
    assert bag(tmp_path).dags["mq_dlq_restore"].params["handler"] == "night"


def test_a_handler_cannot_be_called_restore(tmp_path: Path) -> None:
    handlers(tmp_path, "restore")

    with pytest.raises(HandlerError) as refused:
        load_handler("restore", tmp_path)

    assert str(refused.value) == (
        f"{tmp_path}/restore.yaml: mq_dlq_restore is another DAG of this project: give the handler"
        " another name [MQDLQ-302]"
    )


def test_a_restore_run_that_is_cleared_puts_no_message_twice(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = discard(world, b"one", b"two")

    with caplog.at_level("INFO"):
        done = run_all(run=run_id, handler="test", again=True)

    text = f"Restoration {ID} to DLQ @ QM1\n2 messages: 2 restored\nMind: {MIND}."
    assert done == {"restoration": ID, "selected": 2, "restored": 2, "text": text}
    assert f"2 archived messages of run {run_id} go to DLQ @ QM1" in caplog.messages
    assert MIND in caplog.messages
    assert run_all(run=run_id, handler="test", again=True) == done
    assert world.depths("DLQ") == (2,)
    recorded = world.ledger.restorations.get(ID)
    assert recorded is not None
    assert recorded.who == "alex in Airflow"


def test_a_restored_message_is_a_failure_only_if_another_queue_is_named(
    world: World,
) -> None:
    discard(world, b"one")
    run_all(run="run-1", handler="test")

    assert run_all("two", run="run-1", handler="test")["refused"] == 1
    with pytest.raises(AirflowFailException) as failed:
        run_all("three", run="run-1", handler="test", to_queue="PARKED")

    assert str(failed.value).startswith(
        "restoration restore-three: 1 of 1 messages are not restored; 1: it was restored to DLQ at "
    )
    assert world.depths("DLQ", "PARKED") == (1, 0)


def test_a_failed_put_fails_the_restore_task_and_clearing_it_continues(
    world: World,
) -> None:
    discard(world, b"one", b"two")
    world.mqsc("ALTER QLOCAL(PARKED) MAXDEPTH(1)")
    asked: dict[str, Any] = {
        "run": "run-1",
        "handler": "test",
        "to_queue": "PARKED",
        "header": False,
    }

    with pytest.raises(RestoreError) as failed:
        run_all(**asked)
    assert str(failed.value) == (
        "restoration restore-one: 1 of 2 messages are not restored; 1: put to PARKED:"
        " MQRC_Q_FULL (2053) [MQDLQ-701]"
    )
    world.mqsc("ALTER QLOCAL(PARKED) MAXDEPTH(9)")

    assert run_all(**asked)["restored"] == 2
    assert world.bodies("PARKED") == [b"one", b"two"]


def test_a_restore_dry_run_reports_what_it_would_restore(world: World) -> None:
    discard(world, b"one")

    done = run_all(run="run-1", handler="test", dry_run=True, reason="MQRC_Q_FULL")

    assert done["text"] == (
        f"Restoration {ID} to DLQ @ QM1\n1 message: 1 not attempted\n1 not attempted: dry run"
    )


def test_a_restoration_that_was_not_recorded_is_not_carried_out(world: World) -> None:
    assert world.runs == 0
    with pytest.raises(LedgerError) as failed:
        Restore(task_id="restore_test", handler="test").execute(context())

    assert str(failed.value) == (
        "restoration restore-one is not in the ledger; clear the task select, which"
        " records it [MQDLQ-712]"
    )


def test_invalid_restore_parameters_are_refused_in_one_sentence() -> None:
    known = schemas(["night"])

    assert fault({"handler": "night", "run": "r-1", "reason": 2053, "to_queue": "Q"}, known) == ""
    assert fault({"handler": "day"}, known) == (
        "parameter handler: 'day' is not one of ['night']; the handler whose archive is restored"
        " from: its connection is used, and its state queue."
    )
    assert fault({"wait": "NO"}, known).startswith("parameter wait: not known; known are again, ")
    assert [reason_number(given) for given in (None, 7, "2053", "MQRC_Q_FULL")] == [
        0,
        7,
        2053,
        2053,
    ]
    with pytest.raises(RestoreError) as refused:
        reason_number("MQRC_Q_FUL")
    assert str(refused.value) == (
        "MQRC_Q_FUL is not a reason code; expected a name or number"
        " such as MQRC_Q_FULL or 2053 [MQDLQ-706]"
    )
