"""The triggers: rebuilt from what they serialise to, and what they fire with."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
from airflow.sdk.serde import deserialize, serialize
from airflow.triggers.base import BaseTrigger

import embedded_mq
from mqdlq.airflow.hooks.ibmmq import forget_settings
from mqdlq.airflow.operators.base import utc_now
from mqdlq.airflow.triggers import waiting
from mqdlq.airflow.triggers.waiting import RULES_CHANGED, AnswerTrigger, DepthTrigger, RetryTrigger
from mqdlq.errors import QueueManagerError
from mqdlq.ledger import open_ledger
from mqdlq.mqi import inquiries
from mqdlq.mqi.connect import ConnectionSettings, connect
from mqdlq.mqi.inquiries import shared_inquiry_pool
from mqdlq.rules import parse
from mqdlq.stages import sense
from mqdlq.stages.sense import RulesWatch, WaitForQueueManager
from mqdlq.stages.stopping import ask_to_stop
from tests.support.run_records import run_record

PAST = datetime(2026, 11, 21, tzinfo=UTC)
FUTURE = datetime(2126, 11, 21, tzinfo=UTC)
RULES = "INPUTQ(DLQ)\nACTION(IGNORE)\n"
STATE = {"pending": 3, "next_pass_at": "2026-11-21T00:00:00+00:00"}


def depth_trigger(**changes: Any) -> DepthTrigger:
    values: dict[str, Any] = {
        "conn_id": "mq",
        "queue_manager": "QMT",
        "queue": "DLQ",
        "known": 0,
        "handler": "night",
        "rules": None,
        "rules_digest": parse(RULES, "night.rules").digest,
        "due_at": None,
        "due_why": "",
        "until": None,
    }
    poll_s = changes.pop("poll_s", 0)
    return DepthTrigger(wait={**values, **changes}, poll_s=poll_s)


def fire(trigger: BaseTrigger) -> Any:
    async def first() -> Any:
        return (await anext(trigger.run())).payload

    return asyncio.run(first())


@pytest.fixture(name="queue_manager")
def _queue_manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Create a queue manager with the queue DLQ, the connection `mq` to it, and its handler."""
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    monkeypatch.setenv("MQDLQ_RULES_DIR", str(tmp_path))
    (tmp_path / "night.yaml").write_text("connection: mq\nrules: night.rules\n")
    (tmp_path / "night.rules").write_text(RULES)
    extra = {"queue_manager": "QMT", "transport": "embedded"}
    monkeypatch.setenv("AIRFLOW_CONN_MQ", json.dumps({"conn_type": "ibmmq", "extra": extra}))
    shared_inquiry_pool.cache_clear()
    forget_settings("mq")
    embedded_mq.create("QMT")
    embedded_mq.run_mqsc("QMT", "DEFINE QLOCAL(DLQ)")
    return "QMT"


@pytest.mark.parametrize(
    "trigger",
    [
        RetryTrigger(PAST, STATE),
        RetryTrigger(PAST, STATE, "demo-1", {"destinations": [["A", ""]]}),
        depth_trigger(until=FUTURE),
        AnswerTrigger(
            wait=asdict(WaitForQueueManager("mq", "QMT", FUTURE, {"until": None})), poll_s=10
        ),
        depth_trigger(known=3, due_at=FUTURE, due_why="it is time to rescan", event_queue="E"),
    ],
)
def test_a_trigger_survives_serialize(trigger: BaseTrigger) -> None:
    """The triggerer rebuilds triggers from their import path and keyword arguments."""
    path, kwargs = trigger.serialize()

    stored: Any = deserialize(json.loads(json.dumps(serialize(kwargs))))
    assert resolve_name(path)(**stored).serialize() == (path, kwargs)
    assert set(kwargs) == set(inspect.signature(type(trigger)).parameters)


def test_the_retry_trigger_returns_the_state_it_was_given() -> None:
    assert fire(RetryTrigger(PAST, STATE)) == STATE


def test_the_retry_trigger_fires_early_if_its_run_is_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    monkeypatch.setenv("MQDLQ_LEDGER_URL", url)
    monkeypatch.setattr(waiting, "STOP_LOOK_S", 1.0)
    with open_ledger(url) as ledger:
        ask_to_stop(run_record(), ledger, "alice", "", PAST)

    assert fire(RetryTrigger(FUTURE, STATE, "demo-1")) == STATE


