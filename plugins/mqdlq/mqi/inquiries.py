"""Run PCF commands through the command server of a queue manager."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, Final, TypeVar

from mqdlq.constants import MQRC
from mqdlq.errors import MqDlqError, QueueManagerError
from mqdlq.mqi.connect import ConnectionSettings, QueueManager, connect


def run_command(
    queue_manager: QueueManager,
    name: str,
    parameters: Mapping[int, Any],
    *,
    reply_queue: str = "MQDLQ.*",
) -> list[dict[int, Any]]:
    """Run a PCF command such as MQCMD_INQUIRE_Q; return its responses by parameter.

    The reply queue is dynamic, from SYSTEM.DEFAULT.MODEL.QUEUE, and ends with the command; its name
    begins with `reply_queue`. Raises QueueManagerError.
    """
    client = queue_manager.client
    with client.translating_errors(name, "the command server"):
        pcf = client.module.PCFExecute(
            queue_manager.handle, dynamic_queue_name=reply_queue.encode(), convert=True
        )
        try:
            responses: list[dict[int, Any]] = getattr(pcf, name)(dict(parameters))
            return responses
        finally:
            pcf.disconnect()


# Advice on puts that fail because of a stream queue.


def stream_advice(queue_manager: QueueManager, queue: str, reason: int) -> str:
    """Return how a put's reason code relates to the stream queue of a local queue, or "".

    With STRMQOS(MUSTDUP), a message that cannot be put to the stream queue is not put at all, and
    the reason code is about the stream queue (IBM MQ docs, "Configuring streaming queues").
    The result is "" for a queue manager without streaming queues, for an alias queue, and for a
    queue that the user may not inquire.
    """
    mq = queue_manager.client.CMQC
    try:
        stream, quality, inhibited, depth, deepest = queue_manager.inquire_attributes(
            queue,
            mq.MQCA_STREAM_QUEUE_NAME,
            mq.MQIA_STREAM_QUEUE_QOS,
            mq.MQIA_INHIBIT_PUT,
            mq.MQIA_CURRENT_Q_DEPTH,
            mq.MQIA_MAX_Q_DEPTH,
        )
    except QueueManagerError:
        return ""
    is_its_own = (reason == MQRC["MQRC_Q_FULL"] and depth >= deepest) or (
        reason == MQRC["MQRC_PUT_INHIBITED"] and inhibited == mq.MQQA_PUT_INHIBITED
    )
    if not stream or quality != mq.MQST_MUST_DUP or is_its_own:
        return ""
    gives = "may give" if reason == MQRC["MQRC_MSG_TOO_BIG_FOR_Q"] else "gives"
    return (
        f"its stream queue {stream} {gives} this reason: STRMQOS(MUSTDUP) refuses a message that"
        f" cannot be put to both {queue} and {stream}"
    )


# Inquire about many queues over a few connections that stay open between inquiries: a connection
# costs a queue manager far more than an inquiry.

MAX_CONNECTIONS: Final = 4
"""The maximum number of connections for one set of connection settings."""

IDLE_S: Final = 60.0
"""The number of seconds after which an unused connection ends."""


Answer = TypeVar("Answer")

_Question = tuple[Callable[[QueueManager], Any], Future[Any]]
"""An inquiry to run on a connection, and the future of its answer."""


class InquiryPool:
    """Pool of connections that run inquiries, and no other calls, for many threads.

    An MQ handle belongs to the thread that connected, so each connection has its own thread. A
    connection ends with its first failing call; the error goes to the caller of that inquiry, and
    the next inquiry connects again. If connecting fails, all waiting inquiries of this queue
    manager fail.
    """

    def __init__(self, *, idle_s: float = IDLE_S) -> None:
        self._idle_s = idle_s
        self._lock = Lock()
        self._inquiry_queues: dict[ConnectionSettings, _InquiryQueue] = {}

    def depth(self, settings: ConnectionSettings, queue: str) -> Future[int]:
        """Ask for the queue's CURDEPTH; the queue is opened for inquiry only."""
        return self.ask(settings, lambda queue_manager: queue_manager.depth(queue))

    def ask(
        self, settings: ConnectionSettings, question: Callable[[QueueManager], Answer]
    ) -> Future[Answer]:
        """Run `question`, a function that only makes inquiries, on a connection.

        The future raises the errors of connecting, QueueManagerError, ConnectionSettingsError and
        ClientNotFoundError, and of the question.
        """
        answer: Future[Answer] = Future()
        with self._lock:
            inquiry_queue = self._inquiry_queues.setdefault(settings, _InquiryQueue(settings))
            inquiry_queue.questions.put((question, answer))
            inquiry_queue.open += 1
            if inquiry_queue.threads < min(inquiry_queue.open, MAX_CONNECTIONS):
                Thread(target=self._serve, args=(inquiry_queue,), daemon=True).start()
                inquiry_queue.threads += 1  # after the start, which may fail
        return answer

    def _serve(self, inquiry_queue: _InquiryQueue) -> None:
        connection = None
        while True:
            try:
                question = inquiry_queue.questions.get(timeout=self._idle_s)
            except Empty:
                with self._lock:
                    if not inquiry_queue.questions.empty():
                        continue
                    inquiry_queue.threads -= 1
                    if not inquiry_queue.threads:
                        del self._inquiry_queues[inquiry_queue.settings]
                break
            connection = self._ask(inquiry_queue, connection, question)
        _end(connection)

    def _ask(
        self, inquiry_queue: _InquiryQueue, connection: QueueManager | None, question: _Question
    ) -> QueueManager | None:
        try:
            connection = connection or connect(inquiry_queue.settings, may_reconnect=True)
        except Exception as error:  # noqa: BLE001 (the caller gets it from the future)
            failed = [question]
            with suppress(Empty):
                while True:  # all that wait for a connection now
                    failed.append(inquiry_queue.questions.get_nowait())
            for each in failed:
                self._answer(inquiry_queue, each, error)
            return None
        try:
            found: Any = question[0](connection)
        except Exception as error:  # noqa: BLE001 (as above)
            found = error
            _end(connection)
            connection = None
        self._answer(inquiry_queue, question, found)
        return connection

    def _answer(self, inquiry_queue: _InquiryQueue, question: _Question, found: Any) -> None:
        _, answer = question
        with self._lock:
            inquiry_queue.open -= 1
        if not answer.set_running_or_notify_cancel():
            return  # the caller has cancelled the inquiry
        if isinstance(found, Exception):
            answer.set_exception(found)
        else:
            answer.set_result(found)


@cache
def shared_inquiry_pool() -> InquiryPool:
    return InquiryPool()


class _InquiryQueue:
    """The inquiries of one queue manager: the number of `open` ones and of `threads`."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self.settings = settings
        self.questions: SimpleQueue[_Question] = SimpleQueue()
        self.open = 0
        self.threads = 0


def _end(connection: QueueManager | None) -> None:
    """End a connection, which has no work that could be lost."""
    if connection is not None:
        with suppress(MqDlqError):
            connection.disconnect()
