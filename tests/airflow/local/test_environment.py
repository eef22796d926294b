"""The environment Airflow is started in, and the ids its runs get."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from mqdlq import directories
from mqdlq.airflow.run_ids import ledger_run_id
from mqdlq.local.environment import environment, selected_environment


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test its own state directory."""
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))


def test_the_environment_names_the_projects_own_airflow(tmp_path: Path) -> None:
    prepared = environment({"AIRFLOW_HOME": "/elsewhere", "SPARK_HOME": "/opt/spark"})

    assert prepared["AIRFLOW_HOME"] == str(tmp_path / "airflow")
    assert prepared["AIRFLOW__CORE__DAGS_FOLDER"] == str(directories.PROJECT / "dags")
    assert "SPARK_HOME" not in prepared


def test_the_metadata_of_another_airflow_is_not_used(tmp_path: Path) -> None:
    """In a container of the compose file the variables of its services are set."""
    theirs = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
    prepared = environment({f"{theirs}_CMD": "cat a", f"{theirs}_ASYNC_CMD": "cat a"})

    assert {name: value for name, value in prepared.items() if name.startswith(theirs)} == {
        theirs: f"sqlite:///{tmp_path / 'airflow' / 'airflow.db'}"
    }


DATABASE = "postgresql+psycopg://airflow@db.example.com/airflow"


def test_the_metadata_that_the_caller_names_are_used_by_all_but_mqdlq_run(tmp_path: Path) -> None:
    name = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
    named = selected_environment({name: DATABASE})

    assert (named["AIRFLOW_HOME"], named[name]) == (str(tmp_path / "airflow"), DATABASE)
    assert named[f"{name}_ASYNC"] == DATABASE  # else Airflow asks for asyncpg
    assert name not in selected_environment({f"{name}_CMD": "cat a"})
    assert environment({name: DATABASE})[name].startswith("sqlite:///")


@pytest.mark.parametrize("name", ["AIRFLOW_HOME", "AIRFLOW_CONFIG"])
def test_an_airflow_that_the_caller_names_is_left_as_it_is(name: str) -> None:
    assert selected_environment({name: "/elsewhere"}) == {name: "/elsewhere"}
    assert environment({name: "/elsewhere"}).get(name) != "/elsewhere"


def test_connections_of_the_caller_override_the_defaults() -> None:
    prepared = environment({"AIRFLOW_CONN_MQ_DEMO": "mine"})

    assert prepared["AIRFLOW_CONN_MQ_DEMO"] == "mine"
    assert json.loads(prepared["AIRFLOW_CONN_SPARK_DEFAULT"])["host"] == "local[*]"


def test_the_demos_connection_is_embedded_by_default() -> None:
    connection = json.loads(environment({})["AIRFLOW_CONN_MQ_DEMO"])

    assert connection["extra"] == {"queue_manager": "QM1", "transport": "embedded"}


def test_spark_submit_is_on_the_path() -> None:
    assert shutil.which("spark-submit", path=environment({})["PATH"]) is not None


@pytest.mark.parametrize(
    ("dag_run_id", "run_id"),
    [
        ("manual__2026-11-21T02:49:22.48+00:00", "demo-manual__2026-11-21T02-49-22.48"),
        ("scheduled__2026-11-21T02:00:00+00:00", "demo-scheduled__2026-11-21T02-00-00"),
        ("nightly-7", "demo-nightly-7"),
        ("nightly/7", "demo-nightly-7-3cef0120"),
        ("nightly 7", "demo-nightly-7-8e2620b4"),
    ],
)
def test_the_id_of_a_run_is_unique_and_fit_for_paths(dag_run_id: str, run_id: str) -> None:
    assert ledger_run_id("demo", dag_run_id) == run_id


def test_the_id_of_a_run_is_never_too_long_for_a_file_or_the_ledger() -> None:
    first, second = (ledger_run_id("demo", f"{'x' * 240}{number}") for number in (1, 2))

    assert len(first) == len(second) == 200
    assert first != second
