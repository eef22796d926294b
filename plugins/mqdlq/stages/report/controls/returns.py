"""Report messages that came back to the dead-letter queue, before they are quarantined."""

from __future__ import annotations

from collections import defaultdict

from mqdlq.handlers.controls import read_controls
from mqdlq.ledger import Ledger
from mqdlq.stages import round_trips
from mqdlq.stages.report.controls.records import ReturnRow
from mqdlq.stages.report.report_sources import Sources
from mqdlq.stages.report.wording import cause_in_words, count, visible


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
