"""The limits of a run: how much moves in it, in a second, and to one destination, and when."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from mqdlq.controls.limits import Counted, Limits, Rates
from mqdlq.controls.limits.windows import ClosedWindow, find_reopening
from mqdlq.controls.work import Control, Hold, Planned, PlannedAttempt, WorkItem
from mqdlq.ledger.tables import Meter, Rate
from mqdlq.model import Destination, Outcome, Trait
from mqdlq.mqi.client import printable_name
from mqdlq.reasons import Reason, Why
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

GONE: Final = Hold(Why.LEFT_WHILE_WAITING())

_DEPTH: Final = "depth"
_START: Final = datetime.min.replace(tzinfo=UTC)


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


class Pace:
    """The pass that keeps limits, and how long it has waited for them all together."""

    def __init__(self, execution: Execution) -> None:
        self.execution = execution
        self.waited = timedelta(0)

    @property
    def is_over(self) -> bool:
        """Whether the pass waits no more, so that other runs have a turn."""
        return self.waited >= LONGEST_PACING

    def wait(self, time: timedelta) -> None:
        self.execution.sleep(time.total_seconds())
        self.waited += time


class Gauge(ABC):
    """One limit, and the part of it that this pass has reserved and not used.

    The part may be used from `ready_at` on, for a short time. A kind of limit says how a part of
    it is reserved.
    """

    def __init__(self, meter: Meter, why: Reason, counts: Counted, pace: Pace) -> None:
        self.meter, self.why = meter, why
        self.ready_at = _START
        self._counts, self._pace = counts, pace
        self._granted: float = 0
        self._seconds_each: float = 0

    @abstractmethod
    def reserve(self, planned: Planned, moves: Moves) -> Hold | None:
        """Reserve what an attempt needs, and more; return a hold if that is not ready soon."""

    def covers(self, planned: Planned, now: datetime) -> bool:
        return self._is_valid(now) and self._granted >= self._need(planned.tries)

    def use(self, planned: PlannedAttempt) -> None:
        self._granted -= self._need((planned,))

    def keep(self, planned: PlannedAttempt) -> None:
        """Keep what an attempt has not used for another one."""
        self._granted += self._need((planned,))

    def time_unused(self, now: datetime) -> timedelta:
        """Return how long the rate takes for the unused part; a depth takes no time."""
        unused = max(0, self._granted) if self._is_valid(now) else 0
        return timedelta(seconds=unused * self._seconds_each)

    def _need(self, tries: Sequence[PlannedAttempt]) -> int:
        are_bytes = self._counts is Counted.BYTES
        return sum(one.length for one in tries) if are_bytes else len(tries)

    def _is_valid(self, now: datetime) -> bool:
        return now <= self.ready_at + GRANT_LASTS


class RateGauge(Gauge):
    """A limit of a rate: parts of it are reserved in the ledger, where all runs share it.

    A part is a unit of work, or what the rate allows in a second.
    """

    def __init__(self, meter: Meter, why: Reason, counts: Counted, rate: Rate, pace: Pace) -> None:
        super().__init__(meter, why, counts, pace)
        self._rate, self._chunk = rate, rate.per_second
        if counts is Counted.MESSAGES:
            unit = pace.execution.run.max_messages_per_unit
            self._chunk = max(1, min(rate.burst, unit, int(rate.per_second)))

    def reserve(self, planned: Planned, moves: Moves) -> Hold | None:
        """Reserve a chunk, less the rest of the last one; return a hold if it is not ready soon."""
        del moves
        run, now = self._pace.execution.run, self._pace.execution.clock()
        rest = self._granted if self._is_valid(now) else 0
        amount = max(self._chunk, self._need(planned.tries)) - rest
        ready_at, duration = self._pace.execution.ledger.meters.reserve(
            self.meter,
            self._rate,
            amount,
            handler=run.handler,
            now=now,
            latest=now if self._pace.is_over else now + LONGEST_WAIT,
        )
        if not duration:
            return Hold(self.why, max(ready_at, now + TURN))
        self._granted, self.ready_at = rest + amount, ready_at
        self._seconds_each = duration.total_seconds() / amount
        return None


class DepthGauge(Gauge):
    """A limit of the depth of a queue: it has room for as many messages as the depth is below it.

    The depth includes the messages of this pass: it is inquired after they are committed.
    """

    def __init__(
        self, meter: Meter, why: Reason, destination: Destination, in_flight: int, pace: Pace
    ) -> None:
        super().__init__(meter, why, Counted.MESSAGES, pace)
        self._destination, self._in_flight = destination, in_flight
        self._is_unknown = False

    def reserve(self, planned: Planned, moves: Moves) -> Hold | None:
        """Wait until a queue is less deep than its limit; return a hold if that takes long."""
        if not moves.pause(planned):
            return GONE
        patience = DEPTH_PATIENCE
        needed = min(self._need(planned.tries), self._in_flight)
        while (room := self._find_room(moves)) < needed:
            if patience <= timedelta(0) or self._pace.is_over:
                return Hold(self.why, self._pace.execution.clock() + DEPTH_HOLD)
            self._pace.wait(DEPTH_INTERVAL)
            patience -= DEPTH_INTERVAL
        self._granted = min(room, self._pace.execution.run.max_messages_per_unit)
        self.ready_at = self._pace.execution.clock()
        return None

    def _find_room(self, moves: Moves) -> int:
        """Return for how many messages a queue has room, or a unit of work if that is unknown."""
        depth = moves.destinations.inquire_depth(self._destination)
        if depth is not None:
            return self._in_flight - depth
        if not self._is_unknown:
            self._is_unknown = True
            self._pace.execution.log.warning(NO_DEPTH, printable_name(self._destination[0]))
        return self._pace.execution.run.max_messages_per_unit


class RateLimits(Control):
    """Keeps the rates and depths of `limits`. A pass waits a little, or holds messages.

    Rates are reserved in the ledger, for a unit of work at a time, so that runs and handlers share
    them. A crash loses the reservations of its run: the rate is lower then, never higher. A message
    that is held holds all later messages to its destination, which keep their order.
    """

    def __init__(self, execution: Execution, limits: Limits) -> None:
        """Continue the waits of earlier passes that have not ended."""
        self._execution, self._run, self._limits = execution, execution.run, limits
        self._meters = execution.ledger.meters
        self._pace = Pace(execution)
        self._by_meter: dict[Meter, Gauge] = {}
        self._by_destination: dict[Destination | None, list[Gauge]] = {}
        handler, manager = (
            f"handler {self._run.handler}",
            f"queue manager {self._run.queue_manager}",
        )
        self._common = [
            *self._build(handler, handler, limits),
            *self._build(manager, manager, limits.queue_manager or Rates()),
        ]
        self._refusals = self._meters.refusals(self._run.run_id, execution.clock())

    def find_hold(self, item: WorkItem) -> Hold | None:
        """Return a hold if a limit has refused the destination."""
        for gauge in self._gauges_of(item.open_step.destination if item.open_step else None):
            if until := self._refusals.get(gauge.meter):
                return Hold(gauge.why, until)
        return None

    def pace(self, planned: Planned, moves: Moves) -> Hold | None:
        """Reserve what an attempt needs of each limit, and wait until it is ready.

        Before the pass waits, the moves are paused: no message is uncommitted meanwhile. A limit
        that refuses holds the messages that need it for the rest of the pass, and until a time.
        """
        gauges = self._gauges_of(planned.destination)
        now = self._execution.clock()
        for gauge in gauges:
            hold = None if gauge.covers(planned, now) else gauge.reserve(planned, moves)
            if hold is not None and hold.until is not None:
                self._meters.record_refusal(gauge.meter, self._run.run_id, hold.until)
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
        for gauge in self._gauges_of(planned.step.destination):
            gauge.use(planned)

    def leave(self, planned: PlannedAttempt, reason: int) -> None:
        del reason  # the reservation is for another message
        for gauge in self._gauges_of(planned.step.destination):
            gauge.keep(planned)

    def finish(self) -> None:
        """Give back the unused part of each reservation."""
        now = self._execution.clock()
        for gauge in self._by_meter.values():
            if unused := gauge.time_unused(now):
                self._meters.give_back(gauge.meter, unused)
        if self._pace.waited:
            seconds = self._pace.waited.total_seconds()
            self._execution.log.info("the pass waited %.1f s for limits", seconds)

    def _gauges_of(self, destination: Destination | None) -> list[Gauge]:
        """Return the gauges of a move to a destination; None is that of a DISCARD.

        Those of the handler and of its queue manager apply to all. The names of the queue and of
        its queue manager are the subject, which handlers share.
        """
        if destination in self._by_destination:
            return self._by_destination[destination]
        found = self._by_destination[destination] = [*self._common]
        item = destination and self._limits.of_destination(destination, self._run.queue_manager)
        if destination and item:
            queue, queue_manager = destination
            subject = f"queue {queue} at {queue_manager or self._run.queue_manager}"
            name = f"queue {printable_name(queue)}"
            found += self._build(subject, name, item)
            if item.in_flight is not None:
                why = Why.TARGET_DEEP(name=name, messages=item.in_flight)
                meter = Meter(subject, _DEPTH)
                gauge = DepthGauge(meter, why, destination, item.in_flight, self._pace)
                found.append(self._by_meter.setdefault(meter, gauge))
        return found

    def _build(self, subject: str, name: str, rates: Rates) -> Iterator[Gauge]:
        """Yield the gauges of rates; a destination that has two names shares those of its meters.

        The burst of bytes is what the rate allows in its period.
        """
        for key, amount in rates.limited():
            are_messages = key.counts is Counted.MESSAGES
            burst = rates.burst_messages if are_messages else amount
            code = Why.MESSAGE_RATE if are_messages else Why.BYTE_RATE
            why = code(name=name, amount=amount, period=key.period, key=key.name)
            meter, rate = Meter(subject, key.meter), Rate(amount / key.seconds, burst)
            gauge = RateGauge(meter, why, key.counts, rate, self._pace)
            yield self._by_meter.setdefault(meter, gauge)


_MOVED = Outcome.having(Trait.SUCCEEDED)


class RunBudget(Control):
    """Holds every message after the run has moved as many as `messages_per_run` allows."""

    def __init__(self, execution: Execution, messages_per_run: int) -> None:
        """Count what the run has moved before."""
        self._budget = messages_per_run
        counts = execution.ledger.outcomes.counts(execution.run.run_id)
        self._moved = sum(counts[outcome] for outcome in _MOVED)

    @property
    def room(self) -> int:
        """How many messages the budget has left."""
        return max(0, self._budget - self._moved)

    def find_hold(self, item: WorkItem) -> Hold | None:
        """Return a hold once the budget is used up, or has no room for the group of a message."""
        size = 1 if item.group is None or item.due_step is None else len(item.group.members)
        if size <= self.room:
            return None
        if size > 1:
            return Hold(Why.GROUP_OVER_BUDGET(messages=size, room=self.room))
        return Hold(Why.BUDGET_USED(limit=self._budget))

    def admit(self, planned: PlannedAttempt) -> None:
        del planned
        self._moved += 1

    def leave(self, planned: PlannedAttempt, reason: int) -> None:
        del planned, reason
        self._moved -= 1


class ClosedWindows(Control):
    """Holds the messages for a destination that is closed, from then on for the whole pass."""

    def __init__(self, execution: Execution, limits: Limits) -> None:
        self._clock, self._limits = execution.clock, limits
        self._queue_manager = execution.run.queue_manager
        self._windows: dict[Destination, tuple[ClosedWindow, ...]] = {}
        self._closed: dict[Destination, Hold] = {}

    def find_hold(self, item: WorkItem) -> Hold | None:
        """Return a hold until the window ends in which the destination takes nothing."""
        destination = item.open_step.destination if item.open_step else None
        if destination is None:
            return None
        if destination not in self._windows:
            limits = self._limits.of_destination(destination, self._queue_manager)
            self._windows[destination] = limits.closed if limits else ()
        windows = self._windows[destination]
        if windows and destination not in self._closed:
            until = find_reopening(windows, self._clock())
            if until is not None:
                why = Why.TARGET_CLOSED(queue=printable_name(destination[0]), until=until)
                self._closed[destination] = Hold(why, until)
        return self._closed.get(destination)
