"""Explain what became of each message of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from mqdlq.constants import reason_text
from mqdlq.lake import snapshot_rows
from mqdlq.ledger import Attempt, InStep, OutcomeFact
from mqdlq.model import Action, Disposition, Outcome
from mqdlq.mqi.connect import connect
from mqdlq.mqi.hints import BLANK_NAME
from mqdlq.stages.execute.execution import Execution
from mqdlq.stages.execute.pending_steps import WorkItem, WorkList
from mqdlq.stages.units.destinations import Destination, Destinations

Advice = Callable[[Attempt], str]
"""Returns what the reason of a failed attempt means, and where to look."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What is known of a run's messages beside the work list, by message id.

    `departed_elsewhere` and `being_moved` name the other run. `readers` counts the handles that
    had the queue open for input around the last browse.
    """

    departed_elsewhere: Mapping[int, str]
    being_moved: Mapping[int, str]
    readers: int
    blocked: Mapping[Destination | None, int]
    why_not_to_act: str
    at: datetime


def explained(
    execution: Execution, work: WorkList, location: str, findings: Findings
) -> Iterator[OutcomeFact]:
    """Yield the outcomes of the messages that have none yet.

    The work list is in browse order, as are the attempts and the rows that are read beside it.
    """
    columns = ["browse_seq", "expires_at", "problem"]
    rows = InStep((row["browse_seq"], row) for row in snapshot_rows(location, columns))
    attempts = InStep(execution.ledger.attempts.in_browse_order(execution.run.run_id))
    with _explanations(execution) as advice:
        for item in work.items:
            if item.outcome is None:
                tried = attempts.on(item.message.browse_seq)
                row = next(iter(rows.on(item.message.browse_seq)), {})
                yield _outcome(item, tried[-1] if tried else None, row, findings, advice)


@contextmanager
def _explanations(execution: Execution) -> Iterator[Advice]:
    """Yield what explains a failed attempt; it connects when it is first asked."""
    with ExitStack() as stack:

        @cache
        def destinations() -> Destinations:
            return Destinations(stack.enter_context(connect(execution.settings)), 1)

        yield lambda attempt: destinations().advice(
            (attempt.target_q, attempt.target_q_mgr), attempt.mqrc
        )


def _outcome(
    item: WorkItem,
    last: Attempt | None,
    row: Mapping[str, Any],
    findings: Findings,
    advice: Advice,
) -> OutcomeFact:
    if item.in_doubt and not item.met:
        outcome, why = Outcome.UNKNOWN, "its unit of work was interrupted and is not resolved"
    elif not item.met:
        outcome, why = why_vanished(item.message.message_id, row["expires_at"], findings)
    elif item.message.disposition is Disposition.UNPROCESSABLE:
        outcome, why = Outcome.UNPROCESSABLE, row["problem"]
    elif item.message.disposition is Disposition.NO_RULE:
        outcome, why = Outcome.LEFT_NO_RULE, "no rule matches"
    elif findings.why_not_to_act:
        outcome, why = Outcome.NOT_ATTEMPTED, _not_acted_on(item, findings.why_not_to_act)
    else:
        blocked = findings.blocked.get(_destination(item), 0)
        outcome, why = _still_planned(item, last, blocked, advice)
    step = item.step
    return OutcomeFact(
        message_id=item.message.message_id,
        outcome=outcome,
        why=why,
        rule=step.rule if step else last.rule if last else 0,
        action=step.action.value if step else last.action.value if last else "",
        target_q=step.target_q if step else last.target_q if last else "",
        target_q_mgr=step.target_q_mgr if step else last.target_q_mgr if last else "",
        at=findings.at,
    )


def _not_acted_on(item: WorkItem, why: str) -> str:
    """Say why a run does nothing, and what would have kept it from this message anyway."""
    return f"{why}; else it would stay all the same: {item.withheld}" if item.withheld else why


def why_vanished(
    message_id: int, expires_at: datetime | None, findings: Findings
) -> tuple[Outcome, str]:
    """Explain a message that is not visible on the queue, and not by this run's doing.

    A message got within a unit of work is invisible until that ends, and the MQI does not tell it
    from one that is gone. While nobody has the queue open for input, there is hardly such a unit.
    """
    if message_id in findings.departed_elsewhere:
        other = findings.departed_elsewhere[message_id]
        return Outcome.OWNED_BY_RUN, f"run {other} dealt with it in the meantime"
    if message_id in findings.being_moved:
        return Outcome.OWNED_BY_RUN, f"run {findings.being_moved[message_id]} is about to move it"
    if expires_at is not None and expires_at <= findings.at:
        return Outcome.EXPIRED, f"its Expiry ended at {expires_at:%Y-%m-%d %H:%M:%S} UTC"
    if findings.readers:
        handles = "one handle has" if findings.readers == 1 else f"{findings.readers} handles have"
        return Outcome.UNKNOWN, (
            f"it is not to be seen on the queue, and {handles} that open for input: whoever that is"
            " may hold it in a unit of work, which DISPLAY QSTATUS TYPE(HANDLE) shows; if it comes"
            " back, the next run takes it up"
        )
    return Outcome.TAKEN, "it is not on the queue any more, and not by this handler's doing"


def _still_planned(
    item: WorkItem, last: Attempt | None, blocked: int, advice: Advice
) -> tuple[Outcome, str]:
    """Explain a planned message that is still on the queue at the end of the run.

    `blocked` is the reason why no put to its destination succeeds, where attempts are held then.
    """
    step = item.step
    if step is None:
        return Outcome.EXHAUSTED, f"{item.attempts_made} attempts, the last {_told(last, advice)}"
    if step.action is Action.IGNORE:
        return Outcome.LEFT_BY_RULE, f"rule {step.rule} (line {step.rule_line}) says IGNORE"
    if item.withheld or step.action is Action.DISCARD:
        return Outcome.NOT_ATTEMPTED, item.withheld or "it was not archived, so it stays"
    if blocked:
        return Outcome.NOT_ATTEMPTED, f"held: {step.target_q} has {reason_text(blocked)}"
    if last is None:
        return Outcome.RETRY_PENDING, "not tried before the run ended"
    return (
        Outcome.RETRY_PENDING,
        f"{item.attempts_made} attempts so far, the last {_told(last, advice)}",
    )


def _told(attempt: Attempt | None, advice: Advice) -> str:
    if attempt is None:
        return "made by an earlier run"
    why = [reason_text(attempt.mqrc), advice(attempt)]
    return ": ".join([f"to {attempt.target_q or BLANK_NAME}", *filter(None, why)])


def blocked_destinations(execution: Execution, work: WorkList) -> dict[Destination | None, int]:
    """Return the destinations of what is still due that take nothing now, with their reasons."""
    wanted = {_destination(item) for item in work.items if item.due}
    with connect(execution.settings) as queue_manager:
        known = Destinations(queue_manager, 1)
        return {destination: known.reason_blocked(destination) for destination in wanted}


def _destination(item: WorkItem) -> Destination | None:
    step = item.step
    return (step.target_q, step.target_q_mgr) if step and step.target_q else None
