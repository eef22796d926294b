"""Limits of rates and of depths: they pace a pass, and hold messages for long waits."""

from __future__ import annotations

from datetime import timedelta

from mqdlq.controls.control import Control
from mqdlq.controls.limits.gauges import GONE, Gauges, Moves, Pace
from mqdlq.controls.limits.settings import Limits
from mqdlq.controls.work import Hold, Planned, PlannedAttempt, WorkItem
from mqdlq.resources import Execution


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
        self._pace = Pace(execution)
        self._gauges = Gauges(self._pace, limits)
        self._refusals = self._meters.refusals(execution.run.run_id, execution.clock())

    def find_hold(self, item: WorkItem) -> Hold | None:
        """Return a hold if a limit has refused the destination."""
        for gauge in self._gauges.of(item.open_step.destination if item.open_step else None):
            if until := self._refusals.get(gauge.meter):
                return Hold(gauge.why, until)
        return None

    def pace(self, planned: Planned, moves: Moves) -> Hold | None:
        """Reserve what an attempt needs of each limit, and wait until it is ready.

        Before the pass waits, the moves are paused: no message is uncommitted meanwhile. A limit
        that refuses holds the messages that need it for the rest of the pass, and until a time.
        """
        gauges = self._gauges.of(planned.destination)
        now = self._execution.clock()
        for gauge in gauges:
            hold = None if gauge.covers(planned, now) else gauge.reserve(planned, moves)
            if hold is not None and hold.until is not None:
                run_id = self._execution.run.run_id
                self._meters.record_refusal(gauge.meter, run_id, hold.until)
                self._refusals[gauge.meter] = hold.until
            if hold is not None:
                return hold
        now = self._execution.clock()
        wait = max((gauge.ready_at for gauge in gauges), default=now) - now
        if wait > timedelta(0):
            if not moves.pause(planned):
                return GONE
            self._pace.wait(wait)
        return None

    def admit(self, planned: PlannedAttempt) -> None:
        """Use the reserved part for a message that the pass tries to move."""
        for gauge in self._gauges.of(planned.destination):
            gauge.use(planned)

    def leave(self, planned: PlannedAttempt, reason: int) -> None:
        """Keep the reservation of a message that has not moved for another message."""
        del reason
        for gauge in self._gauges.of(planned.destination):
            gauge.keep(planned)

    def finish(self) -> None:
        """Give back the unused part of each reservation."""
        now = self._execution.clock()
        for gauge in self._gauges.all():
            if unused := gauge.time_unused(now):
                self._meters.give_back(gauge.meter, unused)
        if self._pace.waited:
            seconds = self._pace.waited.total_seconds()
            self._execution.log.info("the pass waited %.1f s for limits", seconds)
