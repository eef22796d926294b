"""Read messages that a queue manager puts about a queue, as evidence and never as truth.

Event and statistics messages are in programmable command format. They are browsed, and stay on
their queue for other programs. The clients' own reader, `PCFExecute.unpack`, takes every event for
a failed command, because its completion code is MQCC_WARNING, and reads a wrong message without
end. IBM MQ docs, "Structures for PCF commands and responses", "Event message MQCFH (PCF header)".
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache
from threading import Event, Lock, Thread
from typing import Any, Final

from mqdlq.constants import MQRC
from mqdlq.errors import QueueManagerError
from mqdlq.mqi.browse import get_options
from mqdlq.mqi.connect import ConnectionSettings, QueueManager, connect

MQCFT_EVENT: Final = 7
MQCFT_STATISTICS: Final = 21

_INTEGER, _STRING, _GROUP = 3, 4, 20
_LISTS: Final = {5: "i", 25: "q"}
"""MQCFT_INTEGER_LIST and MQCFT_INTEGER64_LIST."""
_HEADER: Final = struct.Struct("=9i")
_START: Final = struct.Struct("=4i")
_MAX_PARAMETERS: Final = 10_000

Value = int | bytes | tuple[int, ...] | list["Parameters"]
Parameters = Mapping[int, Value]


PcfMessage = tuple[int, int, int, Parameters]
"""A message: its type (an MQCFT), command (an MQCMD), reason code and parameters.

Parameters are by identifier: numbers, text as bytes without trailing blanks and NULs, lists of
numbers, and the list of the groups with one identifier. Other kinds are left out.
"""


_NOTHING: Final[PcfMessage] = (0, 0, 0, {})


def read_pcf(body: bytes) -> PcfMessage | None:
    """Return a message in this machine's byte order, as MQGMO_CONVERT gives it; None if not PCF."""
    try:
        kind, length, _, command, _, _, _, reason, count = _HEADER.unpack_from(body)
        if length != _HEADER.size or not 0 <= count <= _MAX_PARAMETERS:
            return None
        parameters, _ = _read_parameters(body, length, count, is_group=False)
    except (struct.error, ValueError):
        return None
    return kind, command, reason, parameters


def _read_parameters(
    body: bytes, at: int, count: int, *, is_group: bool
) -> tuple[dict[int, Value], int]:
    """Return parameters and the offset of their end; raise struct.error or ValueError."""
    found: dict[int, Value] = {}
    for _ in range(count):
        kind, length, identifier, number = _START.unpack_from(body, at)
        if length < _START.size or at + length > len(body):
            raise ValueError(length)
        end = at + length
        if kind == _GROUP:
            if is_group or not 0 <= number <= _MAX_PARAMETERS:
                raise ValueError(number)
            members, end = _read_parameters(body, end, number, is_group=True)
            groups = found.setdefault(identifier, [])
            if isinstance(groups, list):
                groups.append(members)
        elif (value := _read_value(kind, number, body[at : at + length])) is not None:
            found[identifier] = value
        at = end
    return found, at


def _read_value(kind: int, number: int, data: bytes) -> Value | None:
    """Return the value of one parameter; `number` is its first field after the identifier."""
    if kind == _INTEGER:
        return number
    if kind == _STRING:
        (size,) = struct.unpack_from("=i", data, 16)
        return data[20 : 20 + max(0, size)].rstrip(b" \0")
    if kind in _LISTS:
        if not 0 <= number <= len(data):
            raise ValueError(number)
        return struct.unpack_from(f"={number}{_LISTS[kind]}", data, 16)
    return None


# Statistics messages of one queue.
#
# IBM MQ docs, "Queue statistics message data", "Statistics message format". The times of an
# interval are in the queue manager's local time, without its zone: the end of an interval is taken
# from the MQMD of its message (PutDate and PutTime, in GMT), the length from the difference of the
# times.

MAX_INTERVAL: Final = timedelta(days=31)
"""The longest interval that is read; STATINT is a week at most."""