def test_the_retry_trigger_fires_at_its_moment_if_the_ledger_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQDLQ_LEDGER_URL", f"sqlite:///{tmp_path}")
    soon = utc_now() + timedelta(milliseconds=50)

    assert fire(RetryTrigger(soon, STATE, "demo-1")) == STATE


def watch(destination: str, until: datetime = FUTURE) -> dict[str, Any]:
    watched = {"conn_id": "mq", "queue_manager": "QMT", "destinations": [[destination, ""]]}
    return watched | {"until": until.isoformat(), "pause_s": 0.05}


def test_the_retry_trigger_fires_when_a_destination_takes_messages_again(
    queue_manager: str,
) -> None:
    embedded_mq.run_mqsc(queue_manager, "DEFINE QLOCAL(SHUT) PUT(DISABLED)")
    trigger = RetryTrigger(PAST, STATE, "demo-1", watch("SHUT"))

    async def fixed() -> Any:
        fired = asyncio.ensure_future(anext(trigger.run()))
        done, _ = await asyncio.wait([fired], timeout=0.4)
        assert not done
        embedded_mq.run_mqsc(queue_manager, "ALTER QLOCAL(SHUT) PUT(ENABLED)")
        return (await asyncio.wait_for(fired, 20)).payload

    assert asyncio.run(fixed()) == STATE


def test_the_retry_trigger_fires_when_the_time_to_wait_for_a_fix_is_up(queue_manager: str) -> None:
    embedded_mq.run_mqsc(queue_manager, "DEFINE QLOCAL(SHUT) PUT(DISABLED)")

    assert fire(RetryTrigger(PAST, STATE, "demo-1", watch("SHUT", until=PAST))) == STATE


def test_the_retry_trigger_waits_on_while_the_queue_manager_does_not_answer(
    queue_manager: str, caplog: pytest.LogCaptureFixture
) -> None:
    embedded_mq.end(queue_manager)
    until = utc_now() + timedelta(milliseconds=300)

    with caplog.at_level(logging.WARNING):
        assert fire(RetryTrigger(PAST, STATE, "demo-1", watch("SHUT", until=until))) == STATE

    assert utc_now() >= until - timedelta(milliseconds=60)
    assert "it is not known whether destinations take messages: MQCONN" in caplog.text


@pytest.mark.usefixtures("queue_manager")
def test_the_retry_trigger_does_not_wait_for_a_queue_manager_that_hangs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(waiting, "SILENT_S", 0.2)
    embedded_mq.faults.set("MQOPEN:1+:delay=2:before")
    until = utc_now() + timedelta(milliseconds=100)

    with caplog.at_level(logging.WARNING):
        assert fire(RetryTrigger(PAST, STATE, "demo-1", watch("SHUT", until=until))) == STATE
    embedded_mq.faults.set("")

    assert "queue manager QMT has not answered for 0 s" in caplog.text


def put(
    queue_manager: str, number: int = 1, *, queue: str = "DLQ", body: bytes = b"a message"
) -> None:
    with connect(ConnectionSettings(queue_manager, transport="embedded")) as connected:
        for _ in range(number):
            connected.handle.put1(queue.encode(), body)


def test_the_depth_trigger_fires_with_the_depth(queue_manager: str) -> None:
    put(queue_manager)

    assert fire(depth_trigger(until=FUTURE)) == {
        "depth": 1,
        "why": "1 messages",
        "until": FUTURE.isoformat(),
    }


def test_the_depth_trigger_gives_up_at_its_time(queue_manager: str) -> None:
    assert queue_manager
    event = {"depth": 0, "why": "", "until": PAST.isoformat()}
    assert fire(depth_trigger(until=PAST)) == event


def test_the_depth_trigger_ignores_settled_messages(queue_manager: str) -> None:
    put(queue_manager, 3)

    event = {"depth": 3, "why": "", "until": PAST.isoformat()}
    assert fire(depth_trigger(known=3, until=PAST)) == event
    assert fire(depth_trigger(known=2))["why"] == (
        "3 messages, 2 of them were there when the last run ended"
    )


