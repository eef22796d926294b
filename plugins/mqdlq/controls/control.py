"""The interface of a control."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mqdlq.controls.work import BrowsedItem, Hold, Planned, PlannedAttempt, WorkItem, WorkList
from mqdlq.model import Destination, Step
from mqdlq.mqi.browse import BrowseCursor
from mqdlq.mqi.connect import QueueManager


class Depths(Protocol):
    """Finds the depths of queues."""

    def inquire_depth(self, destination: Destination) -> int | None:
        """Return the current depth of a local queue, None if it cannot be inquired."""


class Pausable(Protocol):
    """The moves of a pass, which can be committed before a control waits."""

    def pause(self, move: Planned) -> bool:
        """Commit the open unit of work; return whether the message of the next move is there."""

    @property
    def destinations(self) -> Depths:
        """The depths of the destinations of the pass."""


class Control:
    """Holds due messages. A control overrides the methods that it needs.

    Each pass creates its controls, as does the settling of the run: the ledger holds the state
    of a control. A crash may come between any two calls.
    """

    observes = False
    """Whether `observe` is called: it costs a browse of the whole queue before the first move."""

    observes_settling = False
    """Whether `observe` is also called for each message that settling browses."""

    def begin_observation(self, cursor: BrowseCursor) -> None:
        """Forget earlier observations: `observe` is called with `cursor` on each message."""

    @property
    def room(self) -> int | None:
        """How many messages the control lets the pass move at most; None if it does not know."""
        return None

    def observe(self, met: BrowsedItem) -> None:
        """Take note of a message on the queue; `met.item` is None if the run does not list it."""

    def end_observation(self, work: WorkList, queue_manager: QueueManager) -> None:
        """Take note that `observe` was called for every message on the queue."""

    def gather(self, met: BrowsedItem) -> Sequence[BrowsedItem] | None:
        """Return the messages that move together with one that a pass meets, in their order.

        None if the control does not know; no message if the pass has met one of them before.
        """
        del met
        return None

    def find_hold(self, item: WorkItem, step: Step) -> Hold | None:
        """Return why the next step of a message is not tried now, or None.

        A pass asks in browse order, immediately before it tries the step, and once more after
        `pace`. Settling asks again, for every message that still has a step to try.
        """
        del item, step
        return None

    def pace(self, planned: Planned, moves: Pausable) -> Hold | None:
        """Wait until the pass may try a message that no control holds; return a hold to not wait.

        Before it waits, it pauses the moves: no message is uncommitted while a pass waits.
        """
        del planned, moves
        return None

    def admit(self, planned: PlannedAttempt) -> None:
        """Take note that no control holds a message: the pass tries its step."""

    def may_still_move(self, planned: PlannedAttempt) -> bool:
        """Return whether an admitted message may move although moves before it have failed."""
        del planned
        return True

    def confirm(self, tries: Sequence[PlannedAttempt]) -> None:
        """Take note that a unit of work with these attempts committed."""

    def fail(self, planned: PlannedAttempt, reason: int) -> None:
        """Take note that an attempt failed with a reason code."""

    def leave(self, planned: PlannedAttempt) -> None:
        """Take note that an admitted message was not tried, or its move was undone."""

    def spread_holds(self) -> None:
        """Hold the messages that must stay because another message is held.

        The holds of all messages are recorded in their items.
        """

    def finish(self) -> None:
        """Take note that the pass has ended without an error."""
