"""Limits of a handler: how much it moves in a run and in a second, and when a queue is closed."""

import math
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice, pairwise
from typing import Annotated, Final, Self
from zoneinfo import ZoneInfo

from croniter import croniter
from pydantic import ConfigDict, Field, field_validator, model_validator

from mqdlq.controls import Keys
from mqdlq.model import Destination
from mqdlq.rules.wildcards import compiled

_NAME_LENGTH = 48

RATE_KEYS: Final = ("messages_per_second", "bytes_per_second", "bytes_per_minute")
"""The keys that limit a rate: what each counts, and in what time."""


def _one_of(*others: str) -> str:
    """Return the keys that limit a rate, and others, as a person is asked for one of them."""
    *names, last = [f"'{name}'" for name in (*RATE_KEYS, *others)]
    return f"{', '.join(names)} or {last}"


class Rates(Keys):
    """How much may be moved in a time; the bytes of a message are those put, or got to discard."""

    messages_per_second: Annotated[float | None, Field(gt=0, le=1_000_000)] = None
    """Messages moved in a second; unset: no limit."""
    bytes_per_second: Annotated[int | None, Field(ge=1)] = None
    """Bytes put in a second, or got for a DISCARD; unset: no limit. A longer message moves alone,
    and the next message waits for it."""
    bytes_per_minute: Annotated[int | None, Field(ge=1)] = None
    """Bytes put in a minute, or got for a DISCARD; unset: no limit. After a pause, those of one
    minute move at once."""
    burst: Annotated[int | None, Field(ge=1)] = None
    """Messages that may move at once after a pause; unset: those of one second, at least one. The
    burst of `bytes_per_second` is one second."""

    @model_validator(mode="after")
    def _has_a_rate_for_its_burst(self) -> Self:
        if self.burst is not None and self.messages_per_second is None:
            raise ValueError("'burst' has no effect without 'messages_per_second'")
        return self

    @property
    def burst_messages(self) -> int:
        return self.burst or max(1, math.ceil(self.messages_per_second or 1))

    @property
    def has_rate(self) -> bool:
        return any(self.limited())

    def least_time(self, messages: int, size: int) -> float:
        """Return how many seconds it takes at least to move so many messages and bytes."""
        amounts = {"messages_per_second": messages, "bytes_per_second": size}
        amounts["bytes_per_minute"] = 60 * size
        return max((amounts[key] / limit for key, limit in self.limited()), default=0.0)

    def limited(self) -> Iterator[tuple[str, float]]:
        """Yield the keys with a limit, and how much each allows in its period."""
        for key in RATE_KEYS:
            if (amount := getattr(self, key)) is not None:
                yield key, amount


CRON_FIELDS: Final = 5
"""Croniter would take a sixth, of seconds, and a seventh, of years."""

_RANDOM: Final = re.compile(r"(?i)(^|\s)r(\(|\s)")
"""A field for which croniter takes any moment of its choice, another one at each reading."""
_LARGEST_SHIFT: Final = timedelta(hours=2)
"""No zone sets its clocks back by more at once in a change of summer time."""
_STARTS_TO_COMPARE: Final = 10_100
"""As many minutes as there are in a week."""
_SOME_DAY: Final = datetime(2026, 1, 1)  # noqa: DTZ001 (a local time of any zone)


def is_cron(schedule: str) -> bool:
    """Whether Airflow can go by it: to the minute, the same at each reading, and ever due."""
    is_preset = schedule.startswith("@")
    if not is_preset and (len(schedule.split()) != CRON_FIELDS or _RANDOM.search(schedule)):
        return False
    try:
        croniter(schedule, 0).get_next()
    except ValueError:
        return False
    return True


class ClosedWindow(Keys):
    """A window that begins whenever its cron expression is due, and lasts for a time."""

    model_config = ConfigDict(validate_by_name=True)

    cron: str
    """When a window begins: a cron expression such as `0 22 * * *`."""
    lasts: Annotated[timedelta, Field(alias="for", gt=timedelta(0), le=timedelta(days=31))]
    """How long one lasts."""
    time_zone: str = "UTC"
    """Time zone of `cron`: a name of the IANA database."""

    @field_validator("cron")
    @classmethod
    def _is_a_cron_expression(cls, value: str) -> str:
        if not is_cron(value):
            raise ValueError(
                f"{value!r} is not a cron expression; expected five fields such as '0 22 * * *'"
            )
        return value

    @field_validator("time_zone")
    @classmethod
    def _is_a_time_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ValueError, OSError, KeyError):
            raise ValueError(
                f"{value!r} is not a time zone; expected a name such as 'Europe/Berlin' or 'UTC'"
            ) from None
        return value

    @model_validator(mode="after")
    def _opens_again(self) -> Self:
        starts = islice(croniter(self.cron, _SOME_DAY).all_next(datetime), _STARTS_TO_COMPARE)
        if not any(later - start > self.lasts for start, later in pairwise(starts)):
            raise ValueError(
                f"windows of {self.lasts} that begin at {self.cron!r} follow each other without a"
                " gap: the destination would never take a message"
            )
        return self


