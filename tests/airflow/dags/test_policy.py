"""The cluster policy: the provider's trigger must not be pointed at a queue that is handled."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from airflow.exceptions import AirflowClusterPolicyViolation
from airflow.sdk import DAG, Asset, AssetWatcher
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from mqdlq.airflow.policy import TAKES, dag_policy


class AwaitMessageTrigger(BaseEventTrigger):
    """The provider's trigger as it serialises; the provider itself is not installed here."""

    def __init__(self, mq_conn_id: str, queue_name: str) -> None:
        super().__init__()
        self.kwargs = {"mq_conn_id": mq_conn_id, "queue_name": queue_name}

    def serialize(self) -> tuple[str, dict[str, str]]:
        return TAKES, self.kwargs

    async def run(self) -> AsyncIterator[TriggerEvent]:
        yield TriggerEvent(True)


@pytest.fixture(autouse=True)
def _rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Configure one handler of a named queue, and one of a queue manager's own DLQ."""
    monkeypatch.setenv("MQDLQ_RULES_DIR", str(tmp_path))
    for name, table in {"named": "INPUTQ(PAYMENTS.DLQ)", "own": "WAIT(NO)"}.items():
        (tmp_path / f"{name}.rules").write_text(f"{table}\nACTION(IGNORE)\n")
        (tmp_path / f"{name}.yaml").write_text(
            f"connection: mq_{name}\nrules: {name}.rules\nstate_queue: {name.upper()}.STATE\n"
        )


def watched(trigger: BaseEventTrigger) -> DAG:
    asset = Asset("arrivals", watchers=[AssetWatcher(name="watcher", trigger=trigger)])
    return DAG("others", schedule=[asset])


@pytest.mark.parametrize(
    ("connection", "queue"),
    [
        ("mq_named", "PAYMENTS.DLQ"),
        ("mq_named", "NAMED.STATE"),
        ("mq_own", "SYSTEM.DEAD.LETTER.QUEUE"),
    ],
)
def test_the_policy_refuses_a_trigger_on_a_handled_queue(connection: str, queue: str) -> None:
    trigger = AwaitMessageTrigger(mq_conn_id=connection, queue_name=queue)

    with pytest.raises(AirflowClusterPolicyViolation) as refused:
        dag_policy(watched(trigger))

    handler = connection.removeprefix("mq_")
    assert str(refused.value) == (
        f"others: AwaitMessageTrigger would take messages off {queue} outside syncpoint,"
        f" and handler {handler} handles that queue; follow the asset"
        f" mq_dlq_{handler}.report instead, or name another queue [MQDLQ-307]"
    )


@pytest.mark.parametrize(
    ("connection", "queue"), [("mq_named", "PAYMENTS"), ("mq_other", "PAYMENTS.DLQ")]
)
def test_the_policy_allows_a_trigger_on_another_queue(connection: str, queue: str) -> None:
    dag_policy(watched(AwaitMessageTrigger(mq_conn_id=connection, queue_name=queue)))


def test_airflow_loads_the_policy_by_its_entry_point() -> None:
    (found,) = entry_points(group="airflow.policy", name="mqdlq")

    assert found.load().dag_policy is dag_policy


def test_a_missing_rules_directory_refuses_nobodys_dag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQDLQ_RULES_DIR", str(tmp_path / "none"))

    dag_policy(watched(AwaitMessageTrigger(mq_conn_id="mq_named", queue_name="PAYMENTS.DLQ")))
