"""The gate of one cause and target: it decides how many of their messages may move now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from mqdlq.constants import MQRC, reason_text
from mqdlq.controls.ramp.settings import Breaker, Ramp
from mqdlq.controls.work import Hold
from mqdlq.ledger import RampState, Subject
from mqdlq.model import RampPhase
from mqdlq.mqi.hints import BLANK_NAME
from mqdlq.resources import Execution
from mqdlq.words import count, moment, place

OF_ONE_MESSAGE = (MQRC["MQRC_MSG_TOO_BIG_FOR_Q"], MQRC["MQRC_BACKED_OUT"])
"""Reasons of failed puts that say nothing about the other messages for the target.

MQRC_BACKED_OUT: another message of the same group failed.
"""

TRY = 0
"""The step of a breaker that tries one message; the complete state of a breaker keeps it."""


@dataclass(frozen=True, slots=True)
class TargetState:
    """CURDEPTH and IPPROCS of a target; None if it cannot be inquired, as a remote queue."""

    depth: int | None = None
    readers: int | None = None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The settings of the gates of a pass, and what they ask.

    `inquire` returns the state of a target. `count_returns` returns how many messages of a
    subject came back that an attempt after the given one has moved.
    """

    execution: Execution
    ramp: Ramp | None
    breaker: Breaker
    inquire: Callable[[Subject], TargetState]
    count_returns: Callable[[Subject, int], int]


