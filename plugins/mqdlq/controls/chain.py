"""The controls of a run, asked one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mqdlq.controls.control import Control, Pausable
from mqdlq.controls.work import (
    BrowsedItem,
    Hold,
    Planned,
    PlannedAttempt,
    WorkItem,
    WorkList,
    of_group,
)
from mqdlq.mqi.browse import BrowseCursor


class ControlChain:
    """The controls of a run. A message is held by the first control that holds it."""

    def __init__(self, controls: Sequence[Control]) -> None:
        """Ask the controls in this order."""
        self._controls = controls

    def observe_queue(self, work: WorkList, cursor: BrowseCursor) -> None:
        """Browse the queue for the controls that observe it in a pass."""
        observers = [control for control in self._controls if control.observes]
        if observers:
            for _ in _show(observers, work, cursor):
                pass

    def observe_settling(self, work: WorkList, cursor: BrowseCursor) -> Iterator[BrowsedItem]:
        """Browse the queue, and yield each message after the controls have observed it."""
        observers = [control for control in self._controls if control.observes_settling]
        return _show(observers, work, cursor)

    @property
    def room(self) -> int | None:
        """How many messages the pass moves at most; None if no control knows."""
        known = (control.room for control in self._controls)
        return min((room for room in known if room is not None), default=None)

    def gather(self, met: BrowsedItem) -> Sequence[BrowsedItem]:
        """Return the messages that move together with one that a pass meets, in their order."""
        for control in self._controls:
            if (together := control.gather(met)) is not None:
                return together
        return (met,)

    def hold_or_admit(self, planned: Planned, moves: Pausable) -> bool:
        """Ask for a planned attempt; return whether the pass may make it.

        Otherwise the hold is recorded in each item: a hold of one message of a group holds all. A
        control may pause the moves, and wait.
        """
        items = [one.item for one in planned.tries]
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

    def _pace(self, planned: Planned, moves: Pausable) -> Hold | None:
        """Let the controls wait until the pass may move messages that none of them holds."""
        for control in self._controls:
            if (hold := control.pace(planned, moves)) is not None:
                for one in planned.tries:
                    one.item.hold = hold
                return hold
        return None

    def _hold_any(self, items: Sequence[WorkItem]) -> Hold | None:
        """Record in each item whether a control holds it; return the first hold."""
        for item in items:
            self.hold(item)
        return next((item.hold for item in items if item.hold), None)

    def hold(self, item: WorkItem) -> None:
        """Record in the item whether a control holds it.

        A message whose rules are exhausted is held, too: a control may name its outcome.
        """
        item.hold = self._find_hold(item)

    def hold_all(self, work: WorkList) -> None:
        """Record the holds in all items again; an item without one keeps an earlier hold."""
        for item in work.items:
            item.hold = self._find_hold(item) or item.hold
        for control in self._controls:
            control.spread_holds()

    def is_held_to_the_end(self, item: WorkItem) -> bool:
        """Return whether a control holds a message for the rest of the run."""
        hold = self._find_hold(item)
        return hold is not None and hold.until is None

    def _find_hold(self, item: WorkItem) -> Hold | None:
        if (step := item.due_step or item.exhausted_step) is None:
            return None
        holds = (control.find_hold(item, step) for control in self._controls)
        return next(filter(None, holds), None)

    def may_still_move(self, planned: PlannedAttempt) -> bool:
        """Ask whether an admitted message may move although moves before it have failed."""
        return all(control.may_still_move(planned) for control in self._controls)

    def confirm(self, tries: Sequence[PlannedAttempt]) -> None:
        """Tell the controls that attempts were confirmed."""
        for control in self._controls:
            control.confirm(tries)

    def fail(self, planned: PlannedAttempt, reason: int) -> None:
        """Tell the controls that an attempt failed."""
        for control in self._controls:
            control.fail(planned, reason)

    def leave(self, planned: PlannedAttempt) -> None:
        """Tell the controls that an admitted message was not tried."""
        for control in self._controls:
            control.leave(planned)

    def finish(self) -> None:
        """Tell the controls that the pass has ended."""
        for control in self._controls:
            control.finish()


def _show(
    observers: Sequence[Control], work: WorkList, cursor: BrowseCursor
) -> Iterator[BrowsedItem]:
    """Browse the queue, and yield each message after these controls have observed it."""
    for control in observers:
        control.begin_observation(cursor)
    for met in work.browse(cursor):
        for control in observers:
            control.observe(met)
        yield met
    for control in observers:
        control.end_observation(work, cursor.queue_manager)
