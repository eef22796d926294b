"""`handler_dags`, which a DAG file of an installation calls, and the DAG bundle that calls it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG
from airflow.sdk.definitions._internal.dag_parsing_context import _airflow_parsing_context_manager
from airflow.sdk.exceptions import AirflowFailException

from mqdlq.airflow import handler_dags
from mqdlq.errors import HandlerError

LINES = """from mqdlq.airflow import handler_dags

globals().update(handler_dags({directory!r}))
"""


@pytest.fixture(name="handlers")
def _handlers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with the handlers `day` and `night`; MQDLQ_RULES_DIR names another."""
    directory = tmp_path / "handlers"
    directory.mkdir()
    (directory / "any.rules").write_text("INPUTQ(DLQ)\nACTION(IGNORE)\n")
    (directory / "day.yaml").write_text("connection: mq\nrules: any.rules\nschedule: event\n")
    (directory / "night.yaml").write_text("connection: mq\nrules: any.rules\n")
    monkeypatch.setenv("MQDLQ_RULES_DIR", str(tmp_path / "nowhere"))
    return directory


def parse(directory: Path, handlers: Path) -> DagBag:
    """Parse a DAG file that calls `handler_dags`, as Airflow's discovery does."""
    (directory / "dlq.py").write_text(LINES.format(directory=str(handlers)))
    return DagBag(dag_folder=directory / "dlq.py", safe_mode=True)


def test_three_lines_have_the_dags_of_all_handlers_the_history_and_restoring(
    handlers: Path, tmp_path: Path
) -> None:
    bag = parse(tmp_path, handlers)

    assert bag.import_errors == {}
    assert sorted(bag.dags) == [
        "mq_dlq_day",
        "mq_dlq_history",
        "mq_dlq_night",
        "mq_dlq_restore",
    ]
    assert {dag.fileloc for dag in bag.dags.values()} == {str(tmp_path / "dlq.py")}


def test_tasks_and_triggers_read_the_directory_of_their_dag(handlers: Path) -> None:
    dags = handler_dags(handlers)

    for dag_id in ("mq_dlq_day", "mq_dlq_night", "mq_dlq_restore"):
        directories = {task.task_id: vars(task).get("directory") for task in dags[dag_id].tasks}
        directories.pop("evaluate", None)
        assert set(directories.values()) == {handlers}, directories
    sense: Any = dags["mq_dlq_night"].get_task("sense")
    assert sense.configuration().directory == handlers
    day: Any = dags["mq_dlq_day"]
    (asset,) = day.timetable.asset_condition.objects
    (watcher,) = asset.watchers
    assert watcher.trigger.serialize()[1]["directory"] == str(handlers)


