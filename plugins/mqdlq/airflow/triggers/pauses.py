"""What triggers share: a few threads, waits for an answer that may never come, and pauses.

A queue manager that hangs, or a client that reconnects by itself, may keep a call for half an hour.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context, copy_context
from datetime import datetime
from functools import cache
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Final, TypeVar

from airflow.triggers.base import BaseTrigger

from mqdlq.airflow.operators.base import utc_now
from mqdlq.mqi.connect import ConnectionSettings
from mqdlq.mqi.evidence import shared_event_watches


def serialized(trigger: BaseTrigger, **arguments: Any) -> tuple[str, dict[str, Any]]:
    """Return the class path and the arguments that make a trigger again."""
    return f"{type(trigger).__module__}.{type(trigger).__qualname__}", arguments


SILENT_S: Final = 60.0
"""The time after which the log reports, and repeats, that there is no answer."""

LAST_S: Final = 10.0
"""How long the last look, at the end of a wait, may take."""

Answer = TypeVar("Answer")


async def answer_of(asked: Future[Answer], who: str, log: logging.Logger) -> Answer:
    """Wait for an answer without a limit; log repeatedly that it is missing."""
    waited = asyncio.wrap_future(asked)
    try:
        while not await has_answered(waited, who, log):
            pass
        return waited.result()
    finally:
        waited.cancel()


async def has_answered(
    asked: asyncio.Future[Answer], who: str, log: logging.Logger, *, until: datetime | None = None
) -> bool:
    """Wait a while for an answer, near `until` for a shorter time; log if it is missing.

    The call continues: the caller waits again, or cancels it.
    """
    left = (until - utc_now()).total_seconds() if until else SILENT_S
    seconds = min(SILENT_S, max(left, LAST_S))
    done, _ = await asyncio.wait([asked], timeout=seconds)
    if not done:
        log.warning(
            "%s has not answered for %.0f s; the trigger waits for the answer [MQDLQ-802]",
            who,
            seconds,
        )
    return bool(done)


# A few threads that all triggers of a process share for calls that block.

MOST_THREADS: Final = 4


class FewThreads:
    """Run calls one after the other in a few threads; thousands of calls may wait.

    For files, the ledger, and Airflow's own API. A call to a queue manager does not belong here:
    one that never answers would keep a thread, and with it the triggers of all others. Unlike
    those of `asyncio.to_thread`, the threads do not keep the process from ending.
    """

    def __init__(self) -> None:
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
    return FewThreads()


SHORTEST_S: Final = 1.0
"""The time between two looks, however many events come."""


class WakeUps:
    """Pauses of a trigger that end early at a depth event.

    An event only ends a pause: the trigger then inquires the depth as usual. Without events, the
    trigger looks after each pause. The handle of this class belongs to one event loop.
    """

    def __init__(self) -> None:
        self._woken = asyncio.Event()
        self._source: tuple[ConnectionSettings, str, str] | None = None
        self._stop: Callable[[], None] | None = None

    def listen(self, settings: ConnectionSettings, event_queue: str, queue: str) -> None:
        """Listen to events of a queue, and to no others; without `event_queue`, to none."""
        source = (settings, event_queue, queue) if event_queue else None
        if source == self._source:
            return
        self.close()
        self._source = source
        if source is not None:
            loop = asyncio.get_running_loop()

            def wake() -> None:
                with suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(self._woken.set)

            self._stop = shared_event_watches().listen(settings, event_queue, queue, wake)

    async def sleep(self, seconds: float) -> None:
        """Sleep for this time, or after an event for `SHORTEST_S` at least."""
        first = min(seconds, SHORTEST_S)
        await asyncio.sleep(first)
        if seconds > first:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), seconds - first)
        self._woken.clear()

    def close(self) -> None:
        self._source = None
        if self._stop is not None:
            self._stop()
            self._stop = None
