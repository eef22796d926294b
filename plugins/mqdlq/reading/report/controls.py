"""Report how far the ramps and breakers of a run's causes are."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final

from mqdlq.controls.loops import round_trips
from mqdlq.controls.repair.changes import describe_fields, find_all_changes
from mqdlq.errors import LakeError
from mqdlq.handlers.controls import read_controls
from mqdlq.lake import planned_messages
from mqdlq.ledger import AwaitedTarget, Ledger, RampState, Subject
from mqdlq.model import AttemptState, RampPhase
from mqdlq.reading.report.report_records import RampRow, RepairRow, ReturnRow
from mqdlq.reading.report.report_sources import Sources
from mqdlq.words import cause_in_words, count, place, visible


def ramp_rows(sources: Sources, ledger: Ledger) -> tuple[RampRow, ...]:
    """Return the states that the ramps and breakers of a run had at its end, oldest first.

    They are the states that the run has recorded, and those of earlier runs that hold messages of
    the run. Until the run has settled its messages, and in a run for named messages, these are the
    states of all its causes.
    """
    run = sources.run
    if run is None or not read_controls(run.controls).act_by_cause:
        return ()
    known = {
        one.cause.cause_id: cause_in_words(one.cause, one.queues)
        for one in ledger.snapshots.causes(run.run_id)
    }
    before = sources.sighting.at if sources.sighting else None
    states = ledger.ramps.current(run.queue_manager, run.queue, before)
    knows_all = before is not None and not run.named
    awaited = ledger.ramps.awaited_targets(run.run_id) if knows_all and states else None
    return tuple(
        RampRow(
            cause_id=subject.cause_id,
            cause=known.get(subject.cause_id, f"cause {subject.cause_id}"),
            target_q=subject.target_q,
            target_q_mgr=subject.target_q_mgr,
            phase=state.phase,
            is_open=_is_open(state),
            why=state.why,
            until=state.until,
        )
        for subject, state in states.items()
        if state.run_id == run.run_id
        or (
            state.phase is not RampPhase.COMPLETE
            and subject.cause_id in known
            and _is_awaited(subject, awaited)
        )
    )


def _is_awaited(subject: Subject, awaited: set[AwaitedTarget] | None) -> bool:
    """Whether messages that stay on the queue may be for a ramp or a breaker."""
    target = subject.target_q, subject.target_q_mgr
    causes = (subject.cause_id, None)
    return awaited is None or any(AwaitedTarget(cause, *target) in awaited for cause in causes)


def _is_open(state: RampState) -> bool:
    """Whether a breaker has not closed: it is open, or tries one message."""
    is_try = state.step == 0 and state.phase is not RampPhase.COMPLETE
    return is_try or state.phase is RampPhase.OPEN


def ramp_in_words(row: RampRow) -> str:
    """Return the line of a report about a ramp or a breaker."""
    return f"{row.cause}, to {place(row.target_q, row.target_q_mgr)}: {row.why}"


# Describe the changes of messages that a run repairs.

_NOT_SETTLED: Final = (AttemptState.INTENDED, AttemptState.UNKNOWN)


def repair_rows(sources: Sources, ledger: Ledger) -> tuple[RepairRow, ...]:
    """Return the changes of a run's messages, counted, the most frequent ones first.

    They are the changes that the run has recorded, and the planned ones of its other messages.
    """
    run = sources.run
    if run is None or not run.repair:
        return ()
    plan = ledger.plans.of_run(run.run_id)
    try:
        steps = (
            {one.browse_seq: one.steps for one in planned_messages(plan.location)} if plan else {}
        )
        found = find_all_changes(run, steps, ledger)
    except (LakeError, OSError):
        found = ledger.archive.repairs(run.run_id)
    moves = {copy.message_id: copy.move for copy in ledger.archive.copies(run_id=run.run_id)}
    counted = Counter[tuple[str, str]]()
    delivered, unknown = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for message_id, changes in found.items():
        words, move = (describe_fields(changes), changes.refusal), moves.get(message_id)
        counted[words] += 1
        delivered[words] += move is AttemptState.CONFIRMED
        unknown[words] += move in _NOT_SETTLED
    return tuple(
        RepairRow(*words, number, delivered[words], unknown[words])
        for words, number in counted.most_common()
    )


def repair_in_words(row: RepairRow) -> str:
    """Return the line of a report about messages that were repaired, or were not."""
    messages = count(row.messages, "message")
    if row.refusal:
        return f"{messages} not repaired: {row.refusal}"
    rest = row.messages - row.delivered - row.unknown
    states = [f"{row.delivered:,} delivered, originals in the archive"] if row.delivered else []
    states += [f"{row.unknown:,} not known"] if row.unknown else []
    states += [f"{rest:,} not delivered"] if rest else []
    return f"{messages} with {row.changes}; body unchanged; {'; '.join(states)}"


# Report messages that came back to the dead-letter queue, before they are quarantined.


def return_rows(sources: Sources, ledger: Ledger) -> tuple[ReturnRow, ...]:
    """Return the messages of a run that came back, by cause and number of round trips.

    The most round trips come first. Messages that came back as often as `loops` allows are left out
    unless they were forwarded to the quarantine queue: their outcome says so.
    """
    run = sources.run
    configured = read_controls(run.controls) if run is not None else None
    if run is None or configured is None or not configured.recognise_returns:
        return ()
    limit = configured.loops.limit if configured.loops else None
    known = {
        one.cause.cause_id: cause_in_words(one.cause, one.queues)
        for one in ledger.snapshots.causes(run.run_id)
    }
    identities = ledger.identities.of_run(run.run_id)
    forwarded = ledger.outcomes.quarantine_forwards(run.run_id)
    grouped = defaultdict[tuple[int, str, str], list[round_trips.RoundTrips]](list)
    for message_id, trips in round_trips.find_round_trips(ledger, identities).items():
        quarantine_q = forwarded.get(message_id, "")
        if limit is None or trips.count < limit or quarantine_q:
            grouped[-trips.count, trips.cause_id, quarantine_q].append(trips)
    return tuple(
        ReturnRow(
            cause_id=cause_id,
            cause=known.get(cause_id, f"cause {cause_id}"),
            messages=len(found),
            round_trips=found[0].count,
            why=str(round_trips.join(found)),
            limit=limit,
            quarantine_q=quarantine_q,
        )
        for (_, cause_id, quarantine_q), found in sorted(grouped.items(), key=lambda one: one[0])
    )


def return_in_words(row: ReturnRow) -> str:
    """Return the line of a report about messages that came back."""
    what = f"{row.cause}: {count(row.messages, 'message')} {row.why}"
    if row.quarantine_q:
        queue, them = visible(row.quarantine_q), "it" if row.messages == 1 else "them"
        return (
            f"{what}; quarantined, on queue {queue}: find out why the destination returns {them},"
            f" then move {them} from there"
        )
    return what + (f"; quarantined after {row.limit}" if row.limit else "")
