"""Lanes: moves to several destinations side by side, each lane over its own connection.

A lane is a thread with a connection, a cursor and an engine of units of work. The thread of the
pass browses and decides, over the connection that holds the state queue, and hands each move to the
lane of its destination. What one connection promises holds for all lanes together:

- Order: a destination belongs to one lane, and so do destinations among which order counts. Before
  two lanes become one, every move that was handed over is committed.
- One account: the recorder and the controls are asked in turn, by one thread at a time. A lane asks
  again before it begins a move whether a result since then forbids it.
- Recovery: a unit's marker commits in the unit, over the lane's connection. The connection that
  holds the state queue removes it later, after another marker has the unit's moves, too. A crash
  leaves any set of units committed or backed out, and each marker speaks for its own unit.
- One executor: a lane commits a unit only if the state queue was still held after its moves were
  recorded as intended. So an executor that takes over finds them in the ledger, and waits for them.
- A failure in one lane stops all lanes. Units that are not committed are backed out, and the next
  execution settles them.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from contextvars import copy_context
from dataclasses import dataclass, field
from threading import Condition, RLock, Thread
from typing import Final, Generic, ParamSpec, Self, TypeVar

from mqdlq.errors import QueueManagerError
from mqdlq.model import Destination
from mqdlq.mqi.connect import QueueManager
from mqdlq.mqi.state_queue import Marker, Markers, PutMarkers
from mqdlq.mqi.unit_of_work import Syncpoint
from mqdlq.stages.units.destinations import Destinations
from mqdlq.stages.units.engine import M, MoveRecorder, Source, UnitEngine, is_unit_failure

MOST_UNFINISHED: Final = 1_000
"""How many moves a lane may have before the pass waits for it."""
CLEAR_AT_ONCE: Final = 64
"""After how many settled units their markers are removed, in one unit of work."""

OpenLane = Callable[[int], AbstractContextManager[tuple[Source[M], QueueManager]]]
"""Connects for the lane of this number, from 1, and opens the queue that it gets messages from."""
FindPlaces = Callable[[M], Collection[Destination | None]]
"""Finds the destinations among which the order of a move counts, under each name they have."""


P = ParamSpec("P")
R = TypeVar("R")


class _StoppedError(Exception):
    """The lanes were stopped: this one backs out its open unit of work."""


@dataclass(slots=True)
class _Lane(Generic[M]):
    """One lane; an order is a move to be made, or None to commit the open unit of work.

    `unfinished` counts the orders that wait or are being carried out.
    """

    number: int
    changed: Condition
    orders: deque[M | None] = field(default_factory=deque)
    unfinished: int = 0
    thread: Thread | None = None


class Lanes(Generic[M]):
    """Makes moves in several lanes; a pass uses it in place of a `UnitEngine`.

    A lane connects when it gets its first move. Use it in a `with` block: at its end all moves are
    made and committed; if it ends with an exception, uncommitted moves are backed out.
    """

    def __init__(
        self,
        recorder: MoveRecorder[M],
        *,
        markers: Markers,
        destinations: Destinations,
        number: int,
        open_lane: OpenLane[M],
        find_places: FindPlaces[M],
        may_begin: Callable[[M], bool],
    ) -> None:
        """Prepare lanes; the connection of `destinations` holds the state queue of `markers`."""
        self.recorder, self.destinations, self._markers = recorder, destinations, markers
        self._holder = holder = destinations.queue_manager
        self._open_lane, self._find_places, self._may_begin = open_lane, find_places, may_begin
        lock = RLock()
        self.turn = Condition(lock)
        """Who has it may ask the recorder and the controls; the pass waits on it for results."""
        self._lanes = [_Lane[M](one, Condition(lock)) for one in range(1, number + 1)]
        self._group_of: dict[Destination | None, int] = {}
        self._groups = 0
        self._selector = holder.client.CMQC.MQIA_MAX_UNCOMMITTED_MSGS
        self._uncommitted_limit = int(holder.inquire(self._selector))
        self._earlier_markers: list[str] = []
        self._covered_markers: list[str] = []
        self._failure: BaseException | None = None
        self._has_ended = self._is_stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._end(is_stopped=False)
        finally:
            self._end(is_stopped=True)
            self.recorder.flush()
        if kind is None:
            if self._failure is not None:
                raise self._failure
            self._clear_markers()

    # For the pass

    def clear_markers_later(self, markers: Sequence[str]) -> None:
        """Remove the markers of units that were settled earlier, after the next commit."""
        self._earlier_markers.extend(markers)

    def offer(self, move: M) -> None:
        """Hand a move to its lane; wait while the lane has too many. Raises what failed in one."""
        lane = self._find_lane(move)
        with self.turn:
            self._wait_until(lambda: lane.unfinished < MOST_UNFINISHED)
            self._order(lane, move)
        if len(self._covered_markers) >= CLEAR_AT_ONCE:
            self._clear_markers()

    def await_results(self) -> None:
        """Wait until each move that was handed over is made, or has failed; commits may follow."""
        with self.turn:
            self._wait_until(lambda: not any(lane.unfinished for lane in self._lanes))

    def pause(self, move: M | None = None) -> bool:
        """Wait until no lane has an open unit of work; the message of `move` stays found."""
        del move
        with self.turn:
            for lane in self._lanes:
                if lane.thread is not None:
                    self._order(lane, None)
            self.await_results()
        return True

    def _find_lane(self, move: M) -> _Lane[M]:
        """Return the lane of a move's destinations; those of several lanes get one of them."""
        places = self._find_places(move)
        known = {self._group_of[place] for place in places if place in self._group_of}
        group = min(known, default=self._groups)
        if not known:
            self._groups += 1
        if len(known) > 1:
            self.pause()
            for place, other in self._group_of.items():
                if other in known:
                    self._group_of[place] = group
        self._group_of.update(dict.fromkeys(places, group))
        return self._lanes[group % len(self._lanes)]

    def _order(self, lane: _Lane[M], move: M | None) -> None:
        lane.orders.append(move)
        lane.unfinished += 1
        lane.changed.notify()
        if lane.thread is None:
            # The settings of the caller's context, such as a directory, hold in the lane, too.
            run = copy_context().run
            lane.thread = Thread(target=run, args=(self._run, lane), daemon=True)
            lane.thread.start()

    def _wait_until(self, is_so: Callable[[], bool]) -> None:
        self.turn.wait_for(lambda: self._failure is not None or is_so())
        if self._failure is not None:
            raise self._failure

    def _clear_markers(self) -> None:
        """Remove the markers whose moves later markers have, in units that move nothing.

        If the queue manager backs out such a unit, the next pass removes its markers.
        """
        with self.turn:
            covered, self._covered_markers = self._covered_markers, []
        for first in range(0, len(covered), self._uncommitted_limit):
            try:
                with Syncpoint(self._holder) as unit:
                    for marker in covered[first : first + self._uncommitted_limit]:
                        self._markers.clear(marker)
                    unit.commit()
            except QueueManagerError as error:
                if not is_unit_failure(error.reason, alone=False):
                    raise

    def _end(self, *, is_stopped: bool) -> None:
        """Let the lanes end, with or without the moves that they still have; wait for them."""
        with self.turn:
            self._has_ended = True
            self._is_stopped = self._is_stopped or is_stopped
            for lane in self._lanes:
                lane.changed.notify()
        for lane in self._lanes:
            if lane.thread is not None:
                lane.thread.join()

    # In the thread of a lane

    def _run(self, lane: _Lane[M]) -> None:
        try:
            with self._open_lane(lane.number) as (source, queue_manager):
                account = _LaneAccount(self, queue_manager, self._markers.name)
                destinations = Destinations(queue_manager, self.destinations.limit)
                with UnitEngine(
                    source, account, markers=account, destinations=destinations
                ) as units:
                    for move in self._orders_of(lane):
                        if move is None:
                            units.commit()
                        else:
                            units.offer(move)
        except BaseException as error:  # noqa: BLE001 (the pass raises it)
            with self.turn:
                if not isinstance(error, _StoppedError):
                    self._failure = self._failure or error
                self._has_ended = self._is_stopped = True
                for other in self._lanes:
                    other.changed.notify()
                self.turn.notify()

    def _orders_of(self, lane: _Lane[M]) -> Iterator[M | None]:
        """Yield the orders of a lane until it ends; leave the moves that may no longer begin."""
        done = 0
        while True:
            with self.turn:
                lane.unfinished -= done
                # Not at each move: to wake the pass takes longer than to hand over a move.
                if lane.unfinished in {0, MOST_UNFINISHED // 2}:
                    self.turn.notify()
                lane.changed.wait_for(lambda: lane.orders or self._has_ended)
                if self._is_stopped:
                    raise _StoppedError
                if not lane.orders:
                    return
                move, done = lane.orders.popleft(), 1
                may_begin = move is None or self._may_begin(move)
                if move is not None and not may_begin:
                    self.recorder.leave(move)
            if may_begin:
                yield move

    def in_turn(self, method: Callable[P, R]) -> Callable[P, R]:
        """Return a method of the recorder that one lane calls at a time."""

        def call(*given: P.args, **named: P.kwargs) -> R:
            with self.turn:
                return method(*given, **named)

        return call

    def require_hold(self) -> None:
        """Raise QueueManagerError unless the connection that holds the state queue is alive."""
        self._holder.inquire(self._selector)

    def confirm(self, unit: str, moves: Sequence[M], covered: Sequence[str]) -> None:
        """Record that a unit committed, whose marker has the moves of the `covered` units, too."""
        with self.turn:
            self.recorder.confirm(unit, moves)
            self._covered_markers += [*self._earlier_markers, *covered]
            self._earlier_markers = []


class _LaneAccount(PutMarkers, Generic[M]):
    """The recorder and the markers of one lane: it shares the recorder of all lanes, in turn.

    A marker is put over the connection of the lane. What the engine of the lane clears are its
    markers of units before: the new marker has their moves, and after its commit they may go.
    """

    def __init__(self, lanes: Lanes[M], queue_manager: QueueManager, state_queue: str) -> None:
        super().__init__(queue_manager, state_queue)
        self._lanes = lanes
        self._covered: list[str] = []
        recorder, in_turn = lanes.recorder, lanes.in_turn
        self.marker, self.back_out = in_turn(recorder.marker), in_turn(recorder.back_out)
        self.may_make, self.flush = in_turn(recorder.may_make), in_turn(recorder.flush)
        self.fail, self.leave = in_turn(recorder.fail), in_turn(recorder.leave)
        self.skip = in_turn(recorder.skip)

    def put(self, marker: Marker) -> None:
        self._covered = []
        super().put(marker)

    def clear(self, unit: str) -> None:
        self._covered.append(unit)

    def intend(self, unit: str, moves: Sequence[M]) -> None:
        with self._lanes.turn:
            self._lanes.recorder.intend(unit, moves)
        self._lanes.require_hold()

    def confirm(self, unit: str, moves: Sequence[M]) -> None:
        self._lanes.confirm(unit, moves, self._covered)
