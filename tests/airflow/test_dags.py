"""The DAG files: what Airflow finds when it parses them, and what parsing does not do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, TriggerRule

from mqdlq import home

PARSE = """
import json, socket, sys

def refuse(*args):
    raise AssertionError("a connection was opened")

socket.socket.connect = refuse
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(dag_folder=sys.argv[1])
loaded = {"ibmmq", "ibmmq.ibmmqc", "pymqi", "pymqi.pymqe", "pyspark", "pyarrow", "pandas"}
print(json.dumps([bag.import_errors, sorted(bag.dags), sorted(loaded & set(sys.modules))]))
"""
SCAN = """
import json, sys
from airflow import plugins_manager
plugins, _ = plugins_manager._get_plugins()
files = {name: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()}
here = sorted(name for name, file in files.items() if file.startswith(sys.argv[1]))
print(json.dumps([[plugin.name for plugin in plugins if plugin.name == "mqdlq"], here]))
"""


def in_a_fresh_process(script: str, argument: Path, **environment: str) -> list[object]:
    done = subprocess.run(
        [sys.executable, "-c", script, str(argument)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    answer: list[object] = json.loads(done.stdout.splitlines()[-1])
    return answer


@pytest.fixture(scope="module", name="dag")
def _dag() -> DAG:
    """Parse the DAG folder; the demo's DAG."""
    bag = DagBag(dag_folder=home.PROJECT / "dags")

    assert bag.import_errors == {}
    return bag.dags["mq_dlq_demo"]


def test_the_tasks_are_the_stages_one_after_the_other(dag: DAG) -> None:
    stages = ["sense", "snapshot", "evaluate", "approve", "execute", "retry", "report"]

    assert [task.task_id for task in dag.topological_sort()] == stages
    assert all(len(task.upstream_task_ids) == 1 for task in dag.tasks if task.task_id != "sense")


def test_the_evaluation_is_submitted_to_spark(dag: DAG) -> None:
    evaluate = dag.get_task("evaluate")

    assert type(evaluate) is SparkSubmitOperator
    assert evaluate.application == str(home.PROJECT / "spark" / "evaluate_rules.py")


def test_only_the_report_runs_whatever_became_of_the_tasks_before_it(dag: DAG) -> None:
    rules = {task.task_id: task.trigger_rule for task in dag.tasks}

    assert rules.pop("report") == TriggerRule.ALL_DONE
    assert set(rules.values()) == {TriggerRule.ALL_SUCCESS}


def test_every_parameter_has_a_type_a_description_and_a_valid_default(dag: DAG) -> None:
    params = {name: dag.params.get_param(name) for name in dag.params}

    assert set(params) == {"input_q", "input_q_mgr", "rules", "message_keys", "dry_run"}
    assert all(param.description and param.schema["type"] for param in params.values())
    assert {name: param.resolve() for name, param in params.items()} == {
        "input_q": None,
        "input_q_mgr": None,
        "rules": None,
        "message_keys": [],
        "dry_run": False,
    }


def test_what_was_missed_is_not_caught_up_and_tasks_are_not_retried_by_airflow(dag: DAG) -> None:
    assert dag.catchup is False
    assert {task.retries for task in dag.tasks} == {0}


def test_parsing_opens_no_connection_and_imports_nothing_heavy() -> None:
    found = in_a_fresh_process(PARSE, home.PROJECT / "dags")

    assert found == [{}, ["mq_dlq_demo"], []]


def test_airflow_scans_one_plugin_file_and_leaves_the_package_alone() -> None:
    plugins = home.PROJECT / "plugins"
    found = in_a_fresh_process(SCAN, plugins, AIRFLOW__CORE__PLUGINS_FOLDER=str(plugins))

    assert found == [["mqdlq"], ["mqdlq_plugin"]]


def test_a_broken_handler_file_is_an_import_error(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("connection: mq_demo\n")

    errors, dags, _ = in_a_fresh_process(
        PARSE, home.PROJECT / "dags", MQDLQ_RULES_DIR=str(tmp_path)
    )

    assert dags == []
    assert f"{tmp_path}/bad.yaml:1:1: a handler needs " in str(errors)
