"""Retention: legal holds, what a prune must keep, and what prunes have removed."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import chain
from typing import Any, Final

import sqlalchemy as sa

from mqdlq.errors import LedgerError
from mqdlq.ledger import tables as t
from mqdlq.ledger.attempts import COUNTED
from mqdlq.ledger.audit import keep_approvals
from mqdlq.ledger.controls import open_breakers
from mqdlq.ledger.database import (
    KEYS_AT_ONCE,
    Condition,
    Repository,
    Row,
    add,
    columns_of,
    in_parts,
    in_turn,
    inserted,
    is_last,
    select_records,
)
from mqdlq.ledger.messages import DEPARTURES, has_departed, known_last
from mqdlq.ledger.runs import IS_FOR_ALL, has_acted
from mqdlq.model import AttemptState, InWords, Outcome, RestorationState


@dataclass(frozen=True, slots=True)
class Hold:
    """A legal hold on one handler, run or message (hex key); the other two are ""."""

    hold_id: int
    handler: str
    run_id: str
    message_key: str
    reason: str
    who: str
    at: datetime
    released_at: datetime | None = None
    released_by: str = ""
    release_reason: str = ""


class Holds(Repository):
    """Legal holds; a hold is never changed, and its removal is a separate fact."""

    def add(
        self,
        *,
        handler: str = "",
        run_id: str = "",
        message_key: str = "",
        reason: str,
        who: str,
        at: datetime,
    ) -> Hold:
        """Record a hold; from then on no prune begins to remove what it covers.

        Raises LedgerError if the ledger has no such run or message. A handler may have no run yet.
        """
        key = bytes.fromhex(message_key) if message_key else None
        with in_turn(self._engine) as connection:
            row: dict[str, Any] = {"handler": handler, "run_id": run_id, "message_key": key}
            row |= {"reason": reason, "who": who, "at": at}
            hold = _read(connection, inserted(connection, t.holds, row))
            if not handler and connection.execute(_covered(hold).limit(1)).first() is None:
                subject = f"run {run_id}" if run_id else f"message {message_key}"
                raise LedgerError(
                    "MQDLQ-252",
                    f"the ledger has no {subject}, so that a hold on it would keep nothing;"
                    " correct the name",
                )
        return hold

    def release(self, hold_id: int, *, reason: str, who: str, at: datetime) -> Hold:
        """Record that a hold no longer applies; raise LedgerError if none has this number."""
        with in_turn(self._engine) as connection:
            hold = _read(connection, hold_id)
            if hold.released_at is not None:
                raise LedgerError(
                    "MQDLQ-251",
                    f"hold {hold_id} was removed before, by {hold.released_by}; mqdlq hold list"
                    " shows the holds that apply",
                )
            values = {"hold_id": hold_id, "reason": reason, "who": who, "at": at}
            connection.execute(sa.insert(t.released_holds), values)
            return _read(connection, hold_id)

    def all(self, *, released: bool = False) -> list[Hold]:
        """Return the holds that apply, oldest first; with `released` also the others."""
        query = _HOLDS.order_by(t.holds.c.hold_id)
        if not released:
            query = query.where(t.released_holds.c.hold_id.is_(None))
        return [_hold(row) for row in self._rows(query)]

    def snapshots(self) -> dict[str, int]:
        """Return the snapshots of runs that a hold covers: id to the hold's number."""
        held = _held_runs(t.runs.c.run_id.in_(sa.select(t.snapshots.c.run_id))).subquery()
        query = sa.select(t.snapshots.c.snapshot_id, held.c.hold_id)
        return self._map(query.join(held, held.c.run_id == t.snapshots.c.run_id))

    def covered(self, hold: Hold) -> tuple[int, int, int, int]:
        """Return how many runs and archive copies a hold covers, then how many pruned ones."""
        is_meant = t.runs.c.run_id == hold.run_id
        if hold.message_key:
            is_meant = t.messages.c.message_key == bytes.fromhex(hold.message_key)
        elif hold.handler:
            is_meant = t.runs.c.handler == hold.handler
        copies = (
            sa.select(t.pruned_copies.c.run_id)
            .select_from(t.archive.join(t.runs).join(t.messages).outerjoin(t.pruned_copies))
            .where(is_meant)
        )
        with self._engine.connect() as connection:
            runs = set(connection.scalars(_covered(hold)))
            is_gone = t.pruned_runs.c.run_id.in_(runs)
            gone = connection.scalars(sa.select(t.pruned_runs.c.run_id).where(is_gone)).all()
            found = connection.scalars(copies).all()
        pruned = len(found) - found.count(None)
        return len(runs) - len(gone), found.count(None), len(gone), pruned


