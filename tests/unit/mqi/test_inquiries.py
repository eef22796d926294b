"""Inquiries of queue depths over a pool of connections."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest

import embedded_mq
from mqdlq.errors import QueueManagerError
from mqdlq.mqi.connect import ConnectionSettings, connect
from mqdlq.mqi.inquiries import MAX_CONNECTIONS, InquiryPool

pytestmark = pytest.mark.stages

NAMES = [f"Q{number:02}" for number in range(20)]


def connections_of(inquiries: InquiryPool) -> int:
    with inquiries._lock:
        return sum(each.threads for each in inquiries._inquiry_queues.values())


@pytest.fixture(name="settings", params=["pymqi", "ibmmq"])
def _settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> ConnectionSettings:
    """Return settings of a queue manager whose queue Q07 has seven messages, and so on."""
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    embedded_mq.create("QMI")
    embedded_mq.run_mqsc("QMI", "\n".join(f"DEFINE QLOCAL({name})" for name in NAMES))
    settings = ConnectionSettings("QMI", transport="embedded", client=request.param)
    with connect(settings) as queue_manager:
        for number, name in enumerate(NAMES):
            for _ in range(number):
                queue_manager.handle.put1(name.encode(), b"a message")
    return settings


@pytest.fixture(name="inquiries")
def _inquiries() -> InquiryPool:
    return InquiryPool()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline


def reason(answer: Future[int]) -> int:
    error = answer.exception(30)
    assert isinstance(error, QueueManagerError)
    return error.reason


def test_many_inquiries_share_a_few_connections(
    settings: ConnectionSettings, inquiries: InquiryPool
) -> None:
    embedded_mq.faults.set(f"MQCONNX:{MAX_CONNECTIONS + 1}+:2059:before")  # one more would fail
    try:
        answers = [inquiries.depth(settings, name) for _ in range(10) for name in NAMES]
        found = [answer.result(30) for answer in answers]
    finally:
        embedded_mq.faults.set("")

    assert found == [*range(20)] * 10


def test_a_connection_is_kept_for_the_next_inquiry(
    settings: ConnectionSettings, inquiries: InquiryPool
) -> None:
    embedded_mq.faults.set("MQCONNX:2:2059:before")  # a second connection would fail
    try:
        found = [inquiries.depth(settings, "Q03").result(30) for _ in range(5)]
    finally:
        embedded_mq.faults.set("")

    assert (found, connections_of(inquiries)) == ([3] * 5, 1)


def test_a_lost_connection_fails_one_inquiry(
    settings: ConnectionSettings, inquiries: InquiryPool
) -> None:
    embedded_mq.faults.set("MQINQ:2:2009:before")
    try:
        first, second, third = (inquiries.depth(settings, "Q03").exception(30) for _ in range(3))
    finally:
        embedded_mq.faults.set("")

    assert (first, third) == (None, None)
    assert "MQRC_CONNECTION_BROKEN (2009)" in str(second)


def test_all_waiting_inquiries_fail_if_the_queue_manager_is_unreachable(
    inquiries: InquiryPool, settings: ConnectionSettings
) -> None:
    gone = ConnectionSettings("GONE", transport="embedded")

    answers = [inquiries.depth(gone, "Q03") for _ in range(50)]

    assert {reason(answer) for answer in answers} == {2058}  # MQRC_Q_MGR_NAME_ERROR
    assert inquiries.depth(settings, "Q03").result(30) == 3


def test_an_unknown_queue_fails_only_its_own_inquiry(
    settings: ConnectionSettings, inquiries: InquiryPool
) -> None:
    wrong, right = inquiries.depth(settings, "NOWHERE"), inquiries.depth(settings, "Q19")

    assert (reason(wrong), right.result(30)) == (2085, 19)  # MQRC_UNKNOWN_OBJECT_NAME


def test_a_cancelled_inquiry_does_not_affect_others(
    settings: ConnectionSettings, inquiries: InquiryPool
) -> None:
    answers = [inquiries.depth(settings, "Q03") for _ in range(50)]
    for answer in answers[1::2]:
        answer.cancel()

    assert {answer.result(30) for answer in answers[::2]} == {3}


def test_an_idle_inquiry_connection_ends(settings: ConnectionSettings) -> None:
    inquiries = InquiryPool(idle_s=0.05)
    assert inquiries.depth(settings, "Q03").result(30) == 3

    until(lambda: connections_of(inquiries) == 0)

    assert inquiries.depth(settings, "Q04").result(30) == 4


def test_an_inquiry_connection_does_not_delay_a_quiesce(settings: ConnectionSettings) -> None:
    """A quiesce waits for all connections: an inquiry connection ends at its next inquiry."""
    inquiries = InquiryPool()
    assert inquiries.depth(settings, "Q03").result(30) == 3
    embedded_mq.quiesce("QMI")

    answer = inquiries.depth(settings, "Q03")

    assert reason(answer) == 2161  # MQRC_Q_MGR_QUIESCING
    until(lambda: embedded_mq.status("QMI") == "ENDED")