def test_without_a_directory_each_process_reads_the_one_of_its_environment(
    handlers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQDLQ_RULES_DIR", str(handlers))

    dags = handler_dags()

    sense: Any = dags["mq_dlq_night"].get_task("sense")
    assert sense.directory is None
    assert sense.configuration().directory == handlers


def test_a_directory_without_handlers_has_the_history_only(tmp_path: Path) -> None:
    assert list(handler_dags(tmp_path)) == ["mq_dlq_history"]


def test_a_dag_may_be_left_out(handlers: Path, tmp_path: Path) -> None:
    text = LINES.format(directory=str(handlers)) + 'del globals()["mq_dlq_history"]\n'
    (tmp_path / "dlq.py").write_text(text)

    bag = DagBag(dag_folder=tmp_path / "dlq.py")

    assert sorted(bag.dags) == ["mq_dlq_day", "mq_dlq_night", "mq_dlq_restore"]


def test_an_invalid_handler_disables_its_own_dag_only_and_a_failing_dag_reports_it(
    handlers: Path, tmp_path: Path
) -> None:
    broken = handlers / "night.yaml"
    valid = broken.read_text()
    broken.write_text("connection: mq\n")

    bag = parse(tmp_path, handlers)

    assert bag.import_errors == {}
    assert sorted(bag.dags) == [
        "mq_dlq_broken_handlers",
        "mq_dlq_day",
        "mq_dlq_history",
        "mq_dlq_restore",
    ]
    dag: DAG = bag.dags["mq_dlq_broken_handlers"]
    assert f"{broken}:1:1: a handler needs " in str(dag.doc_md)
    assert dag.is_paused_upon_creation is False
    check: Any = dag.get_task("check")
    with pytest.raises(AirflowFailException, match=r"night\.yaml:1:1: a handler needs"):
        check.execute(SimpleNamespace())
    broken.write_text(valid)
    check.execute(SimpleNamespace())


def test_the_process_of_a_task_has_the_dag_of_that_task_only(handlers: Path) -> None:
    (handlers / "broken.yaml").write_text("connection: mq\n")

    for dag_id in ("mq_dlq_night", "mq_dlq_history", "mq_dlq_restore", "mq_dlq_broken_handlers"):
        with _airflow_parsing_context_manager(dag_id=dag_id, task_id="any"):
            assert list(handler_dags(handlers)) == [dag_id]


def test_a_relative_directory_is_refused() -> None:
    with pytest.raises(HandlerError) as refused:
        handler_dags("handlers")

    assert str(refused.value) == (
        "handler_dags: handlers is not an absolute path, and Airflow runs DAG files in any"
        ' directory; give one, such as Path(__file__).with_name("handlers") [MQDLQ-310]'
    )


def test_a_missing_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HandlerError) as refused:
        handler_dags(tmp_path / "none")

    assert str(refused.value) == (
        f"handler_dags: there is no directory {tmp_path}/none on this host; create it, or correct"
        " the path [MQDLQ-311]"
    )


def test_without_the_provider_for_spark_the_text_names_the_extra(
    handlers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "airflow.providers.apache.spark", None)
    of_spark = ("airflow.providers.apache.spark.", "mqdlq.airflow.operators.submit")
    for name in [one for one in sys.modules if one.startswith(of_spark)]:
        monkeypatch.delitem(sys.modules, name)

    with pytest.raises(HandlerError) as refused:
        handler_dags(handlers)

    assert str(refused.value).endswith(
        " is not installed, and the evaluation of rules needs it; `pip install 'mqdlq[spark]'`"
        " installs it [MQDLQ-312]"
    )


def test_importing_the_package_imports_no_airflow() -> None:
    program = "import sys, mqdlq.airflow; print([m for m in sys.modules if m.startswith('airf')])"

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout == "[]\n"


def test_a_dag_bundle_has_the_dags_of_a_directory_without_a_dag_file(
    handlers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configured = {
        "name": "dead-letters",
        "classpath": "mqdlq.airflow.dags.bundle.HandlerBundle",
        "kwargs": {"handlers": str(handlers)},
    }
    section = "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE"
    monkeypatch.setenv(f"{section}_CONFIG_LIST", json.dumps([configured]))
    monkeypatch.setenv(f"{section}_STORAGE_PATH", str(tmp_path / "bundles"))

    bundle = DagBundlesManager().get_bundle("dead-letters")
    bundle.initialize()
    written = (bundle.path / "mq_dlq.py").stat().st_mtime_ns
    bundle.refresh()
    bag = DagBag(bundle.path, bundle_path=bundle.path, bundle_name=bundle.name)

    assert bundle.path == tmp_path / "bundles" / "dead-letters"
    assert bag.import_errors == {}
    assert {name: dag.relative_fileloc for name, dag in bag.dags.items()} == dict.fromkeys(
        ["mq_dlq_day", "mq_dlq_night", "mq_dlq_restore", "mq_dlq_history"], "mq_dlq.py"
    )
    assert [file.name for file in bundle.path.glob("*.py")] == ["mq_dlq.py"]
    assert (bundle.path / "mq_dlq.py").stat().st_mtime_ns == written
