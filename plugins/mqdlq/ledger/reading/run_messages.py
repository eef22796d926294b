"""Count and select the messages of one run, without reading all of them."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from mqdlq.ledger import tables as t
from mqdlq.ledger.database import Condition, Repository, columns_of, in_parts
from mqdlq.ledger.messages import LISTED, OUTCOME_OF_LISTED, Listed, is_only_dry_run, listed
from mqdlq.ledger.reading.message_facts import begins
from mqdlq.model import AttemptState, Outcome, Trait


@dataclass(frozen=True, slots=True)
class OutcomeFilter:
    """The messages of a run to select by the ledger; an empty field narrows nothing.

    `rule` is the ordinal of the rule that decided, 0 for messages that no rule decided. With
    `is_unbooked` only messages without an outcome are selected. `key` has the first hexadecimal
    digits of a message key.
    """

    outcome: Outcome | None = None
    is_unbooked: bool = False
    rule: int | None = None
    key: str = ""

    @property
    def is_empty(self) -> bool:
        return self == OutcomeFilter()


@dataclass(frozen=True, slots=True)
class AttemptCount(t.Decision):
    """Attempts of a rule on a target that came to the same state at about the same time."""

    state: AttemptState
    reason: int
    at: datetime
    attempts: int


@dataclass(frozen=True, slots=True)
class RunCounts:
    """Counts of a run's own messages, without the settled ones.

    `only_dry_run` counts by action the messages that nothing but the dry run kept from being acted
    on. `known_since` counts by booked outcome the messages of which a later run learned how they
    ended. `listed` messages are in the plan, or were listed since. `last_at` is the time of the
    last outcome.
    """

    booked: Counter[t.Ending]
    only_dry_run: Counter[str]
    known_since: Counter[Outcome]
    listed: int
    last_at: datetime | None = None

    @property
    def outcomes(self) -> Counter[Outcome]:
        counted: Counter[Outcome] = Counter()
        for how, number in self.booked.items():
            counted[how.outcome] += number
        return counted

    @property
    def unbooked(self) -> int:
        return self.listed - self.booked.total()


@dataclass(frozen=True, slots=True)
class Endings:
    """How messages of a run ended: their browse_seqs in order, and for each one of the `facts`.

    `numbers` are positions in them. A fact is of many messages, and has no message's id.
    """

    browse_seqs: array[int]
    numbers: array[int]
    facts: Sequence[t.OutcomeFact]


HANDLED: Final = Outcome.having(Trait.SUCCEEDED)
"""The outcomes of messages that a report only counts."""


class RunMessages(Repository):
    """The messages of one run: counted, selected, and described some at a time."""

    def counts(self, run_id: str) -> RunCounts:
        kinds = columns_of(t.outcomes, t.Ending)
        own, number = t.outcomes.c.run_id == run_id, sa.func.count()
        is_dry = is_only_dry_run(t.outcomes)
        query = sa.select(is_dry, number, sa.func.max(t.outcomes.c.at), *kinds).where(own)
        booked: Counter[t.Ending] = Counter()
        dry: Counter[str] = Counter()
        moments: list[datetime] = []
        for was_dry, found, at, *ending in self._rows(query.group_by(is_dry, *kinds)):
            how = t.Ending(*ending)
            booked[how] += found
            moments.append(at)
            if was_dry:
                dry[how.action] += found
        corrected = sa.select(t.outcomes.c.outcome, number).join(t.learned, t.IS_LEARNED).where(own)
        known = Counter(self._map(corrected.group_by(t.outcomes.c.outcome)))
        planned = self._count(sa.select(number).where(t.run_messages.c.run_id == run_id))
        return RunCounts(booked, dry, known, planned, max(moments, default=None))

    def endings(
        self, run_id: str, outcomes: Collection[Outcome] = (), at_most: int | None = None
    ) -> Endings:
        """Return how the first messages of a run ended, by default of all with any outcome."""
        places, numbers = array("q"), array("i")
        known: dict[tuple[Any, ...], int] = {}
        what = [
            column
            for column in columns_of(t.outcomes, t.OutcomeFact)
            if column.name != "message_id"
        ]
        is_meant = (
            t.outcomes.c.outcome.in_(sorted(outcomes))
            if outcomes
            else t.outcomes.c.outcome.is_not(None)
        )
        query = LISTED.with_only_columns(t.run_messages.c.browse_seq, *what)
        query = query.where(t.run_messages.c.run_id == run_id, is_meant).limit(at_most)
        with self._stream(query) as rows:
            for part in rows.partitions():
                found, *ends = zip(*part, strict=True)
                places.extend(found)
                numbers.extend(
                    [known.setdefault(one, len(known)) for one in zip(*ends, strict=True)]
                )
        facts = [t.OutcomeFact(*one[:-2], 0, *one[-2:]) for one in known]
        return Endings(places, numbers, facts)

    def unbooked(self, run_id: str) -> array[int]:
        return self.select(run_id, OutcomeFilter(is_unbooked=True))

    def select(self, run_id: str, chosen: OutcomeFilter) -> array[int]:
        """Return the browse_seqs that a filter selects, in order, eight bytes for each."""
        query = sa.select(t.run_messages.c.browse_seq).where(t.run_messages.c.run_id == run_id)
        query = query.outerjoin(t.outcomes, OUTCOME_OF_LISTED)
        conditions: list[Condition] = []
        if chosen.is_unbooked:
            conditions.append(t.outcomes.c.outcome.is_(None))
        if chosen.outcome is not None:
            conditions.append(t.outcomes.c.outcome == chosen.outcome)
        if chosen.rule is not None:
            conditions.append(t.outcomes.c.rule == chosen.rule)
        if chosen.key:
            query = query.join(t.messages, t.messages.c.message_id == t.run_messages.c.message_id)
            conditions += begins(t.messages.c.message_key, chosen.key)
        found: array[int] = array("q")
        with self._stream(query.where(*conditions).order_by(t.run_messages.c.browse_seq)) as rows:
            for part in rows.scalars().partitions():
                found.extend(part)
        return found

    def described(
        self, run_id: str, browse_seqs: Iterable[int]
    ) -> Iterator[tuple[bytes, Listed, int]]:
        """Yield key, listing and number of attempts of messages, in browse order."""
        own, made = t.run_messages.c, t.attempts.c
        tries = sa.select(sa.func.count(made.unit.distinct())).where(
            made.run_id == own.run_id, made.message_id == own.message_id
        )
        query = (
            LISTED.join(t.messages, t.messages.c.message_id == own.message_id)
            .add_columns(t.messages.c.message_key, tries.scalar_subquery())
            .where(own.run_id == run_id)
        )
        for some in in_parts(browse_seqs):
            is_meant = own.browse_seq.between(some[0], some[-1]) & own.browse_seq.in_(some)
            for *row, key, number in self._rows(query.where(is_meant)):
                yield key, listed(*row), number

    def count_tried(self, run_id: str, rule: int, target_q: str, target_q_mgr: str) -> int:
        """Count the messages of a run on which a rule was tried with a target."""
        made = t.attempts.c
        is_on_target = (made.target_q == target_q) & (made.target_q_mgr == target_q_mgr)
        query = sa.select(sa.func.count(made.message_id.distinct()))
        return self._count(query.where(made.run_id == run_id, made.rule == rule, is_on_target))

    def tried(self, run_id: str) -> list[AttemptCount]:
        made, other = t.attempts.c, t.attempts.alias()
        open_states = (AttemptState.INTENDED, AttemptState.UNKNOWN)
        is_superseded = sa.exists().where(
            other.c.message_id == made.message_id,
            other.c.unit == made.unit,
            # A process that was frozen may record "unknown" after another one has settled it.
            (other.c.seq > made.seq) | other.c.state.not_in(open_states),
        )
        may_change = made.state.in_(open_states)
        kinds = made["rule", "action", "target_q", "target_q_mgr", "state", "mqrc", "at"]
        query = sa.select(*kinds, sa.func.count()).group_by(*kinds).where(made.run_id == run_id)
        # Only an open attempt can have a later state. To look for one takes longer than to count.
        found = [
            AttemptCount(*row)
            for condition in (~may_change, may_change & ~is_superseded)
            for row in self._rows(query.where(condition))
        ]
        return sorted(found, key=lambda one: (one.rule, one.target_q, one.target_q_mgr, one.at))