_HOLDS: Final = sa.select(
    t.holds,
    t.released_holds.c.at.label("released_at"),
    t.released_holds.c.who.label("released_by"),
    t.released_holds.c.reason.label("release_reason"),
).outerjoin(t.released_holds)


def _read(connection: sa.Connection, hold_id: int) -> Hold:
    row = connection.execute(_HOLDS.where(t.holds.c.hold_id == hold_id)).first()
    if row is None:
        raise LedgerError(
            "MQDLQ-250", f"there is no hold {hold_id}; mqdlq hold list shows all of them"
        )
    return _hold(row)


def _hold(row: Row) -> Hold:
    values = row._asdict()
    values |= {name: values[name] or "" for name in ("released_by", "release_reason")}
    key = values["message_key"]
    return Hold(**values | {"message_key": key.hex() if key else ""})


def _covered(hold: Hold) -> sa.CompoundSelect[Any]:
    if hold.message_key:
        listed = sa.select(t.run_messages.c.run_id).join(t.messages)
        return sa.union(listed.where(t.messages.c.message_key == bytes.fromhex(hold.message_key)))
    name, value = ("handler", hold.handler) if hold.handler else ("run_id", hold.run_id)
    both = (t.runs, t.pruned_runs)
    return sa.union(*(sa.select(one.c.run_id).where(one.c[name] == value) for one in both))


_APPLIES: Final = ~sa.exists().where(t.released_holds.c.hold_id == t.holds.c.hold_id)
_NAMES_RUN: Final = sa.or_(
    (t.holds.c.handler != "") & (t.holds.c.handler == t.runs.c.handler),
    (t.holds.c.run_id != "") & (t.holds.c.run_id == t.runs.c.run_id),
)
_NAMES_MESSAGE: Final = t.holds.c.message_key == t.messages.c.message_key


def _held_runs(scope: Condition) -> sa.CompoundSelect[Any]:
    """Select the runs within a scope that a hold covers, each with its hold."""
    held = sa.select(t.runs.c.run_id, t.holds.c.hold_id).where(scope, _APPLIES)
    listed = held.join(t.run_messages, t.run_messages.c.run_id == t.runs.c.run_id).join(t.messages)
    return sa.union(held.where(_NAMES_RUN), listed.join(t.holds, _NAMES_MESSAGE))


def _held_copies(run_id: str) -> sa.CompoundSelect[Any]:
    held = sa.select(t.archive.c.message_id).where(t.archive.c.run_id == run_id, _APPLIES)
    return sa.union(
        held.join_from(t.archive, t.runs).join(t.holds, _NAMES_RUN),
        held.join_from(t.archive, t.messages).join(t.holds, _NAMES_MESSAGE),
    )


class Protection(InWords):
    """Why a prune keeps a run or an archive copy, with the words for people."""

    HOLD = "hold", "a legal hold covers it"
    UNFINISHED = "unfinished", "its run has not closed its account"
    PROVISIONAL = "provisional", "the copy is provisional: nothing proves the discard"
    RESTORATION = "restoration", "a restoration that selected it has not finished"
    MISSING = "missing", "its file is not in the lake"
    UNSETTLED = "unsettled", "a unit of work or an outcome is unknown"
    LEASED = "leased", "it has a lease on a message"
    ATTEMPTS = "attempts", "a later run continues its count of attempts"
    RETRY_PENDING = "retry_pending", "a retry is pending"
    APPROVAL = "approval", "an approval is open"
    SNAPSHOT = "snapshot", "its snapshot is kept (keep_snapshots, keep_snapshots_for)"
    COPIES = "copies", "its archive copies are kept (keep_archive_for)"
    NEWEST = "newest", "the next run of its queue needs it"
    LINKED = "linked", "a run that is kept needs its account"
    AGE = "age", "it is not old enough"


def _closed_before(handler: str, before: datetime) -> Condition:
    """Return the condition that a run began before a time and has no later account.

    Runs that a prune is removing do not count.
    """
    run_id = t.runs.c.run_id
    is_late = sa.exists().where(t.sightings.c.run_id == run_id, t.sightings.c.at >= before)
    is_going = sa.exists().where(t.pruned_runs.c.run_id == run_id)
    is_old = (t.runs.c.handler == handler) & (t.runs.c.started_at < before)
    return is_old & ~is_late & ~is_going


