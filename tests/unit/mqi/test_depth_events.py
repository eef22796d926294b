"""Watches of event queues: which events wake, and what happens without them."""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

import embedded_mq
from mqdlq.mqi.connect import ConnectionSettings, connect
from mqdlq.mqi.evidence import (
    EventWatches,
    describe_disabled_events,
    read_depth_event,
    read_pcf,
)

pytestmark = pytest.mark.stages

EVENTS = "SYSTEM.ADMIN.PERFM.EVENT"
ENABLED = "ALTER QMGR PERFMEV(ENABLED)\nALTER QLOCAL(DLQ) QDEPTHHI(0) QDEPTHLO(0) QDPHIEV(ENABLED)"
HIGH, LOW = 2224, 2225


@pytest.fixture(name="settings", params=["pymqi", "ibmmq"])
def _settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> ConnectionSettings:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    embedded_mq.create("QME")
    embedded_mq.run_mqsc("QME", "DEFINE QLOCAL(DLQ)\nDEFINE QLOCAL(OTHER)")
    return ConnectionSettings("QME", transport="embedded", client=request.param)


def put(settings: ConnectionSettings, queue: str, body: bytes = b"a message") -> None:
    with connect(settings) as queue_manager:
        queue_manager.handle.put1(queue.encode(), body)


def forged(queue: bytes, reason: int, command: int = 45) -> bytes:
    text = struct.pack("=5i", 4, 20 + 48, 2002, 0, 48) + queue.ljust(48)
    return struct.pack("=9i", 7, 36, 1, command, 1, 1, 1, reason, 1) + text


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_an_event_of_the_queue_wakes_and_stays_on_the_event_queue(
    settings: ConnectionSettings,
) -> None:
    embedded_mq.run_mqsc("QME", ENABLED)
    put(settings, EVENTS, forged(b"DLQ", HIGH))  # there before the watch
    watches, woken, woken_for_other = EventWatches(wait_ms=50), Event(), Event()
    stop = watches.listen(settings, EVENTS, "DLQ", woken.set)
    stop_other = watches.listen(settings, EVENTS, "OTHER", woken_for_other.set)
    try:
        time.sleep(0.3)
        assert not woken.is_set()
        put(settings, "DLQ")
        assert woken.wait(30)
        assert not woken_for_other.is_set()
        assert len(watches._watches) == 1
    finally:
        stop()
        stop_other()
    until(lambda: len(watches._watches) == 0)
    assert embedded_mq.depths("QME")[EVENTS] == 2


def test_an_event_queue_that_cannot_be_browsed_is_reported_once(
    settings: ConnectionSettings, caplog: pytest.LogCaptureFixture
) -> None:
    watches, woken = EventWatches(retry_s=0.01), Event()
    with caplog.at_level(logging.WARNING):
        stop = watches.listen(settings, "NO.EVENTS", "DLQ", woken.set)
        until(lambda: bool(caplog.messages))
        time.sleep(0.2)
        stop()
        until(lambda: len(watches._watches) == 0)

    assert len(caplog.messages) == 1
    assert (
        "event queue NO.EVENTS cannot be browsed: MQOPEN of queue NO.EVENTS failed:"
        in (caplog.messages[0])
    )
    assert "+browse" in caplog.messages[0]
    assert not woken.is_set()


def test_a_deleted_queue_keeps_no_event_from_others_and_a_late_listener_is_warned(
    settings: ConnectionSettings, caplog: pytest.LogCaptureFixture
) -> None:
    embedded_mq.run_mqsc("QME", ENABLED)
    watches, woken = EventWatches(wait_ms=50, retry_s=0.01), Event()
    with caplog.at_level(logging.INFO):
        stops = [watches.listen(settings, EVENTS, "GONE", lambda: None)]
        until(lambda: bool(caplog.messages))
        stops.append(watches.listen(settings, EVENTS, "DLQ", woken.set))
        stops.append(watches.listen(settings, EVENTS, "OTHER", lambda: None))
        try:
            until(lambda: any("[MQDLQ-137]" in line for line in caplog.messages))
            put(settings, EVENTS, forged(b"DLQ", HIGH))
            assert woken.wait(30)
        finally:
            for stop in stops:
                stop()
            until(lambda: len(watches._watches) == 0)

    gone, warning = caplog.messages
    assert gone.startswith("depth events of queue GONE cannot be inquired: MQOPEN of queue GONE")
    assert "generates no depth events for queue OTHER" in warning


def test_disabled_events_are_reported_with_the_commands_that_enable_them(
    settings: ConnectionSettings,
) -> None:
    with connect(settings) as queue_manager:
        assert describe_disabled_events(queue_manager, "DLQ") == (
            "ALTER QMGR PERFMEV(ENABLED) and ALTER QLOCAL(DLQ) QDPHIEV(ENABLED)"
        )
        embedded_mq.run_mqsc("QME", ENABLED)
        assert describe_disabled_events(queue_manager, "DLQ") == ""
        put(settings, "DLQ")  # which disables QDPHIEV and enables QDPLOEV
        assert describe_disabled_events(queue_manager, "DLQ") == ""


def test_only_high_and_full_depth_events_wake() -> None:
    assert read_depth_event(forged(b"DLQ", HIGH)) == "DLQ"
    assert read_depth_event(forged(b"DLQ", LOW)) is None
    assert read_depth_event(forged(b"DLQ", HIGH, command=46)) is None
    assert read_depth_event(forged(b"DLQ", HIGH)[:-1]) is None


@given(st.binary(max_size=300))
def test_bytes_that_are_not_pcf_are_ignored(noise: bytes) -> None:
    read_pcf(noise)
    start = forged(b"DLQ", HIGH)
    for at in (0, 36, len(start)):
        read_pcf(start[:at] + noise)
