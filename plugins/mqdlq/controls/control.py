"""The interface of a control: what more than one of them does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Flag, auto

from mqdlq.controls.work import BrowsedItem, Hold, PlannedAttempt, WorkItem, WorkList
from mqdlq.mqi.browse import BrowseCursor


class Browses(Flag):
    """The browses of the queue that a control observes."""

    NONE = 0
    BEFORE_MOVES = auto()
    """A browse of the whole queue before the first move of a pass."""
    SETTLING = auto()
    """The last browse of the run."""


@dataclass(frozen=True, slots=True)
class Observation:
    """A browse of the whole queue for the controls that observe it."""

    cursor: BrowseCursor
    work: WorkList


class Control:
    """Holds due messages. A control overrides the methods that it needs.

    Each pass creates its controls, as does the settling of the run: the ledger holds the state
    of a control. A crash may come between any two calls.
    """

    observes = Browses.NONE

    def begin_observation(self, browse: Observation) -> None:
        """Forget earlier observations: `observe` is called on each message of this browse."""

    def observe(self, met: BrowsedItem) -> None:
        """Take note of a message on the queue; `met.item` is None if the run does not list it."""

    def end_observation(self) -> None:
        """Take note that `observe` was called for every message on the queue."""

    def find_hold(self, item: WorkItem) -> Hold | None:
        """Return why the next step of a message is not tried now, or None.

        A pass asks in browse order, immediately before it tries the step, and once more after
        a wait. Settling asks again, for every message that still has a step to try.
        """

    def admit(self, planned: PlannedAttempt) -> None:
        """Take note that no control holds a message: the pass tries its step."""

    def confirm(self, tries: Sequence[PlannedAttempt]) -> None:
        """Take note that a unit of work with these attempts committed."""

    def leave(self, planned: PlannedAttempt, reason: int) -> None:
        """Take note that an admitted message has not moved.

        `reason` is that of its failed put; 0 if it was not tried, or its move was undone.
        """