def _protected_runs(
    connection: sa.Connection, scope: Condition, now: datetime, without_copies: Collection[str] = ()
) -> dict[str, Protection]:
    """Return which runs to keep, with the first reason; `without_copies` lose theirs."""
    found = dict.fromkeys(connection.scalars(_held_runs(scope)), Protection.HOLD)
    for why, condition in _conditions(now):
        for run_id in connection.scalars(sa.select(t.runs.c.run_id).where(scope, condition)):
            if why is not Protection.COPIES or run_id not in without_copies:
                found.setdefault(run_id, why)
    return found


def _has(table: sa.FromClause, *conditions: Condition) -> Condition:
    return sa.exists().where(table.c.run_id == t.runs.c.run_id, *conditions)


def _conditions(now: datetime) -> Iterator[tuple[Protection, Condition]]:
    yield Protection.UNFINISHED, _is_unfinished()
    state, is_here = t.attempt_states.c.state, ~has_departed(t.attempt_states.c.message_id)
    in_doubt = (state == AttemptState.UNKNOWN) & is_here
    is_open = (state == AttemptState.INTENDED) | in_doubt
    booked, stays = t.outcomes.c.outcome, ~has_departed(t.outcomes.c.message_id)
    is_unknown = _has(t.outcomes, stays, booked == Outcome.UNKNOWN)
    yield Protection.UNSETTLED, _has(t.attempt_states, is_open) | is_unknown
    yield Protection.LEASED, _has(t.leases, t.leases.c.until > now)
    # Attempts count for runs with the same rules. These may change back: the digest is ignored.
    other = t.runs.alias()
    carries = sa.exists().where(
        other.c.queue_manager == t.runs.c.queue_manager,
        other.c.queue == t.runs.c.queue,
        other.c.carry_attempts,
    )
    yield Protection.ATTEMPTS, _has(t.attempt_states, state.in_(COUNTED), is_here) & carries
    later = t.outcomes.alias()
    is_superseded = sa.exists().where(
        later.c.message_id == t.outcomes.c.message_id, later.c.at > t.outcomes.c.at
    )
    is_pending = (booked == Outcome.RETRY_PENDING) & ~is_superseded
    yield Protection.RETRY_PENDING, _has(t.outcomes, stays, is_pending)
    is_asked = t.approvals.c.decision == "asked"
    yield Protection.APPROVAL, _has(t.approvals, is_last(t.approvals, "run_id"), is_asked)
    yield Protection.SNAPSHOT, _has(t.snapshots, t.snapshots.c.pruned_at.is_(None))
    yield Protection.COPIES, _has(t.archive, _IS_UNPRUNED)
    yield Protection.NEWEST, sa.or_(*(t.runs.c.run_id.in_(newest) for newest in _newest()))


def _is_unfinished() -> Condition:
    """Return the condition that a run has no account, and has not found that it has no work."""
    is_idle = _has(t.looks, is_last(t.looks, "run_id"), ~t.looks.c.is_work)
    work = (t.snapshots, t.plans, t.passes, t.units, t.run_messages)
    return ~_has(t.sightings) & (~is_idle | sa.or_(*map(_has, work)))


def _newest() -> Iterator[sa.Select[Any]]:
    """Yield queries for the runs that a later run of their queue or handler looks up.

    They are the last ones to start, to close an account, to act, to make a pass, to find work, to
    take a complete snapshot, to ask for an approval, to send an alert, and to open a breaker. The
    run with the newest attempt stays, too: ramps count attempts from a number, and SQLite would
    give the numbers of deleted rows again.
    """
    yield open_breakers()
    newest = t.unit_states.c.seq.desc()
    yield sa.select(t.units.c.run_id).join(t.unit_states).order_by(newest).limit(1)
    queue = (t.runs.c.queue_manager, t.runs.c.queue)
    by_handler = (*queue, t.runs.c.handler)
    is_real = IS_FOR_ALL & ~t.runs.c.dry_run
    started = sa.select(t.runs.c.run_id)
    yield _last(started, by_handler, t.runs.c.started_at)
    yield _last(started.where(is_real, has_acted()), queue, t.runs.c.started_at)
    closed = started.join(t.sightings)
    for condition in (is_real, IS_FOR_ALL, t.runs.c.run_id != ""):
        yield _last(closed.where(condition), queue, t.sightings.c.at)
    for places in (queue, (t.runs.c.queue_manager, t.runs.c.state_queue)):
        yield _last(started.join(t.passes), places, t.passes.c.seq)
    found_work = started.join(t.looks).where(t.looks.c.is_work)
    yield _last(found_work, (t.runs.c.handler,), t.looks.c.at)
    complete = started.join(t.snapshots).where(IS_FOR_ALL, t.snapshots.c.settled == 0)
    yield _last(complete, queue, t.snapshots.c.taken_at)
    yield _last(started.join(t.approvals), by_handler, t.approvals.c.seq)
    # An alert may be of a run that could not start, so it refers to no run.
    alerted = started.join(t.alerts, t.alerts.c.run_id == t.runs.c.run_id)
    yield _last(alerted, by_handler, t.alerts.c.seq)


