"""Settle a run: browse the queue once more, and book exactly one outcome for every message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mqdlq.errors import ConservationError, ExecutionError
from mqdlq.lake import read_manifest
from mqdlq.ledger import InStep, OutcomeFact, Settled, Sighting, TakenSnapshot
from mqdlq.model import DEPARTED, Outcome
from mqdlq.mqi.browse import BrowseCursor
from mqdlq.mqi.connect import connect
from mqdlq.stages.execute.acceptance import why_not_to_act
from mqdlq.stages.execute.execution import Execution
from mqdlq.stages.execute.leases import give_up_all
from mqdlq.stages.execute.outcome_reasons import (
    Findings,
    blocked_destinations,
    explained,
    why_vanished,
)
from mqdlq.stages.execute.pending_steps import WorkList, load_work
from mqdlq.stages.execute.settled_messages import (
    Bystanders,
    NotSelected,
    ParkedList,
    Vanished,
    to_be_parked,
)

SECOND_LOOK_S = 5.0
"""How long to wait before what has vanished is looked for once more."""


def settle(execution: Execution) -> Counter[Outcome]:
    """Browse the queue once more and book the outcome of every message that has none yet.

    What is booked as left must be seen, what is booked as departed must be absent; what vanished
    without us is `expired` or `taken`. Called again it adds nothing. Returns the run's outcomes,
    counted. Raises ConservationError where the account does not add up; the ledger then holds
    what was found.
    """
    run, ledger = execution.run, execution.ledger
    snapshot = _snapshot(execution)
    work = load_work(run, ledger, execution.lake_root)
    others = (
        NotSelected(snapshot.location, run.named) if run.named else ParkedList(snapshot.location)
    )
    sighting, readers = _last_look(execution, work, others, snapshot)
    missing = _missing(execution, others)
    findings = _findings(execution, work, missing, readers)
    ledger.outcomes.add(run.run_id, explained(execution, work, snapshot.location, findings))
    _book_others(execution, others, missing, findings)
    _park(execution, work, snapshot.snapshot_id)
    if ledger.accounts.of_run(run.run_id) is None:
        ledger.accounts.record(run.run_id, sighting)
    give_up_all(execution)
    return _checked_account(execution, snapshot.messages, sighting)


def _snapshot(execution: Execution) -> TakenSnapshot:
    """Return the snapshot that the run accounts for; raises where it cannot do so now."""
    run_id, ledger = execution.run.run_id, execution.ledger
    snapshot = ledger.snapshots.of_run(run_id)
    if snapshot is None:
        raise ConservationError(f"run {run_id} has no snapshot to account for")
    if ledger.attempts.has_open_units(run_id):
        raise ExecutionError(
            f"run {run_id} has units of work that are not settled: make a pass first"
        )
    return snapshot


def _findings(
    execution: Execution,
    work: WorkList,
    missing: Sequence[tuple[Vanished, Settled]],
    readers: int,
) -> Findings:
    """Find out what other runs have done with the messages, and what keeps this run from acting."""
    run, ledger = execution.run, execution.ledger
    # What is about to be moved is read first: what is confirmed in between has departed then.
    being_moved = {
        a.message_id: a.run_id for a in ledger.attempts.intended(run.queue_manager, run.queue)
    }
    elsewhere = ledger.messages.departed_elsewhere(
        run.run_id, [one.message_id for one, _ in missing]
    )
    work.depart(elsewhere)
    return Findings(
        departed_elsewhere=elsewhere,
        being_moved=being_moved,
        readers=readers,
        blocked=blocked_destinations(execution, work) if run.hold_while_blocked else {},
        why_not_to_act=why_not_to_act(run, ledger),
        at=execution.clock(),
    )


def _park(execution: Execution, work: WorkList, snapshot_id: str) -> None:
    """Park the messages that later runs need not look at again."""
    run, ledger = execution.run, execution.ledger
    if run.has_given_action:
        return
    listed = ledger.messages.listed(run.run_id)
    booked = InStep((one.browse_seq, one.outcome) for one in listed)
    ledger.parked.park(run.run_id, snapshot_id, to_be_parked(work.items, booked, run))


def _checked_account(execution: Execution, messages: int, sighting: Sighting) -> Counter[Outcome]:
    """Count the outcomes; raises ConservationError unless they and the queue add up."""
    run, ledger = execution.run, execution.ledger
    counted = ledger.outcomes.counts(run.run_id)
    if counted.total() != messages:
        raise ConservationError(
            f"the snapshot holds {messages} messages, {counted.total()} have an outcome:"
            " the account does not add up"
        )
    if sighting.returned:
        raise ConservationError(
            f"{sighting.returned} messages booked as departed are on {run.queue} again: somebody"
            " put them back, or a rule forwards to the queue it reads"
        )
    return counted


def _last_look(
    execution: Execution, work: WorkList, others: Bystanders, snapshot: TakenSnapshot
) -> tuple[Sighting, int]:
    """Find out which of the run's messages are on the queue now, and how many read from it.

    Where there was nothing to be done, the snapshot itself was the last browse.
    """
    run, ledger = execution.run, execution.ledger
    earlier = ledger.accounts.of_run(run.run_id)
    no_full_rows = read_manifest(snapshot.location).counts.full == 0
    if no_full_rows and ledger.plans.of_run(run.run_id) is None and earlier is None:
        others.meet_all()
        return Sighting(snapshot.messages, snapshot.messages, 0, 0, snapshot.taken_at), 0
    sighting, readers = _last_browse(execution, work, others)
    is_complete = others.is_complete or earlier is not None
    if any(item.outcome is None and not item.met for item in work.items) or not is_complete:
        # Somebody may have had it in a unit of work that is backed out by now.
        execution.sleep(SECOND_LOOK_S)
        sighting, readers = _last_browse(execution, work, others)
    return sighting, readers


def _missing(execution: Execution, others: Bystanders) -> list[tuple[Vanished, Settled]]:
    """Return the parked messages that the last browse did not meet, where they are not booked."""
    run, ledger = execution.run, execution.ledger
    is_booked = ledger.parked.outcomes(run.run_id)
    return [] if is_booked else others.missing(run, ledger)


def _book_others(
    execution: Execution,
    others: Bystanders,
    missing: Sequence[tuple[Vanished, Settled]],
    findings: Findings,
) -> None:
    """Book the messages with which the run did nothing, once and by number.

    A parked message that was not met is booked by itself, and is among the run's own from then on.
    """
    run, ledger = execution.run, execution.ledger
    if ledger.parked.outcomes(run.run_id):
        return
    booked = ledger.outcomes.of_run(run.run_id) if missing else {}
    vanished = []
    for one, settled in missing:
        if one.message_id not in booked:
            explained = why_vanished(one.message_id, one.expires_at, findings)
            fact = OutcomeFact(one.message_id, *explained, 0, "", "", "", findings.at)
            vanished.append((one.browse_seq, settled.outcome.disposition, fact))
    counts = others.settled() - Counter(settled for _, settled in missing)
    ledger.parked.book(run.run_id, counts, vanished, findings.at)


def _last_browse(execution: Execution, work: WorkList, others: Bystanders) -> tuple[Sighting, int]:
    """Browse the queue, marking the run's messages that are met; count who reads from it."""
    run = execution.run
    others.begin()
    # What a person has restored in the meantime is a new arrival, and for the next run.
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
            for sighted in work.browse(BrowseCursor(queue_manager, queue, run.queue)):
                if sighted.item is not None or others.meet(sighted.key):
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
