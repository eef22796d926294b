"""What an execution writes to the ledger: tries of steps in, attempts and outcomes out."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from mqdlq.constants import MQRC, reason_text
from mqdlq.errors import MalformedHeaderError
from mqdlq.headers import DLH_LENGTH
from mqdlq.ledger import Attempt, OutcomeFact
from mqdlq.model import Action, AttemptState, Outcome, PutAuthority, Step
from mqdlq.mqi.browse import Browsed
from mqdlq.mqi.hints import printable_name
from mqdlq.mqi.state_queue import Marker
from mqdlq.stages.execute.actions import header_of, is_old_news
from mqdlq.stages.execute.execution import Execution
from mqdlq.stages.execute.pending_steps import WorkItem, step_to_try
from mqdlq.stages.units.destinations import Destination

CHARGES_AT_ONCE = 500
_SUCCESS = {
    Action.RETRY: Outcome.DELIVERED,
    Action.FWD: Outcome.FORWARDED,
    Action.DISCARD: Outcome.DISCARDED,
}

Advice = Callable[[Destination | None, int], str]
"""Returns what the reason of a failed put to a destination means, "" for nothing to add."""


@dataclass(frozen=True, slots=True)
class Try:
    """One step to be tried on one message, as it was browsed."""

    item: WorkItem
    step: Step
    browsed: Browsed

    is_got: ClassVar[bool] = True

    @property
    def message_key(self) -> bytes:
        """The key of the message."""
        return self.item.message.message_key

    @property
    def descriptor(self) -> bytes:
        """The message's packed MQMD."""
        return self.browsed.descriptor

    @property
    def authority(self) -> PutAuthority:
        """By whose authority the message is put."""
        return self.step.put_authority

    @property
    def destination(self) -> Destination | None:
        """Where the step puts the message; a DISCARD puts it nowhere."""
        if self.step.action is Action.DISCARD:
            return None
        return self.step.target_q, self.step.target_q_mgr

    @property
    def length(self) -> int:
        """How many bytes the step puts: with the MQDLH, or without; a DISCARD gets all of them."""
        keeps_its_header = self.step.action is Action.FWD and self.step.header
        is_whole = self.destination is None or keeps_its_header
        return self.browsed.total_length - (0 if is_whole else DLH_LENGTH)

    @property
    def would_lead_to_a_discard(self) -> bool:
        """Whether this attempt, if it fails, is the last before the message is discarded."""
        step = step_to_try(self.item.steps, self.item.attempts_made + 1)
        return step is not None and step.action is Action.DISCARD


def outcome_of_success(attempt: Attempt, how: str = "") -> OutcomeFact:
    """Return the outcome of a confirmed attempt; `how` says what is special about it."""
    return OutcomeFact(
        message_id=attempt.message_id,
        outcome=_SUCCESS[attempt.action],
        why=how or f"attempt {attempt.attempt_no}",
        rule=attempt.rule,
        action=attempt.action.value,
        target_q=attempt.target_q,
        target_q_mgr=attempt.target_q_mgr,
        at=attempt.at,
    )


