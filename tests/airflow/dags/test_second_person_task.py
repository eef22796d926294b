"""The task approve asks again if the person who started the run has approved its plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from airflow.sdk.exceptions import TaskAwaitingInput
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import CreateHITLDetailPayload

from mqdlq.airflow.operators.stages import APPROVED, Approve
from mqdlq.ledger.reading.audit import AuditFilter
from mqdlq.model import AuditKind
from tests.support.world import World

CONNECTION = '{"conn_type": "ibmmq", "extra": {"queue_manager": "QM1", "transport": "embedded"}}'
LONG = timedelta(days=36_500)  # the world's clock stands still, and the task has the real one
RULES = "INPUTQ(DLQ)\nACTION(DISCARD)\n"


class Questions:
    """Keep the questions of a task, in place of Airflow's API server."""

    def __init__(self) -> None:
        """Begin with none."""
        self.sent: list[Any] = []

    def send(self, msg: Any) -> None:
        if isinstance(msg, CreateHITLDetailPayload):
            self.sent.append(msg)


@pytest.fixture(name="world")
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    monkeypatch.setenv("MQDLQ_RULES_DIR", str(tmp_path / "rules"))
    monkeypatch.setenv("AIRFLOW_CONN_MQ", CONNECTION)
    world = World(tmp_path)
    with world.ledger:
        yield world


def answer_of(user: str) -> dict[str, Any]:
    return {
        "chosen_options": [APPROVED],
        "responded_by_user": {"id": user, "name": user},
        "params_input": {"comment": f"seen by {user}"},
    }


def test_the_task_asks_again_until_a_second_person_answers(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor = Questions()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", supervisor, raising=False)
    world.dead_letter()
    run = world.start(RULES, run_id="test-1", user="alice", max_plan_age=LONG)
    (world.directory / "rules" / "test.yaml").write_text(
        "connection: mq\nrules: test.rules\napproval: {second_person: [discard]}\n"
        "approvers: [bob, 7]\n"
    )
    world.snapshot(run)
    left = {"plan_id": world.evaluate(run)}
    store: dict[str, Any] = {}
    kept = SimpleNamespace(get=store.get, set=lambda key, value: store.update({key: value}))
    dag_run = SimpleNamespace(run_id="1", run_type=SimpleNamespace(value="manual"))
    ti = SimpleNamespace(xcom_pull=lambda **_: left, id=uuid4(), stats_tags={})
    context: Any = {
        "ti": ti,
        "task_instance": ti,
        "dag_run": dag_run,
        "task_state_store": kept,
        "params": {},
    }
    context["outlet_events"] = defaultdict(lambda: SimpleNamespace(extra={}))
    task = Approve(task_id="approve", handler="test")

    with pytest.raises(TaskAwaitingInput):
        task.execute(context)
    with pytest.raises(TaskAwaitingInput):
        task.execute_complete(context, answer_of("alice"))
    with pytest.raises(TaskAwaitingInput):
        task.execute(context)

    assert len(supervisor.sent) == 3
    assert all("alice started the run, and must not" in one.body for one in supervisor.sent)
    assert [user.id for user in supervisor.sent[0].assigned_users] == ["bob", "7"]
    assert supervisor.sent[0].params["comment"]["schema"]["title"] == "Comment"
    assert task.execute_complete(context, answer_of("bob")) == left["plan_id"]
    events = world.ledger.audit_trail.page(AuditFilter(run_id="test-1"))
    assert sorted((event.what, event.who, event.why) for event in events) == [
        (AuditKind.APPROVAL_ASKED, "", ""),
        (AuditKind.APPROVED, "bob", "seen by bob"),
        (AuditKind.RUN_STARTED, "", ""),
        (AuditKind.SECOND_PERSON_REFUSED, "alice", "seen by alice"),
    ]
