"""Settle a run: browse the queue once more, and record exactly one outcome for every message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any

from mqdlq.controls.registry import ControlChain, browsed_length, open_controls
from mqdlq.controls.repair.changes import describe_changes
from mqdlq.controls.settings import read_controls
from mqdlq.controls.work import WorkItem, WorkList
from mqdlq.errors import AccountError, ExecutionError
from mqdlq.lake import read_manifest, snapshot_rows
from mqdlq.ledger.messages import BrowseOrderReader
from mqdlq.ledger.tables.messages import Attempt, Ending, OutcomeFact
from mqdlq.ledger.tables.runs import Sighting, TakenSnapshot
from mqdlq.model import DEPARTED, Action, Destination, Disposition, Outcome, Step
from mqdlq.mqi.browse import BrowseCursor
from mqdlq.mqi.client import BLANK_NAME
from mqdlq.mqi.connect import connect
from mqdlq.reasons import Reason, Why
from mqdlq.resources import Execution
from mqdlq.stages.execute.archiving import needs_copy, read_recorded_copies
from mqdlq.stages.execute.attempt_recorder import BACKED_OUT
from mqdlq.stages.execute.pending_steps import (
    find_reason_not_to_act,
    load_work_list,
    release_all_leases,
)
from mqdlq.stages.execute.settled_messages import (
    SettledList,
    UnselectedMessages,
    UntouchedMessages,
    VanishedMessage,
    newly_settled,
)
from mqdlq.stages.units.destinations import Destinations
from mqdlq.words import STATES

SECOND_BROWSE_DELAY_S = 5.0
"""How long to wait before the second browse for messages that vanished."""


def settle(execution: Execution, next_pass_at: datetime | None = None) -> Counter[Outcome]:
    """Browse the queue once more and record an outcome for every message that has none yet.

    A message recorded as left must be on the queue, a message recorded as departed must not be. A
    message that vanished without this run is `expired` or `taken`. A second call adds nothing.
    `next_pass_at` is when the pass that the run leaves to the next run is due, None if it leaves
    none; it is recorded if controls may hold messages. Returns the run's outcomes, counted. Raises
    AccountError if the account does not add up; the ledger then holds what was found.
    """
    run, ledger = execution.run, execution.ledger
    snapshot = _find_snapshot(execution)
    work = load_work_list(run, ledger, execution.lake_root)
    untouched = (
        UnselectedMessages(snapshot.location, run.named)
        if run.named
        else SettledList(snapshot.location)
    )
    controls = open_controls(execution)
    sighting, readers = _find_present_messages(execution, work, untouched, snapshot, controls)
    missing = _find_missing(execution, untouched)
    findings = _gather_findings(execution, work, missing, readers)
    controls.hold_all(work)
    ledger.outcomes.add(run.run_id, explain_outcomes(execution, work, snapshot.location, findings))
    _book_untouched(execution, untouched, missing, findings)
    _record_settled(execution, work, snapshot.snapshot_id)
    if ledger.accounts.of_run(run.run_id) is None:
        may_hold = read_controls(run.controls).hold_for_a_time
        due_at = next_pass_at if may_hold else None
        ledger.accounts.record(run.run_id, replace(sighting, next_pass_at=due_at))
    release_all_leases(execution)
    return _check_account(execution, snapshot.messages, sighting)


def _find_snapshot(execution: Execution) -> TakenSnapshot:
    """Return the snapshot that the run accounts for; raises if the run cannot be settled now."""
    run_id, ledger = execution.run.run_id, execution.ledger
    snapshot = ledger.snapshots.of_run(run_id)
    if snapshot is None:
        raise AccountError(
            "MQDLQ-607",
            f"run {run_id} has no snapshot to account for; clear the task snapshot and the tasks"
            " after it",
        )
    if ledger.attempts.has_open_units(run_id):
        raise ExecutionError(
            "MQDLQ-605",
            f"run {run_id} has units of work that are not settled; clear the task execute and the"
            " tasks after it",
        )
    return snapshot


def _gather_findings(
    execution: Execution,
    work: WorkList,
    missing: Sequence[tuple[VanishedMessage, Ending]],
    readers: int,
) -> Findings:
    """Find out what other runs did with the messages, and what keeps this run from acting."""
    run, ledger = execution.run, execution.ledger
    # Intended moves are read first: a move confirmed in between then shows as departed.
    being_moved = {
        a.message_id: a.run_id for a in ledger.attempts.intended(run.queue_manager, run.queue)
    }
    elsewhere = ledger.messages.departed_elsewhere(
        run.run_id, [one.message_id for one, _ in missing]
    )
    work.mark_moved_elsewhere(elsewhere)
    return Findings(
        departed_elsewhere=elsewhere,
        being_moved=being_moved,
        readers=readers,
        has_lost_time=ledger.epochs.lost_since(run.started_at) is not None,
        blocked=find_blocked_destinations(execution, work) if run.hold_while_blocked else {},
        reason_not_to_act=find_reason_not_to_act(run, ledger),
        at=execution.clock(),
    )


def _record_settled(execution: Execution, work: WorkList, snapshot_id: str) -> None:
    """Record the messages that later runs may skip."""
    run, ledger = execution.run, execution.ledger
    if run.has_given_action:
        return
    listed = ledger.messages.listed(run.run_id)
    booked = BrowseOrderReader((one.browse_seq, one.outcome) for one in listed)
    ledger.settled.record(run.run_id, snapshot_id, newly_settled(work.items, booked, run))


def _check_account(execution: Execution, messages: int, sighting: Sighting) -> Counter[Outcome]:
    """Count the outcomes; raises AccountError unless they match the snapshot and the queue."""
    run, ledger = execution.run, execution.ledger
    counted = ledger.outcomes.counts(run.run_id)
    if counted.total() != messages:
        raise AccountError(
            "MQDLQ-608",
            f"the snapshot holds {messages} messages, but {counted.total()} have an outcome; read"
            " the report before you clear the task",
        )
    if sighting.returned:
        raise AccountError(
            "MQDLQ-609",
            f"{sighting.returned} messages booked as departed are on {run.queue} again: somebody"
            " put them back, or a rule forwards to the queue it reads; correct the rule, and"
            " start a new run",
        )
    return counted


def _find_present_messages(
    execution: Execution,
    work: WorkList,
    untouched: UntouchedMessages,
    snapshot: TakenSnapshot,
    controls: ControlChain,
) -> tuple[Sighting, int]:
    """Find out which of the run's messages are on the queue now, and how many handles read from it.

    If there was nothing to do, the snapshot itself was the last browse.
    """
    run, ledger = execution.run, execution.ledger
    earlier = ledger.accounts.of_run(run.run_id)
    no_full_rows = read_manifest(snapshot.location).full == 0
    if no_full_rows and ledger.plans.of_run(run.run_id) is None and earlier is None:
        untouched.mark_all_seen()
        return Sighting(snapshot.messages, snapshot.messages, 0, 0, snapshot.taken_at), 0
    sighting, readers = _browse_once(execution, work, untouched, controls)
    is_complete = untouched.is_complete or earlier is not None
    if any(item.outcome is None and not item.was_seen for item in work.items) or not is_complete:
        # A missing message may have been in a unit of work that has been backed out since.
        execution.sleep(SECOND_BROWSE_DELAY_S)
        sighting, readers = _browse_once(execution, work, untouched, controls)
    return sighting, readers


def _find_missing(
    execution: Execution, untouched: UntouchedMessages
) -> list[tuple[VanishedMessage, Ending]]:
    """Return the settled messages that the last browse did not meet, unless they are recorded."""
    run, ledger = execution.run, execution.ledger
    is_booked = ledger.settled.outcomes(run.run_id)
    return [] if is_booked else untouched.find_missing(run, ledger)


def _book_untouched(
    execution: Execution,
    untouched: UntouchedMessages,
    missing: Sequence[tuple[VanishedMessage, Ending]],
    findings: Findings,
) -> None:
    """Record the messages with which the run did nothing, once, by count.

    A settled message that the browse did not meet is recorded individually, and belongs to the
    run's own messages from then on.
    """
    run, ledger = execution.run, execution.ledger
    if ledger.settled.outcomes(run.run_id):
        return
    booked = ledger.outcomes.of_run(run.run_id) if missing else {}
    vanished = []
    for one, settled in missing:
        if one.message_id not in booked:
            outcome, why = explain_vanished_message(one.message_id, one.expires_at, findings)
            fact = OutcomeFact(0, "", "", "", outcome, one.message_id, why, findings.at)
            vanished.append((one.browse_seq, settled.outcome.disposition, fact))
    counts = untouched.count_settled() - Counter(settled for _, settled in missing)
    ledger.settled.book(run.run_id, counts, vanished, findings.at)


def _browse_once(
    execution: Execution, work: WorkList, untouched: UntouchedMessages, controls: ControlChain
) -> tuple[Sighting, int]:
    """Browse the queue, mark the messages that are met, and count the handles that read from it."""
    run = execution.run
    untouched.start_browse()
    # A message restored in the meantime is a new arrival; the next run handles it.
    restored = execution.ledger.restorations.put_back(run.run_id)
    departed = {
        item.message.message_key
        for item in work.items
        if item.outcome in DEPARTED and item.message.message_id not in restored
    }
    met: Counter[str] = Counter()
    with connect(execution.settings) as queue_manager:
        constants = queue_manager.client.CMQC
        readers = queue_manager.inquire_queue(run.queue, constants.MQIA_OPEN_INPUT_COUNT)
        queue = queue_manager.open(run.queue, constants.MQOO_BROWSE)
        try:
            cursor = BrowseCursor(queue_manager, queue, run.queue, browsed_length(run))
            for sighted in controls.observe_settling(work, cursor):
                if sighted.item is not None or untouched.recognize(sighted.key):
                    met["seen"] += 1
                elif sighted.key in departed:
                    met["returned"] += 1
                else:
                    met["arrived"] += 1
        finally:
            queue_manager.close(queue)
        then = queue_manager.inquire_queue(run.queue, constants.MQIA_OPEN_INPUT_COUNT)
    sighting = Sighting(
        met.total(), met["seen"], met["returned"], met["arrived"], execution.clock()
    )
    return sighting, max(readers, then)


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
