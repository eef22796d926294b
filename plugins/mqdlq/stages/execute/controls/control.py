"""The interface of a control."""

from __future__ import annotations

from collections.abc import Sequence

from mqdlq.model import Step
from mqdlq.stages.execute.attempt_recorder import PlannedAttempt
from mqdlq.stages.execute.controls.holds import Hold
from mqdlq.stages.execute.pending_steps import BrowsedItem, WorkItem, WorkList


class Control:
    """Holds due messages. A control overrides the methods that it needs.

    Each pass creates its controls, as does the settling of the run: the ledger holds the state
    of a control. A crash may come between any two calls.
    """

    observes = False
    """Whether `observe` is called: it costs a browse of the whole queue before the first move."""

    def observe(self, met: BrowsedItem) -> None:
        """Take note of a message on the queue; `met.item` is None if the run does not list it."""

    def end_observation(self, work: WorkList) -> None:
        """Take note that `observe` was called for every message on the queue."""

    def find_hold(self, item: WorkItem, step: Step) -> Hold | None:
        """Return why the next step of a message is not tried now, or None.

        A pass asks in browse order, immediately before it tries the step. Settling asks again, for
        every message that still has a step to try.
        """
        raise NotImplementedError

    def admit(self, item: WorkItem, step: Step) -> None:
        """Take note that no control holds a message: the pass tries its step."""

    def confirm(self, tries: Sequence[PlannedAttempt]) -> None:
        """Take note that a unit of work with these attempts committed."""

    def fail(self, planned: PlannedAttempt, reason: int) -> None:
        """Take note that an attempt failed with a reason code."""
