"""What an execution writes to the ledger: tries of steps in, attempts and outcomes out."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from mqdlq.constants import reason_text
from mqdlq.errors import MalformedHeaderError
from mqdlq.headers import DLH_LENGTH
from mqdlq.ledger import Attempt, Ledger, Run
from mqdlq.model import Action, AttemptState, Step
from mqdlq.mqi.browse import Browsed
from mqdlq.mqi.hints import shown
from mqdlq.stages.execute.actions import header_of, is_old_news
from mqdlq.stages.execute.outcomes import outcome_of_success
from mqdlq.stages.execute.work import WorkItem, step_to_try
from mqdlq.stages.units.destinations import Destination
from mqdlq.stages.units.resources import Log

CHARGES_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Try:
    """One step to be tried on one message, as it was browsed."""

    item: WorkItem
    step: Step
    browsed: Browsed

    @property
    def destination(self) -> Destination | None:
        """Where the step puts the message; a DISCARD puts it nowhere."""
        if self.step.action is Action.DISCARD:
            return None
        return self.step.target_q, self.step.target_q_mgr

    @property
    def length(self) -> int:
        """How many bytes the step puts: with the MQDLH, or without."""
        keeps_its_header = self.step.action is Action.FWD and self.step.header
        return self.browsed.total_length - (0 if keeps_its_header else DLH_LENGTH)

    @property
    def would_lead_to_a_discard(self) -> bool:
        """Whether this attempt, if it fails, is the last before the message is discarded."""
        step = step_to_try(self.item.steps, self.item.attempts_made + 1)
        return step is not None and step.action is Action.DISCARD


class Booking:
    """Writes down the attempts of one pass, before and after the commits they wait for.

    `failures` counts the puts that failed, by queue and reason; `attempts` all that counted.
    """

    def __init__(
        self,
        run: Run,
        plan_id: str,
        *,
        ledger: Ledger,
        clock: Callable[[], datetime],
        log: Log,
    ) -> None:
        """Write for `run`, which executes the plan `plan_id`."""
        self.run = run
        self.plan_id = plan_id
        self._ledger = ledger
        self._clock = clock
        self._log = log
        self._charges: list[Attempt] = []
        self._told: set[tuple[str, int]] = set()
        self.failures: Counter[tuple[str, int]] = Counter()
        self.attempts = 0

    def intend(self, unit: str, tries: Sequence[Try]) -> None:
        """Write what the unit is about to commit; durable when this returns."""
        self._ledger.attempts.add([self._attempt(unit, t, AttemptState.INTENDED) for t in tries])

    def confirm(self, unit: str, tries: Sequence[Try]) -> None:
        """Write that the unit committed, with the outcomes of its messages."""
        attempts = [self._attempt(unit, t, AttemptState.CONFIRMED) for t in tries]
        facts = [outcome_of_success(attempt) for attempt in attempts]
        self._ledger.attempts.add(attempts, [(self.run.run_id, fact) for fact in facts])
        for tried, fact in zip(tries, facts, strict=True):
            tried.item.attempts_made += 1
            tried.item.outcome = fact.outcome
        self.attempts += len(tries)

    def back_out(self, unit: str, tries: Sequence[Try], reason: int = 0) -> None:
        """Write that nothing of the unit took effect; no attempt counts."""
        state = AttemptState.BACKED_OUT_WITH_BATCH
        self._ledger.attempts.add([self._attempt(unit, t, state, reason) for t in tries])

    def charge(self, tried: Try, reason: int, *, advice: str = "", at_once: bool = True) -> None:
        """Write that a put failed: the attempt counts. `advice` is logged with the reason.

        Where nothing was got for it, the entry may wait for others (`at_once` False): should a
        crash lose it, the message is tried once more.
        """
        unit = secrets.token_hex(24)
        self._charges.append(self._attempt(unit, tried, AttemptState.FAILED, reason))
        tried.item.attempts_made += 1
        self.attempts += 1
        self.failures[tried.step.target_q, reason] += 1
        self._tell(tried, reason, advice)
        if at_once or len(self._charges) >= CHARGES_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Write the charges that have waited."""
        charges, self._charges = self._charges, []
        if charges:
            self._ledger.attempts.add(charges)

    def _attempt(self, unit: str, tried: Try, state: AttemptState, reason: int = 0) -> Attempt:
        step, message = tried.step, tried.item.message
        return Attempt(
            unit=unit,
            run_id=self.run.run_id,
            plan_id=self.plan_id,
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

    def _tell(self, tried: Try, reason: int, advice: str) -> None:
        """Log a failed put, aloud once per queue and reason in a pass.

        IBM's handler says nothing when a put fails just as it had failed before.
        """
        step, cause = tried.step, (tried.step.target_q, reason)
        aloud = cause not in self._told and not _is_old_news(tried, reason)
        if aloud:
            self._told.add(cause)
        (self._log.warning if aloud else self._log.debug)(
            "AMQ8722: unable to put message %d to %s: rule %d (line %d), attempt %d, %s",
            tried.item.message.browse_seq,
            shown(step.target_q),
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
