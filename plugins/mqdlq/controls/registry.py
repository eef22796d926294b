"""The controls of a run: the order in which they are asked, and the answers of all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from mqdlq.controls.fixed.control import DestinationWatch
from mqdlq.controls.limits.control import ClosedWindows, Moves, RateLimits, RunBudget
from mqdlq.controls.loops.control import IdentityRecorder, LoopGuard
from mqdlq.controls.ramp.control import CauseControl
from mqdlq.controls.sequences.control import GroupControl, KeyOrder
from mqdlq.controls.settings import read_controls
from mqdlq.controls.work import (
    BrowsedItem,
    Browses,
    Control,
    Hold,
    Planned,
    PlannedAttempt,
    WorkItem,
    WorkList,
    of_group,
)
from mqdlq.headers import IDENTITY_PREFIX
from mqdlq.ledger.tables import Run
from mqdlq.model import Destination
from mqdlq.mqi.browse import HEADER_ONLY, BrowseCursor
from mqdlq.resources import Execution

REGISTRY: Final[tuple[type[Control], ...]] = (
    IdentityRecorder,
    LoopGuard,
    GroupControl,
    KeyOrder,
    # No message moves after the budget is used up, so the run must not wait for a step of a ramp.
    RunBudget,
    # Before the ramp: while a destination refuses, its one message is not tried either.
    DestinationWatch,
    CauseControl,
    RateLimits,
    ClosedWindows,
)
"""In the order in which they are asked: the first one that holds a message gives the reason."""


def browsed_length(run: Run) -> int:
    """Return how many bytes of each body a run browses: more if a control reads headers."""
    return IDENTITY_PREFIX if read_controls(run.controls).reads_headers else HEADER_ONLY


def build_controls(execution: Execution) -> list[Control]:
    keys, has_given_action = read_controls(execution.run.controls), execution.run.has_given_action
    asked = (one for one in REGISTRY if one.for_given_actions or not has_given_action)
    return [found for one in asked if (found := one.open(execution, keys)) is not None]


C = TypeVar("C", bound=Control)


class ControlChain:
    """The controls of a run. A message is held by the first control that holds it.

    Some questions are for one control only, such as to wait for a rate: its class finds it.
    """

    def __init__(self, execution: Execution) -> None:
        self._controls = controls = build_controls(execution)
        self._groups, self._keys = _find(controls, GroupControl), _find(controls, KeyOrder)
        self._budget, self._rates = _find(controls, RunBudget), _find(controls, RateLimits)

    def observe_queue(self, work: WorkList, cursor: BrowseCursor) -> None:
        """Browse the queue for the controls that observe it in a pass."""
        if any(Browses.BEFORE_MOVES in control.observes for control in self._controls):
            for _ in self._show(Browses.BEFORE_MOVES, work, cursor):
                pass

    def observe_settling(self, work: WorkList, cursor: BrowseCursor) -> Iterator[BrowsedItem]:
        """Browse the queue, and yield each message after the controls have observed it."""
        return self._show(Browses.SETTLING, work, cursor)

    def _show(self, browse: Browses, work: WorkList, cursor: BrowseCursor) -> Iterator[BrowsedItem]:
        observers = [control for control in self._controls if browse in control.observes]
        if observers:
            _ = work.items  # an observer may keep the item of any message
        for control in observers:
            control.begin_observation(cursor, work)
        for met in work.browse(cursor):
            for control in observers:
                control.observe(met)
            yield met
        for control in observers:
            control.end_observation()

    @property
    def room(self) -> int | None:
        """How many messages the pass moves at most; None without a limit."""
        return None if self._budget is None else self._budget.room

    def gather(self, met: BrowsedItem) -> Sequence[BrowsedItem]:
        """Return the messages that move together with one that a pass meets, in their order."""
        return (met,) if self._groups is None else self._groups.gather(met)

    def hold_or_admit(self, planned: Planned, moves: Moves) -> bool:
        """Ask for a planned attempt; return whether the pass may make it.

        Otherwise the hold is recorded in each item: a hold of one message of a group holds all. A
        control may pause the moves, and wait.
        """
        items = [one.item for one in planned.tries]
        if not self._controls:
            for item in items:
                item.hold = None
            return True
        if any(control.awaits_results(item) for control in self._controls for item in items):
            moves.await_results()
        # A wait takes time, and the moves before it may have been committed: ask once more.
        hold = self._hold_any(items) or self._pace(planned, moves) or self._hold_any(items)
        if hold is not None:
            for item in items:
                item.hold = item.hold or of_group(hold)
            return False
        for one in planned.tries:
            for control in self._controls:
                control.admit(one)
        return True

    def _pace(self, planned: Planned, moves: Moves) -> Hold | None:
        hold = None if self._rates is None else self._rates.pace(planned, moves)
        for one in planned.tries if hold is not None else ():
            one.item.hold = hold
        return hold

    def _hold_any(self, items: Sequence[WorkItem]) -> Hold | None:
        """Record in each item whether a control holds it; return the first hold."""
        for item in items:
            item.hold = self._find_hold(item)
        return next((item.hold for item in items if item.hold), None)

    def hold_all(self, work: WorkList) -> None:
        """Record the holds in all items again; an item without one keeps an earlier hold."""
        for item in work.items if self._controls else ():
            item.hold = self._find_hold(item) or item.hold
        if self._groups is not None:
            self._groups.spread_holds()

    def is_held_to_the_end(self, item: WorkItem) -> bool:
        hold = self._find_hold(item)
        return hold is not None and hold.until is None

    def _find_hold(self, item: WorkItem) -> Hold | None:
        """Return the first hold; a control may name the outcome of an exhausted message, too."""
        if not self._controls or item.open_step is None:
            return None
        holds = (control.find_hold(item) for control in self._controls)
        return next(filter(None, holds), None)

    def may_still_move(self, planned: PlannedAttempt) -> bool:
        return self._keys is None or self._keys.may_still_move(planned)

    def may_begin(self, planned: PlannedAttempt) -> bool:
        return all(control.may_begin(planned) for control in self._controls)

    def find_destinations(self, planned: Planned) -> set[Destination]:
        """Return the destinations among which the order of a move's messages counts."""
        if self._keys is None:
            return set()
        return set().union(*(self._keys.find_destinations(one.item) for one in planned.tries))

    def confirm(self, tries: Sequence[PlannedAttempt]) -> None:
        for control in self._controls:
            control.confirm(tries)

    def leave(self, planned: PlannedAttempt, reason: int = 0) -> None:
        for control in self._controls:
            control.leave(planned, reason)

    def finish(self) -> None:
        if self._rates is not None:
            self._rates.finish()


def _find(controls: Sequence[Control], kind: type[C]) -> C | None:
    return next((control for control in controls if isinstance(control, kind)), None)
