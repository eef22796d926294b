"""The triggers: rebuilt from what they serialise to, and what they fire with."""

from __future__ import annotations

import asyncio
import inspect
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.module_loading import import_string
from airflow.triggers.base import BaseTrigger

from mqdlq.airflow.depth_trigger import DepthTrigger
from mqdlq.airflow.retry_trigger import RetryTrigger
from mqdlq.errors import QueueManagerError
from mqdlq.mqi import embedded
from mqdlq.mqi.connect import ConnectionSettings, connect

PAST = datetime(2026, 11, 21, tzinfo=UTC)
FUTURE = datetime(2126, 11, 21, tzinfo=UTC)
STATE = {"pending": 3, "next_pass_at": "2026-11-21T00:00:00+00:00"}


def depth_trigger(**changes: Any) -> DepthTrigger:
    values: dict[str, Any] = {
        "conn_id": "mq",
        "queue_manager": "QMT",
        "queue": "DLQ",
        "known": 0,
        "due_at": None,
        "due_why": "",
        "until": None,
        "poll_s": 0,
    }
    return DepthTrigger(**{**values, **changes})


def fire(trigger: BaseTrigger) -> Any:
    async def first() -> Any:
        return (await anext(trigger.run())).payload

    return asyncio.run(first())


@pytest.fixture(name="queue_manager")
def _queue_manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Create a queue manager with the queue DLQ, and the connection `mq` to it."""
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    extra = {"queue_manager": "QMT", "transport": "embedded"}
    monkeypatch.setenv("AIRFLOW_CONN_MQ", json.dumps({"conn_type": "ibmmq", "extra": extra}))
    embedded.create("QMT")
    embedded.run_mqsc("QMT", "DEFINE QLOCAL(DLQ)")
    return "QMT"


@pytest.mark.parametrize(
    "trigger",
    [
        RetryTrigger(PAST, STATE),
        depth_trigger(until=FUTURE),
        depth_trigger(known=3, due_at=FUTURE, due_why="it is time to rescan"),
    ],
)
def test_a_trigger_survives_serialize(trigger: BaseTrigger) -> None:
    """The triggerer rebuilds triggers from their import path and keyword arguments."""
    path, kwargs = trigger.serialize()

    assert import_string(path)(**kwargs).serialize() == (path, kwargs)
    assert set(kwargs) == set(inspect.signature(type(trigger)).parameters)


def test_the_retry_trigger_echoes_the_state_it_carries() -> None:
    assert fire(RetryTrigger(PAST, STATE)) == STATE


def put(queue_manager: str, number: int = 1) -> None:
    with connect(ConnectionSettings(queue_manager, transport="embedded")) as connected:
        for _ in range(number):
            connected.handle.put1(b"DLQ", b"a message")


def test_the_depth_trigger_fires_with_the_depth(queue_manager: str) -> None:
    put(queue_manager)

    assert fire(depth_trigger(until=FUTURE)) == {"depth": 1, "why": "1 messages"}


def test_the_depth_trigger_gives_up_at_its_time(queue_manager: str) -> None:
    assert queue_manager
    assert fire(depth_trigger(until=PAST)) == {"depth": 0, "why": ""}


def test_settled_messages_are_no_news(queue_manager: str) -> None:
    put(queue_manager, 3)

    assert fire(depth_trigger(known=3, until=PAST)) == {"depth": 3, "why": ""}
    assert fire(depth_trigger(known=2))["why"] == (
        "3 messages, 2 of them were there when the last run ended"
    )


def test_what_is_due_is_looked_at_though_nothing_came(queue_manager: str) -> None:
    put(queue_manager, 3)

    trigger = depth_trigger(known=3, due_at=PAST, due_why="it is time to rescan")

    assert fire(trigger)["why"] == "3 messages, and it is time to rescan"


def test_the_depth_trigger_takes_nothing(queue_manager: str) -> None:
    put(queue_manager)

    fire(depth_trigger())

    with connect(ConnectionSettings(queue_manager, transport="embedded")) as connected:
        assert connected.depth("DLQ") == 1


def test_a_lost_connection_is_told_and_tried_again(
    queue_manager: str, caplog: pytest.LogCaptureFixture
) -> None:
    put(queue_manager)
    embedded.faults.set("MQCONNX:1:2059:before,MQINQ:1:2009:before")
    try:
        with caplog.at_level("INFO"):
            event = fire(depth_trigger())
    finally:
        embedded.faults.set("")

    assert event["depth"] == 1
    told = [record.message for record in caplog.records if "depth_trigger" in record.name]
    assert told == [
        "MQCONN of queue manager QMT failed: MQRC_Q_MGR_NOT_AVAILABLE (2059); looking again in 0 s",
        "MQINQ of queue DLQ failed: MQRC_CONNECTION_BROKEN (2009); looking again in 0 s",
        "queue manager QMT answers again",
    ]


def test_a_fault_that_stays_ends_the_wait(queue_manager: str) -> None:
    assert queue_manager
    with pytest.raises(QueueManagerError, match="MQRC_UNKNOWN_OBJECT_NAME"):
        fire(depth_trigger(queue="GONE"))


def test_a_thousand_queues_are_watched_by_one_loop(queue_manager: str) -> None:
    """All of them look within their time, and one message is seen by all."""
    put(queue_manager)

    async def all_of_them() -> int:
        triggers = [depth_trigger() for _ in range(1000)]
        events = await asyncio.gather(*(anext(trigger.run()) for trigger in triggers))
        return sum(event.payload["depth"] for event in events)

    assert asyncio.run(all_of_them()) == 1000
