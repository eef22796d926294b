"""Count and group all messages of a run while they are read once."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from mqdlq.causes import CauseCounter, CountedCause, find_cause
from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.run_messages import RunCounts
from mqdlq.model import DEPARTED, MessageClass
from mqdlq.reading.report.expiry import ExpiryForecast, Horizon, find_horizon
from mqdlq.reading.report.message_outcomes import Message, UnreadableError, messages_of
from mqdlq.reading.report.needs_attention import (
    GroupedMessages,
    message_row,
    needs_attention,
)
from mqdlq.reading.report.report_records import CauseGroup, MessageRow
from mqdlq.reading.report.report_sources import Sources
from mqdlq.reading.report.verdict import Tally


def _cause_group(counted: CountedCause) -> CauseGroup:
    cause = counted.cause
    return CauseGroup(
        cause_id=cause.cause_id,
        reason=cause.reason,
        reason_text=cause.reason_text,
        meaning=cause.meaning,
        kind=cause.kind.value,
        dest_q_name=cause.dest_q_name,
        dest_q_mgr_name=cause.dest_q_mgr_name,
        queues=counted.queues or 0,
        messages=counted.messages,
        outcomes=counted.outcomes,
        first_at=counted.first_at,
        last_at=counted.last_at,
    )


class Gathered:
    """The messages of a run, counted and grouped one by one; handled messages are not kept.

    `full_rows` counts the snapshot's full rows. `attention` has the messages that need attention,
    `unaccounted` the messages without an outcome.
    `resolution_s` has the seconds from arrival to departure of each message that departed.
    """

    def __init__(self, horizon: Horizon | None = None) -> None:
        """Take in nothing yet; `horizon` is that of the forecast of expiry."""
        self.expiry = ExpiryForecast(horizon)
        self.causes = CauseCounter()
        self.attention = GroupedMessages()
        self.unaccounted = GroupedMessages()
        self.resolution_s = array("d")
        self.full_rows = 0
        self.oldest_left: datetime | None = None

    def add(self, message: Message, sources: Sources) -> None:
        """Take in a message."""
        fact = message.outcome
        self.full_rows += message.cls is not None and not message.is_settled
        if message.cls is MessageClass.DEAD_LETTER:
            names = (message.dest_q_name, message.dest_q_mgr_name)
            cause = find_cause(message.cls, message.reason, *names)
            self.causes.add(cause, names[0], message.since, fact.outcome if fact else None)
        if not (message.is_known_since or (fact is not None and fact.outcome in DEPARTED)):
            self._keep_times(message)
        if needs_attention(message):
            self.attention.add(message_row(message, sources))
        if message.was_left_before:
            return
        if fact is None:
            self.unaccounted.add(message_row(message, sources))
        elif fact.outcome in DEPARTED and message.since is not None:
            self.resolution_s.append((fact.at - message.since).total_seconds())

    def _keep_times(self, message: Message) -> None:
        """Take in a message that remains on the queue."""
        self.expiry.add(message)
        if message.since is not None:
            self.oldest_left = min(self.oldest_left or message.since, message.since)

    def tally(self, counts: RunCounts) -> Tally:
        """Return the numbers for the account; `counts` are those of the ledger."""
        return Tally(
            booked=counts.outcomes,
            missing=self.unaccounted.browse_seqs,
            full_rows=self.full_rows,
            attention=self.attention.messages,
            only_dry_run=counts.only_dry_run,
        )

    def cause_groups(self) -> tuple[CauseGroup, ...]:
        """Return the dead letters by cause, the largest group first, other destinations last."""
        return tuple(_cause_group(counted) for counted in self.causes.counted())


def gather(sources: Sources, ledger: Ledger) -> tuple[Sources, Gathered]:
    """Read all messages of a run once; data missing in the lake is reported in `troubles`."""
    horizon = find_horizon(sources, ledger)
    may = {"lake": True, "settled": True}
    while True:
        gathered = Gathered(horizon)
        try:
            for message in _as_of_today(messages_of(sources, ledger, **may), sources):
                gathered.add(message, sources)
        except UnreadableError as error:
            may["settled" if error.is_of_settled else "lake"] = False
            if not error.is_of_settled:
                sources = replace(sources, manifest=None)
            sources = replace(sources, troubles=(*sources.troubles, str(error)))
        else:
            break
    has_all = not sources.is_for_named  # else the messages that are not named are left out
    if has_all and sources.manifest is not None and sources.snapshot is not None:
        held, recorded = gathered.full_rows + sources.manifest.settled, sources.snapshot.messages
        if held != recorded:
            trouble = f"the snapshot holds {held} messages, the ledger says {recorded}"
            sources = replace(sources, troubles=(*sources.troubles, trouble))
    return sources, gathered


def _as_of_today(messages: Iterator[Message], sources: Sources) -> Iterator[Message]:
    """Mark the messages that later runs settled, and leave out those without an outcome."""
    if not sources.since.by_key:
        yield from messages
        return
    since = sources.since.reader()
    for message in messages:
        later = since.take(bytes.fromhex(message.message_key))
        if later is None or later.needs_attention:
            yield message
        elif message.outcome is not None:
            yield replace(message, is_known_since=True)


def rows_needing_attention(sources: Sources, ledger: Ledger) -> Iterator[MessageRow]:
    """Yield every message that needs attention or has no outcome, one after another.

    Raises UnreadableError where the snapshot cannot be read to its end.
    """
    for message in messages_of(sources, ledger):
        if message.outcome is None or needs_attention(message):
            yield message_row(message, sources)
