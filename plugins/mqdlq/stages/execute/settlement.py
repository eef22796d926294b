"""Settle a run: browse the queue once more, and record exactly one outcome for every message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from mqdlq.controls.registry import ControlChain, browsed_length, open_controls
from mqdlq.controls.settings import read_controls
from mqdlq.controls.work import WorkList
from mqdlq.errors import AccountError, ExecutionError
from mqdlq.lake import read_manifest
from mqdlq.ledger.messages import BrowseOrderReader
from mqdlq.ledger.tables.messages import OutcomeFact, Settled
from mqdlq.ledger.tables.runs import Sighting, TakenSnapshot
from mqdlq.model import DEPARTED, Outcome
from mqdlq.mqi.browse import BrowseCursor
from mqdlq.mqi.connect import connect
from mqdlq.resources import Execution
from mqdlq.stages.execute.acceptance import find_reason_not_to_act
from mqdlq.stages.execute.leases import release_all_leases
from mqdlq.stages.execute.outcome_reasons import (
    Findings,
    explain_outcomes,
    explain_vanished_message,
    find_blocked_destinations,
)
from mqdlq.stages.execute.pending_steps import load_work_list
from mqdlq.stages.execute.settled_messages import (
    SettledList,
    UnselectedMessages,
    UntouchedMessages,
    VanishedMessage,
    newly_settled,
)

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
    missing: Sequence[tuple[VanishedMessage, Settled]],
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
) -> list[tuple[VanishedMessage, Settled]]:
    """Return the settled messages that the last browse did not meet, unless they are recorded."""
    run, ledger = execution.run, execution.ledger
    is_booked = ledger.settled.outcomes(run.run_id)
    return [] if is_booked else untouched.find_missing(run, ledger)


def _book_untouched(
    execution: Execution,
    untouched: UntouchedMessages,
    missing: Sequence[tuple[VanishedMessage, Settled]],
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
            explained = explain_vanished_message(one.message_id, one.expires_at, findings)
            fact = OutcomeFact(one.message_id, *explained, 0, "", "", "", findings.at)
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