MAX_GETS: Final = (1 << 31) - 1
"""The highest number of gets that is read: the fields of the statistics have 32 bits."""

MAX_LENGTH: Final = 1 << 20
"""The length of the longest message that is read: it has up to 100 queues."""

MQCMD_STATISTICS_Q: Final = 165
MQCA_Q_NAME: Final = 2016
MQGACF_Q_STATISTICS_DATA: Final = 8011
MQIAMO_GETS: Final = 722
MQCAMO_START: Final = (2711, 2712)
MQCAMO_END: Final = (2707, 2708)
MQCC_WARNING: Final = 1
_LOCAL_TIME: Final = "%Y-%m-%d %H.%M.%S"

QueueStatistics = tuple[timedelta, int]
"""The length of an interval, and how many messages programs got from a queue in it.

The interval ended when the message was put; the caller has its MQMD.
"""


def read_statistics(body: bytes, queue: str) -> QueueStatistics | None:
    """Return what a statistics message says of a queue; None for any other bytes or queue.

    None, too, for times and numbers that no queue manager writes.
    """
    kind, command, _, parameters = read_pcf(body) or _NOTHING
    if (kind, command) != (MQCFT_STATISTICS, MQCMD_STATISTICS_Q):
        return None
    start, end = _local_time(parameters, MQCAMO_START), _local_time(parameters, MQCAMO_END)
    groups = parameters.get(MQGACF_Q_STATISTICS_DATA)
    if start is None or end is None or not isinstance(groups, list):
        return None
    if not timedelta() <= end - start <= MAX_INTERVAL:
        return None
    counts = [
        gets
        for group in groups
        if isinstance(group, dict) and group.get(MQCA_Q_NAME) == queue.encode("ascii", "replace")
        if isinstance(gets := group.get(MQIAMO_GETS), tuple)
    ]
    total = sum(number for gets in counts for number in gets if isinstance(number, int))
    return (end - start, total) if counts and 0 <= total <= MAX_GETS else None


def browse_statistics(
    queue_manager: QueueManager, source: str, queue: str
) -> Iterator[tuple[bytes, QueueStatistics | None]]:
    """Yield the packed MQMD of each message, with what it says of a queue if it is statistics."""
    with queue_manager.browsing(source) as opened:
        browse = _Browse(queue_manager, opened, source, MAX_LENGTH)
        while (body := browse.next()) is not None:
            yield bytes(browse.descriptor.packed), read_statistics(body, queue)


class _Browse:
    """A browse of an open queue, which converts each message and leaves out its properties."""

    def __init__(self, queue_manager: QueueManager, opened: Any, source: str, longest: int) -> None:
        self._client = queue_manager.client
        self._opened, self._source, self._longest = opened, source, longest
        self.descriptor, constants = self._client.packed.MD(), self._client.CMQC
        self._empty = self.descriptor.pack()
        whole = constants.MQGMO_ACCEPT_TRUNCATED_MSG | constants.MQGMO_CONVERT
        self._options = constants.MQGMO_BROWSE_NEXT | constants.MQGMO_NO_PROPERTIES | whole

    def next(self, wait_ms: int = 0) -> bytes | None:
        """Return the next message, b"" if it could not be converted whole, None at the end."""
        self.descriptor.packed[:] = self._empty
        waiting = self._client.CMQC.MQGMO_WAIT if wait_ms else 0
        gmo = get_options(self._client, self._options | waiting)
        gmo.WaitInterval = wait_ms
        try:
            with self._client.translating_errors("MQGET (browse)", f"queue {self._source}"):
                return bytes(self._opened.get(self._longest, self.descriptor, gmo))
        except QueueManagerError as error:
            if error.reason == MQRC["MQRC_NO_MSG_AVAILABLE"]:
                return None
            if error.completion == MQCC_WARNING:
                return b""
            raise

    def new_events(self, wait_ms: int) -> Iterator[str]:
        """Yield the queue of each event that comes from now on, "" when none has come for a while.

        Events that are on the event queue at first are skipped.
        """
        is_new = False
        while True:
            body = self.next(wait_ms if is_new else 0)
            is_new = is_new or body is None
            yield (read_depth_event(body) or "") if is_new and body else ""


