"""The trigger of a handler with schedule event: when it fires for a queue, and when it does not."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
from airflow.providers.common.messaging.triggers.msg_queue import MessageQueueTrigger
from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.sdk.execution_time.comms import ErrorResponse

import embedded_mq
from mqdlq.airflow.dags.handler_runs import schedule_of
from mqdlq.airflow.hooks.ibmmq import forget_settings
from mqdlq.airflow.triggers import arrival as arrival_trigger
from mqdlq.airflow.triggers import waiting
from mqdlq.airflow.triggers.arrival import ArrivalTrigger, Lookout
from mqdlq.airflow.triggers.waiting import MOST_THREADS
from mqdlq.errors import HandlerError, QueueManagerError
from mqdlq.handlers import load_handler
from mqdlq.mqi import inquiries
from mqdlq.mqi.connect import ConnectionSettings, connect
from mqdlq.mqi.inquiries import MAX_CONNECTIONS, shared_inquiry_pool
from mqdlq.stages.sense import (
    REPEAT_EVENT_AFTER,
    QueueState,
    build_scheduled_run,
    should_report,
)
from tests.airflow.triggers.test_triggers import put

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
SEEN = QueueState(3, "3 messages", NOON - timedelta(hours=1))
QUIET = QueueState(3, "", NOON)


@pytest.fixture(name="place")
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Create a queue manager with the queue DLQ, the connection `mq`, and the handler `night`."""
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    monkeypatch.setenv("MQDLQ_RULES_DIR", str(tmp_path))
    monkeypatch.setenv("MQDLQ_LEDGER_URL", f"sqlite:///{tmp_path}/ledger.db")
    extra = '{"queue_manager": "QMT", "transport": "embedded"}'
    monkeypatch.setenv("AIRFLOW_CONN_MQ", f'{{"conn_type": "ibmmq", "extra": {extra}}}')
    (tmp_path / "night.yaml").write_text("connection: mq\nrules: night.rules\nschedule: event\n")
    (tmp_path / "night.rules").write_text("INPUTQ(DLQ)\nACTION(IGNORE)\n")
    embedded_mq.create("QMT")
    embedded_mq.run_mqsc("QMT", "DEFINE QLOCAL(DLQ)\nDEFINE QLOCAL(OTHER)")
    shared_inquiry_pool.cache_clear()
    forget_settings("mq")
    yield tmp_path
    embedded_mq.faults.set("")


def look(lookout: Lookout) -> QueueState:
    return asyncio.run(lookout.look(NOON))


def test_a_new_account_of_the_queue_is_an_event() -> None:
    assert should_report(SEEN, None, NOON)
    assert should_report(SEEN, (replace(SEEN, account_at=None), NOON), NOON)


def test_the_trigger_fires_again_only_for_more_messages_or_after_ten_minutes() -> None:
    told = (SEEN, NOON)

    assert not should_report(SEEN, told, NOON + timedelta(minutes=1))
    assert not should_report(replace(SEEN, depth=2), told, NOON + timedelta(minutes=1))
    assert should_report(replace(SEEN, depth=4), told, NOON)
    assert should_report(SEEN, told, NOON + REPEAT_EVENT_AFTER)


def test_settled_messages_are_never_an_event() -> None:
    assert not should_report(QUIET, None, NOON)
    assert not should_report(QUIET, (SEEN, NOON), NOON + REPEAT_EVENT_AFTER)


@pytest.mark.parametrize(("triggers", "seconds"), [(1, 1), (100, 1), (300, 3), (5000, 10)])
def test_few_triggers_look_each_second_and_many_as_often_as_all_may(
    triggers: int, seconds: float
) -> None:
    pace = waiting.Pace()
    with ExitStack() as joined:
        for _ in range(triggers):
            joined.enter_context(pace.joined())
        assert pace.pause(10) == seconds
    assert pace.pause(10) == 1


