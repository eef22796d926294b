"""A task marked as success in Airflow's UI has done nothing: the next one says which, and stops."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag

from mqdlq import directories
from mqdlq.airflow.operators.stages import Approve, Retry
from mqdlq.errors import ExecutionError
from mqdlq.lake import plan_directory
from mqdlq.stages.execute import make_pass
from tests.support.world import World

CONNECTION = '{"conn_type": "ibmmq", "extra": {"queue_manager": "QM1", "transport": "embedded"}}'
MARKED: Any = {"ti": SimpleNamespace(xcom_pull=lambda **_: None)}
NO_RESULT = (
    "the task {0} has left no result: it was marked as done by hand, or its XCom was"
    " removed; clear {0}, and the run continues from the ledger [MQDLQ-606]"
)


@pytest.fixture(name="world")
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    world = World(tmp_path)
    with world.ledger:
        yield world


@pytest.mark.parametrize(
    ("dag_id", "task_id", "before"),
    [("mq_dlq_demo", "evaluate", "snapshot"), ("mq_dlq_history", "history", "export")],
)
def test_spark_does_not_evaluate_if_the_snapshot_was_only_marked_as_success(
    dag_id: str, task_id: str, before: str
) -> None:
    dag = DagBag(dag_folder=directories.PROJECT / "dags").dags[dag_id]
    task = dag.get_task(task_id)

    with pytest.raises(ExecutionError) as refused:
        task.render_template_fields(MARKED | (dag.user_defined_macros or {}))

    assert str(refused.value) == NO_RESULT.format(before)


def test_spark_gets_the_snapshot_that_the_task_recorded() -> None:
    dag = DagBag(dag_folder=directories.PROJECT / "dags").dags["mq_dlq_demo"]
    task: Any = dag.get_task("evaluate")
    left = {"snapshot": "lake/s", "plan": "lake/p", "messages": 3}
    context: Any = {"ti": SimpleNamespace(xcom_pull=lambda **_: left)}

    task.render_template_fields({**context, **(dag.user_defined_macros or {})})

    assert task.application_args[:4] == ["--snapshot", "lake/s", "--plan", "lake/p"]


def approve(world: World, left: dict[str, str] | None) -> str:
    """Run the task approve of DAG run `1`, after a snapshot with this result; return its error."""
    files = world.directory / "rules"
    (files / "test.yaml").write_text("connection: mq\nrules: test.rules\n")
    dag_run = SimpleNamespace(run_id="1", run_type=SimpleNamespace(value="manual"))
    ti, store = SimpleNamespace(xcom_pull=lambda **_: left), SimpleNamespace(get=lambda _: None)
    context: Any = {"ti": ti, "dag_run": dag_run, "task_state_store": store, "params": {}}
    task = Approve(task_id="approve", handler="test")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MQDLQ_RULES_DIR", str(files))
        patch.setenv("AIRFLOW_CONN_MQ", CONNECTION)
        with pytest.raises(ExecutionError) as refused:
            task.execute(context)
    return str(refused.value)


def test_no_plan_is_accepted_without_the_snapshots_result(world: World) -> None:
    world.start("ACTION(RETRY)", run_id="test-1")

    assert approve(world, None) == NO_RESULT.format("snapshot")


def test_no_plan_is_accepted_if_the_evaluation_was_only_marked_as_success(world: World) -> None:
    world.dead_letter()
    run = world.start("ACTION(RETRY)", run_id="test-1")
    world.snapshot(run)

    assert approve(world, {"plan_id": "p-1"}) == (
        "the task evaluate has left no plan in"
        f" {plan_directory(directories.lake(), 'p-1')}: it was marked as done by hand, or"
        " the plan was removed; clear evaluate and the tasks after it [MQDLQ-508]"
    )
    assert world.ledger.plans.of_run(run.run_id) is None


@pytest.mark.parametrize("dry_run", [False, True])
def test_nothing_is_executed_or_recorded_without_an_accepted_plan(
    world: World, *, dry_run: bool
) -> None:
    world.dead_letter()
    run = world.start("ACTION(RETRY)", dry_run=dry_run)
    world.snapshot(run)
    world.evaluate(run)

    with pytest.raises(ExecutionError) as refused:
        make_pass(world.execution(run))

    assert str(refused.value) == (
        "run run-1 has no accepted plan to execute: the task approve was marked as done"
        " by hand, or has failed; clear approve and the tasks after it [MQDLQ-601]"
    )
    assert world.ledger.runs.last_pass(run) is None
    assert world.depths("DLQ", "PAYMENTS", "MQDLQ.STATE") == (1, 0, 0)


def test_retry_fails_if_the_execution_was_only_marked_as_success() -> None:
    task = Retry(task_id="retry", handler="demo")

    with pytest.raises(ExecutionError) as refused:
        task.execute(MARKED)

    assert str(refused.value) == NO_RESULT.format("execute")
