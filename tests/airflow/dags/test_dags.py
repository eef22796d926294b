"""The DAG files: what Airflow finds when it parses them, and what parsing does not do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from datetime import timedelta
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, TriggerRule
from airflow.sdk.definitions._internal.dag_parsing_context import _airflow_parsing_context_manager
from airflow.serialization.serialized_objects import DagSerialization

from mqdlq import directories
from mqdlq.airflow.retries import RetryTransient
from mqdlq.evaluation.spark_conf import application

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
plugins, errors = plugins_manager._get_plugins()
files = {name: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()}
here = sorted(name for name, file in files.items() if file.startswith(sys.argv[1])
              and name.split(".")[0] != "mqdlq")  # by its full name Airflow may load what it needs
ours = [type(plugin.source).__name__ for plugin in plugins if plugin.name == "mqdlq"]
print(json.dumps([ours, errors, here]))
"""

START = """
import json, sys
from airflow.jobs.job import Job
from airflow.sdk.execution_time.task_runner import TaskRunnerMarker
from airflow.sdk.listener import get_listener_manager

names = {"mqdlq.airflow.dags", "mqdlq.airflow.operators.submit"}
get_listener_manager().hook.on_starting(component=TaskRunnerMarker())
of_task = names & set(sys.modules)
Job()
print(json.dumps([sorted(of_task), sorted(names & set(sys.modules)), "pyarrow" in sys.modules]))
"""