def test_shortly_after_a_look_only_another_depth_is_looked_into(place: Path) -> None:
    lookout, second = Lookout("night", relies_for_s=10), timedelta(seconds=1)
    looks = [asyncio.run(lookout.look(NOON))]
    (place / "night.rules").write_text("INPUTQ(OTHER)\nACTION(IGNORE)\n")

    looks.append(asyncio.run(lookout.look(NOON + 9 * second)))
    put("QMT", 2)
    looks.append(asyncio.run(lookout.look(NOON + 9 * second)))
    looks.append(asyncio.run(lookout.look(NOON + 20 * second)))

    assert [(seen.depth, seen.why) for seen in looks] == [
        (0, ""),
        (0, ""),
        (2, "2 messages"),
        (0, ""),  # of the other queue
    ]
    assert looks[1] is looks[0]


def events(
    number: int, seen: list[QueueState | Exception], monkeypatch: pytest.MonkeyPatch
) -> list[Any]:
    """Run a trigger whose lookout sees all this, one after the other; return its first events."""

    class Script(Lookout):
        async def look(self, now: datetime) -> QueueState:
            del now
            found = seen.pop(0) if len(seen) > 1 else seen[0]
            if isinstance(found, Exception):
                raise found
            return found

    async def take() -> list[Any]:
        found = []
        async for event in ArrivalTrigger(handler="night", poll_s=0).run():
            found.append(event.payload["depth"])
            if len(found) == number:
                break
        return found

    monkeypatch.setattr(arrival_trigger, "Lookout", Script)
    return asyncio.run(take())


def test_messages_that_arrive_during_a_run_start_the_next_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first run has taken two of three when another comes."""
    seen = [SEEN, SEEN, replace(SEEN, depth=1), replace(SEEN, depth=2), QUIET]

    assert events(2, list(seen), monkeypatch) == [3, 2]


def test_an_invalid_handler_does_not_end_the_trigger(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gone = HandlerError("MQDLQ-303", "night.yaml: no such handler")

    with caplog.at_level("INFO", logger=arrival_trigger.__name__):
        assert events(1, [gone, SEEN], monkeypatch) == [3]

    assert caplog.messages == [
        "handler night: night.yaml: no such handler; looking again in 0 s [MQDLQ-803]",
        "handler night can be looked at again",
    ]


def test_an_airflow_error_does_not_end_the_trigger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its API server may be away for a while; that error is not an AirflowException."""
    away = AirflowRuntimeError(ErrorResponse(detail={"message": "away"}))

    assert events(1, [away, SEEN], monkeypatch) == [3]