def find_reopening(windows: tuple[ClosedWindow, ...], now: datetime) -> datetime | None:
    """Return when the last of the windows that are closed now ends, or None; times are aware."""
    ends = (_find_end(window, now.replace(second=0, microsecond=0)) for window in windows)
    return max((end for end in ends if end is not None and end > now), default=None)


@lru_cache(maxsize=1024)
def _find_end(window: ClosedWindow, minute: datetime) -> datetime | None:
    """Return the end of the last window that has begun by this minute, None if there is none.

    A start in the hour that a clock skips counts from the time that the clock then shows. A start
    in the hour that a clock repeats counts twice, so that the window is closed in both.
    """
    zone = ZoneInfo(window.time_zone)
    shown = minute.astimezone(zone).replace(tzinfo=None)
    earliest = shown - window.lasts - _LARGEST_SHIFT
    ends = []
    for start in croniter(window.cron, shown + _LARGEST_SHIFT).all_prev(datetime):
        if start < earliest:
            break
        for fold in (0, 1):
            began = start.replace(tzinfo=zone, fold=fold).astimezone(UTC)
            # A time that the clock skips is an hour too early with fold=1.
            is_shown = began.astimezone(zone).replace(tzinfo=None) == start
            if began <= minute and (fold == 0 or is_shown):
                ends.append(began + window.lasts)
    return max(ends, default=None)


class DestinationLimits(Rates):
    """The limits of the destinations that match two patterns."""

    queue: Annotated[str, Field(min_length=1, max_length=_NAME_LENGTH)]
    """Name of the target queue; `*` and `?` are wildcards as in rules."""
    queue_manager: Annotated[str | None, Field(min_length=1, max_length=_NAME_LENGTH)] = None
    """Name of the target's queue manager, with wildcards; unset: any."""
    in_flight: Annotated[int | None, Field(ge=1)] = None
    """Highest depth to which a local queue is filled; unset: no limit. The depth of any other queue
    cannot be inquired: the run logs a warning."""
    closed: tuple[ClosedWindow, ...] = ()
    """Times in which the destination takes nothing: [windows](#windows)."""

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        if not (self.has_rate or self.in_flight or self.closed):
            raise ValueError(f"a destination needs a limit: {_one_of('in_flight', 'closed')}")
        return self

    def applies_to(self, queue: str, queue_manager: str) -> bool:
        """Whether a destination matches; `queue_manager` is not blank."""
        names = ((self.queue, queue), (self.queue_manager or "*", queue_manager))
        return all(compiled(pattern).match(name.ljust(_NAME_LENGTH)) for pattern, name in names)


class Limits(Rates):
    """How much a handler moves; without a limit, all that its rules say, at full speed."""

    messages_per_run: Annotated[int | None, Field(ge=1)] = None
    """Highest number of messages that a run moves; unset: no limit."""
    queue_manager: Rates | None = None
    """Rates of everything that is moved on the queue manager of the connection, by all handlers
    with this key: `messages_per_second`, `bytes_per_second`, `bytes_per_minute`, `burst`."""
    destinations: tuple[DestinationLimits, ...] = ()
    """Limits of target queues; the first item that matches applies. See
    [destinations](#destinations)."""

    @model_validator(mode="after")
    def _names_each_destination_once(self) -> Self:
        counted = Counter((item.queue, item.queue_manager) for item in self.destinations)
        for (queue, _), count in counted.items():
            if count > 1:
                raise ValueError(
                    f"the destination {queue!r} is listed {count} times; only the first would"
                    " apply: join its limits in one item"
                )
        if self.queue_manager is not None and not self.queue_manager.has_rate:
            raise ValueError(f"'queue_manager' needs a limit: {_one_of()}")
        return self

    @property
    def has_pace(self) -> bool:
        """Whether messages wait for a rate, a depth or the end of a window."""
        return bool(self.has_rate or self.queue_manager or self.destinations)

    def of_destination(self, destination: Destination, own: str) -> DestinationLimits | None:
        """Return the item that applies, or None; a blank queue manager is `own`, of the run."""
        queue, queue_manager = destination
        matching = (one for one in self.destinations if one.applies_to(queue, queue_manager or own))
        return next(matching, None)
