"""The limits that apply to a move, and the parts of them that a pass has reserved."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from mqdlq.controls.limits.settings import DestinationLimits, Limits, Rates
from mqdlq.controls.work import Planned
from mqdlq.ledger import Meter, Rate, Run
from mqdlq.model import Destination
from mqdlq.mqi.hints import printable_name

MESSAGES: Final = "messages"
BYTES: Final = "bytes"
DEPTH: Final = "depth"
_START: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True)
class Gauge:
    """One limit, and the part of it that this pass has reserved.

    `rate` is None for the limit of a depth. `chunk` is how much to reserve at once. `granted` is
    the unused part of what was reserved, which may be used from `ready_at` to `expires_at`.
    """

    meter: Meter
    why: str
    rate: Rate | None = None
    chunk: float = 1
    in_flight: int = 0
    destination: Destination = ("", "")
    is_unknown: bool = False
    granted: float = 0
    seconds_each: float = 0
    ready_at: datetime = _START
    expires_at: datetime = _START

    def find_need(self, planned: Planned) -> int:
        """Return how much of the limit an attempt uses."""
        return planned.length if self.meter.unit == BYTES else len(planned.tries)

    def covers(self, planned: Planned, now: datetime) -> bool:
        """Whether the reserved part is enough for an attempt."""
        return self.granted >= self.find_need(planned) and now <= self.expires_at


class Gauges:
    """The gauges of a run by destination; those of its handler and queue manager apply to all."""

    def __init__(self, run: Run, limits: Limits) -> None:
        """Derive the gauges of a run from the limits of its handler."""
        self._run = run
        self._limits = limits
        self._by_meter: dict[Meter, Gauge] = {}
        self._by_destination: dict[Destination | None, list[Gauge]] = {}
        self._items: dict[Destination, DestinationLimits | None] = {}
        handler, queue_manager = f"handler {run.handler}", f"queue manager {run.queue_manager}"
        self._common = [
            *self._build(handler, handler, limits),
            *self._build(queue_manager, queue_manager, limits.queue_manager),
        ]

    def all(self) -> list[Gauge]:
        """Return the gauges that were asked for."""
        return list(self._by_meter.values())

    def of(self, destination: Destination | None) -> list[Gauge]:
        """Return the gauges of a move to a destination; None is that of a DISCARD."""
        if destination not in self._by_destination:
            own = self._build_own(destination) if destination else []
            self._by_destination[destination] = [*self._common, *own]
        return self._by_destination[destination]

    def find_item(self, destination: Destination) -> DestinationLimits | None:
        """Return the item of `destinations` that applies to a destination, or None."""
        if destination not in self._items:
            queue, queue_manager = destination
            place = queue_manager or self._run.queue_manager
            self._items[destination] = self._limits.of_destination(queue, place)
        return self._items[destination]

    def _build_own(self, destination: Destination) -> list[Gauge]:
        """Return the gauges of one destination.

        The names of the queue and of its queue manager are the subject, which handlers share. A
        blank name of the queue manager means the connection's own one.
        """
        item = self.find_item(destination)
        if item is None:
            return []
        subject = f"queue {destination[0]} at {destination[1] or self._run.queue_manager}"
        name = f"queue {printable_name(destination[0])}"
        gauges = self._build(subject, name, item)
        if item.in_flight is not None:
            why = f"{name} holds {item.in_flight} messages or more (limits: in_flight)"
            gauge = Gauge(Meter(subject, DEPTH), why)
            gauge.in_flight, gauge.destination = item.in_flight, destination
            gauges.append(self._share(gauge))
        return gauges

    def _build(self, subject: str, name: str, rates: Rates | None) -> list[Gauge]:
        """Return the gauges of rates. A chunk is a unit of work, or the rate of one second."""
        gauges, why = [], f"the limit of {name} is "
        if rates is not None and rates.messages_per_second is not None:
            rate = Rate(rates.messages_per_second, rates.burst_messages)
            most = min(rates.burst_messages, self._run.max_messages_per_unit)
            chunk = max(1, min(most, int(rate.per_second)))
            limit = f"{rate.per_second:g} messages a second (limits: messages_per_second)"
            gauges.append(self._share(Gauge(Meter(subject, MESSAGES), why + limit, rate, chunk)))
        if rates is not None and rates.bytes_per_second is not None:
            rate = Rate(rates.bytes_per_second, rates.bytes_per_second)
            limit = f"{rates.bytes_per_second} bytes a second (limits: bytes_per_second)"
            gauges.append(
                self._share(Gauge(Meter(subject, BYTES), why + limit, rate, rate.per_second))
            )
        return gauges

    def _share(self, gauge: Gauge) -> Gauge:
        """Return the gauge of a meter: a destination may have two names."""
        return self._by_meter.setdefault(gauge.meter, gauge)
