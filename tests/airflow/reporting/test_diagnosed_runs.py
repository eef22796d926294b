"""Test the diagnosis that the task `report` asks for before it writes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import embedded_mq
from mqdlq.airflow.operators.stages import Report
from mqdlq.causes import find_cause
from mqdlq.ledger.tables import Run
from mqdlq.stages.snapshot.taking import record_causes
from tests.support.world import World

pytestmark = pytest.mark.airflow

CLOSED = find_cause("dead_letter", 2051, "CLOSED", "QM1").cause_id


@pytest.fixture(name="world")
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    monkeypatch.setenv(
        "AIRFLOW_CONN_MQ",
        '{"conn_type": "ibmmq", "extra": {"queue_manager": "QM1", "transport": "embedded"}}',
    )
    world = World(tmp_path)
    with world.ledger:
        yield world


def refused(world: World, keys: str) -> tuple[Report, Run]:
    """Return the task of a handler with these keys, and its run that left a message."""
    world.dead_letter(dest_q="CLOSED", reason=2051)
    world.handle("WAIT(NO)\nACTION(RETRY) RETRY(1)")
    run = world.ledger.runs.get("run-1")
    assert run is not None
    record_causes(run, ledger=world.ledger)
    rules = world.directory / "rules"
    (rules / "test.yaml").write_text(f"connection: mq\nrules: test.rules\n{keys}")
    return Report(task_id="report", handler="test", directory=rules), run


def diagnosed(world: World) -> list[str]:
    found = world.ledger.diagnoses.of_cause("test", "QM1", "DLQ", CLOSED)
    return [one.record["findings"][0]["text"].partition(", altered")[0] for one in found]


def test_a_report_asks_why_causes_are_refused_if_its_handler_says_so(world: World) -> None:
    task, run = refused(world, "diagnose: yes\n")

    task.diagnose(run, world.ledger)

    assert diagnosed(world) == ["CLOSED has PUT(DISABLED)"]


def test_a_report_of_another_handler_asks_nothing(world: World) -> None:
    task, run = refused(world, "")

    task.diagnose(run, world.ledger)

    assert diagnosed(world) == []


def test_a_report_does_without_a_diagnosis_if_the_queue_manager_does_not_answer(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    task, run = refused(world, "diagnose: yes\n")
    embedded_mq.end("QM1")

    with caplog.at_level(logging.WARNING):
        task.diagnose(run, world.ledger)

    assert "the causes are not diagnosed: MQCONN of queue manager QM1 failed" in caplog.text
    assert diagnosed(world) == []
