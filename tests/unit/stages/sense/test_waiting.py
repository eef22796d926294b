"""Test the step that a run takes after an inquiry, for given facts and times."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mqdlq.constants import MQRC
from mqdlq.errors import HandlerError, QueueManagerError
from mqdlq.handlers import Handler
from mqdlq.ledger.tables import Look
from mqdlq.stages.run_options import RunOptions
from mqdlq.stages.sense import (
    FAILURE_DELAY,
    Decision,
    WaitForMessages,
    WaitForQueueManager,
    Watch,
    decide_after_inspection,
    decide_without_answer,
    delay_failure,
    find_wait_end,
)
from tests.support.run_records import NOON, outline, run_record

LATER = NOON + timedelta(seconds=60)
HOUR = timedelta(hours=1)


def handler_of(**keys: Any) -> Handler:
    return Handler(name="demo", directory=Path(), connection="mq_demo", rules="demo.rules", **keys)


def step(
    depth: int = 0,
    why: str = "",
    *,
    event: dict[str, Any] | None = None,
    options: RunOptions | None = None,
    is_recorded: bool = False,
    interrupted_at: datetime | None = None,
    **run: Any,
) -> Decision:
    return decide_after_inspection(
        run_record(**run),
        Look(depth, bool(why), why, NOON),
        Watch(2, LATER, "it is time to rescan"),
        handler=handler_of(),
        options=options or RunOptions(),
        event=event,
        now=NOON,
        is_recorded=is_recorded,
        interrupted_at=interrupted_at,
    )


def test_a_run_with_work_proceeds_whatever_its_wait() -> None:
    assert outline(step(3, "3 messages", wait_s=0)) == (True, 3, "3 messages")
    assert outline(step(3, "3 messages", wait_s=600)) == (True, 3, "3 messages")


def test_a_run_that_does_not_wait_skips_its_work() -> None:
    assert outline(step(2, wait_s=0)) == (False, 2, "")


def test_a_waiting_run_hands_its_trigger_all_arguments() -> None:
    assert step(2, wait_s=600, options=RunOptions(rules="other.rules")) == WaitForMessages(
        conn_id="mq_demo",
        queue_manager="QM1",
        queue="DLQ",
        known=2,
        handler="demo",
        rules="other.rules",
        rules_digest="0" * 64,
        due_at=LATER,
        due_why="it is time to rescan",
        until=NOON + timedelta(seconds=600),
    )


@pytest.mark.parametrize(("recorded", "action"), [(True, None), (False, "ACTION(DISCARD)")])
def test_rules_that_cannot_change_are_not_watched(recorded: bool, action: str | None) -> None:
    """A run that has begun keeps its rules, and an action is in no file."""
    found = step(wait_s=600, is_recorded=recorded, options=RunOptions(action=action))

    assert isinstance(found, WaitForMessages)
    assert found.rules_digest == ""


def test_a_run_whose_wait_has_ended_skips_the_work() -> None:
    over = {"until": NOON.isoformat()}

    assert outline(step(wait_s=600, event=over)) == (False, 0, "")


def test_a_run_pauses_until_a_minute_after_an_interrupted_run_began() -> None:
    began = NOON - timedelta(seconds=20)

    assert step(1, "1 messages", interrupted_at=began) == began + FAILURE_DELAY
    assert outline(step(1, "1 messages", interrupted_at=NOON - FAILURE_DELAY)) == (
        True,
        1,
        "1 messages",
    )


def test_a_run_without_work_does_not_pause_after_an_interrupted_run() -> None:
    assert outline(step(interrupted_at=NOON, wait_s=0)) == (False, 0, "")


# -- how long a run waits for messages


def until(
    event: dict[str, Any] | None = None, wait_s: int | None = None, **keys: Any
) -> datetime | None:
    return find_wait_end(run_record(wait_s=wait_s), handler_of(**keys), event, NOON)


def test_a_run_waits_for_as_long_as_wait_says() -> None:
    assert until(wait_s=600, schedule="@hourly") == NOON + timedelta(minutes=10)


def test_a_run_with_wait_yes_waits_until_the_next_scheduled_start() -> None:
    assert until(schedule="@hourly") == NOON + HOUR


def test_a_run_with_wait_yes_waits_without_end_where_nothing_is_scheduled() -> None:
    assert until() is None


def test_a_wait_that_is_resumed_keeps_its_end() -> None:
    assert until({"until": LATER.isoformat()}, wait_s=600) == LATER
    assert until({"until": None}, schedule="@hourly") is None


def test_changed_rules_without_wait_end_the_wait() -> None:
    assert until({"until": LATER.isoformat()}, wait_s=0) == NOON


# -- a queue manager that does not answer


def error(reason: str = "MQRC_Q_MGR_NOT_AVAILABLE") -> QueueManagerError:
    return QueueManagerError("MQCONN", "queue manager QM1", 2, MQRC[reason], reason)


def after_error(wait: timedelta = HOUR, reason: str = "", **waited: Any) -> Decision:
    given = error(reason) if reason else error()
    return decide_without_answer(given, handler_of(), ("QM1", wait), NOON, **waited)


def test_a_queue_manager_that_is_away_is_waited_for_with_the_wait_it_interrupts() -> None:
    event = {"until": LATER.isoformat()}

    assert after_error() == WaitForQueueManager("mq_demo", "QM1", NOON + HOUR, None)
    assert after_error(event=event) == WaitForQueueManager("mq_demo", "QM1", NOON + HOUR, event)


def test_a_resumed_wait_for_the_queue_manager_keeps_its_end() -> None:
    assert after_error(patience=LATER) == WaitForQueueManager("mq_demo", "QM1", LATER, None)


def test_a_queue_manager_that_stays_away_fails_the_run_without_retry() -> None:
    found = after_error(patience=NOON)

    assert isinstance(found, QueueManagerError)
    assert found.reason == MQRC["MQRC_Q_MGR_NOT_AVAILABLE"]


@pytest.mark.parametrize(
    ("waited", "wait", "reason"),
    [
        ({}, timedelta(0), ""),  # WAIT(NO)
        ({"is_last": True}, HOUR, ""),  # it has waited in its worker
        ({}, HOUR, "MQRC_NOT_AUTHORIZED"),
        ({"patience": NOON}, HOUR, "MQRC_NOT_AUTHORIZED"),
    ],
)
def test_an_error_that_waiting_cannot_cure_is_raised(
    waited: dict[str, Any], wait: timedelta, reason: str
) -> None:
    """A task that fails so may be run again by Airflow, if the fault is transient."""
    with pytest.raises(QueueManagerError):
        after_error(wait, reason, **waited)


# -- runs that cannot begin


def test_a_continuous_run_that_cannot_begin_takes_a_minute_to_fail() -> None:
    fault = HandlerError("MQDLQ-301", "night.yaml: no rules")

    assert delay_failure(fault, handler_of(schedule="@continuous"), NOON) == (NOON + FAILURE_DELAY)
    with pytest.raises(HandlerError):
        delay_failure(fault, handler_of(schedule="@hourly"), NOON)
