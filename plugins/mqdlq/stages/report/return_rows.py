"""Report messages that came back to the dead-letter queue, before they are quarantined."""

from __future__ import annotations

from collections import defaultdict

from mqdlq.handlers.controls import read_controls
from mqdlq.ledger import Ledger
from mqdlq.stages import round_trips
from mqdlq.stages.report.report_records import ReturnRow
from mqdlq.stages.report.report_sources import Sources
from mqdlq.stages.report.wording import cause_in_words, count


def return_rows(sources: Sources, ledger: Ledger) -> tuple[ReturnRow, ...]:
    """Return the messages of a run that came back, by cause and number of round trips.

    The most round trips come first. Messages that came back as often as `loops` allows are left
    out: their outcome says so.
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
    grouped = defaultdict[tuple[int, str], list[round_trips.RoundTrips]](list)
    for trips in round_trips.find_round_trips(ledger, identities).values():
        if limit is None or trips.count < limit:
            grouped[trips.count, trips.cause_id].append(trips)
    return tuple(
        ReturnRow(
            cause_id=cause_id,
            cause=known.get(cause_id, f"cause {cause_id}"),
            messages=len(found),
            round_trips=number,
            why=str(round_trips.join(found)),
            limit=limit,
        )
        for (number, cause_id), found in sorted(
            grouped.items(), key=lambda one: (-one[0][0], one[0][1])
        )
    )


def return_in_words(row: ReturnRow) -> str:
    """Return the line of a report about messages that came back."""
    quarantined = f"; quarantined after {row.limit}" if row.limit else ""
    return f"{row.cause}: {count(row.messages, 'message')} {row.why}{quarantined}"
