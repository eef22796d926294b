"""Test the step that a run takes after an inquiry, for given facts and times."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mqdlq.constants import MQRC
from mqdlq.errors import HandlerError, QueueManagerError
from mqdlq.handlers import Handler
from mqdlq.stages.run_options import RunOptions
from mqdlq.stages.sense.waiting import (
    BREATH,
    Facts,
    Fail,
    Pause,
    Proceed,
    Skip,
    Step,
    Waited,
    WaitForMessages,
    WaitForQueueManager,
    after_look,
    after_no_answer,
    before_failing,
    end_of_wait,
)
from mqdlq.stages.sense.work_detection import Watch
from tests.support.run_records import NOON, run_record

LATER = NOON + timedelta(seconds=60)
HOUR = timedelta(hours=1)


def handler_of(**keys: Any) -> Handler:
    return Handler(name="demo", directory=Path(), connection="mq_demo", rules="demo.rules", **keys)


def facts(depth: int = 0, why: str = "", **changes: Any) -> Facts:
    keys = {name: changes.pop(name) for name in ("broken_off", "is_recorded") if name in changes}
    return Facts(run_record(**changes), depth, why, Watch(2, LATER, "it is time to rescan"), **keys)


def step(found: Facts, waited: Waited | None = None, **options: Any) -> Step:
    return after_look(found, handler_of(), RunOptions(**options), waited or Waited(), NOON)


def test_a_run_with_work_proceeds_whatever_its_wait() -> None:
    assert step(facts(3, "3 messages", wait_s=0)) == Proceed(3, "3 messages")
    assert step(facts(3, "3 messages", wait_s=600)) == Proceed(3, "3 messages")


def test_a_run_that_does_not_wait_skips_its_work() -> None:
    assert step(facts(2, wait_s=0)) == Skip(2)


def test_a_waiting_run_hands_its_trigger_all_arguments() -> None:
    assert step(facts(2, wait_s=600), rules="other.rules") == WaitForMessages(
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
    found = step(facts(wait_s=600, is_recorded=recorded), action=action)

    assert isinstance(found, WaitForMessages)
    assert found.rules_digest == ""


def test_a_run_whose_wait_has_ended_skips_the_work() -> None:
    over = Waited(event={"until": NOON.isoformat()})

    assert step(facts(wait_s=600), over) == Skip(0)


def test_a_run_pauses_until_a_minute_after_an_interrupted_run_began() -> None:
    began = NOON - timedelta(seconds=20)

    assert step(facts(1, "1 messages", broken_off=began)) == Pause(began + BREATH)
    assert step(facts(1, "1 messages", broken_off=NOON - BREATH)) == Proceed(1, "1 messages")


def test_a_run_without_work_does_not_pause_after_an_interrupted_run() -> None:
    assert step(facts(broken_off=NOON, wait_s=0)) == Skip(0)


# -- how long a run waits for messages


def until(waited: Waited | None = None, wait_s: int | None = None, **keys: Any) -> datetime | None:
    return end_of_wait(run_record(wait_s=wait_s), handler_of(**keys), waited or Waited(), NOON)


def test_a_run_waits_for_as_long_as_wait_says() -> None:
    assert until(wait_s=600, schedule="@hourly") == NOON + timedelta(minutes=10)


def test_a_run_with_wait_yes_waits_until_the_next_scheduled_start() -> None:
    assert until(schedule="@hourly") == NOON + HOUR


def test_a_run_with_wait_yes_waits_without_end_where_nothing_is_scheduled() -> None:
    assert until() is None


def test_a_wait_that_is_resumed_keeps_its_end() -> None:
    assert until(Waited(event={"until": LATER.isoformat()}), wait_s=600) == LATER
    assert until(Waited(event={"until": None}), schedule="@hourly") is None


def test_changed_rules_without_wait_end_the_wait() -> None:
    assert until(Waited(event={"until": LATER.isoformat()}), wait_s=0) == NOON


# -- a queue manager that does not answer


def error(reason: str = "MQRC_Q_MGR_NOT_AVAILABLE") -> QueueManagerError:
    return QueueManagerError("MQCONN", "queue manager QM1", 2, MQRC[reason], reason)


def after_error(waited: Waited, wait: timedelta = HOUR, reason: str = "") -> Step:
    given = error(reason) if reason else error()
    return after_no_answer(given, handler_of(), ("QM1", wait), waited, NOON)


def test_a_queue_manager_that_is_away_is_waited_for_with_the_wait_it_interrupts() -> None:
    event = {"until": LATER.isoformat()}

    assert after_error(Waited()) == WaitForQueueManager("mq_demo", "QM1", NOON + HOUR, None)
    assert after_error(Waited(event=event)) == WaitForQueueManager(
        "mq_demo", "QM1", NOON + HOUR, event
    )


def test_a_resumed_wait_for_the_queue_manager_keeps_its_end() -> None:
    assert after_error(Waited(patience=LATER)) == WaitForQueueManager("mq_demo", "QM1", LATER, None)


def test_a_queue_manager_that_stays_away_fails_the_run_without_retry() -> None:
    found = after_error(Waited(patience=NOON))

    assert isinstance(found, Fail)
    assert found.error.reason == MQRC["MQRC_Q_MGR_NOT_AVAILABLE"]


@pytest.mark.parametrize(
    ("waited", "wait", "reason"),
    [
        (Waited(), timedelta(0), ""),  # WAIT(NO)
        (Waited(is_last=True), HOUR, ""),  # it has waited in its worker
        (Waited(), HOUR, "MQRC_NOT_AUTHORIZED"),
        (Waited(patience=NOON), HOUR, "MQRC_NOT_AUTHORIZED"),
    ],
)
def test_an_error_that_waiting_cannot_cure_is_raised(
    waited: Waited, wait: timedelta, reason: str
) -> None:
    """A task that fails so may be run again by Airflow, if the fault is transient."""
    with pytest.raises(QueueManagerError):
        after_error(waited, wait, reason)


# -- runs that cannot begin


def test_a_continuous_run_that_cannot_begin_takes_a_minute_to_fail() -> None:
    fault = HandlerError("MQDLQ-301", "night.yaml: no rules")

    assert before_failing(fault, handler_of(schedule="@continuous"), NOON) == Pause(NOON + BREATH)
    with pytest.raises(HandlerError):
        before_failing(fault, handler_of(schedule="@hourly"), NOON)
