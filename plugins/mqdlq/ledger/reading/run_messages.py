"""Count and select the messages of one run, without reading all of them."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, func, select

from mqdlq.ledger.database import Repository, columns_of, in_parts
from mqdlq.ledger.messages import Listed, is_only_dry_run
from mqdlq.ledger.reading.message_facts import begins
from mqdlq.ledger.tables import (
    Decision,
    Ending,
    OutcomeFact,
    attempts,
    learned,
    messages,
    outcomes,
    run_messages,
)
from mqdlq.model import AttemptState, Outcome


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
class AttemptCount(Decision):
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

    booked: Counter[Ending]
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


class RunMessages(Repository):
    """The messages of one run: counted, selected, and described some at a time."""

    def counts(self, run_id: str) -> RunCounts:
        kinds = columns_of(outcomes, Ending)
        is_dry = is_only_dry_run(outcomes)
        own = outcomes.c.run_id == run_id
        numbers = (func.count().label("number"), func.max(outcomes.c.at).label("last_at"))
        query = select(*kinds, is_dry.label("is_dry"), *numbers).where(own)
        booked: Counter[Ending] = Counter()
        dry: Counter[str] = Counter()
        last_at: datetime | None = None
        for row in self._all(query.group_by(*kinds, is_dry)):
            last_at = max(last_at or row["last_at"], row["last_at"])
            booked[Ending(*(row[kind.name] for kind in kinds))] += row["number"]
            if row["is_dry"]:
                dry[row["action"]] += row["number"]
        corrected = (
            select(outcomes.c.outcome, func.count().label("number"))
            .join(
                learned,
                and_(
                    learned.c.of_run == outcomes.c.run_id,
                    learned.c.message_id == outcomes.c.message_id,
                ),
            )
            .where(own)
            .group_by(outcomes.c.outcome)
        )
        known = Counter({row["outcome"]: int(row["number"]) for row in self._all(corrected)})
        listed = select(func.count()).where(run_messages.c.run_id == run_id)
        return RunCounts(booked, dry, known, int(next(iter(self._values(listed)))), last_at)

    def unbooked(self, run_id: str) -> array[int]:
        return self.select(run_id, OutcomeFilter(is_unbooked=True))

    def select(self, run_id: str, chosen: OutcomeFilter) -> array[int]:
        """Return the browse_seqs of the listed messages that a filter selects, in order.

        Eight bytes are in memory for each.
        """
        query = select(run_messages.c.browse_seq).where(run_messages.c.run_id == run_id)
        query = query.outerjoin(outcomes, _OUTCOME_OF_LISTED)
        conditions: list[ColumnElement[bool]] = []
        if chosen.is_unbooked:
            conditions.append(outcomes.c.outcome.is_(None))
        if chosen.outcome is not None:
            conditions.append(outcomes.c.outcome == chosen.outcome)
        if chosen.rule is not None:
            conditions.append(outcomes.c.rule == chosen.rule)
        if chosen.key:
            query = query.join(messages, messages.c.message_id == run_messages.c.message_id)
            conditions += begins(messages.c.message_key, chosen.key)
        found: array[int] = array("q")
        with self._stream(query.where(*conditions).order_by(run_messages.c.browse_seq)) as rows:
            for part in rows.scalars().partitions():
                found.extend(part)
        return found

    def described(
        self, run_id: str, browse_seqs: Iterable[int]
    ) -> Iterator[tuple[bytes, Listed, int]]:
        """Yield key, listing and number of attempts of these messages, in browse order.

        The browse_seqs are in order. Some hundreds are in memory at a time.
        """
        made = (
            select(func.count(func.distinct(attempts.c.unit)))
            .where(
                attempts.c.run_id == run_messages.c.run_id,
                attempts.c.message_id == run_messages.c.message_id,
            )
            .scalar_subquery()
        )
        query = (
            select(
                messages.c.message_key,
                made.label("made"),
                run_messages.c.browse_seq,
                run_messages.c.message_id,
                *columns_of(outcomes, OutcomeFact),
            )
            .join(messages, messages.c.message_id == run_messages.c.message_id)
            .outerjoin(outcomes, _OUTCOME_OF_LISTED)
            .where(run_messages.c.run_id == run_id)
            .order_by(run_messages.c.browse_seq)
        )
        for some in in_parts(browse_seqs):
            conditions: list[ColumnElement[bool]] = [
                run_messages.c.browse_seq.between(some[0], some[-1]),
                run_messages.c.browse_seq.in_(some),
            ]
            for row in self._all(query.where(*conditions)):
                values: list[Any] = list(row.values())
                key, number, browse_seq, message_id, *ended = values
                fact = OutcomeFact(*ended) if ended[0] is not None else None
                yield key, Listed(browse_seq, message_id, fact), number

    def count_tried(self, run_id: str, rule: int, target_q: str, target_q_mgr: str) -> int:
        """Count the messages of a run on which a rule was tried with a target."""
        query = select(func.count(func.distinct(attempts.c.message_id))).where(
            attempts.c.run_id == run_id,
            attempts.c.rule == rule,
            attempts.c.target_q == target_q,
            attempts.c.target_q_mgr == target_q_mgr,
        )
        return int(next(iter(self._values(query))))

    def tried(self, run_id: str) -> list[AttemptCount]:
        other = attempts.alias()
        open_states = (AttemptState.INTENDED, AttemptState.UNKNOWN)
        is_superseded = select(other.c.seq).where(
            other.c.message_id == attempts.c.message_id,
            other.c.unit == attempts.c.unit,
            # A process that was frozen may record "unknown" after another one has settled it.
            (other.c.seq > attempts.c.seq) | other.c.state.not_in(open_states),
        )
        may_change = attempts.c.state.in_(open_states)
        names = ("rule", "action", "target_q", "target_q_mgr", "state", "mqrc", "at")
        kinds = [attempts.c[name] for name in names]
        query = select(*kinds, func.count().label("attempts")).group_by(*kinds)
        found: list[AttemptCount] = []
        # Only an open attempt can have a later state. To look for one takes longer than to count.
        for condition in (~may_change, may_change & ~is_superseded.exists()):
            with self._stream(query.where(attempts.c.run_id == run_id, condition)) as rows:
                found += [AttemptCount(*row) for row in rows]
        return sorted(found, key=lambda one: (one.rule, one.target_q, one.target_q_mgr, one.at))


_OUTCOME_OF_LISTED = and_(
    outcomes.c.run_id == run_messages.c.run_id,
    outcomes.c.message_id == run_messages.c.message_id,
)
