"""Explain the outcome of each message of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final

from mqdlq.constants import reason_text
from mqdlq.controls.repair.changes import describe_changes
from mqdlq.controls.work import WorkItem, WorkList
from mqdlq.lake import snapshot_rows
from mqdlq.ledger import NO_ARCHIVE_COPY, Attempt, BrowseOrderReader, OutcomeFact
from mqdlq.model import Action, Destination, Disposition, Outcome, Step
from mqdlq.mqi.connect import connect
from mqdlq.mqi.hints import BLANK_NAME
from mqdlq.resources import Execution
from mqdlq.stages.execute.archiving import needs_copy, read_recorded_copies
from mqdlq.stages.execute.attempt_recorder import BACKED_OUT
from mqdlq.stages.units.destinations import Destinations
from mqdlq.words import STATES

_NOT_MOVED: Final = "it was not moved before the run ended"
_DIFFERS: Final = "it differs from its archive copy, or the task was interrupted"

ExplainFailure = Callable[[Attempt], str]
"""Returns what the reason of a failed attempt means, and where to look."""


@dataclass(frozen=True, slots=True)
class Findings:
    """Facts about a run's messages that the work list does not hold, by message id.

    `departed_elsewhere` and `being_moved` name the other run. `readers` counts the handles that had
    the queue open for input around the last browse. `has_lost_time` says that the ledger was
    restored from an older copy since the run began.
    """

    departed_elsewhere: Mapping[int, str]
    being_moved: Mapping[int, str]
    readers: int
    has_lost_time: bool
    blocked: Mapping[Destination | None, int]
    reason_not_to_act: str
    at: datetime


def explain_outcomes(
    execution: Execution, work: WorkList, location: str, findings: Findings
) -> Iterator[OutcomeFact]:
    """Yield the outcomes of the messages that have none yet.

    The work list, the attempts and the snapshot's rows are all read in browse order.
    """
    columns = ["browse_seq", "expires_at", "problem"]
    rows = BrowseOrderReader((row["browse_seq"], row) for row in snapshot_rows(location, columns))
    attempts = BrowseOrderReader(execution.ledger.attempts.in_browse_order(execution.run.run_id))
    if not findings.reason_not_to_act:
        _withhold_without_copy(execution, work)
    with _open_failure_explanations(execution, work) as advice:
        for item in work.items:
            if item.outcome is None:
                tried = attempts.rows_for(item.message.browse_seq)
                row = next(iter(rows.rows_for(item.message.browse_seq)), {})
                yield _explain_outcome(item, tried[-1] if tried else None, row, findings, advice)


def _withhold_without_copy(execution: Execution, work: WorkList) -> None:
    """Say why each message stays that no control holds, and whose step needs an archive copy.

    A control may have held it in the last pass, after its copy was archived.
    """
    waiting = [
        item
        for item in work.items
        if item.was_seen and item.hold is None and item.due_step
        if needs_copy(item.due_step, execution.run)
    ]
    recorded = execution.ledger.archive.digests(execution.run.run_id) if waiting else {}
    copies = read_recorded_copies(execution, recorded) if recorded else {}
    for item in waiting:
        if item.message.message_id not in copies:
            item.withheld_reason = NO_ARCHIVE_COPY
        elif item.attempts_made == 0:
            item.withheld_reason = _NOT_MOVED


@contextmanager
def _open_failure_explanations(execution: Execution, work: WorkList) -> Iterator[ExplainFailure]:
    """Yield a function that explains a failed attempt; it connects when it first has to."""
    with ExitStack() as stack:

        @cache
        def destinations() -> Destinations:
            return Destinations(stack.enter_context(connect(execution.settings)), 1)

        @cache
        def explain_group(unit: str) -> str:
            made = execution.ledger.attempts.of_unit(unit)
            failed = next(attempt for attempt in made if attempt.mqrc != BACKED_OUT)
            (number,) = (
                item.message.browse_seq
                for item in work.items
                if item.message.message_id == failed.message_id
            )
            return f"message {number} of its group failed with {reason_text(failed.mqrc)}"

        def explain(attempt: Attempt) -> str:
            if attempt.mqrc == BACKED_OUT:
                return explain_group(attempt.unit)
            destination = attempt.target_q, attempt.target_q_mgr
            return destinations().explain_failure(destination, attempt.mqrc)

        yield explain


def _explain_outcome(
    item: WorkItem,
    last: Attempt | None,
    row: Mapping[str, Any],
    findings: Findings,
    advice: ExplainFailure,
) -> OutcomeFact:
    if item.is_in_doubt and not item.was_seen:
        outcome, why = Outcome.UNKNOWN, "its unit of work was interrupted and is not resolved"
    elif not item.was_seen:
        outcome, why = explain_vanished_message(
            item.message.message_id, row["expires_at"], findings
        )
    elif item.message.disposition is Disposition.UNPROCESSABLE:
        outcome, why = Outcome.UNPROCESSABLE, row["problem"]
    elif item.message.disposition is Disposition.UNMATCHED:
        outcome, why = Outcome.UNMATCHED, "no rule matches"
    elif findings.reason_not_to_act:
        outcome, why = Outcome.NOT_ATTEMPTED, _explain_inaction(item, findings.reason_not_to_act)
    else:
        blocked = findings.blocked.get(_find_destination(item), 0)
        outcome, why = _explain_planned_message(item, last, blocked, advice)
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


def _explain_inaction(item: WorkItem, why: str) -> str:
    """Return why the run does nothing, and what would have withheld this message in any case."""
    also = item.withheld_reason
    if not also and item.hold and item.hold.until is None:
        also = item.hold.why
    if also:
        return f"{why}; it would also stay because {also}"
    return f"{why}; it would be repaired: {describe_changes(item.changes)}" if item.changes else why


def explain_vanished_message(
    message_id: int, expires_at: datetime | None, findings: Findings
) -> tuple[Outcome, str]:
    """Explain a message that is no longer visible on the queue, although this run did not move it.

    A message got within an open unit of work is invisible; the MQI cannot distinguish it from a
    message that is gone. While no handle has the queue open for input, such a unit is unlikely.
    """
    if message_id in findings.departed_elsewhere:
        other = findings.departed_elsewhere[message_id]
        return Outcome.LEASED_BY_RUN, f"run {other} handled it in the meantime"
    if message_id in findings.being_moved:
        return Outcome.LEASED_BY_RUN, f"run {findings.being_moved[message_id]} is about to move it"
    if findings.has_lost_time:
        return Outcome.UNKNOWN, (
            "it is not on the queue, and the ledger was restored from an older copy since this run"
            " began: this handler may have moved it before, so look for its MsgId on its target and"
            " in the archive"
        )
    if expires_at is not None and expires_at <= findings.at:
        return Outcome.EXPIRED, f"its Expiry ended at {expires_at:%Y-%m-%d %H:%M:%S} UTC"
    if findings.readers:
        handles = "one handle has" if findings.readers == 1 else f"{findings.readers} handles have"
        return Outcome.UNKNOWN, (
            f"it is not visible on the queue, and {handles} that open for input: an application"
            " may hold it in a unit of work, which DISPLAY QSTATUS TYPE(HANDLE) shows; if it comes"
            " back, the next run handles it"
        )
    return Outcome.TAKEN, "it is no longer on the queue, and this handler did not move it"


def _explain_planned_message(
    item: WorkItem, last: Attempt | None, blocked: int, advice: ExplainFailure
) -> tuple[Outcome, str]:
    """Explain a planned message that is still on the queue at the end of the run.

    `blocked` is the reason why no put to its destination succeeds, if the handler holds attempts.
    """
    step = item.step
    if item.hold and item.hold.outcome is not Outcome.NOT_ATTEMPTED and not item.withheld_reason:
        return item.hold.outcome, item.hold.why
    if step is None:
        return (
            Outcome.EXHAUSTED,
            f"{item.attempts_made} attempts, the last {_describe_attempt(last, advice)}",
        )
    if step.action is Action.IGNORE:
        return Outcome.LEFT_BY_RULE, f"rule {step.rule} (line {step.rule_line}) says IGNORE"
    if why := _find_reason_it_was_held(item, step, last, blocked):
        return Outcome.NOT_ATTEMPTED, why
    if last is None:
        return Outcome.RETRY_PENDING, "not tried before the run ended"
    return (
        Outcome.RETRY_PENDING,
        f"{item.attempts_made} attempts so far, the last {_describe_attempt(last, advice)}",
    )


def _find_reason_it_was_held(item: WorkItem, step: Step, last: Attempt | None, blocked: int) -> str:
    if item.withheld_reason == _NOT_MOVED and last is not None:
        backed_out_for = reason_text(last.mqrc) if last.mqrc else _DIFFERS
        return f"its unit of work was backed out: {backed_out_for}"
    if item.withheld_reason:
        return item.withheld_reason
    if item.hold:
        return item.hold.why
    return f"held: {step.target_q} has {reason_text(blocked)}" if blocked else ""


def _describe_attempt(attempt: Attempt | None, advice: ExplainFailure) -> str:
    if attempt is None:
        return "made by an earlier run"
    failure = [reason_text(attempt.mqrc), advice(attempt)]
    why = failure if attempt.mqrc else [STATES[attempt.state]]
    return ": ".join([f"to {attempt.target_q or BLANK_NAME}", *filter(None, why)])


def find_blocked_destinations(
    execution: Execution, work: WorkList
) -> dict[Destination | None, int]:
    """Return the destinations of due messages that accept no puts now, with the reasons."""
    wanted = {_find_destination(item) for item in work.items if item.is_due}
    with connect(execution.settings) as queue_manager:
        known = Destinations(queue_manager, 1)
        return {destination: known.find_blocking_reason(destination) for destination in wanted}


def _find_destination(item: WorkItem) -> Destination | None:
    step = item.step
    return (step.target_q, step.target_q_mgr) if step and step.target_q else None
