"""The limits of a run: how much moves in it, in a second, and to one destination, and when."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from mqdlq.controls.limits import ClosedWindow, Limits, Rates, find_reopening
from mqdlq.controls.settings import Controls
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
_SECONDS: Final = {"second": 1, "minute": 60}
_START: Final = datetime.min.replace(tzinfo=UTC)


class Depths(Protocol):
    """Finds the depths of queues."""

    def inquire_depth(self, destination: Destination) -> int | None:
        """Return the current depth of a local queue, None if it cannot be inquired."""


class Moves(Protocol):
    """The moves of a pass, which can be committed before a control waits."""

    def pause(self, move: Planned) -> bool:
        """Commit the open unit of work; return whether the message of the next move is there."""

    def await_results(self) -> None:
        """Wait until the result of each move that was offered is known."""

    @property
    def destinations(self) -> Depths:
        """The depths of the destinations of the pass."""


class Gauge(ABC):
    """One limit of messages or bytes, and the part of it that this pass has reserved and not used.

    The part may be used from `ready_at` on, for a short time. A kind of limit says how a part of
    it is reserved.
    """

    def __init__(self, meter: Meter, why: Reason, control: RateLimits, counts: str) -> None:
        self.meter, self.why = meter, why
        self.ready_at = _START
        self._control, self._execution, self._counts = control, control.execution, counts
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
        return sum(one.length for one in tries) if self._counts == "bytes" else len(tries)

    def _is_valid(self, now: datetime) -> bool:
        return now <= self.ready_at + GRANT_LASTS


class RateGauge(Gauge):
    """A limit of a rate: parts of it are reserved in the ledger, where all runs share it.

    A part is a unit of work, or what the rate allows in a second.
    """

    def __init__(
        self, meter: Meter, why: Reason, control: RateLimits, counts: str, rate: Rate
    ) -> None:
        super().__init__(meter, why, control, counts)
        self._rate, self._chunk = rate, rate.per_second
        if counts == "messages":
            unit = self._execution.run.max_messages_per_unit
            self._chunk = max(1, min(rate.burst, unit, int(rate.per_second)))

    def reserve(self, planned: Planned, moves: Moves) -> Hold | None:
        """Reserve a chunk, less the rest of the last one; return a hold if it is not ready soon."""
        del moves
        now = self._execution.clock()
        rest = self._granted if self._is_valid(now) else 0
        amount = max(self._chunk, self._need(planned.tries)) - rest
        ready_at, duration = self._execution.ledger.meters.reserve(
            self.meter,
            self._rate,
            amount,
            handler=self._execution.run.handler,
            now=now,
            latest=now if self._control.has_waited_long else now + LONGEST_WAIT,
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
        self, meter: Meter, control: RateLimits, destination: Destination, in_flight: int
    ) -> None:
        why = Why.TARGET_DEEP(name=_name_of(destination), messages=in_flight)
        super().__init__(meter, why, control, "messages")
        self._destination, self._in_flight = destination, in_flight
        self._is_unknown = False

    def reserve(self, planned: Planned, moves: Moves) -> Hold | None:
        """Wait until a queue is less deep than its limit; return a hold if that takes long."""
        if not moves.pause(planned):
            return GONE
        patience = DEPTH_PATIENCE
        needed = min(self._need(planned.tries), self._in_flight)
        while (room := self._find_room(moves)) < needed:
            if patience <= timedelta(0) or self._control.has_waited_long:
                return Hold(self.why, self._execution.clock() + DEPTH_HOLD)
            self._control.wait(DEPTH_INTERVAL)
            patience -= DEPTH_INTERVAL
        self._granted = min(room, self._execution.run.max_messages_per_unit)
        self.ready_at = self._execution.clock()
        return None

    def _find_room(self, moves: Moves) -> int:
        """Return for how many messages a queue has room, or a unit of work if that is unknown."""
        depth = moves.destinations.inquire_depth(self._destination)
        if depth is not None:
            return self._in_flight - depth
        if not self._is_unknown:
            self._is_unknown = True
            self._execution.log.warning(NO_DEPTH, printable_name(self._destination[0]))
        return self._execution.run.max_messages_per_unit


class RateLimits(Control):
    """Keeps the rates and depths of `limits`. A pass waits a little, or holds messages.

    Rates are reserved in the ledger, for a unit of work at a time, so that runs and handlers share
    them. A crash loses the reservations of its run: the rate is lower then, never higher. A message
    that is held holds all later messages to its destination, which keep their order.
    """

    keys = ("limits",)

    @classmethod
    def open(cls, execution: Execution, keys: Controls) -> Control | None:
        return cls(execution, keys.limits) if keys.limits.has_pace else None

    def __init__(self, execution: Execution, limits: Limits) -> None:
        self.execution, self._run, self._limits = execution, execution.run, limits
        run = execution.run
        self._meters = execution.ledger.meters
        self._waited = timedelta(0)
        self._by_meter: dict[Meter, Gauge] = {}
        self._by_destination: dict[Destination | None, list[Gauge]] = {}
        handler, manager = f"handler {run.handler}", f"queue manager {run.queue_manager}"
        self._common = [
            *self._build(handler, handler, limits),
            *self._build(manager, manager, limits.queue_manager or Rates()),
        ]
        self._refusals = self._meters.refusals(self._run.run_id, execution.clock())

    @property
    def has_waited_long(self) -> bool:
        """Whether the pass waits no more, so that other runs have a turn."""
        return self._waited >= LONGEST_PACING

    def wait(self, time: timedelta) -> None:
        self.execution.sleep(time.total_seconds())
        self._waited += time

    def find_hold(self, item: WorkItem) -> Hold | None:
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
        now = self.execution.clock()
        for gauge in gauges:
            hold = None if gauge.covers(planned, now) else gauge.reserve(planned, moves)
            if hold is not None and hold.until is not None:
                self._meters.record_refusal(gauge.meter, self._run.run_id, hold.until)
                self._refusals[gauge.meter] = hold.until
            if hold is not None:
                return hold
        now = self.execution.clock()
        wait = max((gauge.ready_at for gauge in gauges), default=now) - now
        if wait > timedelta(0):
            if not moves.pause(planned):
                return GONE
            self.wait(wait)
        return None

    def admit(self, planned: PlannedAttempt) -> None:
        for gauge in self._gauges_of(planned.step.destination):
            gauge.use(planned)

    def leave(self, planned: PlannedAttempt, reason: int) -> None:
        del reason  # the reservation is for another message
        for gauge in self._gauges_of(planned.step.destination):
            gauge.keep(planned)

    def finish(self) -> None:
        now = self.execution.clock()
        for gauge in self._by_meter.values():
            if unused := gauge.time_unused(now):
                self._meters.give_back(gauge.meter, unused)
        if self._waited:
            seconds = self._waited.total_seconds()
            self.execution.log.info("the pass waited %.1f s for limits", seconds)

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
            found += self._build(subject, _name_of(destination), item)
            if item.in_flight is not None:
                gauge = DepthGauge(Meter(subject, _DEPTH), self, destination, item.in_flight)
                found.append(self._by_meter.setdefault(gauge.meter, gauge))
        return found

    def _build(self, subject: str, name: str, rates: Rates) -> Iterator[Gauge]:
        """Yield the gauges of rates; a destination that has two names shares those of its meters.

        The burst of bytes is what the rate allows in its period.
        """
        for key, amount in rates.limited():
            counts, _, period = key.partition("_per_")
            burst = rates.burst_messages if counts == "messages" else amount
            code = Why.MESSAGE_RATE if counts == "messages" else Why.BYTE_RATE
            why = code(name=name, amount=amount, period=period, key=key)
            rate = Rate(amount / _SECONDS[period], burst)
            gauge = RateGauge(Meter(subject, meter_unit(key)), why, self, counts, rate)
            yield self._by_meter.setdefault(gauge.meter, gauge)


def meter_unit(key: str) -> str:
    """Return the unit of a key's meter in the ledger, which all handlers with the key share."""
    counts, _, period = key.partition("_per_")
    return counts if period == "second" else f"{counts}/{period[:3]}"