def _last(
    query: sa.Select[Any], within: tuple[Any, ...], by: sa.ColumnElement[Any]
) -> sa.Select[Any]:
    """Select the run with the highest value within each group."""
    rank = sa.func.row_number().over(partition_by=within, order_by=by.desc()).label("rank")
    ranked = query.add_columns(rank).subquery()
    return sa.select(ranked.c.run_id).where(ranked.c.rank == 1)


def _links(connection: sa.Connection, scope: Condition) -> set[tuple[str, str]]:
    """Return pairs of a run and another one that needs its rows.

    The other run lists a message that the first one proves to have departed, or one of them has
    corrected the account of the other.
    """
    listed, news = t.run_messages.c, t.learned.c
    queries = [
        sa.select(table.c.run_id, listed.run_id)
        .join_from(table, t.runs)
        .join(t.run_messages, listed.message_id == table.c.message_id)
        .where(scope, has_left, listed.run_id != table.c.run_id)
        for table, has_left in DEPARTURES
    ]
    queries += [
        sa.select(one, other).join(t.runs, t.runs.c.run_id == one).where(scope, one != other)
        for one, other in ((news.of_run, news.run_id), (news.run_id, news.of_run))
    ]
    rows = chain.from_iterable(connection.execute(query.distinct()) for query in queries)
    return {(one, other) for one, other in rows}


_IS_UNPRUNED: Final = ~sa.exists().where(
    t.pruned_copies.c.run_id == t.archive.c.run_id,
    t.pruned_copies.c.message_id == t.archive.c.message_id,
)
"""The condition that no prune has begun to remove an archive copy."""

_FINISHED: Final = (RestorationState.RESTORED, RestorationState.REFUSED)
_TRIED: Final = (RestorationState.FAILED, RestorationState.NOT_ATTEMPTED)
"""The states after which the same restoration may try again when its task is cleared."""


def _protected_copies(
    connection: sa.Connection, run_id: str, before: datetime
) -> dict[int, Protection]:
    """Return which archived messages of a run a prune must keep, by what the ledger says.

    A restoration that could not put a copy keeps it until the copy and the try are older than
    `before`; a restoration that is not finished keeps it for as long.
    """
    found = dict.fromkeys(connection.scalars(_held_copies(run_id)), Protection.HOLD)
    copies = sa.select(t.archive.c.message_id).join(t.runs)
    is_open = (t.archive.c.run_id == run_id) & _is_unfinished()
    for message_id in connection.scalars(copies.where(is_open)):
        found.setdefault(message_id, Protection.UNFINISHED)
    for message_id in _being_restored(connection, run_id, before):
        found.setdefault(message_id, Protection.RESTORATION)
    return found


def _being_restored(connection: sa.Connection, run_id: str, before: datetime) -> set[int]:
    states = t.restoration_states.c
    query = (
        sa.select(states.restoration_id, states.message_id, states.state, states.at)
        .join(t.restorations)
        .where(states.run_id == run_id, ~t.restorations.c.dry_run)
        .order_by(states.seq)
    )
    latest = {(row.restoration_id, row.message_id): row for row in connection.execute(query)}
    restored: dict[int, datetime] = {}
    for row in latest.values():
        if row.state is RestorationState.RESTORED:
            restored[row.message_id] = max(row.at, restored.get(row.message_id, row.at))

    def is_over(row: Row) -> bool:
        if row.state in _TRIED:
            return bool(row.at < before)
        # What became of an unknown put no longer matters once the copy was restored after it.
        is_moot = row.state is RestorationState.UNKNOWN and row.message_id in restored
        return row.state in _FINISHED or (is_moot and restored[row.message_id] >= row.at)

    return {row.message_id for row in latest.values() if not is_over(row)}


