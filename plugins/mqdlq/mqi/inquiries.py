"""Inquiries of many queues, over a few connections that are kept from one to the next.

For a process that watches many queues: to connect costs a queue manager far more than to be asked.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import cache
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, Final, NamedTuple, TypeVar

from mqdlq.errors import MqDlqError
from mqdlq.mqi.connect import ConnectionSettings, QueueManager, connect

MOST_CONNECTIONS: Final = 4
"""To one queue manager by one set of settings."""

IDLE_S: Final = 60.0
"""After how long a connection ends that nobody has asked anything."""


Answer = TypeVar("Answer")


class _Question(NamedTuple):
    ask: Callable[[QueueManager], Any]
    answer: Future[Any]


class Inquiries:
    """Inquires of queue managers and their queues, and does nothing else; for many threads.

    MQ's handles belong to the thread that made them, so each connection has a thread of its own.
    It ends with the first call that fails, whose error goes to whoever has asked; the next question
    makes another one. Where connecting fails, all that wait for this queue manager are told.
    """

    def __init__(self, *, idle_s: float = IDLE_S) -> None:
        """Connect to nothing yet; a connection lives for `idle_s` seconds after its last use."""
        self._idle_s = idle_s
        self._lock = Lock()
        self._lines: dict[ConnectionSettings, _Line] = {}

    def depth(self, settings: ConnectionSettings, queue: str) -> Future[int]:
        """Ask for the queue's CURDEPTH; the queue is opened for inquiry only.

        The future raises what connecting and inquiring raise: QueueManagerError,
        ConnectionSettingsError, ClientNotFoundError.
        """
        return self.ask(settings, lambda queue_manager: queue_manager.depth(queue))

    def ask(
        self, settings: ConnectionSettings, question: Callable[[QueueManager], Answer]
    ) -> Future[Answer]:
        """Put a question to the queue manager: a function that only inquires of it.

        The future raises what connecting and the question raise.
        """
        answer: Future[Answer] = Future()
        with self._lock:
            line = self._lines.setdefault(settings, _Line())
            line.questions.put(_Question(question, answer))
            line.open += 1
            if line.threads < min(line.open, MOST_CONNECTIONS):
                Thread(target=self._serve, args=(settings, line), daemon=True).start()
                line.threads += 1  # only now: where no thread can be started, there is none
        return answer

    def connections(self) -> int:
        """Return how many connections there are, or are about to be."""
        with self._lock:
            return sum(line.threads for line in self._lines.values())

    def _serve(self, settings: ConnectionSettings, line: _Line) -> None:
        connection = None
        while True:
            try:
                question = line.questions.get(timeout=self._idle_s)
            except Empty:
                with self._lock:
                    if not line.questions.empty():
                        continue
                    self._leave(settings, line)
                break
            connection = self._ask(settings, line, connection, question)
        _end(connection)

    def _leave(self, settings: ConnectionSettings, line: _Line) -> None:
        """Take a thread off the account; what nobody serves any more is forgotten."""
        line.threads -= 1
        if not line.threads:
            del self._lines[settings]

    def _ask(
        self,
        settings: ConnectionSettings,
        line: _Line,
        connection: QueueManager | None,
        question: _Question,
    ) -> QueueManager | None:
        """Answer a question; return the connection if it is good for another one."""
        try:
            connection = connection or connect(settings, may_reconnect=True)
        except Exception as error:  # noqa: BLE001 (it is for whoever has asked)
            for each in (question, *line.all_that_wait()):
                self._answer(line, each, error)
            return None
        try:
            found = question.ask(connection)
        except Exception as error:  # noqa: BLE001 (as above)
            _end(connection)
            self._answer(line, question, error)
            return None
        self._answer(line, question, found)
        return connection

    def _answer(self, line: _Line, question: _Question, found: Any) -> None:
        with self._lock:
            line.open -= 1
        if not question.answer.set_running_or_notify_cancel():
            return  # whoever has asked waits no longer
        if isinstance(found, Exception):
            question.answer.set_exception(found)
        else:
            question.answer.set_result(found)


@cache
def shared_inquiries() -> Inquiries:
    """Return the same to all that watch queues in this process."""
    return Inquiries()


class _Line:
    """What is asked of one queue manager: `open` questions, and the `threads` that take them."""

    def __init__(self) -> None:
        self.questions: SimpleQueue[_Question] = SimpleQueue()
        self.open = 0
        self.threads = 0

    def all_that_wait(self) -> list[_Question]:
        waiting = []
        while True:
            try:
                waiting.append(self.questions.get_nowait())
            except Empty:
                return waiting


def _end(connection: QueueManager | None) -> None:
    """End a connection, which has nothing under way that could be lost."""
    if connection is not None:
        try:
            connection.disconnect()
        except MqDlqError:
            return
