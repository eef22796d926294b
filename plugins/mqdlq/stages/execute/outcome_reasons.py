"""Explain the outcome of each message of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from mqdlq.controls.repair.changes import describe_changes
from mqdlq.controls.work import WorkItem, WorkList
from mqdlq.lake import snapshot_rows
from mqdlq.ledger.messages import BrowseOrderReader
from mqdlq.ledger.tables.messages import Attempt, OutcomeFact
from mqdlq.model import Action, Destination, Disposition, Outcome, Step
from mqdlq.mqi.client import BLANK_NAME
from mqdlq.mqi.connect import connect
from mqdlq.reasons import Reason, Why
from mqdlq.resources import Execution
from mqdlq.stages.execute.archiving import needs_copy, read_recorded_copies
from mqdlq.stages.execute.attempt_recorder import BACKED_OUT
from mqdlq.stages.units.destinations import Destinations
from mqdlq.words import STATES

ExplainFailure = Callable[[Attempt], Reason | str]
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
    reason_not_to_act: Reason | None
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
            item.withheld_reason = Why.NO_ARCHIVE_COPY()
        elif item.attempts_made == 0:
            item.withheld_reason = Why.NOT_MOVED()


@contextmanager
def _open_failure_explanations(execution: Execution, work: WorkList) -> Iterator[ExplainFailure]:
    """Yield a function that explains a failed attempt; it connects when it first has to."""
    with ExitStack() as stack:

        @cache
        def destinations() -> Destinations:
            return Destinations(stack.enter_context(connect(execution.settings)), 1)

        @cache
        def explain_group(unit: str) -> Reason:
            made = execution.ledger.attempts.of_unit(unit)
            failed = next(attempt for attempt in made if attempt.mqrc != BACKED_OUT)
            (number,) = (
                item.message.browse_seq
                for item in work.items
                if item.message.message_id == failed.message_id
            )
            return Why.OTHER_OF_GROUP_FAILED(number=number, mqrc=failed.mqrc)

        def explain(attempt: Attempt) -> Reason | str:
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
        outcome, why = Outcome.UNKNOWN, Why.IN_DOUBT()
    elif not item.was_seen:
        outcome, why = explain_vanished_message(
            item.message.message_id, row["expires_at"], findings
        )
    elif item.message.disposition is Disposition.UNPROCESSABLE:
        outcome, why = Outcome.UNPROCESSABLE, Why.UNPROCESSABLE(problem=row["problem"])
    elif item.message.disposition is Disposition.UNMATCHED:
        outcome, why = Outcome.UNMATCHED, Why.NO_RULE_MATCHES()
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


def _explain_inaction(item: WorkItem, why: Reason) -> Reason:
    """Return why the run does nothing, and what would have withheld this message in any case."""
    also = item.withheld_reason
    if not also and item.hold and item.hold.until is None:
        also = item.hold.why
    if also:
        return Why.WOULD_ALSO_STAY(why=why, also=also)
    if item.changes:
        return Why.WOULD_BE_REPAIRED(why=why, changes=describe_changes(item.changes))
    return why


def explain_vanished_message(
    message_id: int, expires_at: datetime | None, findings: Findings
) -> tuple[Outcome, Reason]:
    """Explain a message that is no longer visible on the queue, although this run did not move it.

    A message got within an open unit of work is invisible; the MQI cannot distinguish it from a
    message that is gone. While no handle has the queue open for input, such a unit is unlikely.
    """
    if message_id in findings.departed_elsewhere:
        other = findings.departed_elsewhere[message_id]
        return Outcome.LEASED_BY_RUN, Why.HANDLED_BY_RUN(run_id=other)
    if message_id in findings.being_moved:
        return Outcome.LEASED_BY_RUN, Why.BEING_MOVED(run_id=findings.being_moved[message_id])
    if findings.has_lost_time:
        return Outcome.UNKNOWN, Why.TIME_LOST()
    if expires_at is not None and expires_at <= findings.at:
        return Outcome.EXPIRED, Why.EXPIRED(at=expires_at)
    if findings.readers:
        return Outcome.UNKNOWN, Why.INVISIBLE(handles=findings.readers)
    return Outcome.TAKEN, Why.TAKEN()


def _explain_planned_message(
    item: WorkItem, last: Attempt | None, blocked: int, advice: ExplainFailure
) -> tuple[Outcome, Reason]:
    """Explain a planned message that is still on the queue at the end of the run.

    `blocked` is the reason why no put to its destination succeeds, if the handler holds attempts.
    """
    step = item.step
    if item.hold and item.hold.outcome is not Outcome.NOT_ATTEMPTED and not item.withheld_reason:
        return item.hold.outcome, item.hold.why
    if step is None:
        end = _explain_attempt(last, advice)
        return Outcome.EXHAUSTED, Why.EXHAUSTED(attempts=item.attempts_made, last=end)
    if step.action is Action.IGNORE:
        return Outcome.LEFT_BY_RULE, Why.RULE_IGNORES(rule=step.rule, line=step.rule_line)
    if why := _find_reason_it_was_held(item, step, last, blocked):
        return Outcome.NOT_ATTEMPTED, why
    if last is None:
        return Outcome.RETRY_PENDING, Why.NOT_TRIED()
    end = _explain_attempt(last, advice)
    return Outcome.RETRY_PENDING, Why.TRIED(attempts=item.attempts_made, last=end)


def _find_reason_it_was_held(
    item: WorkItem, step: Step, last: Attempt | None, blocked: int
) -> Reason | None:
    if item.withheld_reason == Why.NOT_MOVED() and last is not None:
        return Why.BACKED_OUT(mqrc=last.mqrc) if last.mqrc else Why.DIFFERS_FROM_COPY()
    if item.withheld_reason:
        return item.withheld_reason
    if item.hold:
        return item.hold.why
    return Why.TARGET_BLOCKED(target=step.target_q, mqrc=blocked) if blocked else None


def _explain_attempt(attempt: Attempt | None, advice: ExplainFailure) -> Reason:
    if attempt is None:
        return Why.OF_EARLIER_RUN()
    to = attempt.target_q or BLANK_NAME
    if not attempt.mqrc:
        return Why.ATTEMPT_ENDED(target=to, state=STATES[attempt.state])
    return Why.PUT_FAILED(target=to, mqrc=attempt.mqrc, advice=advice(attempt))


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