def _name_of(destination: Destination) -> str:
    return f"queue {printable_name(destination[0])}"


_MOVED = Outcome.having(Trait.SUCCEEDED)


class RunBudget(Control):
    """Holds every message after the run has moved as many as `messages_per_run` allows."""

    keys = ("limits",)
    needs = ("GroupControl",)

    @classmethod
    def open(cls, execution: Execution, keys: Controls) -> Control | None:
        allowed = keys.limits.messages_per_run
        return cls(execution, allowed) if allowed is not None else None

    def __init__(self, execution: Execution, messages_per_run: int) -> None:
        self._budget = messages_per_run
        counts = execution.ledger.outcomes.counts(execution.run.run_id)
        self._moved = sum(counts[outcome] for outcome in _MOVED)

    @property
    def room(self) -> int:
        return max(0, self._budget - self._moved)

    def find_hold(self, item: WorkItem) -> Hold | None:
        """Return a hold once the budget is used up, or has no room for the group of a message."""
        size = _size_of(item)
        if size <= self.room:
            return None
        if size > 1:
            return Hold(Why.GROUP_OVER_BUDGET(messages=size, room=self.room))
        return Hold(Why.BUDGET_USED(limit=self._budget))

    def awaits_results(self, item: WorkItem) -> bool:
        return _size_of(item) > self.room

    def admit(self, planned: PlannedAttempt) -> None:
        del planned
        self._moved += 1

    def leave(self, planned: PlannedAttempt, reason: int) -> None:
        del planned, reason
        self._moved -= 1


def _size_of(item: WorkItem) -> int:
    """Return how many messages move with one."""
    return 1 if item.group is None or item.due_step is None else len(item.group.members)


class ClosedWindows(Control):
    """Holds the messages for a destination that is closed, from then on for the whole pass."""

    keys = ("limits",)

    @classmethod
    def open(cls, execution: Execution, keys: Controls) -> Control | None:
        has_windows = any(one.closed for one in keys.limits.destinations)
        return cls(execution, keys.limits) if has_windows else None

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
