"""Record the attempts of a pass and their outcomes in the ledger."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from mqdlq.constants import MQRC, reason_text
from mqdlq.controls.registry import ControlChain
from mqdlq.controls.work import Planned, PlannedAttempt, WorkItem
from mqdlq.errors import MalformedHeaderError
from mqdlq.headers import DeadLetterHeader, MessageDescriptor
from mqdlq.ledger.tables import Attempt, OutcomeFact
from mqdlq.model import Action, AttemptState, Destination, Outcome, Step, WorkNumber
from mqdlq.mqi.client import printable_name
from mqdlq.mqi.state_queue import Marker
from mqdlq.reasons import Reason, Why
from mqdlq.resources import Execution

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


def build_outcome(
    message_id: int, outcome: Outcome, why: Reason, decided: Step | Attempt | None, at: datetime
) -> OutcomeFact:
    """Return the outcome of a message; `decided` is the step or the attempt that led to it."""
    if decided is None:
        return OutcomeFact(0, "", "", "", outcome, message_id, why, at)
    target = decided.target_q, decided.target_q_mgr
    return OutcomeFact(decided.rule, decided.action.value, *target, outcome, message_id, why, at)


def build_success_outcome(attempt: Attempt, how: Reason | None = None) -> OutcomeFact:
    """Return the outcome of a confirmed attempt; `how` replaces the usual reason."""
    outcome, why = _SUCCESS_OUTCOMES[attempt.action], how or Why.ATTEMPT(number=attempt.attempt_no)
    return build_outcome(attempt.message_id, outcome, why, attempt, attempt.at)


def build_attempt(
    item: WorkItem,
    step: Step,
    number: int,
    state: AttemptState,
    *,
    unit: str,
    run_id: str,
    plan_id: str,
    at: datetime,
    reason: int = 0,
) -> Attempt:
    """Return the attempt of this number to take a step of an item."""
    return Attempt(
        unit=unit,
        run_id=run_id,
        plan_id=plan_id,
        message_id=item.message.message_id,
        message_key=item.message.message_key,
        rule=step.rule,
        attempt_no=number,
        action=step.action,
        target_q=step.target_q,
        target_q_mgr=step.target_q_mgr,
        state=state,
        mqrc=reason,
        at=at,
        cause_id=item.cause_id,
    )


Moved = tuple[tuple[Any, ...], ...]
"""The latest moves of a run by its plan, in the rows of `Marker.moved`."""


def read_moved(standing: Sequence[Marker], run_id: str, plan_id: str) -> Moved:
    """Return the moves that the markers on the state queue have of a run and its plan."""
    own = [one for one in standing if (one.run_id, one.plan_id) == (run_id, plan_id)]
    return tuple(tuple(row) for one in own for row in one.moved)


def _add_moves(moved: Moved, tries: Sequence[PlannedAttempt]) -> Moved:
    """Return the moves with those of one more unit of work."""
    rows = list(moved)
    for one in tries:
        step, item = one.step, one.item
        number, seq = item.attempts_made + 1, item.message.browse_seq
        target = () if step.rule else (step.target_q,)
        before = rows[-1] if rows else ()
        if before and before[0] == number and before[2] == seq - 1 and before[3:] == target:
            rows[-1] = (number, before[1], seq, *target)
        else:
            rows.append((number, seq, seq, *target))
    return tuple(rows[-MOST_ROWS:])


class AttemptRecorder:
    """Records the attempts of one pass, before and after the commits of their units.

    `number` is that of the pass in its ledger, `moved` has the moves of earlier passes. `failures`
    counts the failed puts by queue and reason; `attempts` counts all attempts.
    """

    def __init__(
        self,
        execution: Execution,
        plan_id: str,
        explain_failure: ExplainFailure,
        controls: ControlChain,
        *,
        number: WorkNumber,
        moved: Moved,
    ) -> None:
        self._number, self._moved, self._controls = number, moved, controls
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
        moved = _add_moves(self._moved, _tries_of(moves))
        return Marker(unit, self._run_id, self._plan_id, messages, str(self._number), moved)

    def may_make(self, planned: Planned) -> bool:
        return all(self._controls.may_still_move(one) for one in planned.tries)

    def intend(self, unit: str, moves: Sequence[Planned]) -> None:
        self._add_attempts(unit, moves, AttemptState.INTENDED)

    def confirm(self, unit: str, moves: Sequence[Planned]) -> None:
        """Record that the unit committed, with the outcomes of its messages."""
        tries = _tries_of(moves)
        attempts = [self._build_attempt(unit, t, AttemptState.CONFIRMED) for t in tries]
        facts = [
            build_success_outcome(attempt, planned.how)
            for attempt, planned in zip(attempts, tries, strict=True)
        ]
        self._ledger.attempts.add(attempts, [(self._run_id, fact) for fact in facts])
        self._moved = _add_moves(self._moved, tries)
        for planned, fact in zip(tries, facts, strict=True):
            planned.item.attempts_made += 1
            planned.item.outcome = fact.outcome
        self.attempts += len(tries)
        self._controls.confirm(tries)

    def back_out(self, unit: str, moves: Sequence[Planned], reason: int) -> None:
        """Record that the unit was backed out; its attempts do not count."""
        self._add_attempts(unit, moves, AttemptState.BACKED_OUT_WITH_BATCH, reason)

    def _add_attempts(
        self, unit: str, moves: Sequence[Planned], state: AttemptState, reason: int = 0
    ) -> None:
        tries = _tries_of(moves)
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
            self._controls.leave(one)

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
            item, own = one.item, why if one is culprit else Why.OTHER_OF_GROUP_STAYS(why=why)
            item.withheld_reason, item.outcome = own, Outcome.NOT_ATTEMPTED
            message_id = item.message.message_id
            fact = build_outcome(message_id, item.outcome, own, one.step, self._clock())
            self._unwritten_outcomes.append(fact)
        if len(self._unwritten_outcomes) >= MAX_UNWRITTEN_FAILURES:
            self.flush()

    def flush(self) -> None:
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
            self._controls.leave(one, own_reason)

    def _build_attempt(
        self, unit: str, planned: PlannedAttempt, state: AttemptState, reason: int = 0
    ) -> Attempt:
        return build_attempt(
            planned.item,
            planned.step,
            planned.item.attempts_made + 1,
            state,
            unit=unit,
            run_id=self._run_id,
            plan_id=self._plan_id,
            at=self._clock(),
            reason=reason,
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
    """Return whether a put failed for the reason and queue that the MQDLH already records."""
    browsed, step = planned.browsed, planned.step
    try:
        md = MessageDescriptor.decode(browsed.descriptor)
        header = DeadLetterHeader.decode(
            browsed.prefix, encoding=md.encoding, ccsid=md.coded_char_set_id
        )
    except MalformedHeaderError:
        return False
    recorded = header.reason, header.dest_q_name, header.dest_q_mgr_name
    return recorded == (reason, step.target_q, step.target_q_mgr)
