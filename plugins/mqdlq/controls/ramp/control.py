"""Ramp and breaker: messages of a cause move in steps, and stop if they come back or fail."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from mqdlq.constants import MQRC
from mqdlq.controls.loops.control import AT_ONCE, find_returns
from mqdlq.controls.ramp import Breaker
from mqdlq.controls.settings import Controls
from mqdlq.controls.work import (
    BrowsedItem,
    Browses,
    Control,
    Hold,
    PlannedAttempt,
    WorkItem,
    WorkList,
)
from mqdlq.errors import QueueManagerError
from mqdlq.ledger.tables import RampState, Subject
from mqdlq.model import QUARANTINE, Action, RampPhase, Step
from mqdlq.mqi.browse import BrowseCursor
from mqdlq.mqi.client import BLANK_NAME
from mqdlq.mqi.connect import QueueManager
from mqdlq.reasons import Reason, Why, words_of
from mqdlq.resources import Execution
from mqdlq.words import place

TargetState = tuple[int | None, int | None]
"""The depth of a target, and how many handles have it open for input; None if it is not known."""

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

    keys = ("ramp", "breaker")
    needs = ("IdentityRecorder",)
    observes = Browses.BEFORE_MOVES

    @classmethod
    def open(cls, execution: Execution, keys: Controls) -> Control | None:
        return cls(execution, keys) if keys.act_by_cause else None

    def __init__(self, execution: Execution, configured: Controls) -> None:
        """Read the states of the queue; a ramp without a breaker has one with its defaults."""
        self.execution = execution
        run, ledger = execution.run, execution.ledger
        self.ramp, self.breaker = configured.ramp, configured.breaker or Breaker()
        self._recorded = ledger.ramps.current(run.queue_manager, run.queue)
        self._gates: dict[Subject, CauseGate] = {}
        self._met: list[BrowsedItem] = []
        self._returned: dict[Subject, list[tuple[int, int]]] = defaultdict(list)
        self._queue_manager: QueueManager | None = None

    def begin_observation(self, cursor: BrowseCursor, work: WorkList) -> None:
        del work
        self._queue_manager = cursor.queue_manager

    def observe(self, met: BrowsedItem) -> None:
        self._met.append(met)
        if len(self._met) >= AT_ONCE:
            self._look_up()

    def end_observation(self) -> None:
        self._look_up()

    def find_hold(self, item: WorkItem) -> Hold | None:
        step = item.open_step
        return self._gate(item, step).find_hold() if step and _has_gate(step) else None

    def awaits_results(self, item: WorkItem) -> bool:
        step = item.open_step
        return bool(step and _has_gate(step) and self._gate(item, step).awaits_results)

    def admit(self, planned: PlannedAttempt) -> None:
        if _has_gate(planned.step):
            self._gate(planned.item, planned.step).admit()

    def may_begin(self, planned: PlannedAttempt) -> bool:
        return not (_has_gate(planned.step) and self._gate(planned.item, planned.step).is_open)

    def confirm(self, tries: Sequence[PlannedAttempt]) -> None:
        gates = [self._gate(t.item, t.step) for t in tries if _has_gate(t.step)]
        for gate, messages in Counter(gates).items():
            gate.confirm(messages)

    def leave(self, planned: PlannedAttempt, reason: int) -> None:
        if _has_gate(planned.step):
            self._gate(planned.item, planned.step).leave(reason)

    def _gate(self, item: WorkItem, step: Step) -> CauseGate:
        run, target = self.execution.run, (step.target_q, step.target_q_mgr)
        subject = Subject(run.queue_manager, run.queue, item.cause_id, *target)
        if subject not in self._gates:
            gate = CauseGate(subject, self._recorded.get(subject), self)
            self._gates[subject] = gate
            if self._queue_manager is not None:
                gate.decide()
        return self._gates[subject]

    def _look_up(self) -> None:
        met, self._met = self._met, []
        run, ledger = self.execution.run, self.execution.ledger
        departures = find_returns(ledger, (run.queue_manager, run.queue), met)
        ids = [departure.message_id for departure in departures if departure is not None]
        for subject, message_id, seq in ledger.ramps.moves_of(ids):
            self._returned[subject].append((message_id, seq))

    def count_returns(self, subject: Subject, after: int) -> int:
        """Count the messages that are on this queue again, or were dead-lettered on another one."""
        ledger = self.execution.ledger
        elsewhere = ledger.ramps.returned_elsewhere(subject, after)
        shared = ledger.identities.shared(set(elsewhere.values()))
        here = {one for one, seq in self._returned.get(subject, ()) if seq > after}
        return len(here.union(one for one, identity in elsewhere.items() if identity not in shared))

    def inquire(self, subject: Subject) -> TargetState:
        """Return CURDEPTH and IPPROCS of a target; None of a remote queue, or without authority.

        Raises QueueManagerError for any other failure: then nothing is decided.
        """
        queue_manager = self._queue_manager
        is_local = queue_manager and subject.target_q_mgr in {"", queue_manager.name}
        if queue_manager is None or not is_local or not subject.target_q:
            return None, None
        constants = queue_manager.client.CMQC
        selectors = constants.MQIA_CURRENT_Q_DEPTH, constants.MQIA_OPEN_INPUT_COUNT
        try:
            depth, readers = queue_manager.inquire_attributes(subject.target_q, *selectors)
        except QueueManagerError as error:
            if error.reason not in _UNKNOWN_STATE:
                raise
            return None, None
        return int(depth), int(readers)


def _has_gate(step: Step) -> bool:
    """Whether a ramp and a breaker apply to a step.

    A DISCARD has no target. A forward to a quarantine queue has the rule 0: no application has to
    read from that queue before more messages follow.
    """
    return step.action is not Action.DISCARD and step.rule != QUARANTINE


OF_ONE_MESSAGE = (MQRC["MQRC_MSG_TOO_BIG_FOR_Q"], MQRC["MQRC_BACKED_OUT"])
"""Reasons of failed puts that say nothing about the other messages for the target.

