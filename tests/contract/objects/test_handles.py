"""Connection handles: the threads that may use them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import embedded_mq
from embedded_mq_tests.builders import Application
from tests.support.contract_worlds import World


def plain(mq: World) -> Application:
    """Connect by MQCONN, whose handle is not shared."""
    application = Application(mq.mqi, "QM1", mq.mqi.QueueManager("QM1"))
    mq.applications.append(application)
    return application


def in_a_thread(work: Callable[[], object]) -> None:
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 (shown to the test)
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    for failure in failures:
        raise failure


def test_a_handle_of_mqconn_belongs_to_its_thread(mq: World) -> None:
    """IBM MQ docs, "2018 (07E2) (RC2018): MQRC_HCONN_ERROR", "Scope of MQCONN"."""
    application = plain(mq)

    def use() -> None:
        with application.failing("MQRC_HCONN_ERROR"):
            application.put("A")

    in_a_thread(use)
    application.put("A")


def test_a_second_mqconn_of_a_thread_warns_that_it_is_connected(mq: World) -> None:
    """IBM MQ docs, "2002 (07D2) (RC2002): MQRC_ALREADY_CONNECTED"; both clients raise it."""
    application = plain(mq)

    with application.failing("MQRC_ALREADY_CONNECTED") as caught:
        plain(mq)
    assert caught.value.comp == application.number("MQCC_WARNING")

    def connect_as_well() -> None:
        plain(mq).handle.disconnect()

    in_a_thread(connect_as_well)
    application.put("A")
    application.handle.disconnect()
    plain(mq).put("A")


def test_every_thread_may_use_a_shared_handle(mq: World, app: Application) -> None:
    """IBM MQ docs, "MQCNO_HANDLE_SHARE_BLOCK": any thread of the process may use it."""
    in_a_thread(lambda: app.put("A", b"from a thread"))

    assert app.bodies("A") == [b"from a thread"]
    assert mq.connect().bodies("A") == [b"from a thread"]


def sharing(mq: World, option: str) -> Application:
    handle: Any = mq.mqi.QueueManager(None)
    handle.connect_with_options("QM1", opts=getattr(mq.mqi.CMQC, f"MQCNO_HANDLE_SHARE_{option}"))
    application = Application(mq.mqi, "QM1", handle)
    mq.applications.append(application)
    return application


def test_a_call_on_a_nonblocking_handle_in_use_fails(mq: World) -> None:
    """IBM MQ docs, "2219 (08AB) (RC2219): MQRC_CALL_IN_PROGRESS", "MQCNO_HANDLE_SHARE_NO_BLOCK"."""
    application = sharing(mq, "NO_BLOCK")
    queue = application.open("A", "INPUT_SHARED")
    wait = application.gmo("WAIT", WaitInterval=20_000)

    def get_when_no_other_call_is_in_progress() -> None:
        while True:
            try:
                queue.get(None, application.md(), wait)
            except mq.mqi.MQMIError as error:
                if error.reason != 2219:
                    raise
            else:
                return

    waiting = threading.Thread(target=get_when_no_other_call_is_in_progress)
    waiting.start()

    with application.failing("MQRC_CALL_IN_PROGRESS"):
        while True:  # until the other thread is in its call
            application.handle.commit()
    mq.connect().put("A")
    waiting.join()


def test_a_call_on_a_blocking_handle_waits_for_the_other_call(mq: World) -> None:
    """IBM MQ docs, "MQCNO_HANDLE_SHARE_BLOCK": one call at a time, the others wait."""
    application = sharing(mq, "BLOCK")
    queue = application.open("A", "INPUT_SHARED")
    wait = application.gmo("WAIT", WaitInterval=20_000)
    got: list[bytes] = []
    embedded_mq.faults.set("MQGET:1:delay=0.05:before")
    waiting = threading.Thread(target=lambda: got.append(queue.get(None, application.md(), wait)))
    waiting.start()
    mq.connect().put("A", b"there")

    application.handle.commit()
    waiting.join()
    assert got == [b"there"]


def test_a_connection_that_has_ended_is_not_used_again(mq: World) -> None:
    """After MQDISC ibmmq passes None as the handle, which its C extension does not accept."""
    queue_manager = mq.queue_manager()
    queue_manager.disconnect()

    queue_manager.back_out()
    queue_manager.disconnect()
