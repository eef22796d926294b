"""Outcomes that later runs booked of the messages in a run's snapshot.

A snapshot and the account of its run stay as they are. The pages subtract what later runs booked of
its messages, or learned of them, so that they show the queue as it is known now.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    CTE,
    ColumnElement,
    Select,
    Subquery,
    and_,
    case,
    func,
    literal,
    select,
    type_coerce,
    union_all,
)

from mqdlq.ledger.database import Repository, in_parts
from mqdlq.ledger.messages import is_only_dry_run
from mqdlq.ledger.tables import (
    attempts,
    learned,
    messages,
    outcomes,
    runs,
    settled_lots,
    settled_messages,
)
from mqdlq.model import DEPARTED, Action, AttemptState, Outcome, Trait

_NO_NEWS: Final = (Outcome.NOT_ATTEMPTED, Outcome.NOT_SELECTED, Outcome.LEASED_BY_RUN)
"""Outcomes of messages with which a run did nothing, and of which it found out nothing."""


_MOVED: Final = {
    Action.RETRY: Outcome.DELIVERED,
    Action.FWD: Outcome.FORWARDED,
    Action.DISCARD: Outcome.DISCARDED,
}


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
        """Whether the messages need attention now."""
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
        """Whether the message has left the queue."""
        return self.outcome in DEPARTED

    @property
    def needs_attention(self) -> bool:
        """Whether someone must act on the message."""
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

    def reader(self) -> LaterReader:
        """Return a reader of the outcomes, for one pass over the snapshot."""
        return LaterReader(self.by_key)

    @property
    def runs(self) -> dict[str, SettledSince]:
        """The later runs by id, each with all messages that it booked or learned of."""
        return {one.run_id: one for one in summed(count.since for count in self.counts)}


class LaterReader:
    """Gives each message of a snapshot its later outcome, and each outcome once."""

    def __init__(self, by_key: Mapping[bytes, tuple[LaterOutcome, ...]]) -> None:
        """Begin with all outcomes."""
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
        found: dict[str, list[LaterCount]] = defaultdict(list)
        for some in in_parts(run_ids):
            for row in self._all(_counted(_newest(some))):
                since = SettledSince(row["run_id"], row["who"], row["messages"], row["at"])
                was_open = bool(row["was_open"])
                count = LaterCount(row["before"], was_open, row["outcome"], since)
                found[row["of_run"]].append(count)
        return {run_id: tuple(counts) for run_id, counts in found.items()}

    def of_run(self, run_id: str) -> SinceSnapshot:
        """Return what later runs did with messages of a run's queue."""
        counts = self.counts([run_id]).get(run_id, ())
        if not counts:
            return SinceSnapshot()
        newest = _newest([run_id])
        query = select(messages.c.message_key, newest.c.outcome, newest.c.run_id).join(
            newest, newest.c.message_id == messages.c.message_id
        )
        by_key: dict[bytes, list[LaterOutcome]] = defaultdict(list)
        shared: dict[tuple[Outcome, str], LaterOutcome] = {}
        with self._stream(query.order_by(messages.c.message_id)) as rows:
            for key, outcome, by_run in rows:
                one = shared.setdefault((outcome, by_run), LaterOutcome(outcome, by_run))
                by_key[key].append(one)
        return SinceSnapshot(counts, {key: tuple(found) for key, found in by_key.items()})


def _newest(run_ids: Collection[str]) -> Subquery:
    """Return the newest news of each message: what the runs after each of these runs booked."""
    first, later = runs.alias("first"), runs.alias("later")
    pairs = (
        select(
            first.c.run_id.label("of_run"),
            first.c.started_at.label("since"),
            later.c.run_id,
            case(
                (later.c.started_by_user != "", later.c.started_by_user), else_=later.c.started_by
            ).label("who"),
        )
        .join(
            later,
            and_(
                later.c.handler == first.c.handler,
                later.c.queue_manager == first.c.queue_manager,
                later.c.queue == first.c.queue,
                later.c.started_at > first.c.started_at,
            ),
        )
        .where(first.c.run_id.in_(run_ids))
        .cte("pairs")
    )
    found = (_news(pairs, outcomes), _news(pairs, learned), _moves(pairs))
    news = union_all(*found).subquery("news")
    place = func.row_number().over(
        partition_by=(news.c.of_run, news.c.message_id),
        order_by=(news.c.at.desc(), news.c.run_id.desc()),
    )
    ranked = select(news, place.label("place")).subquery("ranked")
    return select(ranked).where(ranked.c.place == 1).subquery("newest")


def _news(pairs: CTE, table: Any) -> Select[Any]:
    return (
        select(pairs, table.c.message_id, table.c.outcome, table.c.at)
        .join(table, table.c.run_id == pairs.c.run_id)
        .where(table.c.outcome.not_in(_NO_NEWS))
    )


def _moves(pairs: CTE) -> Select[Any]:
    """Return the moves that a unit of work has made; their run books them when it ends."""
    outcome = case(
        *((attempts.c.action == action, literal(one)) for action, one in _MOVED.items()),
        else_=literal(Outcome.TAKEN),
    )
    return (
        select(
            pairs,
            attempts.c.message_id,
            type_coerce(outcome, outcomes.c.outcome.type),
            attempts.c.at,
        )
        .join(attempts, attempts.c.run_id == pairs.c.run_id)
        .where(attempts.c.state == AttemptState.CONFIRMED)
    )


def _counted(newest: Subquery) -> Select[Any]:
    """Return the query that counts the newest news by the outcome in the first run's account."""
    own = outcomes.alias("own")
    before: ColumnElement[Any] = func.coalesce(own.c.outcome, _as_settled(newest))
    open_ones = sorted(Outcome.having(Trait.NEEDS_ATTENTION))
    counted = (
        select(
            *(newest.c[name] for name in ("of_run", "run_id", "who", "outcome", "at")),
            before.label("before"),
            case((is_only_dry_run(own), 0), (before.in_(open_ones), 1), else_=0).label("was_open"),
        )
        .outerjoin(
            own, and_(own.c.run_id == newest.c.of_run, own.c.message_id == newest.c.message_id)
        )
        .subquery("counted")
    )
    kinds = [column for column in counted.c if column.name != "at"]
    numbers = (func.count().label("messages"), func.max(counted.c.at).label("at"))
    return select(*kinds, *numbers).group_by(*kinds)


def _as_settled(newest: Subquery) -> ColumnElement[Any]:
    """Return the outcome with which a run up to the first one settled the message, or null."""
    settled_by = runs.alias("settled_by")
    return (
        select(settled_lots.c.outcome)
        .join(settled_messages, settled_messages.c.lot_id == settled_lots.c.lot_id)
        .join(settled_by, settled_by.c.run_id == settled_lots.c.run_id)
        .where(
            settled_messages.c.message_id == newest.c.message_id,
            settled_by.c.started_at <= newest.c.since,
        )
        .order_by(settled_lots.c.lot_id.desc())
        .limit(1)
        .scalar_subquery()
    )
