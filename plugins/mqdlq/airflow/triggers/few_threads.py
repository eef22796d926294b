"""A few threads that all triggers of a process share for calls that block."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextvars import Context, copy_context
from functools import cache
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Final, TypeVar

MOST_THREADS: Final = 4

Answer = TypeVar("Answer")


class FewThreads:
    """Run calls one after the other in a few threads; thousands of calls may wait.

    For files, the ledger, and Airflow's own API. A call to a queue manager does not belong here:
    one that never answers would keep a thread, and with it the triggers of all others. Unlike
    those of `asyncio.to_thread`, the threads do not keep the process from ending.
    """

    def __init__(self) -> None:
        """Start no thread yet."""
        self._lock = Lock()
        self._calls: SimpleQueue[tuple[Context, Callable[[], Any], Future[Any]]] = SimpleQueue()
        self._open = 0
        self._threads = 0

    def submit(self, call: Callable[[], Answer]) -> Future[Answer]:
        """Call it in one of the threads; the future raises what the call raises."""
        answer: Future[Answer] = Future()
        # By its context Airflow knows to whose log a line belongs.
        self._calls.put((copy_context(), call, answer))
        with self._lock:
            self._open += 1
            if self._threads < min(self._open, MOST_THREADS):
                Thread(target=self._serve, daemon=True).start()
                self._threads += 1
        return answer

    def _serve(self) -> None:
        while True:
            context, call, answer = self._calls.get()
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(context.run(call))
                except Exception as error:  # noqa: BLE001 (it is for the caller)
                    answer.set_exception(error)
            del context, call, answer  # kept until the next call comes otherwise
            with self._lock:
                self._open -= 1


@cache
def shared_threads() -> FewThreads:
    """Return the threads of this process."""
    return FewThreads()
