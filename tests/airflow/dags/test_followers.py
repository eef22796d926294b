"""The task report asks Airflow for the run that follows; only such a run says what it follows."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import ErrorResponse

from mqdlq.airflow.operators.base import options_of
from mqdlq.airflow.operators.stages import start_follower
from mqdlq.airflow.params import SCHEMAS
from mqdlq.errors import HandlerError
from mqdlq.handlers import Handler

FIRST = "scheduled__2026-11-21T12:00:00+00:00"


def context(run_type: str, user: str | None = None, **conf: Any) -> Any:
    dag_run = SimpleNamespace(
        dag_id="mq_dlq_night",
        run_id=FIRST,
        run_type=SimpleNamespace(value=run_type),
        conf=conf,
        triggering_user_name=user,
    )
    return {"dag_run": dag_run, "params": {k: v["default"] for k, v in SCHEMAS.items()} | conf}


class Supervisor:
    """Takes what a task asks of Airflow; it may refuse."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: list[Any] = []
        self._error = error

    def send(self, asked: Any) -> None:
        self.asked.append(asked)
        if self._error:
            raise self._error


@pytest.mark.parametrize("error", [None, ErrorType.API_SERVER_ERROR])
def test_the_follower_has_the_parameters_that_say_what_is_handled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: ErrorType | None
) -> None:
    """A run whose follower Airflow refuses has done its work anyway."""
    supervisor = Supervisor(AirflowRuntimeError(ErrorResponse(error=error)) if error else None)
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", supervisor, raising=False)
    caplog.set_level("INFO")

    start_follower(context("scheduled", input_q="DLQ", wait=25, full_snapshot=True, why="4711"))

    (asked,) = supervisor.asked
    assert (asked.dag_id, asked.run_id) == ("mq_dlq_night", f"wait_1__{FIRST}")
    assert asked.conf == {"input_q": "DLQ", "wait": 25, "why": "4711", "follows": FIRST}
    assert (f"wait_1__{FIRST} waits for messages" in caplog.text) is (error is None)
    assert ("did not start: " in caplog.text) is (error is not None)


@pytest.mark.parametrize(
    ("user", "run_type", "started_by"),
    [
        (None, "scheduled", f"the WAIT of {FIRST}"),
        ("alice", "operator_triggered", f"the WAIT of {FIRST}, for alice"),
    ],
)
def test_a_follower_has_the_starter_of_the_first_run(
    user: str | None, run_type: str, started_by: str
) -> None:
    found = options_of(context("operator_triggered", user, follows=FIRST), handler())

    assert (found.follows, found.run_type, found.started_by) == (FIRST, run_type, started_by)


def test_nobody_else_may_say_that_a_run_follows() -> None:
    """A run that follows the schedule needs no reason, and no second person."""
    with pytest.raises(HandlerError) as caught:
        options_of(context("manual", "alice", follows=FIRST), handler())
    assert str(caught.value) == (
        "follows is for the runs that a run with WAIT starts, and this is a manual run; leave it"
        " out [MQDLQ-191]"
    )


def handler() -> Handler:
    return Handler(name="night", directory=Path("rules"), connection="mq", rules="night.rules")


def test_apply_is_refused_for_a_run_that_is_not_a_backfill() -> None:
    with pytest.raises(HandlerError) as refused:
        options_of(context("manual", "alice", apply=True), handler())

    assert str(refused.value) == (
        "apply is for backfills, and this is a manual run; leave it out [MQDLQ-116]"
    )
