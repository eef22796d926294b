"""Round trips of a message: how often it came back after a delivery, and how soon."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from statistics import median

from mqdlq.ledger import Departure, Identity, Ledger
from mqdlq.reasons import Reason, Why
from mqdlq.words import span


@dataclass(frozen=True, slots=True)
class RoundTrips:
    """The round trips of a message that is on a dead-letter queue again.

    `cause_id` is its cause now, `last` the move after which it came back last. `delays` are the
    times from a delivery to the next MQDLH, in order; a delay that the ledger does not know is left
    out.
    """

    count: int
    cause_id: str
    last: Departure
    delays: tuple[timedelta, ...]

    @property
    def typical_delay(self) -> timedelta | None:
        """The median of the delays, None if none is known."""
        seconds = [delay.total_seconds() for delay in self.delays]
        return timedelta(seconds=median(seconds)) if seconds else None

    @property
    def reason(self) -> Reason:
        """The round trips as a reason: ``came back 3 times, 40 s after each delivery``."""
        known = sorted({span(delay.total_seconds()) for delay in self.delays})
        if self.typical_delay is None:
            return Why.TRIPS(trips=self.count)
        if len(known) == 1:
            return Why.TRIPS_AFTER(trips=self.count, delay=known[0])
        typical = span(self.typical_delay.total_seconds())
        return Why.TRIPS_TYPICALLY_AFTER(trips=self.count, delay=typical)


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
        earlier = [
            departure
            for departure in departures.get(one.identity, ())
            if departure.message_id < one.message_id
        ]
        if earlier:
            trips[one.message_id] = RoundTrips(
                len(earlier), one.cause_id, earlier[-1], _delays(earlier, one)
            )
    return trips


def join(found: Sequence[RoundTrips]) -> RoundTrips:
    """Return the first of these with the delays of all, which came back equally often."""
    return replace(found[0], delays=tuple(delay for one in found for delay in one.delays))


def find_departures(ledger: Ledger, identities: Collection[bytes]) -> dict[bytes, list[Departure]]:
    """Return by identity the departures of messages, oldest first, without shared identities."""
    departures = ledger.identities.departures(identities)
    for identity in ledger.identities.shared(departures):
        del departures[identity]
    return departures


def _delays(departures: Sequence[Departure], last: Identity) -> tuple[timedelta, ...]:
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