def record_runs(connection: sa.Connection, prune_id: int, run_ids: Sequence[str]) -> None:
    """Record runs and their totals as pruned; their approvals go to the audit, which stays."""
    if not run_ids:
        return
    names = [one.name for one in t.pruned_runs.c if one.name not in {"prune_id", "closed_at"}]
    query = sa.select(*(t.runs.c[name] for name in names), sa.literal(prune_id), t.sightings.c.at)
    query = query.join_from(t.runs, t.sightings, isouter=True).where(t.runs.c.run_id.in_(run_ids))
    columns = [*names, "prune_id", "closed_at"]
    connection.execute(sa.insert(t.pruned_runs).from_select(columns, query))
    keep_approvals(connection, run_ids)
    add(connection, t.pruned_outcomes, _count_outcomes(connection, run_ids))


def _count_outcomes(connection: sa.Connection, run_ids: Collection[str]) -> list[dict[str, Any]]:
    """Return the rows of `pruned_outcomes` for runs."""
    found: Counter[tuple[t.Ending, str, bool]] = Counter()
    latest = known_last("outcome", "target_q", "target_q_mgr")
    kinds = [latest.get(column.name, column) for column in columns_of(t.outcomes, t.Ending)]
    booked = t.outcomes.c.run_id
    own = sa.select(*kinds, booked, sa.func.count()).outerjoin(t.learned, t.IS_LEARNED)
    settled = t.settled_outcomes.c
    of_settled = select_records(t.settled_outcomes, t.Ending)
    for is_settled, query, run_id in (
        (False, own.group_by(booked, *kinds), booked),
        (True, of_settled.add_columns(settled.run_id, settled.messages), settled.run_id),
    ):
        for some in in_parts(run_ids):
            for *how, of_run, number in connection.execute(query.where(run_id.in_(some))):
                found[t.Ending(*how), of_run, is_settled] += number
    return [
        {**asdict(how), "run_id": run_id, "is_settled": is_settled, "messages": number}
        for (how, run_id, is_settled), number in found.items()
    ]


# Delete the rows of a run, children before parents, in bounded transactions. Which tables have
# rows of a run follows from the declared foreign keys.


def _referring(*parents: sa.Column[Any]) -> Iterator[tuple[sa.Column[Any], sa.Column[Any]]]:
    """Yield the columns that refer to one of these, those of children first, and the referred."""
    for table in reversed(t.metadata.sorted_tables):
        for column in table.c:
            for key in column.foreign_keys:
                if key.column in {*parents}:
                    yield column, key.column


_KEYS: Final = {
    t.runs.c.run_id: sa.select(t.runs.c.run_id),
    t.archive.c.run_id: sa.select(t.runs.c.run_id),
    t.runs.c.run_no: sa.select(t.runs.c.run_no),
    t.units.c.unit_no: sa.select(t.units.c.unit_no),
    t.settled_lots.c.lot_id: sa.select(t.settled_lots.c.lot_id),
}
"""The columns by which rows refer to a run, or to a table with rows of a run."""


def _rows_of(run_id: str) -> list[tuple[sa.Table, Condition]]:
    """Return the tables that have rows of a run, children first, with the condition of a row."""
    found = []
    for column, key in _referring(*_KEYS):
        query = _KEYS[key]
        (value,) = query.selected_columns
        own = query.where(value.table.c.run_id == run_id)
        found.append((column.table, column.in_(own)))
    last = (t.alerts, t.failures, t.runs)
    return [*found, *((table, table.c.run_id == run_id) for table in last)]


_BY_MESSAGE: Final = [
    column for column, _ in _referring(t.messages.c.message_id) if column.table is not t.identities
]
"""The columns that refer to a message; its identity goes with the message."""


def _some_messages(
    connection: sa.Connection, own: Sequence[tuple[Any, Condition]]
) -> Sequence[int]:
    for table, is_own in own:
        query = sa.select(table.c.message_id).where(is_own, table.c.message_id.is_not(None))
        if ids := connection.scalars(query.distinct().limit(KEYS_AT_ONCE)).all():
            return ids
    return ()


