"""A connection that is changed in Airflow while triggers wait for its queue manager."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.triggers.base import BaseTrigger

import embedded_mq
from mqdlq.airflow.hooks import ibmmq as hook
from mqdlq.airflow.operators.base import utc_now
from mqdlq.airflow.triggers.waiting import AnswerTrigger, DepthTrigger
from mqdlq.errors import QueueManagerError
from mqdlq.mqi.connect import ConnectionSettings, connect
from mqdlq.mqi.inquiries import shared_inquiry_pool
from mqdlq.stages.sense import WaitForMessages, WaitForQueueManager

FUTURE = datetime(2126, 11, 21, tzinfo=UTC)
Change = Callable[[], None]


def answer_trigger() -> AnswerTrigger:
    wait = WaitForQueueManager("mq", "", FUTURE, None)
    return AnswerTrigger(wait=asdict(wait), poll_s=0.01)


def depth_trigger() -> DepthTrigger:
    wait = WaitForMessages(
        conn_id="mq",
        queue_manager="",
        queue="DLQ",
        handler="night",
        rules=None,
        rules_digest="",
        until=None,
    )
    return DepthTrigger(wait=asdict(wait), poll_s=0.01)


def connect_mq_to(monkeypatch: pytest.MonkeyPatch, queue_manager: str) -> None:
    extra = {"queue_manager": queue_manager, "transport": "embedded"}
    monkeypatch.setenv("AIRFLOW_CONN_MQ", json.dumps({"conn_type": "ibmmq", "extra": extra}))


@pytest.fixture(autouse=True)
def _queue_managers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Create OLD, which is ended, and NEW with a message on DLQ; the connection `mq` is to OLD."""
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    monkeypatch.setattr(hook, "READ_AGAIN", timedelta(0))
    shared_inquiry_pool.cache_clear()
    hook.forget_settings("mq")
    for name in ("OLD", "NEW"):
        embedded_mq.create(name)
        embedded_mq.run_mqsc(name, "DEFINE QLOCAL(DLQ)")
    with connect(ConnectionSettings("NEW", transport="embedded")) as connected:
        connected.handle.put1(b"DLQ", b"a message")
    embedded_mq.end("OLD")
    connect_mq_to(monkeypatch, "OLD")


async def logged(words: str, caplog: pytest.LogCaptureFixture, task: asyncio.Task[Any]) -> None:
    while words not in caplog.text and not task.done():  # noqa: ASYNC110 (a log has no event)
        await asyncio.sleep(0.01)


async def fire_after(trigger: BaseTrigger, change: Change, caplog: pytest.LogCaptureFixture) -> Any:
    """Change something when the trigger has said that it looks again; return what it fires with."""

    async def first() -> Any:
        return (await anext(trigger.run())).payload

    async with asyncio.timeout(20):
        fired = asyncio.create_task(first())
        await logged("looking again", caplog, fired)
        change()
        return await fired


@pytest.mark.parametrize("trigger", [answer_trigger, depth_trigger])
def test_a_waiting_trigger_uses_the_changed_connection(
    trigger: Callable[[], BaseTrigger],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    payload = asyncio.run(fire_after(trigger(), lambda: connect_mq_to(monkeypatch, "NEW"), caplog))

    assert "MQRC_Q_MGR_NOT_AVAILABLE" in caplog.text
    assert payload.get("depth", 1) == 1


@pytest.mark.parametrize("trigger", [answer_trigger, depth_trigger])
def test_an_unreadable_connection_does_not_end_a_wait(
    trigger: Callable[[], BaseTrigger],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def wait() -> Any:
        def damage() -> None:
            monkeypatch.setenv("AIRFLOW_CONN_MQ", json.dumps({"conn_type": "http"}))

        waiting = asyncio.create_task(fire_after(trigger(), damage, caplog))
        await logged("as it was before", caplog, waiting)
        embedded_mq.start("OLD")
        with connect(ConnectionSettings("OLD", transport="embedded")) as connected:
            connected.handle.put1(b"DLQ", b"a message")
        return await waiting

    assert asyncio.run(wait()).get("depth", 1) == 1
    assert "expected 'mqdlq'" in caplog.text


def test_after_a_refused_password_the_next_wait_reads_the_connection_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hook, "READ_AGAIN", timedelta(days=1))
    assert hook.shared_settings("mq", utc_now()).queue_manager == "OLD"
    embedded_mq.faults.set("MQCONNX:1:2035:before")
    try:
        with pytest.raises(QueueManagerError, match="MQRC_NOT_AUTHORIZED"):
            asyncio.run(anext(depth_trigger().run()))  # type: ignore[arg-type]
    finally:
        embedded_mq.faults.set("")

    connect_mq_to(monkeypatch, "NEW")
    assert hook.shared_settings("mq", utc_now()).queue_manager == "NEW"
