"""Quarantine of messages that come back each time they are moved."""

from __future__ import annotations

from functools import cached_property

from mqdlq.handlers.controls import Loops
from mqdlq.model import Outcome, Step
from mqdlq.stages.execute.controls.control import Control
from mqdlq.stages.execute.controls.holds import Hold
from mqdlq.stages.execute.execution import Execution
from mqdlq.stages.execute.pending_steps import WorkItem
from mqdlq.stages.round_trips import RoundTrips, find_round_trips


class LoopGuard(Control):
    """Holds each message that has come back `limit` times: no rule moves or discards it.

    The ledger has the departures of all handlers and earlier runs, so that these count, too.
    """

    def __init__(self, execution: Execution, loops: Loops) -> None:
        """Read the round trips when a message is first asked for."""
        self._execution, self._loops = execution, loops

    def find_hold(self, item: WorkItem, step: Step) -> Hold | None:
        """Return a hold for the rest of the run if the message has come back too often."""
        del step
        trips = self._round_trips.get(item.message.message_id)
        if trips is None or trips.count < self._loops.limit:
            return None
        return Hold(f"it {trips} (loops: limit {self._loops.limit})", outcome=Outcome.QUARANTINED)

    @cached_property
    def _round_trips(self) -> dict[int, RoundTrips]:
        ledger, run_id = self._execution.ledger, self._execution.run.run_id
        return find_round_trips(ledger, ledger.identities.of_run(run_id))
