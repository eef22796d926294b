"""DAGs that are copied from that of another handler, and handlers that are kept between parses."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, Asset
from airflow.serialization.serialized_objects import DagSerialization

from mqdlq import directories
from mqdlq.airflow import handler_dags
from mqdlq.airflow.copying import GIVEN, Pattern
from mqdlq.airflow.dags.handler_runs import build_handler_dag
from mqdlq.airflow.operators.base import asset
from mqdlq.handlers import load_handler

KEYS = {
    "by_hand": "",
    "cron": "schedule: 0 2 * * *\n",
    "continuous": "schedule: '@continuous'\n",
    "event": "schedule: event\nowner: payments\ntags: [emea]\nexplain: yes\ntask_retries: 1\n",
}


@pytest.fixture(name="handlers")
def _handlers(tmp_path: Path) -> Path:
    """Return a directory without handlers."""
    directory = tmp_path / "handlers"
    directory.mkdir()
    (directory / "any.rules").write_text("INPUTQ(DLQ)\nACTION(IGNORE)\n")
    return directory


def add(handlers: Path, name: str, keys: str = "") -> None:
    (handlers / f"{name}.yaml").write_text(f"connection: mq\nrules: any.rules\n{keys}")


def test_a_copy_is_the_dag_that_would_have_been_built(handlers: Path) -> None:
    for kind, keys in KEYS.items():
        patterns: dict[Any, Pattern] = {}
        add(handlers, f"first.{kind}", keys)
        add(handlers, f"Second_{kind}", keys.replace("0 2", "30 4") + "state_queue: OTHER\n")
        first, second = (load_handler(f"{of}{kind}", handlers) for of in ("first.", "Second_"))
        build_handler_dag(first, "first", handlers, patterns)

        copy = build_handler_dag(second, "second", handlers, patterns)

        assert len(patterns) == 1, kind
        built = build_handler_dag(second, "second", handlers)
        assert DagSerialization.to_dict(copy) == DagSerialization.to_dict(built), kind
        assert facts(copy) == facts(built)
        for task in copy.tasks:
            assert facts(task) == facts(built.task_dict[task.task_id])
            assert (task.dag, task.task_group) == (copy, copy.task_group)
            assert vars(task)[GIVEN]["dag"] is copy


def test_an_asset_is_the_one_that_airflow_would_check() -> None:
    for name in ("demo", "A.b-C_d", "0"):
        checked = Asset(name=f"mq_dlq_{name}.plan", uri=f"mqdlq://{name}/plan")
        assert asset(name, "plan") == checked
        assert asset(name, "plan").extra is not asset(name, "plan").extra


def facts(whole: object) -> dict[str, Any]:
    """Return the attributes of a DAG or a task, without what refers to both."""
    others = {GIVEN, "_dag", "task_group", "task_dict"}
    return {name: plain(value) for name, value in vars(whole).items() if name not in others}


def plain(value: Any) -> Any:
    """Return a value, an object that knows no equality by its class."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return value if isinstance(value, list | set | str | int | timedelta) else type(value)


def test_a_policy_that_changes_one_dag_changes_no_copy_of_it(handlers: Path) -> None:
    for name in ("a", "b", "c"):
        add(handlers, name)
    first, *others = [handler_dags(handlers)[f"mq_dlq_{name}"] for name in ("a", "b", "c")]
    before = [DagSerialization.to_dict(dag) for dag in others]

    change(first)

    assert [DagSerialization.to_dict(dag) for dag in others] == before


def change(dag: DAG) -> None:
    dag.tags.add("changed")
    assert dag.default_args is not None
    dag.default_args["owner"] = "changed"
    dag.params["dry_run"] = True
    dag.params["more"] = 1
    for task in dag.tasks:
        task.inlets.append(Asset("changed"))
        task.outlets.append(Asset("changed"))
        assert task.executor_config is not None
        task.executor_config["changed"] = True
        task.params["more"] = 1
        task.downstream_task_ids.clear()
        task.on_failure_callback.append(print)  # type: ignore[union-attr]
    dag.get_task("evaluate").conf["changed"] = "changed"  # type: ignore[union-attr]


def test_a_parse_sees_what_has_changed_in_the_files(handlers: Path) -> None:
    for name in ("day", "night"):
        add(handlers, name)
    (handlers / "other.rules").write_text("INPUTQ(DLQ)\nACTION(IGNORE)\n")
    for _ in range(2):
        dags = handler_dags(handlers)
        assert dags["mq_dlq_night"].get_task("retry").pool == "mq_dlq_day"

    # As long as before, and within the same moment.
    add(handlers, "night", "owner: a\n")
    night = handler_dags(handlers)["mq_dlq_night"]
    assert night.owner == "a"
    add(handlers, "night", "owner: b\n")
    assert handler_dags(handlers)["mq_dlq_night"].owner == "b"
    (handlers / "day.yaml").write_text("connection: mq\nrules: other.rules\n")
    (handlers / "other.rules").write_text("INPUTQ(ELQ)\nACTION(IGNORE)\n")
    assert handler_dags(handlers)["mq_dlq_night"].get_task("retry").pool == "mq_dlq_night"
    (handlers / "day.yaml").write_text("connection: mq\n")
    assert "mq_dlq_day" not in handler_dags(handlers)


def test_a_home_that_cannot_be_written_keeps_nothing(
    handlers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(handlers, "day")
    (handlers.parent / "home").write_text("")
    monkeypatch.setenv("MQDLQ_HOME", str(handlers.parent / "home"))

    assert "mq_dlq_day" in handler_dags(handlers)
    assert not directories.PROJECT.joinpath("kept").exists()
