"""Quarantine of messages that come back each time they are moved."""

from __future__ import annotations

from functools import cached_property

from mqdlq.controls.control import Browses, Control, Observation
from mqdlq.controls.loops.round_trips import RoundTrips, find_round_trips
from mqdlq.controls.loops.settings import Loops
from mqdlq.controls.work import Hold, WorkItem
from mqdlq.model import QUARANTINE, Action, Outcome, PutAuthority, Step
from mqdlq.reasons import Why
from mqdlq.resources import Execution


class LoopGuard(Control):
    """Quarantines each message that has come back `limit` times: no rule moves or discards it.

    The ledger has the departures of all handlers and earlier runs, so that these count, too. A
    quarantined message is held, or it is forwarded to the quarantine queue: each pass tries that
    once, in place of the rules. A message that cannot be forwarded stays, and is quarantined.
    """

    observes = Browses.BEFORE_MOVES

    def __init__(self, execution: Execution, loops: Loops) -> None:
        """Read the round trips when a message is first asked for."""
        self._execution, self._limit = execution, loops.limit
        self._queue, self._own_queue = loops.then.forward or "", ""
        if self._queue in {execution.run.queue, execution.run.state_queue}:
            # A message would only come back sooner.
            self._queue, self._own_queue = "", self._queue

    def begin_observation(self, browse: Observation) -> None:
        """Keep the run's messages for the end of the browse."""
        self._items = browse.work.items

    def end_observation(self) -> None:
        """Hold the quarantined messages, or replace the steps of their rules by a forward.

        The outcome of any other message that came back says how often it did.

        It comes before the archive copies are made: a held message needs none.
        """
        for item in self._items:
            trips = self._round_trips.get(item.message.message_id)
            if item.open_step is None or trips is None:
                continue
            hold = self.find_hold(item)
            if hold is None:
                item.moved_because = Why.CAME_BACK(trips=trips.reason)
            elif self._queue:
                item.steps = (forward_to(self._queue, item.attempts_made + 1),)
                item.moved_because = hold.why
            else:
                item.hold = hold

    def find_hold(self, item: WorkItem) -> Hold | None:
        """Return a hold for the rest of the run if the message has come back too often.

        A message that the pass forwards to the quarantine queue is not held.
        """
        trips = self._round_trips.get(item.message.message_id)
        if trips is None or trips.count < self._limit or item.moved_because:
            return None
        why = Why.CAME_BACK_TOO_OFTEN(trips=trips.reason, limit=self._limit)
        if self._own_queue:
            why = Why.CAME_BACK_TO_OWN_QUEUE(
                trips=trips.reason, limit=self._limit, queue=self._own_queue
            )
        return Hold(why, outcome=Outcome.QUARANTINED)

    @cached_property
    def _round_trips(self) -> dict[int, RoundTrips]:
        ledger, run_id = self._execution.ledger, self._execution.run.run_id
        return find_round_trips(ledger, ledger.identities.of_run(run_id))


def forward_to(queue: str, tries: int) -> Step:
    """Return the step that forwards a message with its MQDLH; no rule of the table decided it."""
    return Step(QUARANTINE, 0, Action.FWD, queue, "", True, PutAuthority.DEF, tries)
