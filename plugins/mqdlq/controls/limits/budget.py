"""The budget of a run: how many messages it moves at most."""

from __future__ import annotations

from mqdlq.controls.control import Control
from mqdlq.controls.work import Hold, PlannedAttempt, WorkItem
from mqdlq.model import Outcome, Trait
from mqdlq.reasons import Why
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

    def find_hold(self, item: WorkItem) -> Hold | None:
        """Return a hold once the budget is used up, or has no room for the group of a message."""
        size = 1 if item.group is None or item.due_step is None else item.group.size
        if size <= self.room:
            return None
        if size > 1:
            return Hold(Why.GROUP_OVER_BUDGET(messages=size, room=self.room))
        return Hold(Why.BUDGET_USED(limit=self._budget))

    def admit(self, planned: PlannedAttempt) -> None:
        """Count a message that the pass tries to move."""
        self._moved += len(planned.tries)

    def leave(self, planned: PlannedAttempt, reason: int) -> None:
        """Do not count a message that has not moved."""
        del reason
        self._moved -= len(planned.tries)
