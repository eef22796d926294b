"""All that a report says of its messages, from one reading: messages in, sums and groups out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from mqdlq.ledger import Ledger, OutcomeFact, attempts_between
from mqdlq.model import DEPARTED, Action, AttemptState, MessageClass, Outcome
from mqdlq.stages.report.groups import Causes, RuleKey, rule_key
from mqdlq.stages.report.messages import Message, UnreadableError, messages_of
from mqdlq.stages.report.people import People, needs_a_person, person_row, would_be_acted_on
from mqdlq.stages.report.records import PersonRow
from mqdlq.stages.report.sources import Sources
from mqdlq.stages.report.timeline import Timeline


class Gathered:
    """The messages of a run, taken in one by one; nothing is held of those that are well.

    `booked` counts the outcomes of the run's own messages, `acted_on_but_for_dry_run` the actions
    that a dry run alone kept from being taken, `full_rows` those that the snapshot has a full row
    of. `people` need a person, `unaccounted` have no outcome.
    """

    def __init__(self, timeline: Timeline) -> None:
        """Take in nothing yet."""
        self.booked: Counter[Outcome] = Counter()
        self.rules: Counter[RuleKey] = Counter()
        self.acted_on_but_for_dry_run: Counter[str] = Counter()
        self.causes = Causes()
        self.people = People()
        self.unaccounted = People()
        self.attempts: Counter[AttemptState] = Counter()
        self.timeline = timeline
        self.full_rows = 0
        self.oldest_left: datetime | None = None
        self.last_at: datetime | None = None

    def add(self, message: Message, sources: Sources) -> None:
        """Take in a message."""
        fact = message.outcome
        self.full_rows += message.cls is not None and not message.is_parked
        if message.cls is MessageClass.DEAD_LETTER:
            self.causes.add(message)
        has_left = message.is_known_since or (fact is not None and fact.outcome in DEPARTED)
        if message.since is not None and not has_left:
            self.oldest_left = min(self.oldest_left or message.since, message.since)
        if needs_a_person(message):
            self.people.add(person_row(message, sources))
        for attempt in message.attempts:
            self.attempts[attempt.state] += 1
            self.timeline.add(attempt)
            self._know_of(attempt.at)
        if message.was_left_before:
            return
        if fact is None:
            self.unaccounted.add(person_row(message, sources))
        else:
            self._book(fact)

    def _book(self, fact: OutcomeFact) -> None:
        self.booked[fact.outcome] += 1
        self.rules[rule_key(fact)] += 1
        if would_be_acted_on(fact):
            self.acted_on_but_for_dry_run[fact.action] += 1
        self._know_of(fact.at)

    def _know_of(self, at: datetime) -> None:
        self.last_at = max(self.last_at or at, at)

    @property
    def would_be_left(self) -> int:
        """How many messages a rule would leave if this were no dry run."""
        return self.acted_on_but_for_dry_run[Action.IGNORE]


def gather(sources: Sources, ledger: Ledger) -> tuple[Sources, Gathered]:
    """Read all messages of a run once; what the lake no longer holds is told in `troubles`."""
    span = attempts_between(ledger, sources.run.run_id) if sources.run is not None else None
    may = {"lake": True, "parked": True}
    while True:
        gathered = Gathered(Timeline(span))
        try:
            for message in messages_of(sources, ledger, **may):
                gathered.add(message, sources)
        except UnreadableError as error:
            may["parked" if error.is_of_parked else "lake"] = False
            if not error.is_of_parked:
                sources = replace(sources, manifest=None)
            sources = replace(sources, troubles=(*sources.troubles, str(error)))
        else:
            break
    has_all = not sources.is_for_named  # else the messages that are not named are left out
    if has_all and sources.manifest is not None and sources.snapshot is not None:
        held, recorded = gathered.full_rows + sources.manifest.parked, sources.snapshot.messages
        if held != recorded:
            trouble = f"the snapshot holds {held} messages, the ledger says {recorded}"
            sources = replace(sources, troubles=(*sources.troubles, trouble))
    return sources, gathered


def rows_for_people(sources: Sources, ledger: Ledger) -> Iterator[PersonRow]:
    """Yield every message that needs a person or has no outcome, one after another.

    Raises UnreadableError where the snapshot cannot be read to its end.
    """
    for message in messages_of(sources, ledger):
        if message.outcome is None or needs_a_person(message):
            yield person_row(message, sources)