class CauseGate:
    """Holds the messages of one subject as the state of its ramp and its breaker demands.

    The ledger has the state, and the attempts that count in it: a gate that is created again after
    a crash allows as many messages as the earlier one had not moved.
    """

    def __init__(
        self, subject: Subject, recorded: RampState | None, surroundings: Surroundings
    ) -> None:
        """Continue from the state that was recorded last, None if there is none."""
        self._subject, self._around = subject, surroundings
        self._ledger = surroundings.execution.ledger
        self._clock = surroundings.execution.clock
        self._moved = self._in_flight = 0
        self._hold: Hold | None = None
        self._step_hold: Hold | None = None
        if recorded is None:
            self._begin_anew()
        else:
            self._state, self._is_recorded = recorded, True
            self._hold = _build_hold(recorded)
            if recorded.phase is RampPhase.MOVING:
                self._moved = self._ledger.ramps.moved(subject, recorded.step_from)
        self._failures = self._ledger.ramps.failures_in_a_row(
            subject, self._state.count_from, OF_ONE_MESSAGE
        )

    def find_hold(self) -> Hold | None:
        """Return why the next message must wait, or None."""
        if self._state.phase is not RampPhase.MOVING:
            return self._hold
        # A message that the step has no room for goes before the messages behind it, even if an
        # attempt fails later in this pass and makes room.
        if self._step_hold is None and self._moved + self._in_flight >= self._state.allowed:
            self._step_hold = Hold(
                f"{self._step_in_words} has not finished", self._clock() + self._watch
            )
        return self._step_hold

    def admit(self) -> None:
        """Record the step if it begins with this message."""
        if not self._is_recorded and self._state.phase is RampPhase.MOVING:
            last = self._ledger.ramps.last_attempt()
            is_first = self._state.step <= 1
            self._record(
                depth=self._around.inquire(self._subject).depth,
                step_from=last,
                count_from=last if is_first else self._state.count_from,
            )
        self._in_flight += 1

    def confirm(self, messages: int) -> None:
        """Count messages that have moved; with the last one of a step, its watch begins."""
        self._in_flight -= messages
        self._moved += messages
        self._failures = 0
        if self._state.phase is RampPhase.MOVING and self._moved >= self._state.allowed:
            self._begin_watch(self._clock() + self._watch)

    def leave(self, reason: int) -> None:
        """Count a put that failed, unless `reason` is 0; open the breaker after too many."""
        self._in_flight -= 1
        if not reason or reason in OF_ONE_MESSAGE:
            return
        self._failures += 1
        self._open_after_failures(f", the last with {reason_text(reason)}")

    def decide(self) -> None:
        """Bring the state up to date at the begin of a pass, after the queue was observed."""
        now, state = self._clock(), self._state
        if state.phase is RampPhase.OPEN:
            if state.until is None or now >= state.until:
                self._begin_step(TRY)
            return
        returned = self._around.count_returns(self._subject, state.count_from)
        if returned >= (1 if self._is_try else self._around.breaker.returns):
            self._open_after_returns(returned)
        elif not self._open_after_failures(""):
            self._continue_ramp(now)

    def _continue_ramp(self, now: datetime) -> None:
        """Begin the next step if the time and the target allow it."""
        state, ramp = self._state, self._around.ramp
        if ramp is None and not self._is_try:
            if state.phase is not RampPhase.COMPLETE:
                self._complete()
            return
        if ramp is not None and self._is_recorded:
            had_no_ramp = state.phase is RampPhase.COMPLETE and state.step == TRY
            if had_no_ramp or self._is_forgotten(now, ramp):
                self._begin_anew()
                return
        if state.phase is RampPhase.MOVING and self._moved >= state.allowed:
            # The run that moved them ended before it recorded that.
            last = self._ledger.ramps.last_moved_at(self._subject)
            self._begin_watch((last or now) + self._watch)
        if self._state.phase is RampPhase.WATCHING and now >= (self._state.until or now):
            self._judge(now)

    def _judge(self, now: datetime) -> None:
        """Begin the next step, or watch the target for longer."""
        ramp, step = self._around.ramp, self._state.step
        if ramp is None:
            self._complete()
            return
        if unmet := self._find_unmet_condition(ramp):
            self._begin_watch(now + ramp.watch, unmet)
            return
        # The try of a breaker takes the place of a first step of one message.
        done = sum(1 for size in ramp.steps[:1] if size == 1) if step == TRY else step
        if done < len(ramp.steps):
            self._begin_step(done + 1)
        else:
            self._complete()

    def _find_unmet_condition(self, ramp: Ramp) -> str:
        """Return what the target lacks for the next step, or ""; the unknown counts as met."""
        found, before = self._around.inquire(self._subject), self._state.depth
        if found.readers is not None and found.readers < ramp.consumers:
            handles = count(ramp.consumers, "handle")
            return f"{found.readers} of {handles} that must have it open for input"
        if found.depth is None or before is None:
            return ""
        allowed = ramp.max_depth_growth
        limit = before + (self._state.allowed if allowed is None else allowed)
        if found.depth > limit:
            return f"{count(found.depth, 'message')} on it, {limit:,} allowed"
        if ramp.consumed and found.depth and found.depth >= before:
            return f"{count(found.depth, 'message')} on it, {before:,} before the step"
        return ""

    def _is_forgotten(self, now: datetime, ramp: Ramp) -> bool:
        if now <= self._state.at + ramp.forget_after:
            return False
        last = self._ledger.ramps.last_moved_at(self._subject)
        return last is None or now > last + ramp.forget_after

    def _open_after_returns(self, returned: int) -> None:
        moved = self._ledger.ramps.moved(self._subject, self._state.count_from)
        messages = count(moved, "message")
        self._open(f"{returned:,} of {messages} came back from {self._place}")

    def _open_after_failures(self, last: str) -> bool:
        """Open the breaker if too many puts have failed; return whether it is open."""
        if self._state.phase is RampPhase.OPEN:
            return True
        if self._failures < (1 if self._is_try else self._around.breaker.failures):
            return False
        puts = "a put" if self._failures == 1 else f"{self._failures:,} puts in a row"
        self._open(f"{puts} to {self._place} failed{last}")
        return True

    def _open(self, why: str) -> None:
        until = self._clock() + self._around.breaker.pause
        words = f"breaker: {why}; next try at {moment(until)}"
        self._record(phase=RampPhase.OPEN, until=until, why=words)

    def _begin_anew(self) -> None:
        """Begin where nothing is known of the subject."""
        self._state = RampState(
            run_id=self._around.execution.run.run_id,
            phase=RampPhase.COMPLETE,
            step=1,
            allowed=0,
            depth=None,
            step_from=0,
            count_from=0,
            until=None,
            why="",
            at=self._clock(),
        )
        self._is_recorded = False
        if self._around.ramp is not None:
            self._begin_step(1)

    def _begin_step(self, step: int) -> None:
        """Allow the messages of a step; the first of them has it recorded."""
        ramp = self._around.ramp
        allowed = ramp.steps[step - 1] if ramp is not None and step != TRY else 1
        self._state = replace(
            self._state, phase=RampPhase.MOVING, step=step, allowed=allowed, until=None
        )
        self._state = replace(self._state, why=f"{self._step_in_words} may move")
        self._is_recorded = False
        self._moved = self._in_flight = self._failures = 0

    def _begin_watch(self, until: datetime, unmet: str = "") -> None:
        words = f"{self._step_in_words} has moved, watching {self._place} until {moment(until)}"
        why = f"{words}: {unmet}" if unmet else words
        self._record(phase=RampPhase.WATCHING, until=until, why=why)

    def _complete(self) -> None:
        ramp = self._around.ramp
        words = "ramp: all messages may move" if ramp else "breaker: closed, all messages may move"
        step = len(ramp.steps) if ramp else TRY
        last = self._ledger.ramps.last_attempt()
        self._record(phase=RampPhase.COMPLETE, step=step, step_from=last, until=None, why=words)

    def _record(self, **changes: object) -> None:
        execution = self._around.execution
        self._state = replace(
            self._state,
            run_id=execution.run.run_id,
            at=self._clock(),
            **changes,  # type: ignore[arg-type]
        )
        self._is_recorded = True
        self._hold = _build_hold(self._state)
        self._ledger.ramps.record(self._subject, self._state)
        execution.log.info("%s: %s", self._place, self._state.why)

    @property
    def _is_try(self) -> bool:
        return self._state.step == TRY and self._state.phase is not RampPhase.COMPLETE

    @property
    def _watch(self) -> timedelta:
        return (self._around.ramp or self._around.breaker).watch

    @property
    def _step_in_words(self) -> str:
        if self._state.step == TRY:
            return "breaker: one message as a try"
        messages = count(self._state.allowed, "message")
        steps = len(self._around.ramp.steps) if self._around.ramp else self._state.step
        return f"ramp: step {self._state.step} of {steps} ({messages})"

    @property
    def _place(self) -> str:
        name = self._subject.target_q or BLANK_NAME
        return place(name, self._subject.target_q_mgr)


def _build_hold(state: RampState) -> Hold | None:
    """Return the hold that all messages share while nothing may move."""
    if state.phase in {RampPhase.OPEN, RampPhase.WATCHING}:
        return Hold(state.why, state.until)
    return None
