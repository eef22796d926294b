"""Record the attempts of a pass and their outcomes in the ledger."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from mqdlq.constants import MQRC, reason_text
from mqdlq.controls.work import Planned, PlannedAttempt
from mqdlq.errors import MalformedHeaderError
from mqdlq.ledger.tables.messages import Attempt, OutcomeFact
from mqdlq.model import Action, AttemptState, Destination, Outcome, WorkNumber
from mqdlq.mqi.client import printable_name
from mqdlq.mqi.state_queue import Marker
from mqdlq.reasons import Reason, Why
from mqdlq.resources import Execution
from mqdlq.stages.execute.dead_letters import decode_dead_letter_header, repeats_recorded_failure

BACKED_OUT = MQRC["MQRC_BACKED_OUT"]
MAX_UNWRITTEN_FAILURES = 500
MOST_ROWS = 100
"""How many rows of moves a marker has room for; those before them are forgotten."""
_SUCCESS_OUTCOMES = {
    Action.RETRY: Outcome.DELIVERED,
    Action.FWD: Outcome.FORWARDED,
    Action.DISCARD: Outcome.DISCARDED,
}

ExplainFailure = Callable[[Destination | None, int], str]
"""Returns what the reason of a failed put to a destination means, or ""."""


def build_success_outcome(attempt: Attempt, how: Reason | None = None) -> OutcomeFact:
    """Return the outcome of a confirmed attempt; `how` replaces the usual reason."""
    return OutcomeFact(
        message_id=attempt.message_id,
        outcome=_SUCCESS_OUTCOMES[attempt.action],
        why=how or Why.ATTEMPT(number=attempt.attempt_no),
        rule=attempt.rule,
        action=attempt.action.value,
        target_q=attempt.target_q,
        target_q_mgr=attempt.target_q_mgr,
        at=attempt.at,
    )


@dataclass(frozen=True, slots=True)
class MovedMessages:
    """The latest moves of a run by its plan, in the rows of `Marker.moved`."""

    rows: tuple[tuple[Any, ...], ...] = ()

    @classmethod
    def of_markers(cls, standing: Sequence[Marker], run_id: str, plan_id: str) -> MovedMessages:
        """Return the moves that the markers on the state queue have of a run and its plan."""
        own = [one for one in standing if (one.run_id, one.plan_id) == (run_id, plan_id)]
        return cls(tuple(tuple(row) for one in own for row in one.moved))

    def with_moves(self, tries: Sequence[PlannedAttempt]) -> MovedMessages:
        """Return these moves and those of one more unit of work."""
        rows = list(self.rows)
        for one in tries:
            step, item = one.step, one.item
            number, seq = item.attempts_made + 1, item.message.browse_seq
            target = () if step.rule else (step.target_q,)
            before = rows[-1] if rows else ()
            if before and before[0] == number and before[2] == seq - 1 and before[3:] == target:
                rows[-1] = (number, before[1], seq, *target)
            else:
                rows.append((number, seq, seq, *target))
        return MovedMessages(tuple(rows[-MOST_ROWS:]))


def _build_withheld_outcome(planned: PlannedAttempt, why: Reason, at: datetime) -> OutcomeFact:
    step = planned.step
    decision = step.rule, step.action.value, step.target_q, step.target_q_mgr
    message_id = planned.item.message.message_id
    return OutcomeFact(*decision, Outcome.NOT_ATTEMPTED, message_id, why, at)


class AttemptObserver(Protocol):
    """Receives attempts after the ledger has recorded them."""

    def may_still_move(self, planned: PlannedAttempt) -> bool:
        """Return whether a message may move although moves before it may have failed."""

    def confirm(self, tries: Sequence[PlannedAttempt]) -> None:
        """Take note that a unit of work with these attempts committed."""

    def leave(self, planned: PlannedAttempt, reason: int = 0) -> None:
        """Take note that an attempt failed with a reason code, or was not made."""


class AttemptRecorder:
    """Records the attempts of one pass, before and after the commits of their units.

    `failures` counts the failed puts by queue and reason; `attempts` counts all attempts.
    """

    def __init__(
        self,
        execution: Execution,
        plan_id: str,
        explain_failure: ExplainFailure,
        observer: AttemptObserver,
        *,
        number: WorkNumber,
        moved: MovedMessages,
    ) -> None:
        """Record attempts of a run that executes the plan `plan_id`; log explained failures.

        `number` is that of the pass in its ledger, `moved` has the moves of earlier passes.
        """
        self._number, self._moved = number, moved
        self._observer = observer
        self._run_id = execution.run.run_id
        self._hold_while_blocked = execution.run.hold_while_blocked
        self._plan_id = plan_id
        self._ledger = execution.ledger
        self._clock = execution.clock
        self._log = execution.log
        self._explain_failure = explain_failure
        self._unwritten_failures: list[Attempt] = []
        self._unwritten_outcomes: list[OutcomeFact] = []
        self._withheld_because: set[Reason] = set()
        self._warned_of: set[tuple[str, int]] = set()
        self.failures: Counter[tuple[str, int]] = Counter()
        self.attempts = 0

    def marker(self, unit: str, messages: str, moves: Sequence[Planned]) -> Marker:
        """Return the marker of a unit; `messages` is the digest of its messages' keys."""
        moved = self._moved.with_moves(_tries_of(moves)).rows
        return Marker(unit, self._run_id, self._plan_id, messages, str(self._number), moved)

    def may_make(self, planned: Planned) -> bool:
        """Return whether messages may move although moves before them may have failed."""
        return all(self._observer.may_still_move(one) for one in planned.tries)

    def intend(self, unit: str, moves: Sequence[Planned]) -> None:
        """Record the attempts that the unit is about to commit, durably."""
        tries = _tries_of(moves)
        self._ledger.attempts.add(
            [self._build_attempt(unit, t, AttemptState.INTENDED) for t in tries]
        )

    def confirm(self, unit: str, moves: Sequence[Planned]) -> None:
        """Record that the unit committed, with the outcomes of its messages."""
        tries = _tries_of(moves)
        attempts = [self._build_attempt(unit, t, AttemptState.CONFIRMED) for t in tries]
        facts = [
            build_success_outcome(attempt, planned.how)
            for attempt, planned in zip(attempts, tries, strict=True)
        ]
        self._ledger.attempts.add(attempts, [(self._run_id, fact) for fact in facts])
        self._moved = self._moved.with_moves(tries)
        for planned, fact in zip(tries, facts, strict=True):
            planned.item.attempts_made += 1
            planned.item.outcome = fact.outcome
        self.attempts += len(tries)
        self._observer.confirm(tries)

    def back_out(self, unit: str, moves: Sequence[Planned], reason: int) -> None:
        """Record that the unit was backed out; its attempts do not count."""
        state, tries = AttemptState.BACKED_OUT_WITH_BATCH, _tries_of(moves)
        self._ledger.attempts.add([self._build_attempt(unit, t, state, reason) for t in tries])

    def fail(self, planned: Planned, reason: int) -> None:
        """Record a failed put: the attempt counts, unless its unit was only backed out.

        If a message of a group fails, an attempt counts for each of its messages. Those of the
        other messages have the reason MQRC_BACKED_OUT.
        """
        if reason == BACKED_OUT:
            self.leave(planned)
        else:
            self._record_failure(planned, reason, planned.tries[planned.reached])
            self.flush()

    def leave(self, planned: Planned) -> None:
        """Tell the observer that attempts were not made.

        A message that was got but must not be moved has an attempt that was backed out.
        """
        if withheld := [one for one in planned.tries if one.item.withheld_reason]:
            self.back_out(secrets.token_hex(24), [Planned(tuple(withheld))], 0)
        for one in planned.tries:
            self._observer.leave(one)

    def skip(self, planned: Planned, reason: int) -> bool:
        """Record a failure for a put that cannot succeed, unless the handler holds the message.

        A handler may hold messages while their target queue is blocked. A blank queue name is never
        held, since nobody can unblock it. The record may wait for others: if a crash loses it, the
        message is tried once more. Returns False if a failed attempt would lead to a DISCARD: only
        a real attempt may do that.
        """
        is_blocked = reason != MQRC["MQRC_MSG_TOO_BIG_FOR_Q"]
        destination = planned.destination
        if is_blocked and self._hold_while_blocked and destination and destination[0]:
            self.leave(planned)
            return True
        if any(one.precedes_discard for one in planned.tries):
            return False
        longest = max(planned.tries, key=lambda one: one.length)
        self._record_failure(planned, reason, None if is_blocked else longest)
        if len(self._unwritten_failures) >= MAX_UNWRITTEN_FAILURES:
            self.flush()
        return True

    def withhold(self, planned: Planned, why: Reason, culprit: PlannedAttempt) -> None:
        """Record that messages stay for the rest of the run because of one of them.

        The record may wait for others: a pass that loses it finds the same reason again.
        """
        if why not in self._withheld_because:
            self._withheld_because.add(why)
            number = culprit.item.message.browse_seq
            self._log.warning("message %d stays: %s [MQDLQ-630]", number, why.words)
        for one in planned.tries:
            own = why if one is culprit else Why.OTHER_OF_GROUP_STAYS(why=why)
            one.item.withheld_reason = own
            one.item.outcome = Outcome.NOT_ATTEMPTED
            self._unwritten_outcomes.append(_build_withheld_outcome(one, own, self._clock()))
        if len(self._unwritten_outcomes) >= MAX_UNWRITTEN_FAILURES:
            self.flush()

    def flush(self) -> None:
        """Write the failures and the outcomes that wait to be written together."""
        outcomes, self._unwritten_outcomes = self._unwritten_outcomes, []
        self._ledger.outcomes.add(self._run_id, outcomes)
        unwritten, self._unwritten_failures = self._unwritten_failures, []
        if unwritten:
            self._ledger.attempts.add(unwritten)

    def _record_failure(self, planned: Planned, reason: int, failed: PlannedAttempt | None) -> None:
        """Record a failed attempt for each message; None if the reason is that of all of them."""
        unit = secrets.token_hex(24)
        for one in planned.tries:
            own_reason = reason if failed is None or one is failed else BACKED_OUT
            self._unwritten_failures.append(
                self._build_attempt(unit, one, AttemptState.FAILED, own_reason)
            )
            one.item.attempts_made += 1
            self.attempts += 1
            self.failures[one.step.target_q, own_reason] += 1
            self._log_failure(one, own_reason)
            self._observer.leave(one, own_reason)

    def _build_attempt(
        self, unit: str, planned: PlannedAttempt, state: AttemptState, reason: int = 0
    ) -> Attempt:
        step, message = planned.step, planned.item.message
        return Attempt(
            unit=unit,
            run_id=self._run_id,
            plan_id=self._plan_id,
            message_id=message.message_id,
            message_key=message.message_key,
            rule=step.rule,
            attempt_no=planned.item.attempts_made + 1,
            action=step.action,
            target_q=step.target_q,
            target_q_mgr=step.target_q_mgr,
            state=state,
            mqrc=reason,
            at=self._clock(),
            cause_id=planned.item.cause_id,
        )

    def _log_failure(self, planned: PlannedAttempt, reason: int) -> None:
        """Log a failed put, as a warning once per queue and reason in a pass.

        IBM's handler logs nothing if a put fails for the reason that the MQDLH already records.
        """
        step, cause = planned.step, (planned.step.target_q, reason)
        explain_failure = self._explain_failure(step.destination, reason)
        is_first = cause not in self._warned_of and not _repeats_recorded_failure(planned, reason)
        if is_first:
            self._warned_of.add(cause)
        (self._log.warning if is_first else self._log.debug)(
            "AMQ8722: unable to put message %d to %s: rule %d (line %d), attempt %d, %s",
            planned.item.message.browse_seq,
            printable_name(step.target_q),
            step.rule,
            step.rule_line,
            planned.item.attempts_made,
            ": ".join(filter(None, [reason_text(reason), explain_failure])),
        )


def _tries_of(moves: Sequence[Planned]) -> list[PlannedAttempt]:
    return [one for move in moves for one in move.tries]


def _repeats_recorded_failure(planned: PlannedAttempt, reason: int) -> bool:
    try:
        return repeats_recorded_failure(
            decode_dead_letter_header(planned.browsed), planned.step, reason
        )
    except MalformedHeaderError:
        return False