class Booking:
    """Writes down the attempts of one pass, before and after the commits they wait for.

    `failures` counts the puts that failed, by queue and reason; `attempts` all that counted.
    """

    def __init__(self, execution: Execution, plan_id: str, advice: Advice) -> None:
        """Write for a run, which executes the plan `plan_id`; log `advice` on failed puts."""
        self._run_id = execution.run.run_id
        self._holds = execution.run.hold_while_blocked
        self._plan_id = plan_id
        self._ledger = execution.ledger
        self._clock = execution.clock
        self._log = execution.log
        self._advice = advice
        self._charges: list[Attempt] = []
        self._told: set[tuple[str, int]] = set()
        self.failures: Counter[tuple[str, int]] = Counter()
        self.attempts = 0

    def marker(self, unit: str, messages: str) -> Marker:
        """Return the marker of a unit; `messages` is the digest of its messages' keys."""
        return Marker(unit, self._run_id, self._plan_id, messages)

    def intend(self, unit: str, tries: Sequence[Try]) -> None:
        """Write what the unit is about to commit; durable when this returns."""
        self._ledger.attempts.add([self._attempt(unit, t, AttemptState.INTENDED) for t in tries])

    def confirm(self, unit: str, tries: Sequence[Try]) -> None:
        """Write that the unit committed, with the outcomes of its messages."""
        attempts = [self._attempt(unit, t, AttemptState.CONFIRMED) for t in tries]
        facts = [outcome_of_success(attempt) for attempt in attempts]
        self._ledger.attempts.add(attempts, [(self._run_id, fact) for fact in facts])
        for tried, fact in zip(tries, facts, strict=True):
            tried.item.attempts_made += 1
            tried.item.outcome = fact.outcome
        self.attempts += len(tries)

    def back_out(self, unit: str, tries: Sequence[Try], reason: int) -> None:
        """Write that nothing of the unit took effect; no attempt counts."""
        state = AttemptState.BACKED_OUT_WITH_BATCH
        self._ledger.attempts.add([self._attempt(unit, t, state, reason) for t in tries])

    def fail(self, tried: Try, reason: int) -> None:
        """Write that a put failed: the attempt counts, unless its unit was only backed out."""
        if reason != MQRC["MQRC_BACKED_OUT"]:
            self._charge(tried, reason)
            self.flush()

    def skip(self, tried: Try, reason: int) -> bool:
        """Charge a put that cannot succeed; the handler may hold it where its queue is blocked.

        The entry may wait for others: should a crash lose it, the message is tried once more. A
        blank queue name is never held, since nobody can unblock it. Returns False where a failed
        attempt would lead to a DISCARD: a real attempt precedes that.
        """
        is_blocked = reason != MQRC["MQRC_MSG_TOO_BIG_FOR_Q"]
        if is_blocked and self._holds and tried.step.target_q:
            return True
        if tried.would_lead_to_a_discard:
            return False
        self._charge(tried, reason)
        if len(self._charges) >= CHARGES_AT_ONCE:
            self.flush()
        return True

    def flush(self) -> None:
        """Write the charges that have waited."""
        charges, self._charges = self._charges, []
        if charges:
            self._ledger.attempts.add(charges)

    def _charge(self, tried: Try, reason: int) -> None:
        self._charges.append(
            self._attempt(secrets.token_hex(24), tried, AttemptState.FAILED, reason)
        )
        tried.item.attempts_made += 1
        self.attempts += 1
        self.failures[tried.step.target_q, reason] += 1
        self._tell(tried, reason)

    def _attempt(self, unit: str, tried: Try, state: AttemptState, reason: int = 0) -> Attempt:
        step, message = tried.step, tried.item.message
        return Attempt(
            unit=unit,
            run_id=self._run_id,
            plan_id=self._plan_id,
            message_id=message.message_id,
            message_key=message.message_key,
            rule=step.rule,
            attempt_no=tried.item.attempts_made + 1,
            action=step.action,
            target_q=step.target_q,
            target_q_mgr=step.target_q_mgr,
            state=state,
            mqrc=reason,
            at=self._clock(),
        )

    def _tell(self, tried: Try, reason: int) -> None:
        """Log a failed put, aloud once per queue and reason in a pass.

        IBM's handler says nothing when a put fails just as it had failed before.
        """
        step, cause = tried.step, (tried.step.target_q, reason)
        advice = self._advice(tried.destination, reason)
        aloud = cause not in self._told and not _is_old_news(tried, reason)
        if aloud:
            self._told.add(cause)
        (self._log.warning if aloud else self._log.debug)(
            "AMQ8722: unable to put message %d to %s: rule %d (line %d), attempt %d, %s",
            tried.item.message.browse_seq,
            printable_name(step.target_q),
            step.rule,
            step.rule_line,
            tried.item.attempts_made,
            ": ".join(filter(None, [reason_text(reason), advice])),
        )


def _is_old_news(tried: Try, reason: int) -> bool:
    try:
        return is_old_news(header_of(tried.browsed), tried.step, reason)
    except MalformedHeaderError:
        return False
