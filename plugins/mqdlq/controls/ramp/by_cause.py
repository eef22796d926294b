"""Ramp and breaker: messages of a cause move in steps, and stop if they come back or fail."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

from mqdlq.constants import MQRC
from mqdlq.controls.control import Browses, Control, Observation
from mqdlq.controls.loops.returns import ReturnedMessages
from mqdlq.controls.ramp.gate import CauseGate, Surroundings, TargetState
from mqdlq.controls.ramp.settings import Breaker
from mqdlq.controls.settings import Controls
from mqdlq.controls.work import BrowsedItem, Hold, PlannedAttempt, WorkItem
from mqdlq.errors import QueueManagerError
from mqdlq.ledger import CauseAttempt, Subject
from mqdlq.model import QUARANTINE, Action, Step
from mqdlq.mqi.connect import QueueManager
from mqdlq.resources import Execution

_AT_ONCE = 500
_UNKNOWN_STATE: Final = tuple(
    MQRC[name]
    for name in (
        "MQRC_CLUSTER_RESOLUTION_ERROR",
        "MQRC_NOT_AUTHORIZED",
        "MQRC_UNKNOWN_OBJECT_NAME",
        "MQRC_OBJECT_NAME_ERROR",
        "MQRC_OBJECT_DAMAGED",
        "MQRC_UNKNOWN_ALIAS_BASE_Q",
        "MQRC_SELECTOR_NOT_FOR_TYPE",
        "MQRC_SELECTOR_ERROR",
        "MQRC_OPTION_NOT_VALID_FOR_TYPE",
    )
)
"""Reasons of a failed inquiry that concern the target itself, so that a repetition fails, too."""


class CauseControl(Control):
    """Holds the messages of each cause and target as its gate demands.

    Only a pass changes the state of a gate: it has observed which messages are on the queue again.
    """

    observes = Browses.BEFORE_MOVES

    def __init__(self, execution: Execution, configured: Controls) -> None:
        """Read the states of the queue; a ramp without a breaker has one with its defaults."""
        self._execution = execution
        run, ledger = execution.run, execution.ledger
        self._recorded = ledger.ramps.current(run.queue_manager, run.queue)
        self._gates: dict[Subject, CauseGate] = {}
        self._surroundings = Surroundings(
            execution,
            configured.ramp,
            configured.breaker or Breaker(),
            self._inquire,
            self._count_returns,
        )
        self._finder = ReturnedMessages(ledger, run.queue_manager, run.queue)
        self._met: list[BrowsedItem] = []
        self._returned: dict[Subject, list[CauseAttempt]] = defaultdict(list)
        self._queue_manager: QueueManager | None = None

    def begin_observation(self, browse: Observation) -> None:
        """Keep the connection, to inquire targets; a pass begins."""
        self._queue_manager = browse.cursor.queue_manager

    def observe(self, met: BrowsedItem) -> None:
        """Find out whether a message has come back; some hundred are looked up together."""
        self._met.append(met)
        if len(self._met) >= _AT_ONCE:
            self._look_up()

    def end_observation(self) -> None:
        """Look up the other messages."""
        self._look_up()

    def find_hold(self, item: WorkItem) -> Hold | None:
        """Return the hold of the message's gate."""
        step = item.open_step
        return self._gate(item, step).find_hold() if step and _has_gate(step) else None

    def admit(self, planned: PlannedAttempt) -> None:
        """Count a message that the pass tries to move."""
        if _has_gate(planned.step):
            self._gate(planned.item, planned.step).admit()

    def confirm(self, tries: Sequence[PlannedAttempt]) -> None:
        """Count the messages that have moved."""
        gates = [self._gate(t.item, t.step) for t in tries if _has_gate(t.step)]
        for gate, messages in Counter(gates).items():
            gate.confirm(messages)

    def leave(self, planned: PlannedAttempt, reason: int) -> None:
        """Count a put that failed; a message that was not tried does not count."""
        if _has_gate(planned.step):
            self._gate(planned.item, planned.step).leave(reason)

    def _gate(self, item: WorkItem, step: Step) -> CauseGate:
        run = self._execution.run
        names = step.target_q, step.target_q_mgr
        subject = Subject(run.queue_manager, run.queue, item.cause_id, *names)
        if subject not in self._gates:
            recorded = self._recorded.get(subject)
            gate = self._gates[subject] = CauseGate(subject, recorded, self._surroundings)
            if self._queue_manager is not None:
                gate.decide()
        return self._gates[subject]

    def _look_up(self) -> None:
        met, self._met = self._met, []
        departures = filter(None, self._finder.find_all(met))
        ids = [departure.message_id for departure in departures]
        for move in self._execution.ledger.ramps.moves_of(ids):
            self._returned[move.subject].append(move)

    def _count_returns(self, subject: Subject, after: int) -> int:
        """Count the messages that are on this queue again, or were dead-lettered on another one."""
        ledger = self._execution.ledger
        elsewhere = ledger.ramps.returned_elsewhere(subject, after)
        shared = ledger.identities.shared(set(elsewhere.values()))
        here = {move.message_id for move in self._returned.get(subject, ()) if move.seq > after}
        return len(here.union(one for one, identity in elsewhere.items() if identity not in shared))

    def _inquire(self, subject: Subject) -> TargetState:
        """Inquire a local queue; of a remote queue, or one without authority, nothing is known.

        Raises QueueManagerError for any other failure: then nothing is decided.
        """
        queue_manager = self._queue_manager
        is_local = queue_manager and subject.target_q_mgr in {"", queue_manager.name}
        if queue_manager is None or not is_local or not subject.target_q:
            return TargetState()
        constants = queue_manager.client.CMQC
        selectors = constants.MQIA_CURRENT_Q_DEPTH, constants.MQIA_OPEN_INPUT_COUNT
        try:
            found = queue_manager.inquire_attributes(subject.target_q, *selectors)
        except QueueManagerError as error:
            if error.reason not in _UNKNOWN_STATE:
                raise
            return TargetState()
        return TargetState(*map(int, found))


def _has_gate(step: Step) -> bool:
    """Whether a ramp and a breaker apply to a step.

    A DISCARD has no target. A forward to a quarantine queue has the rule 0: no application has to
    read from that queue before more messages follow.
    """
    return step.action is not Action.DISCARD and step.rule != QUARANTINE
