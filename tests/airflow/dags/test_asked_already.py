"""The task sense of a scheduled run while another run waits for a person's approval."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import DownstreamTasksSkipped

from mqdlq.airflow.operators.stages import Sense
from mqdlq.ledger import open_ledger
from mqdlq.ledger.tables import Approval, TakenSnapshot
from tests.airflow.triggers.test_first_look import _place, context, handler, now, put  # noqa: F401 (_place: a fixture)


@pytest.fixture(name="asked")
def _asked(place: Path) -> Sense:
    """Have the run `one` ask a person about the one message that there is."""
    task = handler(place, "NO")
    put("DLQ")
    task.execute(context())
    with open_ledger() as ledger:
        ledger.snapshots.record(TakenSnapshot("night-one", "a snapshot", "/nowhere", 1, now()))
        ledger.plans.record_approval(
            "night-one", Approval("0" * 64, ("discard",), "asked", "", now())
        )
    return task


def beside(state: str | None, run_type: str = "scheduled") -> Any:
    """Return the context of another run, while the task approve of the first is in a state."""
    ti = SimpleNamespace(get_task_states=lambda **_: {"one": {"approve": state}} if state else {})
    return {**context("two", run_type), "ti": ti}


def test_a_scheduled_run_skips_the_messages_of_a_waiting_plan(
    asked: Sense, caplog: pytest.LogCaptureFixture
) -> None:
    """Each would ask the same again, until no more runs may be under way."""
    with caplog.at_level("INFO"), pytest.raises(DownstreamTasksSkipped):
        asked.execute(beside("awaiting_input"))

    assert "one waits for an approval of its plan for 1 messages" in caplog.messages


@pytest.mark.parametrize("state", [None, "failed", "success"])
def test_messages_are_work_again_when_no_run_waits_for_approval(
    asked: Sense, state: str | None
) -> None:
    asked.execute(beside(state))


def test_a_new_message_and_a_manual_run_are_work_while_a_plan_waits(asked: Sense) -> None:
    asked.execute(beside("awaiting_input", "manual"))
    put("DLQ")
    asked.execute(beside("awaiting_input"))


def test_messages_are_work_again_after_an_answer(asked: Sense) -> None:
    with open_ledger() as ledger:
        answer = Approval("0" * 64, ("discard",), "rejected", "alice", now())
        ledger.plans.record_approval("night-one", answer)

    asked.execute(beside("awaiting_input"))