def in_a_fresh_process(
    script: str, argument: Path, *options: str, **environment: str
) -> list[object]:
    done = subprocess.run(
        [sys.executable, *options, "-c", script, str(argument)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    answer: list[object] = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_a_service_imports_what_its_forked_processes_need_and_a_task_only_its_own(
    tmp_path: Path,
) -> None:
    of_task, of_service, has_arrow = in_a_fresh_process(START, tmp_path)

    assert of_task == []
    assert of_service == ["mqdlq.airflow.dags", "mqdlq.airflow.operators.submit"]
    assert has_arrow is False  # its threads would not survive a fork


def handler(directory: Path, name: str, keys: str) -> None:
    """Write a handler's file, and its rules once."""
    (directory / f"{name}.yaml").write_text(f"connection: mq_demo\nrules: any.rules\n{keys}")
    (directory / "any.rules").write_text("ACTION(IGNORE)\n")


def bag_of(rules: Path, file: str = "", **context: str) -> DagBag:
    """Parse the DAG folder, or a file of it, with the handlers of a rules directory.

    `context` has the DAG's and the task's id where the process runs a task.
    """
    with pytest.MonkeyPatch.context() as patch, _airflow_parsing_context_manager(**context):
        patch.setenv("MQDLQ_RULES_DIR", str(rules))
        bag = DagBag(dag_folder=directories.PROJECT / "dags" / file)
    assert bag.import_errors == {}
    return bag


@pytest.fixture(scope="module", name="dag")
def _dag() -> DAG:
    """Parse the DAG folder; the demo's DAG."""
    bag = DagBag(dag_folder=directories.PROJECT / "dags")

    assert bag.import_errors == {}
    return bag.dags["mq_dlq_demo"]


def test_the_tasks_of_a_dag_are_the_stages_in_order(dag: DAG) -> None:
    stages = ["sense", "snapshot", "evaluate", "approve", "execute", "retry", "report"]

    assert [task.task_id for task in dag.topological_sort()] == stages
    assert all(len(task.upstream_task_ids) == 1 for task in dag.tasks if task.task_id != "sense")


def test_the_evaluation_is_submitted_to_spark(dag: DAG) -> None:
    evaluate = dag.get_task("evaluate")

    assert isinstance(evaluate, SparkSubmitOperator)
    assert evaluate.application == str(application("evaluate_rules"))


def test_only_the_report_runs_after_a_failed_task(dag: DAG) -> None:
    rules = {task.task_id: task.trigger_rule for task in dag.tasks}

    assert rules.pop("report") == TriggerRule.ALL_DONE
    assert set(rules.values()) == {TriggerRule.ALL_SUCCESS}


def test_every_parameter_has_a_type_a_description_and_a_valid_default(dag: DAG) -> None:
    params = {name: dag.params.get_param(name) for name in dag.params}

    assert all(param.description and param.schema["type"] for param in params.values())
    assert all(param.schema["title"] for param in params.values())
    # Airflow refuses a value with the schema, from which it takes the description.
    assert all(param.schema["$comment"] == param.description for param in params.values())
    assert {name: param.resolve() for name, param in params.items()} == {
        "input_q": None,
        "input_q_mgr": None,
        "rules": None,
        "message_keys": [],
        "where": None,
        "as_of": None,
        "action": None,
        "repair": None,
        "full_snapshot": False,
        "dry_run": False,
        "until_fixed": False,
        "wait": None,
        "apply": False,
        "why": None,
        "follows": None,
    }


def test_a_dags_documentation_describes_its_handler(tmp_path: Path) -> None:
    handler(tmp_path, "night", "schedule: 0 2 * * *\nowner: payments\ntags: [emea]\npool: mq\n")
    bag = bag_of(tmp_path)
    dag = bag.dags["mq_dlq_night"]

    assert dag.owner == "payments"
    assert dag.tags == {"mq", "dead-letter-queue", "emea"}
    assert "| schedule | `0 2 * * *` (UTC) |" in (dag.doc_md or "")
    assert "| task | does |" in (dag.doc_md or "")
    assert (dag.doc_md or "").startswith(
        "**[Dead letters of night](/mqdlq/dags/mq_dlq_night)**\n\n"
    )
    outlets = {task.task_id: [asset.name for asset in task.outlets] for task in dag.tasks}
    assert {task: names for task, names in outlets.items() if names} == {
        "snapshot": ["mq_dlq_night.snapshot"],
        "approve": ["mq_dlq_night.plan"],
        "report": ["mq_dlq_night.report"],
    }


def test_evaluations_and_passes_of_a_handler_run_one_at_a_time(tmp_path: Path) -> None:
    handler(tmp_path, "night", "pool: mq\n")
    dag = bag_of(tmp_path).dags["mq_dlq_night"]

    assert {task.task_id for task in dag.tasks if task.pool == "mq"} == {
        "evaluate",
        "execute",
        "retry",
    }


def test_a_deferred_retry_does_not_block_the_retry_of_another_run(tmp_path: Path) -> None:
    """Airflow counts deferred tasks where a task is bounded by itself, and not in a pool."""
    handler(tmp_path, "night", "pool: mq\n")
    dag = bag_of(tmp_path).dags["mq_dlq_night"]

    bounded = {task.task_id for task in dag.tasks if task.max_active_tis_per_dag == 1}
    assert bounded == {"evaluate", "execute"}


def test_handlers_of_one_queue_share_a_pool(tmp_path: Path) -> None:
    """They have one connection and one INPUTQ; others have no business with it."""
    for name, keys in (("night", ""), ("day", ""), ("own", "pool: own\n"), ("other", "")):
        handler(tmp_path, name, keys)
    other = tmp_path / "other.yaml"
    other.write_text(other.read_text().replace("any.rules", "other.rules"))
    (tmp_path / "other.rules").write_text("INPUTQ(OTHER.DLQ)\nACTION(IGNORE)\n")

    dags = bag_of(tmp_path).dags
    pools = {
        name: {task.pool for task in dags[f"mq_dlq_{name}"].tasks if task.max_active_tis_per_dag}
        for name in ("night", "day", "own", "other")
    }
    assert pools == {
        "night": {"mq_dlq_day"},
        "day": {"mq_dlq_day"},
        "own": {"own"},
        "other": {"mq_dlq_other"},
    }


def test_a_task_builds_no_dag_but_its_own_and_no_broken_handler_hinders_it(
    tmp_path: Path,
) -> None:
    for name in ("night", "day"):
        handler(tmp_path, name, "")
    (tmp_path / "broken.yaml").write_text("connection: mq_demo\n")
    (tmp_path / "broken.rules").write_text("ACTION(NONSENSE)\n")

    bag = bag_of(tmp_path, "mq_dlq.py", dag_id="mq_dlq_night", task_id="sense")

    assert list(bag.dags) == ["mq_dlq_night"]
    assert bag_of(tmp_path, "mq_dlq.py", dag_id="mq_dlq_broken", task_id="sense").dags == {}
    assert bag_of(tmp_path, "mq_dlq.py", dag_id="mq_dlq_history", task_id="export").dags == {}


def test_a_command_for_one_dag_stores_it_with_the_pool_that_it_shares(tmp_path: Path) -> None:
    """Else each `mqdlq run` would store another version of it."""
    for name in ("night", "day"):
        handler(tmp_path, name, "")

    (dag,) = bag_of(tmp_path, "mq_dlq.py", dag_id="mq_dlq_night").dags.values()

    assert {task.pool for task in dag.tasks} == {"default_pool", "mq_dlq_day"}


def test_a_task_that_restores_builds_no_task_of_another_handler(tmp_path: Path) -> None:
    for name in ("night", "day"):
        handler(tmp_path, name, "")
    (tmp_path / "broken.yaml").write_text("connection: mq_demo\n")

    tasks = {
        task_id: set(
            bag_of(tmp_path, "mq_dlq_restore.py", dag_id="mq_dlq_restore", task_id=task_id)
            .dags["mq_dlq_restore"]
            .task_dict
        )
        for task_id in ("select", "restore_night")
    }

    assert tasks == {
        "select": {"select", "restore_day", "restore_night"},
        "restore_night": {"select", "restore_night"},
    }


def test_an_endless_evaluation_times_out_and_a_wait_does_not(tmp_path: Path) -> None:
    """It would keep every later one from beginning; sense and retry may wait for days."""
    handler(tmp_path, "night", "evaluate_timeout: PT10M\n")
    dag = bag_of(tmp_path).dags["mq_dlq_night"]

    limits = {task.task_id: task.execution_timeout for task in dag.tasks}
    assert limits.pop("evaluate") == timedelta(minutes=10)
    assert set(limits.values()) == {None}


def test_the_intervals_of_a_cron_schedule_are_adjacent(tmp_path: Path) -> None:
    handler(tmp_path, "night", "schedule: 0 2 * * 1-5\n")
    dag = bag_of(tmp_path).dags["mq_dlq_night"]

    assert type(dag.timetable).__name__ == "CronDataIntervalTimetable"


def test_a_continuous_handler_has_one_run_at_a_time(tmp_path: Path) -> None:
    handler(tmp_path, "always", "schedule: '@continuous'\n")
    dag = bag_of(tmp_path).dags["mq_dlq_always"]

    assert (type(dag.timetable).__name__, dag.max_active_runs) == ("ContinuousTimetable", 1)


def test_each_continuous_run_has_a_different_logical_date(tmp_path: Path) -> None:
    """Else Airflow takes the next run for one that exists, and makes none any more."""
    handler(tmp_path, "always", "schedule: '@continuous'\n")
    dag = bag_of(tmp_path).dags["mq_dlq_always"]
    scheduled = DagSerialization.from_dict(DagSerialization.to_dict(dag))

    runs = [scheduled.next_dagrun_info(last_automated_run_info=None)]
    for _ in range(3):
        runs.append(scheduled.next_dagrun_info(last_automated_run_info=runs[-1]))

    assert len({run.logical_date for run in runs if run}) == 4


def test_airflow_does_not_catch_up_on_missed_runs(dag: DAG) -> None:
    assert dag.catchup is False


def test_every_task_is_retried_three_times_after_a_transient_fault(dag: DAG) -> None:
    restore = DagBag(dag_folder=directories.PROJECT / "dags").dags["mq_dlq_restore"]

    for task in (*dag.tasks, *restore.tasks):
        assert (task.task_id, task.retries) == (task.task_id, 3)
        assert isinstance(task.retry_policy, RetryTransient)


def test_sense_and_report_do_not_pause_before_a_retry_on_the_command_line(dag: DAG) -> None:
    keep_nobody_waiting = {
        task.task_id
        for task in dag.tasks
        if isinstance(task.retry_policy, RetryTransient) and not task.retry_policy.waits_for_people
    }

    assert keep_nobody_waiting == {"sense", "report"}


def test_keys_of_a_handler_are_settings_of_its_dag(tmp_path: Path) -> None:
    handler(tmp_path, "own", "max_active_runs: 2\nexplain: yes\n")
    dag = bag_of(tmp_path).dags["mq_dlq_own"]
    evaluate = dag.get_task("evaluate")

    assert dag.max_active_runs == 2
    assert isinstance(evaluate, SparkSubmitOperator)
    assert "--explain" in (evaluate.application_args or [])


def test_task_retries_sets_how_often_tasks_are_retried(tmp_path: Path) -> None:
    handler(tmp_path, "once", "task_retries: 0\n")
    dags = bag_of(tmp_path).dags

    assert {task.retries for task in dags["mq_dlq_once"].tasks} == {0}
    assert dags["mq_dlq_restore"].task_dict["restore_once"].retries == 0


def test_parsing_opens_no_connection_and_imports_nothing_heavy() -> None:
    found = in_a_fresh_process(PARSE, directories.PROJECT / "dags")

    assert found == [{}, ["mq_dlq_demo", "mq_dlq_history", "mq_dlq_restore"], []]


def test_folder_and_installed_package_register_one_plugin_and_leave_the_package_alone() -> None:
    plugins = directories.PROJECT / "plugins"
    found = in_a_fresh_process(SCAN, plugins, AIRFLOW__CORE__PLUGINS_FOLDER=str(plugins))

    assert found == [["EntryPointSource"], {}, ["mqdlq_plugin"]]


def test_the_folder_registers_the_plugin_of_a_package_that_is_not_installed(
    tmp_path: Path,
) -> None:
    folder, packages = tmp_path / "plugins", tmp_path / "packages"
    folder.mkdir()
    packages.mkdir()
    for name in ("mqdlq", "mqdlq_plugin.py", ".airflowignore"):
        (folder / name).symlink_to(directories.PROJECT / "plugins" / name)
    for found in Path(sysconfig.get_path("purelib")).iterdir():
        if not found.name.startswith("mqdlq-") and found.suffix != ".pth":
            (packages / found.name).symlink_to(found)

    answer = in_a_fresh_process(
        SCAN, folder, "-S", AIRFLOW__CORE__PLUGINS_FOLDER=str(folder), PYTHONPATH=str(packages)
    )

    assert answer == [["PluginsDirectorySource"], {}, ["mqdlq_plugin"]]


def test_a_broken_handler_breaks_only_its_own_dag_and_the_error_names_file_and_line(
    tmp_path: Path,
) -> None:
    handler(tmp_path, "good", "")
    handler(tmp_path, "night", "schedule: every night\n")
    (tmp_path / "bad.yaml").write_text("connection: mq_demo\n")

    errors, dags, _ = in_a_fresh_process(
        PARSE, directories.PROJECT / "dags", MQDLQ_RULES_DIR=str(tmp_path)
    )

    assert dags == ["mq_dlq_good", "mq_dlq_history", "mq_dlq_restore"]
    # An import error takes all DAGs of its file out of use, so it must not be that of the DAGs.
    assert isinstance(errors, dict)
    assert list(errors) == [str(directories.PROJECT / "dags" / "mq_dlq_broken_handlers.py")]
    text = str(*errors.values())
    assert f"{tmp_path}/bad.yaml:1:1: a handler needs " in text
    assert (
        f"{tmp_path}/night.yaml:3:11: schedule: 'every night' is not a schedule; expected " in text
    )
