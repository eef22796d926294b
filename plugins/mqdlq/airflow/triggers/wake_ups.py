"""Sleep between two looks at a queue, until a depth event of the queue or until the time is up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from mqdlq.mqi.connect import ConnectionSettings
from mqdlq.mqi.evidence import shared_event_watches

SHORTEST_S: Final = 1.0
"""The time between two looks, however many events come."""


class WakeUps:
    """Pauses of a trigger that end early at a depth event.

    An event only ends a pause: the trigger then inquires the depth as usual. Without events, the
    trigger looks after each pause. The handle of this class belongs to one event loop.
    """

    def __init__(self) -> None:
        """Listen to no events yet."""
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
        """Stop listening."""
        self._source = None
        if self._stop is not None:
            self._stop()
            self._stop = None
