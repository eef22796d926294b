"""Limits of rates, of depths and by time: they pace a pass, and hold messages for long waits."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, Protocol

from mqdlq.controls.control import Control
from mqdlq.controls.limits.gauges import Gauge, Gauges
from mqdlq.controls.limits.settings import Limits
from mqdlq.controls.work import Hold, Planned, PlannedAttempt, WorkItem
from mqdlq.model import Destination
from mqdlq.mqi.hints import printable_name
from mqdlq.resources import Execution

LONGEST_WAIT: Final = timedelta(minutes=1)
"""A longer wait is a hold: the pass continues with other messages, and a later pass tries again."""
LONGEST_PACING: Final = timedelta(minutes=3)
"""How long a pass waits in all. With one LONGEST_WAIT more, it is still less than the time for
which other runs wait for the state queue (`HOLD_TIMEOUT`)."""
TURN: Final = timedelta(seconds=12)
"""How long a run leaves the state queue to other runs after it has waited for LONGEST_PACING; they
try to open it every ten seconds."""
GRANT_LASTS: Final = timedelta(seconds=2)
"""How long a reservation may be used; at a later use the bucket could be full again."""
DEPTH_INTERVAL: Final = timedelta(seconds=1)
DEPTH_PATIENCE: Final = timedelta(seconds=10)
DEPTH_HOLD: Final = timedelta(minutes=1)

NO_DEPTH: Final = (
    "the limit in_flight of %s is not applied, because its depth cannot be inquired; name a local"
    " queue that the user may inquire (+inq) [MQDLQ-615]"
)

_GONE: Final = Hold("it left the queue while the run waited for a limit")


class Depths(Protocol):
    """Finds the depths of queues."""

    def inquire_depth(self, destination: Destination) -> int | None:
        """Return the current depth of a local queue, None if it cannot be inquired."""


class Moves(Protocol):
    """The moves of a pass, which can be committed before a control waits."""

    def pause(self, move: Planned) -> bool:
        """Commit the open unit of work; return whether the message of the next move is there."""

    @property
    def destinations(self) -> Depths:
        """The depths of the destinations of the pass."""


class RateLimits(Control):
    """Keeps the rates and depths of `limits`. A pass waits a little, or holds messages.

    Rates are reserved in the ledger, for a unit of work at a time, so that runs and handlers share
    them. A crash loses the reservations of its run: the rate is lower then, never higher. A message
    that is held holds all later messages to its destination, which keep their order.
    """

    def __init__(self, execution: Execution, limits: Limits) -> None:
        """Continue the waits of earlier passes that have not ended."""
        self._execution = execution
        self._meters = execution.ledger.meters
        self._gauges = Gauges(execution.run, limits)
        self._refusals = self._meters.refusals(execution.run.run_id, execution.clock())
        self._waited = timedelta(0)

    def find_hold(self, item: WorkItem) -> Hold | None:
        """Return a hold if a limit has refused the destination."""
        for gauge in self._gauges.of(item.open_step.destination if item.open_step else None):
            if until := self._refusals.get(gauge.meter):
                return Hold(gauge.why, until)
        return None

    def pace(self, planned: Planned, moves: Moves) -> Hold | None:
        """Reserve what an attempt needs of each limit, and wait until it is ready."""
        gauges = self._gauges.of(planned.destination)
        now = self._execution.clock()
        for gauge in gauges:
            if not gauge.covers(planned, now) and (hold := self._fill(gauge, planned, moves)):
                return hold
        now = self._execution.clock()
        wait = max((gauge.ready_at for gauge in gauges), default=now) - now
        if wait > timedelta(0):
            if not moves.pause(planned):
                return _GONE
            self._wait(wait)
        return None

    def admit(self, planned: PlannedAttempt) -> None:
        """Use the reserved part for a message that the pass tries to move."""
        for gauge in self._gauges.of(planned.destination):
            gauge.granted -= gauge.find_need(planned)

    def leave(self, planned: PlannedAttempt, reason: int) -> None:
        """Keep the reservation of a message that has not moved for another message."""
        del reason
        for gauge in self._gauges.of(planned.destination):
            gauge.granted += gauge.find_need(planned)

    def finish(self) -> None:
        """Give back the unused part of each reservation."""
        now = self._execution.clock()
        for gauge in self._gauges.all():
            if gauge.rate is not None and gauge.granted > 0 and now <= gauge.expires_at:
                unused = timedelta(seconds=gauge.granted * gauge.seconds_each)
                self._meters.give_back(gauge.meter, unused)
        if self._waited:
            seconds = self._waited.total_seconds()
            self._execution.log.info("the pass waited %.1f s for limits", seconds)

    def _fill(self, gauge: Gauge, planned: Planned, moves: Moves) -> Hold | None:
        """Reserve a chunk, less the rest of the last one; return a hold if it is not ready soon."""
        if gauge.rate is None:
            return self._make_room(gauge, planned, moves)
        now = self._execution.clock()
        may_wait = self._waited < LONGEST_PACING
        rest = gauge.granted if now <= gauge.expires_at else 0
        amount = max(gauge.chunk, gauge.find_need(planned)) - rest
        reservation = self._meters.reserve(
            gauge.meter,
            gauge.rate,
            amount,
            handler=self._execution.run.handler,
            now=now,
            latest=now + LONGEST_WAIT if may_wait else now,
        )
        if not reservation.duration:
            return self._refuse(gauge, max(reservation.ready_at, now + TURN))
        gauge.granted = rest + amount
        gauge.seconds_each = reservation.duration.total_seconds() / amount
        gauge.ready_at = reservation.ready_at
        gauge.expires_at = reservation.ready_at + GRANT_LASTS
        return None

    def _make_room(self, gauge: Gauge, planned: Planned, moves: Moves) -> Hold | None:
        """Wait until a queue is less deep than its limit; return a hold if that takes long.

        The depth includes the messages of this pass: it is inquired after they are committed.
        """
        if not moves.pause(planned):
            return _GONE
        patience = DEPTH_PATIENCE
        needed = min(gauge.find_need(planned), gauge.in_flight)
        while (room := self._find_room(gauge, moves)) < needed:
            if patience <= timedelta(0) or self._waited >= LONGEST_PACING:
                return self._refuse(gauge, self._execution.clock() + DEPTH_HOLD)
            self._wait(DEPTH_INTERVAL)
            patience -= DEPTH_INTERVAL
        gauge.granted = min(room, self._execution.run.max_messages_per_unit)
        gauge.ready_at = self._execution.clock()
        gauge.expires_at = gauge.ready_at + GRANT_LASTS
        return None

    def _find_room(self, gauge: Gauge, moves: Moves) -> int:
        """Return for how many messages a queue has room, or a unit of work if that is unknown."""
        depth = moves.destinations.inquire_depth(gauge.destination)
        if depth is not None:
            return gauge.in_flight - depth
        if not gauge.is_unknown:
            gauge.is_unknown = True
            self._execution.log.warning(NO_DEPTH, printable_name(gauge.destination[0]))
        return self._execution.run.max_messages_per_unit

    def _refuse(self, gauge: Gauge, until: datetime) -> Hold:
        """Hold the messages that need a limit for the rest of the pass, and until a time."""
        self._meters.record_refusal(gauge.meter, self._execution.run.run_id, until)
        self._refusals[gauge.meter] = until
        return Hold(gauge.why, until)

    def _wait(self, time: timedelta) -> None:
        self._execution.sleep(time.total_seconds())
        self._waited += time
