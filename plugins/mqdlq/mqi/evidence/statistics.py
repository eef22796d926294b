"""Browse the statistics messages of a queue manager for one queue.

IBM MQ docs, "Queue statistics message data", "Statistics message format". The times of an interval
are in the queue manager's local time, without its zone: the end of an interval is taken from the
MQMD of its message (PutDate and PutTime, in GMT), the length from the difference of the times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from mqdlq.constants import MQRC
from mqdlq.errors import QueueManagerError
from mqdlq.mqi.connect import QueueManager
from mqdlq.mqi.evidence.pcf_messages import MQCFT_STATISTICS, Parameters, read_pcf

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


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """The number of messages that programs got from a queue in an interval of some length.

    The interval ended when the message was put; the caller has its MQMD.
    """

    length: timedelta
    gets: int


def read_statistics(body: bytes, queue: str) -> QueueStatistics | None:
    """Return what a statistics message says of a queue; None for any other bytes or queue.

    None, too, for times and numbers that no queue manager writes.
    """
    message = read_pcf(body)
    if message is None or (message.type, message.command) != (MQCFT_STATISTICS, MQCMD_STATISTICS_Q):
        return None
    start, end = (_local_time(message.parameters, names) for names in (MQCAMO_START, MQCAMO_END))
    groups = message.parameters.get(MQGACF_Q_STATISTICS_DATA)
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
    return QueueStatistics(end - start, total) if counts and 0 <= total <= MAX_GETS else None


def browse_statistics(
    queue_manager: QueueManager, source: str, queue: str
) -> Iterator[tuple[bytes, QueueStatistics | None]]:
    """Yield the packed MQMD of each message, with what it says of a queue if it is statistics."""
    client = queue_manager.client
    constants, descriptor, gmo = client.CMQC, client.packed.MD(), client.packed.GMO()
    empty = descriptor.pack()
    gmo.MatchOptions = constants.MQMO_NONE
    with queue_manager.browsing(source) as opened:
        while True:
            descriptor.packed[:] = empty
            gmo.Options = (
                constants.MQGMO_BROWSE_NEXT
                | constants.MQGMO_NO_WAIT
                | constants.MQGMO_ACCEPT_TRUNCATED_MSG
                | constants.MQGMO_FAIL_IF_QUIESCING
                | constants.MQGMO_CONVERT
                | constants.MQGMO_NO_PROPERTIES
            )
            body = _get(queue_manager, opened, descriptor, gmo, source)
            if body is None:
                return
            yield bytes(descriptor.packed), read_statistics(body, queue)


def _get(
    queue_manager: QueueManager, opened: Any, descriptor: Any, gmo: Any, source: str
) -> bytes | None:
    """Return the next message, b"" if it could not be converted whole, None at the end."""
    try:
        with queue_manager.client.translating_errors("MQGET (browse)", f"queue {source}"):
            return bytes(opened.get(MAX_LENGTH, descriptor, gmo))
    except QueueManagerError as error:
        if error.reason == MQRC["MQRC_NO_MSG_AVAILABLE"]:
            return None
        if error.completion == MQCC_WARNING:
            return b""
        raise


def _local_time(parameters: Parameters, names: tuple[int, int]) -> datetime | None:
    date, time = (parameters.get(name) for name in names)
    if not isinstance(date, bytes) or not isinstance(time, bytes):
        return None
    try:
        # Only the difference of two such times is used.
        return datetime.strptime(f"{date.decode()} {time.decode()}", _LOCAL_TIME)  # noqa: DTZ007
    except ValueError:
        return None
