"""Outcomes in words: what happened to a message, in; the ledger's fact about it, out."""

from __future__ import annotations

from mqdlq.ledger import Attempt, OutcomeFact
from mqdlq.model import Action, Outcome

_SUCCESS = {
    Action.RETRY: Outcome.DELIVERED,
    Action.FWD: Outcome.FORWARDED,
    Action.DISCARD: Outcome.DISCARDED,
}


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
