"""Report messages that came back to the dead-letter queue, before they are quarantined."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from mqdlq.controls.loops.round_trips import RoundTrips, find_round_trips, join
from mqdlq.controls.settings import read_controls
from mqdlq.ledger import Ledger, Run
from mqdlq.words import cause_in_words, count, visible


@dataclass(frozen=True, slots=True)
class ReturnRow:
    """Messages of a cause that came back equally often.

    `why` is in words. `limit` is the number of round trips after which a message is quarantined,
    None without the key `loops`. `quarantine_q` is the quarantine queue to which the run forwarded
    the messages, "" if they came back less often. Quarantined messages that stay are left out: they
    need attention.
    """

    cause_id: str
    cause: str
    messages: int
    round_trips: int
    why: str
    limit: int | None
    quarantine_q: str = ""


def return_rows(run: Run | None, ledger: Ledger) -> tuple[ReturnRow, ...]:
    """Return the messages of a run that came back, by cause and number of round trips.

    The most round trips come first. Messages that came back as often as `loops` allows are left out
    unless they were forwarded to the quarantine queue: their outcome says so.
    """
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
    grouped = defaultdict[tuple[int, str, str], list[RoundTrips]](list)
    for message_id, trips in find_round_trips(ledger, identities).items():
        quarantine_q = forwarded.get(message_id, "")
        if limit is None or trips.count < limit or quarantine_q:
            grouped[-trips.count, trips.cause_id, quarantine_q].append(trips)
    return tuple(
        ReturnRow(
            cause_id=cause_id,
            cause=known.get(cause_id, f"cause {cause_id}"),
            messages=len(found),
            round_trips=found[0].count,
            why=join(found).reason.words,
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
