"""The budget of a run: how many messages it moves at most."""

from __future__ import annotations

from mqdlq.controls.control import Control
from mqdlq.controls.work import Hold, PlannedAttempt, WorkItem
from mqdlq.model import Outcome, Step, Trait
from mqdlq.resources import Execution

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

    def find_hold(self, item: WorkItem, step: Step) -> Hold | None:
        """Return a hold once the budget is used up."""
        del item, step
        if self._moved < self._budget:
            return None
        limit = f"limits: messages_per_run: {self._budget}"
        return Hold(f"the run has moved as many messages as it may ({limit})")

    def admit(self, planned: PlannedAttempt) -> None:
        """Count a message that the pass tries to move."""
        del planned
        self._moved += 1

    def fail(self, planned: PlannedAttempt, reason: int) -> None:
        """Do not count a message that did not move."""
        del planned, reason
        self._moved -= 1

    def leave(self, planned: PlannedAttempt) -> None:
        """Do not count a message that was not tried."""
        del planned
        self._moved -= 1
