"""Round trips of messages: how often each came back after a delivery, and how soon."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from statistics import median

from mqdlq.controls.settings import read_controls
from mqdlq.ledger import Ledger
from mqdlq.ledger.database import Row
from mqdlq.ledger.tables import Identity, Run
from mqdlq.reasons import Reason, Why
from mqdlq.words import cause_in_words, count, span, visible


@dataclass(frozen=True, slots=True)
class RoundTrips:
    """The round trips of a message that is on a dead-letter queue again, now of this cause.

    `delays` are the known times from a delivery to the next MQDLH, in order.
    """

    count: int
    cause_id: str
    delays: tuple[timedelta, ...]

    @property
    def reason(self) -> Reason:
        """The round trips as a reason: ``came back 3 times, 40 s after each delivery``."""
        seconds = [delay.total_seconds() for delay in self.delays]
        if not seconds:
            return Why.TRIPS(trips=self.count)
        if len(known := {span(one) for one in seconds}) == 1:
            return Why.TRIPS_AFTER(trips=self.count, delay=known.pop())
        return Why.TRIPS_TYPICALLY_AFTER(trips=self.count, delay=span(median(seconds)))


def find_round_trips(ledger: Ledger, message_ids: Collection[int]) -> dict[int, RoundTrips]:
    """Return the round trips of messages by message id, without messages that never came back.

    A message is recognised by its identity, in any queue whose handler has the same ledger. Only a
    RETRY or FWD that is known to be committed counts: a restored message has not come back by
    itself. Two messages that were on one queue at the same time with the same identity are
    different messages, so nothing is said of either.
    """
    found = ledger.identities.of_messages(message_ids)
    departures = find_departures(ledger, {one.identity for one in found})
    trips = {}
    for one in found:
        all_of_it = departures.get(one.identity, ())
        if earlier := [each for each in all_of_it if each.message_id < one.message_id]:
            trips[one.message_id] = RoundTrips(len(earlier), one.cause_id, _delays(earlier, one))
    return trips


def find_departures(ledger: Ledger, identities: Collection[bytes]) -> dict[bytes, list[Row]]:
    """Return by identity the departures of messages, oldest first, without shared identities."""
    departures = ledger.identities.departures(identities)
    for identity in ledger.identities.shared(departures):
        del departures[identity]
    return departures


def _delays(departures: Sequence[Row], last: Identity) -> tuple[timedelta, ...]:
    """Return how long after each departure the message was dead-lettered again.

    The MQDLH has the time of its queue manager. An earlier time than that of the departure is the
    time of an MQDLH that the message kept, so the delay is not known.
    """
    arrivals = [*(one.dead_lettered_at for one in departures[1:]), last.dead_lettered_at]
    return tuple(
        arrived - departure.at
        for departure, arrived in zip(departures, arrivals, strict=True)
        if arrived is not None and arrived >= departure.at
    )


@dataclass(frozen=True, slots=True)
class ReturnRow:
    """Messages of a cause that came back equally often; `why` is in words.

    `limit` is the number of round trips after which a message is quarantined, None without the key
    `loops`. `quarantine_q` is the queue to which the run forwarded them as quarantined, or "".
    Quarantined messages that stay are left out: they need attention.
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
    if run is None or not (configured := read_controls(run.controls)).recognise_returns:
        return ()
    limit = configured.loops.limit if configured.loops else None
    known = causes_of(run, ledger)
    again = ledger.identities.come_again(run.run_id)
    forwarded = ledger.outcomes.quarantine_forwards(run.run_id)
    grouped = defaultdict[tuple[int, str, str], list[RoundTrips]](list)
    for message_id, trips in find_round_trips(ledger, again).items():
        quarantine_q = forwarded.get(message_id, "")
        if limit is None or trips.count < limit or quarantine_q:
            grouped[-trips.count, trips.cause_id, quarantine_q].append(trips)
    return tuple(
        ReturnRow(
            cause_id=cause_id,
            cause=known.get(cause_id, f"cause {cause_id}"),
            messages=len(found),
            round_trips=found[0].count,
            # The delays of all of them, which came back equally often.
            why=replace(found[0], delays=tuple(d for o in found for d in o.delays)).reason.words,
            limit=limit,
            quarantine_q=quarantine_q,
        )
        for (_, cause_id, quarantine_q), found in sorted(grouped.items(), key=lambda one: one[0])
    )


def causes_of(run: Run, ledger: Ledger) -> dict[str, str]:
    found = ledger.snapshots.causes(run.run_id)
    return {one.cause.cause_id: cause_in_words(one.cause, one.queues) for one in found}


def return_in_words(row: ReturnRow) -> str:
    what = f"{row.cause}: {count(row.messages, 'message')} {row.why}"
    if row.quarantine_q:
        queue, them = visible(row.quarantine_q), "it" if row.messages == 1 else "them"
        return (
            f"{what}; quarantined, on queue {queue}: find out why the destination returns {them},"
            f" then move {them} from there"
        )
    return what + (f"; quarantined after {row.limit}" if row.limit else "")
