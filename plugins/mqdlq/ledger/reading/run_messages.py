"""Count and select the messages of one run, without reading all of them."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import sqlalchemy as sa

from mqdlq.ledger import tables as t
from mqdlq.ledger.database import Condition, Repository, columns_of, in_parts, total
from mqdlq.ledger.messages import LISTED, Listed, is_of_run, is_only_dry_run, listed
from mqdlq.ledger.reading.message_facts import begins
from mqdlq.model import AttemptState, Disposition, Outcome, Trait


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
    """How messages of a run ended, and for each fact their browse_seqs in any order.

    These are numbers with commas, as the database joins them: with a row for each of 50,000
    messages, most of the time of a page would go into rows. A fact has no message's id.
    """

    facts: Sequence[t.OutcomeFact]
    browse_seqs: Sequence[str]


HANDLED: Final = Outcome.having(Trait.SUCCEEDED)
"""The outcomes of messages that a report only counts."""


class RunMessages(Repository):
    """The messages of one run: counted, selected, and described some at a time."""

    def counts(self, run_id: str) -> RunCounts:
        lots = t.outcome_lots
        kinds, is_dry = columns_of(lots, t.Ending), is_only_dry_run(lots)
        query = sa.select(is_dry, total(lots.c.messages), sa.func.max(lots.c.at), *kinds)
        query = query.where(is_of_run(lots, run_id))
        booked: Counter[t.Ending] = Counter()
        dry: Counter[str] = Counter()
        moments: list[datetime] = []
        for was_dry, found, at, *ending in self._rows(query.group_by(is_dry, *kinds)):
            how = t.Ending(*ending)
            booked[how] += found
            moments.append(at)
            if was_dry:
                dry[how.action] += found
        number, outcome = sa.func.count(), t.outcomes.c.outcome
        corrected = sa.select(outcome, number).join_from(t.learned, t.outcomes, t.IS_LEARNED)
        known = Counter(self._map(corrected.where(t.learned.c.of_run == run_id).group_by(outcome)))
        planned = self._count(sa.select(number).where(is_of_run(t.listed_messages, run_id)))
        return RunCounts(booked, dry, known, planned, max(moments, default=None))

    def moved(self, run_id: str, since: datetime | None) -> tuple[int, int, int]:
        """Count the planned messages of a run, those that have moved, and those since a time."""
        lots, own = t.outcome_lots.c, t.listed_messages.c
        is_planned = is_of_run(t.listed_messages, run_id) & (own.disposition == Disposition.PLANNED)
        has_moved = is_of_run(t.outcome_lots, run_id) & lots.outcome.in_(sorted(HANDLED))
        moved = sa.select(total(lots.messages)).where(has_moved)
        return (
            self._count(sa.select(sa.func.count()).where(is_planned)),
            self._count(moved),
            self._count(moved.where(lots.at >= since)) if since else 0,
        )

    def endings(
        self, run_id: str, outcomes: Collection[Outcome] = (), up_to: int | None = None
    ) -> Endings:
        """Return how messages of a run ended, up to a browse_seq; by default with any outcome."""
        lot, booked, own = t.outcome_lots, t.outcome_messages, t.listed_messages
        is_listed = (own.c.run_no == booked.c.run_no) & (own.c.message_id == booked.c.message_id)
        joined = sa.func.aggregate_strings(sa.cast(own.c.browse_seq, sa.String), ",")
        its_messages = sa.select(joined).join_from(booked, own, is_listed)
        its_messages = its_messages.where(booked.c.lot_id == lot.c.lot_id)
        if up_to is not None:
            its_messages = its_messages.where(own.c.browse_seq <= up_to)
        fact = (*columns_of(lot, t.Ending), sa.literal(0), *lot.c["why", "at"])
        query = sa.select(its_messages.scalar_subquery(), *fact).where(is_of_run(lot, run_id))
        if outcomes:
            query = query.where(lot.c.outcome.in_(sorted(outcomes)))
        found = [row for row in self._rows(query) if row[0]]
        return Endings([t.OutcomeFact(*row[1:]) for row in found], [row[0] for row in found])

    def select(self, run_id: str, chosen: OutcomeFilter) -> array[int]:
        """Return the browse_seqs that a filter selects, in order, eight bytes for each."""
        query = LISTED.with_only_columns(t.listed_messages.c.browse_seq)
        conditions: list[Condition] = [t.runs.c.run_id == run_id]
        if chosen.is_unbooked:
            conditions.append(t.outcome_lots.c.outcome.is_(None))
        if chosen.outcome is not None:
            conditions.append(t.outcome_lots.c.outcome == chosen.outcome)
        if chosen.rule is not None:
            conditions.append(t.outcome_lots.c.rule == chosen.rule)
        if chosen.key:
            query = query.join(
                t.messages, t.messages.c.message_id == t.listed_messages.c.message_id
            )
            conditions += begins(t.messages.c.message_key, chosen.key)
        found: array[int] = array("q")
        with self._stream(query.where(*conditions)) as rows:
            for part in rows.scalars().partitions():
                found.extend(part)
        return found

    def described(
        self, run_id: str, browse_seqs: Iterable[int]
    ) -> Iterator[tuple[bytes, Listed, int]]:
        """Yield key, listing and number of attempts of messages, in browse order."""
        own, made = t.listed_messages.c, t.attempts.c
        tries = sa.select(sa.func.count(made.unit.distinct())).where(
            made.run_id == t.runs.c.run_id, made.message_id == own.message_id
        )
        query = (
            LISTED.join(t.messages, t.messages.c.message_id == own.message_id)
            .add_columns(t.messages.c.message_key, tries.scalar_subquery())
            .where(t.runs.c.run_id == run_id)
        )
        for some in in_parts(browse_seqs):
            is_meant = own.browse_seq.between(some[0], some[-1]) & own.browse_seq.in_(some)
            for *row, key, number in self._rows(query.where(is_meant)):
                yield key, listed(*row), number

    def count_tried(self, run_id: str, rule: int, target_q: str, target_q_mgr: str) -> int:
        made = t.attempts.c
        is_on_target = (made.target_q == target_q) & (made.target_q_mgr == target_q_mgr)
        query = sa.select(sa.func.count(made.message_id.distinct()))
        return self._count(query.where(made.run_id == run_id, made.rule == rule, is_on_target))

    def tried(self, run_id: str) -> list[AttemptCount]:
        state, apart = t.unit_states.c, t.unit_states.alias()
        own, lot = t.units.c.run_id == run_id, t.attempt_lots
        # Attempts of few units come to their states one by one; others are counted by their lots.
        is_apart = sa.exists().where(
            apart.c.unit_no == t.units.c.unit_no, apart.c.message_id.is_not(None)
        )
        kinds = [*columns_of(lot, t.Decision), state.state, state.mqrc, state.at]
        together = (
            sa.select(*kinds, total(lot.c.messages))
            .join_from(t.units, t.unit_states)
            .join(lot, lot.c.unit_no == t.units.c.unit_no)
            .where(own, ~is_apart)
        )
        made = t.attempts.c
        each = [*columns_of(t.attempts, t.Decision), made.state, made.mqrc, made.at]
        units = sa.select(t.units.c.unit).where(own, is_apart)
        by_message = sa.select(*each, sa.func.count()).where(
            made.run_id == run_id, made.unit.in_(units)
        )
        return sorted(
            (
                AttemptCount(*row)
                for query, of, same in (
                    (together.group_by(*kinds), t.unit_states, ["unit_no"]),
                    (by_message.group_by(*each), t.attempts, ["unit", "message_id"]),
                )
                for row in self._rows(query.where(_is_counted(of, same)))
            ),
            key=lambda one: (one.rule, one.target_q, one.target_q_mgr, one.at),
        )


def _is_counted(states: sa.Table, same: Sequence[str]) -> Condition:
    """Return the condition that no later state of the same attempts counts in place of a state."""
    open_states, other = (AttemptState.INTENDED, AttemptState.UNKNOWN), states.alias()
    is_superseded = sa.exists().where(
        *(other.c[name] == states.c[name] for name in same),
        # A process that was frozen may record "unknown" after another one has settled it.
        (other.c.seq > states.c.seq) | other.c.state.not_in(open_states),
    )
    return states.c.state.not_in(open_states) | ~is_superseded
