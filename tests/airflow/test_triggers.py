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
from mqdlq.mqi import embedded
from mqdlq.mqi.connect import ConnectionSettings, connect

PAST = datetime(2026, 11, 21, tzinfo=UTC)
FUTURE = datetime(2126, 11, 21, tzinfo=UTC)
STATE = {"pending": 3, "next_pass_at": "2026-11-21T00:00:00+00:00"}


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
        DepthTrigger("mq", "QMT", "DLQ", FUTURE, 10),
        DepthTrigger("mq", "QMT", "DLQ", None, 10),
    ],
)
def test_a_trigger_survives_serialize(trigger: BaseTrigger) -> None:
    """The triggerer rebuilds triggers from their import path and keyword arguments."""
    path, kwargs = trigger.serialize()

    assert import_string(path)(**kwargs).serialize() == (path, kwargs)
    assert set(kwargs) == set(inspect.signature(type(trigger)).parameters)


def test_the_retry_trigger_echoes_the_state_it_carries() -> None:
    assert fire(RetryTrigger(PAST, STATE)) == STATE


def test_the_depth_trigger_fires_with_the_depth(queue_manager: str) -> None:
    settings = ConnectionSettings(queue_manager, transport="embedded")
    with connect(settings) as connected:
        connected.handle.put1(b"DLQ", b"a message")

    assert fire(DepthTrigger("mq", queue_manager, "DLQ", FUTURE, 0)) == {"depth": 1}


def test_the_depth_trigger_gives_up_at_its_time(queue_manager: str) -> None:
    assert fire(DepthTrigger("mq", queue_manager, "DLQ", PAST, 10)) == {"depth": 0}


def test_the_depth_trigger_takes_nothing(queue_manager: str) -> None:
    settings = ConnectionSettings(queue_manager, transport="embedded")
    with connect(settings) as connected:
        connected.handle.put1(b"DLQ", b"a message")

        fire(DepthTrigger("mq", queue_manager, "DLQ", FUTURE, 0))

        assert connected.depth("DLQ") == 1