class Prunes(Repository):
    """Prunes of the archive and of the ledger."""

    # -- the clock

    def newest_record(self) -> datetime | None:
        """Return the time of the newest record in the ledger, None if it is empty."""
        started, taken = t.runs.c.started_at, t.snapshots.c.taken_at
        times = (started, taken, t.sightings.c.at, t.prunes.c.at, t.holds.c.at)
        latest = [sa.select(sa.func.max(at)) for at in times]
        # By the order of their rows: a maximum would read millions of them.
        states = (t.unit_states.c.at, t.restoration_states.c.at)
        numbered = (t.looks.c.at, *states, t.passes.c.started_at)
        latest += [sa.select(at).order_by(at.table.c.seq.desc()) for at in numbered]
        found = [self._moment(query) for query in latest]
        return max((at for at in found if at is not None), default=None)

    def last(self, handler: str = "") -> t.Prune | None:
        query = select_records(t.prunes, t.Prune).order_by(t.prunes.c.at.desc())
        return self._one(t.Prune, query.where(t.prunes.c.handler == handler) if handler else query)

    def starts_since(self, since: datetime | None) -> Sequence[datetime]:
        """Return when runs started after a time, or all of them, in order."""
        query = sa.select(t.runs.c.started_at).order_by(t.runs.c.started_at)
        return self._values(query if since is None else query.where(t.runs.c.started_at > since))

    def trusted_until(self) -> datetime | None:
        """Return the latest time of a record for which a person confirmed the clock, or None."""
        return self._moment(sa.select(sa.func.max(t.prunes.c.trusted_until)))

    def begin(self, prune: t.Prune, trusted_until: datetime | None = None) -> int:
        """Record a prune, and up to when its person trusts the clock; return its number."""
        with self._engine.begin() as connection:
            row = asdict(prune) | {"trusted_until": trusted_until}
            return inserted(connection, t.prunes, row)

    # -- archive copies

    def runs_with_copies(self, handler: str, before: datetime) -> Sequence[str]:
        """Return the runs of a handler with copies from before a time to prune, oldest first."""
        query = (
            sa.select(t.archive.c.run_id)
            .join(t.runs)
            .where(t.runs.c.handler == handler, t.archive.c.at < before, _IS_UNPRUNED)
            .group_by(t.archive.c.run_id)
        )
        return self._values(query.order_by(sa.func.min(t.archive.c.at), t.archive.c.run_id))

    def protected_copies(self, run_id: str, before: datetime) -> dict[int, Protection]:
        """Return which archived messages of a run must be kept, and why."""
        with self._engine.connect() as connection:
            return _protected_copies(connection, run_id, before)

    def intend_copies(
        self, prune_id: int, run_id: str, message_ids: Collection[int], before: datetime
    ) -> set[int]:
        """Record the copies that a prune removes from now on; return those that may go."""
        with in_turn(self._engine) as connection:
            kept = set(_protected_copies(connection, run_id, before))
            gone = sa.select(t.pruned_copies.c.message_id).where(t.pruned_copies.c.run_id == run_id)
            chosen = set(message_ids) - kept - set(connection.scalars(gone))
            own = {"run_id": run_id, "prune_id": prune_id}
            add(connection, t.pruned_copies, [own | {"message_id": one} for one in sorted(chosen)])
        return chosen

    def open_files(self) -> list[tuple[int, str, str]]:
        """Return (prune_id, run_id, location) of files that a prune was to change and has not."""
        prune_id, location = t.pruned_copies.c.prune_id, t.archive.c.location
        done = sa.exists().where(
            t.pruned_files.c.prune_id == prune_id, t.pruned_files.c.location == location
        )
        query = (
            sa.select(prune_id, t.archive.c.run_id, location)
            .join_from(t.pruned_copies, t.archive)
            .where(~done)
            .distinct()
        )
        return [tuple(row) for row in self._rows(query.order_by(prune_id, location))]

    def pruned_in(self, run_id: str, location: str) -> set[int]:
        query = sa.select(t.pruned_copies.c.message_id).join(t.archive)
        is_in = (t.archive.c.run_id == run_id) & (t.archive.c.location == location)
        return set(self._values(query.where(is_in)))

    def finish_file(self, prune_id: int, location: str, at: datetime) -> None:
        row = {"prune_id": prune_id, "location": location, "at": at}
        self._add_once(t.pruned_files, row, "prune_id", "location")

    # -- runs

    def closed_before(self, handler: str, before: datetime) -> Sequence[str]:
        """Return the runs of a handler that began and ended before a time, oldest first."""
        query = sa.select(t.runs.c.run_id).where(_closed_before(handler, before))
        return self._values(query.order_by(t.runs.c.started_at, t.runs.c.run_id))

    def protected_runs(
        self, handler: str, before: datetime, now: datetime, without_copies: Collection[str]
    ) -> tuple[dict[str, Protection], set[tuple[str, str]]]:
        """Return which of these runs must be kept, and which depend on which other runs."""
        scope = _closed_before(handler, before)
        with self._engine.connect() as connection:
            kept = _protected_runs(connection, scope, now, without_copies)
            return kept, _links(connection, scope)

    def count_messages(self, run_ids: Collection[str]) -> int:
        """Count the messages of runs that have an outcome."""
        with self._engine.connect() as connection:
            return sum(row["messages"] for row in _count_outcomes(connection, run_ids))

    def intend_runs(self, prune_id: int, run_ids: Sequence[str], now: datetime) -> list[str]:
        """Record the runs that a prune removes from now on, and their totals; return them.

        Runs that must be kept now, or that another prune removes, are left out. The totals and
        the run's rows are both in the ledger until `erase` has ended; only the totals count.
        """
        chosen: list[str] = []
        for some in in_parts(run_ids):
            with in_turn(self._engine) as connection:
                kept = _protected_runs(connection, t.runs.c.run_id.in_(some), now)
                gone = sa.select(t.pruned_runs.c.run_id).where(t.pruned_runs.c.run_id.in_(some))
                left_out = {*kept, *connection.scalars(gone)}
                going = [run_id for run_id in some if run_id not in left_out]
                record_runs(connection, prune_id, going)
            chosen += going
        return chosen

    def open_runs(self) -> Sequence[str]:
        """Return the runs that a prune was to remove and that are still in the ledger."""
        going = sa.select(t.pruned_runs.c.run_id)
        query = sa.select(t.runs.c.run_id).where(t.runs.c.run_id.in_(going))
        return self._values(query.order_by(t.runs.c.started_at, t.runs.c.run_id))

    def erase(self, run_id: str) -> None:
        """Delete all rows of a run but its totals, and the messages to which no other row refers.

        Each transaction deletes all that the run has of some hundred messages, so that no reader
        sees a message with some of its rows. The last one deletes the run. It may be called again
        after an interruption, and by two processes at once.
        """
        rows = _rows_of(run_id)
        own = [(table, is_own) for table, is_own in rows if "message_id" in table.c]
        while True:
            with in_turn(self._engine) as connection:
                ids = _some_messages(connection, own)
                if not ids:
                    for table, is_own in rows:
                        connection.execute(sa.delete(table).where(is_own))
                    return
                for table, is_own in own:
                    connection.execute(sa.delete(table).where(is_own, table.c.message_id.in_(ids)))
                used = [sa.select(column).where(column.in_(ids)) for column in _BY_MESSAGE]
                if rest := set(ids).difference(*map(connection.scalars, used)):
                    for table in (t.identities, t.messages):
                        connection.execute(sa.delete(table).where(table.c.message_id.in_(rest)))

    def pruned_run(self, run_id: str) -> t.Prune | None:
        """Return the prune that has removed a run or is removing it, or None."""
        query = select_records(t.prunes, t.Prune).join(t.pruned_runs)
        return self._one(t.Prune, query.where(t.pruned_runs.c.run_id == run_id))

    def outcomes_of(self, run_id: str) -> Sequence[Row]:
        """Return the rows of `pruned_outcomes` of a run."""
        own = t.pruned_outcomes.c.run_id == run_id
        return self._rows(sa.select(t.pruned_outcomes).where(own))

    def history(self, names: Sequence[str], at_once: int) -> Iterator[Sequence[Row]]:
        """Yield columns of the totals of all pruned runs, without settled messages."""
        held = {column.name: column for column in (*t.pruned_runs.c, *t.pruned_outcomes.c)}
        query = sa.select(*(held[name] for name in names))
        query = query.join_from(t.pruned_outcomes, t.pruned_runs)
        with self._stream(query.where(~t.pruned_outcomes.c.is_settled)) as rows:
            yield from rows.partitions(at_once)
