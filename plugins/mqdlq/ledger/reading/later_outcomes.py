"""Outcomes that later runs booked of the messages in a run's snapshot.

A snapshot and the account of its run stay as they are. The pages subtract what later runs booked of
its messages, or learned of them, so that they show the queue as it is known now.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from mqdlq.ledger import tables as t
from mqdlq.ledger.database import Repository, in_parts
from mqdlq.ledger.messages import is_only_dry_run
from mqdlq.model import DEPARTED, SUCCESSES, AttemptState, Outcome, Trait

_NO_NEWS: Final = (Outcome.NOT_ATTEMPTED, Outcome.NOT_SELECTED, Outcome.LEASED_BY_RUN)
"""Outcomes of messages with which a run did nothing, and of which it found out nothing."""


@dataclass(frozen=True, slots=True)
class SettledSince:
    """How many messages a later run settled, who started it, and when it settled the last one."""

    run_id: str
    who: str
    messages: int
    at: datetime


@dataclass(frozen=True, slots=True)
class LaterCount:
    """Messages that a later run has booked or learned of, by the outcomes before and after it.

    `before` is None for a message that came after the snapshot. `was_open` says that it needed
    attention then, `since` has the run, its messages and the time.
    """

    before: Outcome | None
    was_open: bool
    outcome: Outcome
    since: SettledSince

    @property
    def is_open(self) -> bool:
        return Trait.NEEDS_ATTENTION in self.outcome.traits

    @property
    def is_settled(self) -> bool:
        """Whether the messages needed attention, and do not any more."""
        return self.was_open and not self.is_open


@dataclass(frozen=True, slots=True)
class LaterOutcome:
    """The newest outcome of a message, and the run that booked it or learned of it."""

    outcome: Outcome
    run_id: str

    @property
    def has_departed(self) -> bool:
        return self.outcome in DEPARTED

    @property
    def needs_attention(self) -> bool:
        return Trait.NEEDS_ATTENTION in self.outcome.traits


@dataclass(frozen=True, slots=True)
class SinceSnapshot:
    """Later outcomes of messages, in all and message by message.

    `counts` identify it. `by_key` has the outcomes of the messages with a key; equal messages have
    one key, and there is an outcome for each that a later run has met.
    """

    counts: tuple[LaterCount, ...] = ()
    by_key: Mapping[bytes, tuple[LaterOutcome, ...]] = field(
        default_factory=dict, compare=False, repr=False
    )

    @property
    def runs(self) -> dict[str, SettledSince]:
        """The later runs by id, each with all messages that it booked or learned of."""
        return {one.run_id: one for one in summed(count.since for count in self.counts)}


class LaterReader:
    """Gives each message of a snapshot its later outcome, and each outcome once."""

    def __init__(self, by_key: Mapping[bytes, tuple[LaterOutcome, ...]]) -> None:
        self._rest = {key: list(found) for key, found in by_key.items()}

    def take(self, key: bytes) -> LaterOutcome | None:
        """Return the later outcome of the next message with a key, None if there is none."""
        rest = self._rest.get(key)
        return rest.pop() if rest else None

    @property
    def departed_rest(self) -> dict[bytes, list[LaterOutcome]]:
        """The departures that no message took yet."""
        rest = {key: [o for o in found if o.has_departed] for key, found in self._rest.items()}
        return {key: found for key, found in rest.items() if found}


def summed(parts: Iterable[SettledSince]) -> tuple[SettledSince, ...]:
    """Sum up by run; the run that settled last comes first."""
    found: dict[str, SettledSince] = {}
    for one in parts:
        if (known := found.get(one.run_id)) is not None:
            number, at = known.messages + one.messages, max(known.at, one.at)
            found[one.run_id] = replace(known, messages=number, at=at)
        else:
            found[one.run_id] = one
    return tuple(sorted(found.values(), key=lambda one: (one.at, one.run_id), reverse=True))


class LaterOutcomes(Repository):
    """Outcomes that later runs on the same queue of a handler booked, or learned of."""

    def counts(self, run_ids: Collection[str]) -> dict[str, tuple[LaterCount, ...]]:
        """Count by run what runs that started after it did; a run without any is left out."""
        found = defaultdict[str, list[LaterCount]](list)
        for some in in_parts(run_ids):
            for row in self._rows(_counted(_newest(some))):
                since = SettledSince(row.run_id, row.who, row.messages, row.at)
                count = LaterCount(row.before, bool(row.was_open), row.outcome, since)
                found[row.of_run].append(count)
        return {run_id: tuple(counts) for run_id, counts in found.items()}

    def of_run(self, run_id: str) -> SinceSnapshot:
        """Return what later runs did with messages of a run's queue."""
        counts = self.counts([run_id]).get(run_id, ())
        if not counts:
            return SinceSnapshot()
        newest = _newest([run_id])
        message = t.messages.c
        query = sa.select(message.message_key, newest.c.outcome, newest.c.run_id).join(
            newest, newest.c.message_id == message.message_id
        )
        by_key = defaultdict[bytes, list[LaterOutcome]](list)
        shared: dict[tuple[Outcome, str], LaterOutcome] = {}
        with self._stream(query.order_by(message.message_id)) as rows:
            for key, outcome, by_run in rows:
                one = shared.setdefault((outcome, by_run), LaterOutcome(outcome, by_run))
                by_key[key].append(one)
        return SinceSnapshot(counts, {key: tuple(found) for key, found in by_key.items()})