def test_the_depth_trigger_fires_when_a_rescan_is_due(queue_manager: str) -> None:
    put(queue_manager, 3)

    trigger = depth_trigger(known=3, due_at=PAST, due_why="it is time to rescan")

    assert fire(trigger)["why"] == "3 messages, and it is time to rescan"


def test_the_depth_trigger_removes_no_message(queue_manager: str) -> None:
    put(queue_manager)

    fire(depth_trigger())

    with connect(ConnectionSettings(queue_manager, transport="embedded")) as connected:
        assert connected.depth("DLQ") == 1


def test_the_depth_trigger_logs_a_lost_connection_and_reconnects(
    queue_manager: str, caplog: pytest.LogCaptureFixture
) -> None:
    put(queue_manager)
    embedded_mq.faults.set("MQCONNX:1:2059:before,MQINQ:1:2009:before")
    try:
        with caplog.at_level("INFO"):
            event = fire(depth_trigger())
    finally:
        embedded_mq.faults.set("")

    assert event["depth"] == 1
    told = [record.message for record in caplog.records if ".triggers." in record.name]
    assert told == [
        (
            "MQCONN of queue manager QMT failed: MQRC_Q_MGR_NOT_AVAILABLE (2059); looking again"
            " in 0 s [MQDLQ-807]"
        ),
        (
            "MQINQ of queue DLQ failed: MQRC_CONNECTION_BROKEN (2009); looking again in 0 s"
            " [MQDLQ-807]"
        ),
        "queue manager QMT answers again",
    ]


def test_a_lasting_fault_ends_the_wait(queue_manager: str) -> None:
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


@pytest.mark.parametrize("messages", [0, 1])
def test_changed_rules_end_the_wait(queue_manager: str, tmp_path: Path, messages: int) -> None:
    """Before any message is handled by rules that are no longer there."""
    put(queue_manager, messages)
    (tmp_path / "night.rules").write_text("INPUTQ(DLQ)\nACTION(DISCARD)\n")

    assert fire(depth_trigger()) == {"depth": messages, "why": RULES_CHANGED, "until": None}


def test_a_changed_comment_does_not_end_the_wait(queue_manager: str, tmp_path: Path) -> None:
    assert queue_manager
    (tmp_path / "night.rules").write_text(f"* of the night shift\n{RULES}")

    assert fire(depth_trigger(until=PAST))["why"] == ""


def test_the_trigger_watches_the_table_that_the_run_names(
    queue_manager: str, tmp_path: Path
) -> None:
    assert queue_manager
    (tmp_path / "other.rules").write_text(RULES)
    (tmp_path / "night.rules").write_text("ACTION(DISCARD)\n")

    assert fire(depth_trigger(rules="other.rules", until=PAST))["why"] == ""