MQRC_BACKED_OUT: another message of the same group failed.
"""

TRY = 0
"""The step of a breaker that tries one message; the complete state of a breaker keeps it."""


class CauseGate:
    """Holds the messages of one subject as the state of its ramp and its breaker demands.

    `decide`, `admit`, `confirm` and `leave` change the state. The ledger has the state that was
    recorded last, and the attempts that count in it: a gate that is created again after a crash
    allows as many messages as the earlier one had not moved.
    """

    def __init__(self, subject: Subject, recorded: RampState | None, control: CauseControl) -> None:
        self._subject, self._control = subject, control
        self._ledger, self._clock = control.execution.ledger, control.execution.clock
        self._moved = self._in_flight = self._failures = 0
        self._step_hold: Hold | None = None
        self._last_reason = 0
        self._is_recorded = recorded is not None
        self._state = recorded or RampState(
            run_id=control.execution.run.run_id,
            phase=RampPhase.COMPLETE,
            step=1,
            allowed=0,
            depth=None,
            step_from=0,
            count_from=0,
            until=None,
            why=None,
            at=self._clock(),
        )
        if recorded is None and control.ramp is not None:
            self._allow(1)
        if recorded is not None and recorded.phase is RampPhase.MOVING:
            self._moved = self._ledger.ramps.moved(subject, recorded.step_from)
        self._failures = self._ledger.ramps.failures_in_a_row(
            subject, self._state.count_from, OF_ONE_MESSAGE
        )

    def find_hold(self) -> Hold | None:
        state = self._state
        if state.phase is RampPhase.COMPLETE:
            return None
        if state.phase is not RampPhase.MOVING:
            return Hold(state.why, state.until) if state.why is not None else None
        # A message that the step has no room for goes before the messages behind it, even if an
        # attempt fails later in this pass and makes room.
        if self._step_hold is None and self._moved + self._in_flight >= state.allowed:
            why = Why.STEP_UNFINISHED(step=self._step_in_words)
            self._step_hold = Hold(why, self._clock() + self._watch)
        return self._step_hold

    @property
    def awaits_results(self) -> bool:
        """Whether messages on their way fill the step: the failure of one would make room."""
        if self._state.phase is not RampPhase.MOVING or self._step_hold is not None:
            return False
        return self._moved < self._state.allowed <= self._moved + self._in_flight

    @property
    def is_open(self) -> bool:
        return self._state.phase is RampPhase.OPEN

    def decide(self) -> None:
        """Find the state for a pass; a breaker's try has a watch and a next step as in a ramp."""
        state, control = self._state, self._control
        if state.phase is RampPhase.OPEN:
            if state.until is None or self._clock() >= state.until:
                self._allow(TRY)
        elif self._count_returns() >= (1 if self._is_try else control.breaker.returns):
            moved = self._ledger.ramps.moved(self._subject, state.count_from)
            facts = {"returned": self._count_returns(), "moved": moved, "place": self._place}
            self._open(Why.MESSAGES_CAME_BACK(**facts))
        elif self._puts_failed:
            self._open_after_failures()
        elif control.ramp is None and not self._is_try and state.phase is not RampPhase.COMPLETE:
            self._complete()
        elif self._has_a_new_ramp():
            self._allow(1)
        # The run that moved the messages of a step may have ended before it recorded that.
        self._watch_a_moved_step()
        now, state = self._clock(), self._state
        if state.phase is RampPhase.WATCHING and now >= (state.until or now):
            self._end_watch()

    def admit(self) -> None:
        """Count a message that the pass tries to move; a step begins with the first one."""
        state = self._state
        if state.phase is RampPhase.MOVING and not self._is_recorded:
            last = self._ledger.ramps.last_attempt()
            self._enter(
                RampPhase.MOVING,
                depth=self._control.inquire(self._subject)[0],
                step_from=last,
                count_from=last if state.step <= 1 else state.count_from,
            )
        self._in_flight += 1

    def confirm(self, messages: int) -> None:
        """Count messages that have moved; with the last one of a step, its watch begins."""
        self._in_flight -= messages
        self._moved += messages
        self._failures = 0
        self._watch_a_moved_step()

    def leave(self, reason: int) -> None:
        """Count a put that failed, unless `reason` is 0; open the breaker after too many."""
        self._in_flight -= 1
        if not reason or reason in OF_ONE_MESSAGE:
            return
        self._failures += 1
        self._last_reason = reason
        if self._puts_failed and not self.is_open:
            self._open_after_failures()

    # Changes of the state

    def _enter(self, phase: RampPhase, **changes: Any) -> None:
        """Change the state, and record it."""
        execution = self._control.execution
        changes |= {"phase": phase, "run_id": execution.run.run_id, "at": self._clock()}
        self._state = replace(self._state, **changes)
        self._is_recorded = True
        self._ledger.ramps.record(self._subject, self._state)
        execution.log.info("%s: %s", self._place, words_of(self._state.why))

    def _allow(self, step: int) -> None:
        """Let a step begin; that is recorded when its first message is admitted."""
        ramp = self._control.ramp
        allowed = ramp.steps[step - 1] if ramp is not None and step != TRY else 1
        state = replace(self._state, phase=RampPhase.MOVING, step=step, allowed=allowed)
        self._state = replace(state, until=None)
        self._state = replace(self._state, why=Why.STEP_MAY_MOVE(step=self._step_in_words))
        self._moved = self._in_flight = self._failures = 0
        self._is_recorded = False

    def _watch_a_moved_step(self) -> None:
        if self._state.phase is RampPhase.MOVING and self._moved >= self._state.allowed:
            last = self._ledger.ramps.last_moved_at(self._subject)
            self._watch_until((last or self._clock()) + self._watch)

    def _watch_until(self, until: datetime, unmet: Reason | None = None) -> None:
        facts = {"step": self._step_in_words, "place": self._place, "until": until, "unmet": unmet}
        self._enter(RampPhase.WATCHING, until=until, why=Why.STEP_WATCHED(**facts))

    def _end_watch(self) -> None:
        ramp, state = self._control.ramp, self._state
        if unmet := self._find_unmet_condition():
            self._watch_until(self._clock() + self._watch, unmet)
            return
        if ramp is not None:
            # A breaker's try is a first step of one message.
            done = state.step if state.step != TRY else int(ramp.steps[0] == 1)
            if done < len(ramp.steps):
                self._allow(done + 1)
                return
        self._complete()

    def _complete(self) -> None:
        ramp = self._control.ramp
        step, why = (len(ramp.steps), Why.RAMP_COMPLETE()) if ramp else (TRY, Why.BREAKER_CLOSED())
        last = self._ledger.ramps.last_attempt()
        self._enter(RampPhase.COMPLETE, step=step, step_from=last, until=None, why=why)

    def _open(self, why: Reason) -> None:
        until = self._clock() + self._control.breaker.pause
        self._enter(RampPhase.OPEN, until=until, why=Why.BREAKER_OPEN(why=why, until=until))

    def _open_after_failures(self) -> None:
        facts = {"puts": self._failures, "place": self._place}
        if self._last_reason:
            self._open(Why.PUTS_FAILED_WITH(**facts, mqrc=self._last_reason))
        else:
            self._open(Why.PUTS_FAILED(**facts))

    # Conditions

    @property
    def _puts_failed(self) -> bool:
        return self._failures >= (1 if self._is_try else self._control.breaker.failures)

    def _has_a_new_ramp(self) -> bool:
        """Whether a ramp starts again: there was none before, or no message moved for long."""
        state, ramp = self._state, self._control.ramp
        if ramp is None or not self._is_recorded:
            return False
        if state.phase is RampPhase.COMPLETE and state.step == TRY:
            return True
        if self._clock() <= state.at + ramp.forget_after:
            return False
        last = self._ledger.ramps.last_moved_at(self._subject)
        return last is None or self._clock() > last + ramp.forget_after

    def _count_returns(self) -> int:
        return self._control.count_returns(self._subject, self._state.count_from)

    def _find_unmet_condition(self) -> Reason | None:
        """Return what the target lacks for the next step, or None; the unknown counts as met."""
        ramp = self._control.ramp
        if ramp is None:
            return None
        (depth, readers), before = self._control.inquire(self._subject), self._state.depth
        if readers is not None and readers < ramp.consumers:
            return Why.TOO_FEW_READERS(readers=readers, handles=ramp.consumers)
        if depth is None or before is None:
            return None
        allowed = ramp.max_depth_growth
        limit = before + (self._state.allowed if allowed is None else allowed)
        if depth > limit:
            return Why.TOO_DEEP(depth=depth, limit=limit)
        if ramp.consumed and depth and depth >= before:
            return Why.NOT_CONSUMED(depth=depth, before=before)
        return None

    @property
    def _step_in_words(self) -> Reason:
        state, ramp = self._state, self._control.ramp
        if state.step == TRY:
            return Why.BREAKER_TRY()
        steps = len(ramp.steps) if ramp else state.step
        return Why.RAMP_STEP(step=state.step, steps=steps, messages=state.allowed)

    @property
    def _is_try(self) -> bool:
        return self._state.step == TRY and self._state.phase is not RampPhase.COMPLETE

    @property
    def _watch(self) -> timedelta:
        return (self._control.ramp or self._control.breaker).watch

    @property
    def _place(self) -> str:
        name = self._subject.target_q or BLANK_NAME
        return place(name, self._subject.target_q_mgr)