def _newest(run_ids: Collection[str]) -> sa.Subquery:
    """Select the newest news of each message: what the runs after each of these runs booked."""
    first, later = t.runs.alias("first"), t.runs.alias("later")
    is_later = sa.and_(
        *(later.c[name] == first.c[name] for name in ("handler", "queue_manager", "queue")),
        later.c.started_at > first.c.started_at,
    )
    who = sa.case((later.c.started_by_user != "", later.c.started_by_user))
    pairs = (
        sa.select(
            first.c.run_id.label("of_run"),
            first.c.started_at.label("since"),
            later.c.run_id,
            sa.func.coalesce(who, later.c.started_by).label("who"),
        )
        .join(later, is_later)
        .where(first.c.run_id.in_(run_ids))
        .cte("pairs")
    )
    found = (_news(pairs, t.outcomes), _news(pairs, t.learned), _moves(pairs))
    news = sa.union_all(*found).subquery("news")
    place = sa.func.row_number().over(
        partition_by=(news.c.of_run, news.c.message_id),
        order_by=(news.c.at.desc(), news.c.run_id.desc()),
    )
    ranked = sa.select(news, place.label("place")).subquery("ranked")
    return sa.select(ranked).where(ranked.c.place == 1).subquery("newest")


def _news(pairs: sa.CTE, table: Any) -> sa.Select[Any]:
    query = sa.select(pairs, table.c.message_id, table.c.outcome, table.c.at)
    query = query.join(table, table.c.run_id == pairs.c.run_id)
    return query.where(table.c.outcome.not_in(_NO_NEWS))


def _moves(pairs: sa.CTE) -> sa.Select[Any]:
    """Select the moves that a unit of work has made; their run books them when it ends."""
    made = t.attempts.c
    outcome = sa.case(
        *((made.action == action, sa.literal(one)) for action, one in SUCCESSES.items()),
        else_=sa.literal(Outcome.TAKEN),
    )
    moved = sa.type_coerce(outcome, t.outcomes.c.outcome.type)
    query = sa.select(pairs, made.message_id, moved, made.at)
    query = query.join(t.attempts, made.run_id == pairs.c.run_id)
    return query.where(made.state == AttemptState.CONFIRMED)


def _counted(newest: sa.Subquery) -> sa.Select[Any]:
    """Count the newest news by the outcome in the first run's account."""
    # Not by the view: SQLite would read all outcomes of all runs for an outer join of one.
    booked, own = t.outcome_messages.c, t.outcome_lots.alias("own")
    is_own = (booked.run_no == t.runs.c.run_no) & (booked.message_id == newest.c.message_id)
    before: sa.ColumnElement[Any] = sa.func.coalesce(own.c.outcome, _as_settled(newest))
    is_open = before.in_(sorted(Outcome.having(Trait.NEEDS_ATTENTION)))
    counted = (
        sa.select(
            *newest.c["of_run", "run_id", "who", "outcome", "at"],
            before.label("before"),
            sa.case((is_only_dry_run(own), 0), (is_open, 1), else_=0).label("was_open"),
        )
        .join_from(newest, t.runs, t.runs.c.run_id == newest.c.of_run)
        .outerjoin(t.outcome_messages, is_own)
        .outerjoin(own, own.c.lot_id == booked.lot_id)
        .subquery("counted")
    )
    kinds = [column for column in counted.c if column.name != "at"]
    numbers = (sa.func.count().label("messages"), sa.func.max(counted.c.at).label("at"))
    return sa.select(*kinds, *numbers).group_by(*kinds)


def _as_settled(newest: sa.Subquery) -> sa.ColumnElement[Any]:
    """Select the outcome with which a run up to the first one settled the message, or null."""
    settled_by, lot, settled = t.runs.alias("settled_by"), t.settled_lots.c, t.settled_messages.c
    return (
        sa.select(lot.outcome)
        .join(t.settled_messages, settled.lot_id == lot.lot_id)
        .join(settled_by, settled_by.c.run_id == lot.run_id)
        .where(settled.message_id == newest.c.message_id, settled_by.c.started_at <= newest.c.since)
        .order_by(lot.lot_id.desc())
        .limit(1)
        .scalar_subquery()
    )
