"""Limits of a handler: how much it moves in a run and in a second, and when a queue is closed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from mqdlq.controls import Keys
from mqdlq.controls.limits.windows import ClosedWindow
from mqdlq.model import Destination
from mqdlq.rules.wildcards import compiled

_NAME_LENGTH = 48


class Counted(StrEnum):
    """The unit of a rate; the bytes of a message are those put, or got for a DISCARD."""

    MESSAGES = "messages"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class RateKey:
    """A key that limits a rate: what it counts, and in how many seconds.

    `meter` is the unit of its meter in the ledger, which all handlers with the key share.
    """

    name: str
    counts: Counted
    period: str
    seconds: int
    meter: str


RATE_KEYS: Final = (
    RateKey("messages_per_second", Counted.MESSAGES, "second", 1, "messages"),
    RateKey("bytes_per_second", Counted.BYTES, "second", 1, "bytes"),
    RateKey("bytes_per_minute", Counted.BYTES, "minute", 60, "bytes a minute"),
)


def _one_of(*others: str) -> str:
    """Return the keys that limit a rate, and others, as a person is asked for one of them."""
    *names, last = [f"'{name}'" for name in (*(key.name for key in RATE_KEYS), *others)]
    return f"{', '.join(names)} or {last}"


class Rates(Keys):
    """How much may be moved in a time."""

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

    def limited(self) -> Iterator[tuple[RateKey, float]]:
        """Yield the keys with a limit, and how much each allows in its period."""
        for key in RATE_KEYS:
            if (amount := getattr(self, key.name)) is not None:
                yield key, amount


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

    @property
    def has_windows(self) -> bool:
        return any(one.closed for one in self.destinations)

    def of_destination(self, destination: Destination, own: str) -> DestinationLimits | None:
        """Return the item that applies, or None; a blank queue manager is `own`, of the run."""
        queue, queue_manager = destination
        matching = (one for one in self.destinations if one.applies_to(queue, queue_manager or own))
        return next(matching, None)