def second_handler(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the handler `day` with its own queue manager, QM2, which holds one message."""
    extra = '{"queue_manager": "QM2", "transport": "embedded"}'
    monkeypatch.setenv("AIRFLOW_CONN_MQ2", f'{{"conn_type": "ibmmq", "extra": {extra}}}')
    (place / "day.yaml").write_text("connection: mq2\nrules: night.rules\nschedule: event\n")
    embedded_mq.create("QM2")
    embedded_mq.run_mqsc("QM2", "DEFINE QLOCAL(DLQ)")
    put("QM2", 1)


def test_a_silent_queue_manager_is_reported_and_does_not_delay_the_others(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    second_handler(place, monkeypatch)
    over = threading.Event()

    def hang(settings: ConnectionSettings, **options: Any) -> Any:
        if settings.queue_manager == "QMT":
            over.wait(60)
        return connect(settings, **options)

    monkeypatch.setattr(inquiries, "connect", hang)
    monkeypatch.setattr(waiting, "SILENT_S", 0.1)

    async def look_at_both() -> QueueState:
        silent = [asyncio.ensure_future(Lookout("night").look(NOON)) for _ in range(40)]
        try:
            async with asyncio.timeout(30):
                while "its queue has not answered" not in caplog.text:  # noqa: ASYNC110 (a log)
                    await asyncio.sleep(0.05)
                return await Lookout("day").look(NOON)
        finally:
            for each in silent:
                each.cancel()

    try:
        assert asyncio.run(look_at_both()).depth == 1
    finally:
        over.set()
    assert (
        "handler night: its queue has not answered for 0 s; the trigger waits for the answer"
        " [MQDLQ-802]"
    ) in caplog.messages


@pytest.mark.usefixtures("place")
def test_three_hundred_starting_triggers_use_a_handful_of_threads() -> None:
    put("QMT", 2)
    before, most = threading.active_count(), 0

    async def look_all() -> list[QueueState]:
        nonlocal most
        looks = asyncio.gather(*(Lookout("night").look(NOON) for _ in range(300)))
        while not looks.done():
            most = max(most, threading.active_count())
            await asyncio.sleep(0.01)
        return await looks

    seen = asyncio.run(look_all())

    assert {each.depth for each in seen} == {2}
    assert most - before <= MOST_THREADS + MAX_CONNECTIONS


@pytest.mark.usefixtures("place")
def test_the_trigger_only_inquires_the_queue() -> None:
    """Somebody else has the queue for exclusive input, which refuses any other that opens it so."""
    put("QMT", 2)
    with connect(ConnectionSettings("QMT", transport="embedded")) as other:
        held = other.open("DLQ", other.client.CMQC.MQOO_INPUT_EXCLUSIVE)
        seen = look(Lookout("night"))
        other.close(held)
        depth = other.depth("DLQ")

    assert (seen, depth) == (QueueState(2, "2 messages", None), 2)


def test_the_trigger_uses_a_changed_table_at_its_next_look(place: Path) -> None:
    put("QMT", 2)
    lookout = Lookout("night")
    assert look(lookout).depth == 2
    (place / "night.rules").write_text("INPUTQ(OTHER)\nACTION(IGNORE)\n")

    assert look(lookout).depth == 0


@pytest.mark.usefixtures("place")
def test_the_trigger_reads_everything_again_after_a_failure() -> None:
    put("QMT", 1)
    lookout = Lookout("night")
    look(lookout)
    embedded_mq.faults.set("MQINQ:1:2009:before")

    with pytest.raises(QueueManagerError, match="MQRC_CONNECTION_BROKEN"):
        look(lookout)

    assert lookout._kept is None
    assert look(lookout).depth == 1


@pytest.mark.usefixtures("place")
def test_triggers_share_a_connections_settings_for_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put("QMT", 1)
    assert look(Lookout("night")).depth == 1
    extra = '{"queue_manager": "QM9", "transport": "embedded"}'
    monkeypatch.setenv("AIRFLOW_CONN_MQ", f'{{"conn_type": "ibmmq", "extra": {extra}}}')

    assert look(Lookout("night")).depth == 1
    with pytest.raises(QueueManagerError, match="queue manager QM9"):
        asyncio.run(Lookout("night").look(NOON + timedelta(minutes=2)))


@pytest.mark.usefixtures("place")
def test_the_schedule_event_is_a_watched_asset() -> None:
    (asset,) = schedule_of(load_handler("night"))
    (watcher,) = asset.watchers
    path, kwargs = watcher.trigger.serialize()

    assert (asset.name, asset.uri) == ("mq_dlq_night.arrivals", "mqdlq://night/arrivals")
    assert resolve_name(path)(**kwargs).serialize() == (path, kwargs)
    assert set(kwargs) == set(inspect.signature(ArrivalTrigger).parameters)


@pytest.mark.usefixtures("place")
def test_a_run_that_was_started_by_an_event_does_not_wait() -> None:
    """Its table says nothing of WAIT, which means WAIT(YES)."""
    handler, settings = load_handler("night"), ConnectionSettings("QMT", transport="embedded")

    assert build_scheduled_run(handler, settings, "DLQ", NOON).wait_s == 0


def test_any_dag_waits_for_dead_letters_by_the_scheme_of_airflows_message_queues(
    place: Path,
) -> None:
    del place
    path, arguments = MessageQueueTrigger(scheme="mqdlq", handler="night").serialize()

    async def first() -> Any:
        return (await anext(resolve_name(path)(**arguments).run())).payload

    put("QMT", 2)

    assert resolve_name(path) is ArrivalTrigger
    assert asyncio.run(first()) == {"depth": 2, "why": "2 messages"}
