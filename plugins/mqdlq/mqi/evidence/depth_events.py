"""Watch for queue depth events, so that a trigger looks at a queue earlier.

IBM MQ docs, "Understanding queue depth events". Event messages are browsed and stay on their queue
for other programs. An event tells no more than that the queue is worth a look: it may be late,
forged or missing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from threading import Event, Lock, Thread
from typing import Any, Final, NamedTuple

from mqdlq.constants import MQRC
from mqdlq.errors import QueueManagerError
from mqdlq.mqi.connect import ConnectionSettings, QueueManager, connect
from mqdlq.mqi.evidence.pcf_messages import MQCFT_EVENT, read_pcf

WAIT_MS: Final = 5_000
"""The WaitInterval of a browse: how long a watch without listeners lasts at most."""

RETRY_S: Final = 60.0
"""The pause after a failure, in which no event is seen."""

MAX_EVENT_LENGTH: Final = 4_096

MQCMD_PERFM_EVENT: Final = 45
MQCA_BASE_Q_NAME: Final = 2002
WAKING: Final = frozenset({MQRC["MQRC_Q_DEPTH_HIGH"], MQRC["MQRC_Q_FULL"]})
"""The reasons of events that may mean new messages."""

MQEVR_ENABLED: Final = 1
MQCC_WARNING: Final = 1

log = logging.getLogger(__name__)


def read_depth_event(body: bytes) -> str | None:
    """Return the queue of a Queue Depth High or Queue Full event, or None for any other bytes."""
    message = read_pcf(body)
    if message is None or message.type != MQCFT_EVENT or message.command != MQCMD_PERFM_EVENT:
        return None
    name = message.parameters.get(MQCA_BASE_Q_NAME)
    if message.reason not in WAKING or not isinstance(name, bytes):
        return None
    return name.decode("ascii", "replace")


def describe_disabled_events(queue_manager: QueueManager, queue: str) -> str:
    """Return the commands that enable depth events of a queue, or "" if they are enabled.

    An event disables itself until its counterpart enables it: one of QDPHIEV and QDPLOEV is
    ENABLED as long as events come. On z/OS these attributes cannot be inquired: the result is "".
    """
    constants = queue_manager.client.CMQC
    events = (constants.MQIA_Q_DEPTH_HIGH_EVENT, constants.MQIA_Q_DEPTH_LOW_EVENT)
    missing = []
    try:
        if queue_manager.inquire(constants.MQIA_PERFORMANCE_EVENT) != MQEVR_ENABLED:
            missing.append("ALTER QMGR PERFMEV(ENABLED)")
        if MQEVR_ENABLED not in queue_manager.inquire_attributes(queue, *events):
            missing.append(f"ALTER QLOCAL({queue}) QDPHIEV(ENABLED)")
    except QueueManagerError as error:
        if error.reason != MQRC["MQRC_SELECTOR_ERROR"]:
            raise
        return ""
    return " and ".join(missing)


class _Listener(NamedTuple):
    """The queue whose events it is for, and the function that one of them calls."""

    queue: str
    wake: Callable[[], None]


class EventWatches:
    """The event queues that this process watches, each over one connection with its own thread."""

    def __init__(self, *, retry_s: float = RETRY_S, wait_ms: int = WAIT_MS) -> None:
        """Start without a watch."""
        self._pauses = retry_s, wait_ms
        self._lock = Lock()
        self._watches: dict[tuple[ConnectionSettings, str], _EventWatch] = {}

    def listen(
        self, settings: ConnectionSettings, event_queue: str, queue: str, wake: Callable[[], None]
    ) -> Callable[[], None]:
        """Call `wake` at each new event of a queue; return the function that ends this.

        `wake` runs in the thread of the watch. Errors are logged once, and the watch tries again: a
        caller that hears nothing must look at the queue from time to time.
        """
        place, listener = (settings, event_queue), _Listener(queue, wake)
        with self._lock:
            watch = self._watches.get(place)
            if watch is None:
                watch = self._watches[place] = _EventWatch(settings, event_queue, *self._pauses)
                watch.listeners.append(listener)
                Thread(target=self._run, args=(place, watch), daemon=True).start()
            else:
                watch.listeners.append(listener)

        def stop() -> None:
            with self._lock, suppress(ValueError):
                watch.listeners.remove(listener)
                if not watch.listeners:
                    watch.is_idle.set()

        return stop

    def watched(self) -> int:
        """Return the number of watches, including watches that end soon."""
        with self._lock:
            return len(self._watches)

    def _run(self, place: tuple[ConnectionSettings, str], watch: _EventWatch) -> None:
        while True:
            watch.browse()
            with self._lock:
                if not watch.listeners:
                    del self._watches[place]
                    return
                watch.is_idle.clear()


@cache
def shared_event_watches() -> EventWatches:
    """Return the watches of this process."""
    return EventWatches()


class _EventWatch:
    """One event queue, and who listens to its events."""

    def __init__(
        self, settings: ConnectionSettings, event_queue: str, retry_s: float, wait_ms: int
    ) -> None:
        self.listeners: list[_Listener] = []
        self.is_idle = Event()
        self._settings, self._event_queue = settings, event_queue
        self._retry_s, self._wait_ms = retry_s, wait_ms
        self._warned = ""

    def browse(self) -> None:
        """Browse until nobody listens; after a failure, log it and wait."""
        try:
            with (
                connect(self._settings) as queue_manager,
                queue_manager.browsing(self._event_queue) as opened,
            ):
                self._warned, inquired = "", set[str]()
                self._warn_of_disabled_events(queue_manager, inquired)
                events = _browse_events(queue_manager, opened, self._event_queue, self._wait_ms)
                for queue in events:
                    if self.is_idle.is_set():
                        return
                    self._warn_of_disabled_events(queue_manager, inquired)
                    for listener in [one for one in self.listeners if one.queue == queue]:
                        listener.wake()
        except Exception as error:  # noqa: BLE001 (triggers go on polling)
            self._warn(str(getattr(error, "text", error)))
            self.is_idle.wait(self._retry_s)

    def _warn_of_disabled_events(self, queue_manager: QueueManager, inquired: set[str]) -> None:
        """Inquire the queues of listeners that are not yet `inquired`, and add them to it."""
        for queue in sorted({listener.queue for listener in self.listeners} - inquired):
            inquired.add(queue)
            try:
                commands = describe_disabled_events(queue_manager, queue)
            except QueueManagerError as error:  # deleted, or no authority: others are not affected
                log.info("depth events of queue %s cannot be inquired: %s", queue, error.text)
                continue
            if commands:
                log.warning(
                    "queue manager %s generates no depth events for queue %s; enable them with %s;"
                    " the depth is polled [MQDLQ-137]",
                    queue_manager.name,
                    queue,
                    commands,
                )

    def _warn(self, text: str) -> None:
        if text != self._warned:
            self._warned = text
            log.warning(
                "event queue %s cannot be browsed: %s; the user needs +browse on it; the depth is"
                " polled [MQDLQ-136]",
                self._event_queue,
                text,
            )


def _browse_events(
    queue_manager: QueueManager, opened: Any, name: str, wait_ms: int
) -> Iterator[str]:
    """Yield the queue of each event that comes from now on, and "" when none has come for a while.

    Events that are on the event queue at first are skipped.
    """
    constants = queue_manager.client.CMQC
    descriptor, gmo = queue_manager.client.packed.MD(), queue_manager.client.packed.GMO()
    empty = descriptor.pack()
    gmo.MatchOptions = constants.MQMO_NONE
    gmo.WaitInterval = wait_ms
    options = (
        constants.MQGMO_BROWSE_NEXT
        | constants.MQGMO_ACCEPT_TRUNCATED_MSG
        | constants.MQGMO_FAIL_IF_QUIESCING
        | constants.MQGMO_CONVERT
        | constants.MQGMO_NO_PROPERTIES
    )
    is_new = False
    while True:
        descriptor.packed[:] = empty
        gmo.Options = options | (constants.MQGMO_WAIT if is_new else constants.MQGMO_NO_WAIT)
        body = b""
        try:
            with queue_manager.client.translating_errors("MQGET (browse)", f"queue {name}"):
                body = opened.get(MAX_EVENT_LENGTH, descriptor, gmo)
        except QueueManagerError as error:
            if error.reason == MQRC["MQRC_NO_MSG_AVAILABLE"]:
                is_new = True
            elif error.completion != MQCC_WARNING:  # a warning: not a whole event
                raise
        yield (read_depth_event(bytes(body)) or "") if is_new and body else ""