def test_unchanged_rules_files_are_not_read_again(
    queue_manager: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert queue_manager
    watch = RulesWatch("night", None, parse(RULES, "night.rules").digest)
    assert not watch.have_changed()
    read: list[str] = []
    monkeypatch.setattr(sense, "load_handler", read.append)

    assert not watch.have_changed()
    assert read == []


def test_invalid_rules_are_logged_once_and_the_wait_continues(
    queue_manager: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert queue_manager
    watch = RulesWatch("night", None, parse(RULES, "night.rules").digest)
    (tmp_path / "night.rules").write_text("ACTION(DISCRAD)\n")

    assert not watch.have_changed()
    assert not watch.have_changed()
    (told,) = [record.message for record in caplog.records]
    assert told.startswith(
        f"the rules of night cannot be read now; the run waits with the rules that it has read:"
        f" {tmp_path}/night.rules:1:8: "
    )

    (tmp_path / "night.rules").write_text("ACTION(DISCARD)\n")
    assert watch.have_changed()


def test_unreadable_rules_are_logged_once(
    queue_manager: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert queue_manager
    (tmp_path / "night.yaml").write_text("connexion: mq\n")
    watch = RulesWatch("night", None, parse(RULES, "night.rules").digest)

    assert [watch.have_changed() for _ in range(3)] == [False, False, False]
    assert len(caplog.records) == 1


@pytest.fixture(name="silence")
def _silence(queue_manager: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the queue manager take every connection and never answer."""
    assert queue_manager
    over = threading.Event()

    def hang(*_: Any, **_named: Any) -> Any:
        over.wait(60)
        # Not connect: this may be in the time of a next test, which counts the connections.
        raise TimeoutError("nobody waits for this connection any more")

    monkeypatch.setattr(inquiries, "connect", hang)
    monkeypatch.setattr(waiting, "SILENT_S", 0.01)
    monkeypatch.setattr(waiting, "LAST_S", 0.01)
    yield
    over.set()


async def beside(trigger: Callable[[], BaseTrigger], caplog: pytest.LogCaptureFixture) -> None:
    """Let forty triggers wait for an answer, until each has logged it; a thread must remain."""
    caplog.clear()
    waiting = [asyncio.ensure_future(anext(trigger().run())) for _ in range(40)]
    try:
        async with asyncio.timeout(20):
            while len(caplog.messages) < len(waiting):  # noqa: ASYNC110 (a log sets no event)
                await asyncio.sleep(0)
            await asyncio.to_thread(int)
    finally:
        for each in waiting:
            each.cancel()


@pytest.mark.usefixtures("silence")
def test_triggers_of_a_silent_queue_manager_leave_threads_for_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asyncio.run(beside(depth_trigger, caplog))
    asyncio.run(beside(lambda: answer_trigger(FUTURE), caplog))


@pytest.mark.usefixtures("silence")
@pytest.mark.parametrize("kind", ["depth", "answer"])
def test_a_silent_queue_manager_is_logged_and_the_wait_still_ends(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    trigger = depth_trigger(until=PAST) if kind == "depth" else answer_trigger(PAST)

    event = fire(trigger)

    assert event["until"] == PAST.isoformat()
    assert (
        "queue manager QMT has not answered for 0 s; the trigger waits for the answer [MQDLQ-802]"
    ) in caplog.messages


@pytest.mark.usefixtures("silence")
def test_changed_rules_end_a_wait_for_a_silent_queue_manager(tmp_path: Path) -> None:
    (tmp_path / "night.rules").write_text("INPUTQ(DLQ)\nACTION(DISCARD)\n")

    assert fire(depth_trigger())["why"] == RULES_CHANGED


def answer_trigger(until: datetime) -> AnswerTrigger:
    return AnswerTrigger(wait=asdict(WaitForQueueManager("mq", "", until, STATE)), poll_s=0)


def test_the_wait_ends_when_the_queue_manager_answers_again(
    queue_manager: str, caplog: pytest.LogCaptureFixture
) -> None:
    embedded_mq.faults.set("MQCONNX:1:2059:before,MQCONNX:2:2538:before")
    try:
        with caplog.at_level("INFO"):
            event = fire(answer_trigger(FUTURE))
    finally:
        embedded_mq.faults.set("")

    assert event == {"until": FUTURE.isoformat(), "waited": STATE}
    told = [record.message for record in caplog.records if ".triggers." in record.name]
    assert told == [
        (
            "MQCONN of queue manager QMT failed: MQRC_Q_MGR_NOT_AVAILABLE (2059); looking again"
            " in 0 s [MQDLQ-807]"
        ),
        (
            "MQCONN of queue manager QMT failed: MQRC_HOST_NOT_AVAILABLE (2538); looking again"
            " in 0 s [MQDLQ-807]"
        ),
        f"queue manager {queue_manager} answers again",
    ]


def test_the_wait_for_a_queue_manager_has_a_limit(queue_manager: str) -> None:
    assert queue_manager
    embedded_mq.faults.set("MQCONNX:1:2059:before")
    try:
        assert fire(answer_trigger(PAST)) == {"until": PAST.isoformat(), "waited": STATE}
    finally:
        embedded_mq.faults.set("")


def test_a_refused_connection_is_not_waited_for(queue_manager: str) -> None:
    assert queue_manager
    embedded_mq.faults.set("MQCONNX:1:2035:before")
    try:
        with pytest.raises(QueueManagerError, match="MQRC_NOT_AUTHORIZED"):
            fire(answer_trigger(FUTURE))
    finally:
        embedded_mq.faults.set("")