def _local_time(parameters: Parameters, names: tuple[int, int]) -> datetime | None:
    date, time = (parameters.get(name) for name in names)
    if not isinstance(date, bytes) or not isinstance(time, bytes):
        return None
    try:
        # Only the difference of two such times is used.
        return datetime.strptime(f"{date.decode()} {time.decode()}", _LOCAL_TIME)  # noqa: DTZ007
    except ValueError:
        return None


# Authority events: who was refused on a queue, and when.

MQCMD_Q_MGR_EVENT: Final = 44
MQCACF_USER_IDENTIFIER: Final = 3025


def read_refusal(body: bytes) -> tuple[str, str] | None:
    """Return the queue and the user of an authority event about a queue, None for other bytes.

    IBM MQ docs, "Not Authorized (type 2)".
    """
    kind, command, reason, parameters = read_pcf(body) or _NOTHING
    names = (parameters.get(one) for one in (MQCA_Q_NAME, MQCACF_USER_IDENTIFIER))
    queue, user = (
        one.decode("ascii", "replace") if isinstance(one, bytes) else "" for one in names
    )
    is_event = (kind, command, reason) == (
        MQCFT_EVENT,
        MQCMD_Q_MGR_EVENT,
        MQRC["MQRC_NOT_AUTHORIZED"],
    )
    return (queue, user) if is_event and queue and user else None


# Queue depth events, so that a trigger looks at a queue earlier.
#
# IBM MQ docs, "Understanding queue depth events". An event tells no more than that the queue is
# worth a look: it may be late, forged or missing.

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

log = logging.getLogger(__name__)


def read_depth_event(body: bytes) -> str | None:
    """Return the queue of a Queue Depth High or Queue Full event, or None for any other bytes."""
    kind, command, reason, parameters = read_pcf(body) or _NOTHING
    name = parameters.get(MQCA_BASE_Q_NAME)
    is_event = (kind, command) == (MQCFT_EVENT, MQCMD_PERFM_EVENT) and reason in WAKING
    if not is_event or not isinstance(name, bytes):
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


_Listener = tuple[str, Callable[[], None]]
"""The queue whose events it is for, and the function that one of them calls."""


class EventWatches:
    """The event queues that this process watches, each over one connection with its own thread."""

    def __init__(self, *, retry_s: float = RETRY_S, wait_ms: int = WAIT_MS) -> None:
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
        place, listener = (settings, event_queue), (queue, wake)
        with self._lock:
            watch = self._watches.get(place) or _EventWatch(settings, event_queue, *self._pauses)
            watch.listeners.append(listener)
            if place not in self._watches:
                self._watches[place] = watch
                Thread(target=self._run, args=(place, watch), daemon=True).start()

        def stop() -> None:
            with self._lock, suppress(ValueError):
                watch.listeners.remove(listener)
                if not watch.listeners:
                    watch.is_idle.set()

        return stop

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
                browse = _Browse(queue_manager, opened, self._event_queue, MAX_EVENT_LENGTH)
                for queue in browse.new_events(self._wait_ms):
                    if self.is_idle.is_set():
                        return
                    self._warn_of_disabled_events(queue_manager, inquired)
                    for wake in [wake for name, wake in self.listeners if name == queue]:
                        wake()
        except Exception as error:  # noqa: BLE001 (triggers go on polling)
            text = str(getattr(error, "text", error))
            if text != self._warned:
                self._warned = text
                log.warning(
                    "event queue %s cannot be browsed: %s; the user needs +browse on it; the depth"
                    " is polled [MQDLQ-136]",
                    self._event_queue,
                    text,
                )
            self.is_idle.wait(self._retry_s)

    def _warn_of_disabled_events(self, queue_manager: QueueManager, inquired: set[str]) -> None:
        """Inquire the queues of listeners that are not yet `inquired`, and add them to it."""
        for queue in sorted({name for name, _ in self.listeners} - inquired):
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
