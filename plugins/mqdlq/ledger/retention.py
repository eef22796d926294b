"""Retention: legal holds, what a prune must keep, and what prunes have removed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import chain
from typing import Any, Final

from sqlalchemy import (
    Column,
    ColumnElement,
    CompoundSelect,
    Connection,
    Engine,
    Row,
    Select,
    Table,
    delete,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    union,
)

from mqdlq.errors import LedgerError
from mqdlq.ledger.attempts import COUNTED
from mqdlq.ledger.audit import keep_approvals
from mqdlq.ledger.controls import open_breakers
from mqdlq.ledger.database import (
    KEYS_AT_ONCE,
    Repository,
    add,
    columns_of,
    in_parts,
    in_turn,
    inserted,
)
from mqdlq.ledger.messages import has_departed
from mqdlq.ledger.runs import has_acted
from mqdlq.ledger.tables import (
    IS_LEARNED,
    Ending,
    Prune,
    PrunedOutcome,
    alerts,
    approvals,
    archive,
    attempt_states,
    attempts,
    failures,
    holds,
    identities,
    learned,
    leases,
    looks,
    messages,
    metadata,
    outcomes,
    passes,
    plans,
    pruned_copies,
    pruned_files,
    pruned_outcomes,
    pruned_runs,
    prunes,
    released_holds,
    restoration_states,
    restorations,
    run_messages,
    runs,
    settled_lots,
    settled_messages,
    settled_outcomes,
    sightings,
    snapshots,
)
from mqdlq.model import DEPARTED, AttemptState, InWords, Outcome, RestorationState


@dataclass(frozen=True, slots=True)
class Hold:
    """A legal hold on one handler, one run or one message; the other two are "".

    `message_key` is hex. `released_at` is None while the hold applies.
    """

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


@dataclass(frozen=True, slots=True)
class Held:
    """The number of runs and archive copies that a hold covers, pruned ones apart."""

    runs: int
    copies: int
    pruned_runs: int
    pruned_copies: int


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
        values = {"handler": handler, "run_id": run_id, "message_key": key}
        with in_turn(self._engine) as connection:
            row = {**values, "reason": reason, "who": who, "at": at}
            hold = self._read(inserted(connection, holds, row), connection)
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
            hold = self._read(hold_id, connection)
            if hold.released_at is not None:
                raise LedgerError(
                    "MQDLQ-251",
                    f"hold {hold_id} was removed before, by {hold.released_by}; mqdlq hold list"
                    " shows the holds that apply",
                )
            values = {"hold_id": hold_id, "reason": reason, "who": who, "at": at}
            connection.execute(insert(released_holds), values)
            return self._read(hold_id, connection)

    def all(self, *, released: bool = False) -> list[Hold]:
        """Return the holds that apply, oldest first; with `released` also the others."""
        query = _HOLDS.order_by(holds.c.hold_id)
        if not released:
            query = query.where(released_holds.c.hold_id.is_(None))
        return [_hold(row) for row in self._all(query)]

    def snapshots(self) -> dict[str, int]:
        """Return the snapshots of runs that a hold covers: id to the hold's number."""
        held = held_runs(runs.c.run_id.in_(select(snapshots.c.run_id))).subquery()
        query = select(snapshots.c.snapshot_id, held.c.hold_id)
        return self._map(query.join(held, held.c.run_id == snapshots.c.run_id))

    def covered(self, hold: Hold) -> Held:
        with self._engine.connect() as connection:
            kept = [row.run_id for row in connection.execute(_covered(hold))]
            is_gone = pruned_runs.c.run_id.in_(kept)
            gone = set(connection.scalars(select(pruned_runs.c.run_id).where(is_gone)))
            copies = select(pruned_copies.c.run_id).select_from(
                archive.outerjoin(pruned_copies).join(runs).join(messages)
            )
            if hold.message_key:
                copies = copies.where(messages.c.message_key == bytes.fromhex(hold.message_key))
            elif hold.handler:
                copies = copies.where(runs.c.handler == hold.handler)
            else:
                copies = copies.where(runs.c.run_id == hold.run_id)
            found = connection.scalars(copies).all()
        pruned = sum(run_id is not None for run_id in found)
        return Held(len(set(kept) - gone), len(found) - pruned, len(gone), pruned)

    def _read(self, hold_id: int, connection: Any) -> Hold:
        row = connection.execute(_HOLDS.where(holds.c.hold_id == hold_id)).mappings().first()
        if row is None:
            raise LedgerError(
                "MQDLQ-250", f"there is no hold {hold_id}; mqdlq hold list shows all of them"
            )
        return _hold(row)


_HOLDS = select(
    holds,
    released_holds.c.at.label("released_at"),
    released_holds.c.who.label("released_by"),
    released_holds.c.reason.label("release_reason"),
).outerjoin(released_holds)


def _hold(row: Any) -> Hold:
    values = dict(row)
    for name in ("released_by", "release_reason"):
        values[name] = values[name] or ""
    key = values.pop("message_key")
    return Hold(**values, message_key=key.hex() if key else "")


def _covered(hold: Hold) -> CompoundSelect[Any]:
    """Return the query for the runs that a hold covers, pruned runs included."""
    if hold.message_key:
        listed = select(run_messages.c.run_id).join(messages)
        return union(listed.where(messages.c.message_key == bytes.fromhex(hold.message_key)))
    name, value = ("handler", hold.handler) if hold.handler else ("run_id", hold.run_id)
    return union(
        *(select(table.c.run_id).where(table.c[name] == value) for table in (runs, pruned_runs))
    )


def _applies() -> ColumnElement[bool]:
    return ~exists().where(released_holds.c.hold_id == holds.c.hold_id)


def held_runs(scope: ColumnElement[bool]) -> CompoundSelect[Any]:
    """Return the query for the runs within a scope that a hold covers, each with its hold."""
    held = select(runs.c.run_id, holds.c.hold_id).where(scope, _applies())
    listed = held.join(run_messages, run_messages.c.run_id == runs.c.run_id).join(messages)
    by_message = listed.join(holds, holds.c.message_key == messages.c.message_key)
    return union(held.where(_names_run()), by_message)


def held_copies(run_id: str) -> CompoundSelect[Any]:
    """Return the query for the archived messages of a run that a hold covers, with the hold."""
    own = archive.c.run_id == run_id
    held = select(archive.c.message_id, holds.c.hold_id).where(own, _applies())
    by_name = held.join_from(archive, runs).join(holds, literal(True)).where(_names_run())
    by_message = held.join_from(archive, messages).join(
        holds, holds.c.message_key == messages.c.message_key
    )
    return union(by_name, by_message)


def _names_run() -> ColumnElement[bool]:
    """Return the condition that a hold is on a run, or on its handler."""
    return or_(
        (holds.c.handler != "") & (holds.c.handler == runs.c.handler),
        (holds.c.run_id != "") & (holds.c.run_id == runs.c.run_id),
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


def closed_before(handler: str, before: datetime) -> ColumnElement[bool]:
    """Return the condition that a run of a handler began, and closed its account, before a time.

    It is true for a run without an account, too. Runs that a prune is removing do not count.
    """
    run_id = runs.c.run_id
    is_late = exists().where(sightings.c.run_id == run_id, sightings.c.at >= before)
    is_going = exists().where(pruned_runs.c.run_id == run_id)
    return (runs.c.handler == handler) & (runs.c.started_at < before) & ~is_late & ~is_going


def protected_runs(
    connection: Connection,
    scope: ColumnElement[bool],
    now: datetime,
    without_copies: Collection[str] = (),
) -> dict[str, Protection]:
    """Return which runs within a scope a prune must keep, with the first reason that holds.

    `without_copies` are runs whose archive copies are about to be pruned.
    """
    found = {row.run_id: Protection.HOLD for row in connection.execute(held_runs(scope))}
    for why, condition in _conditions(now):
        for run_id in connection.scalars(select(runs.c.run_id).where(scope, condition)):
            if why is not Protection.COPIES or run_id not in without_copies:
                found.setdefault(run_id, why)
    return found


def _conditions(now: datetime) -> Iterator[tuple[Protection, ColumnElement[bool]]]:
    run_id = runs.c.run_id
    yield Protection.UNFINISHED, _is_unfinished()
    state, message_id = attempt_states.c.state, attempt_states.c.message_id
    in_doubt = (state == AttemptState.UNKNOWN) & ~has_departed(message_id)
    is_open = or_(state == AttemptState.INTENDED, in_doubt)
    here = (outcomes.c.run_id == run_id) & ~has_departed(outcomes.c.message_id)
    yield (
        Protection.UNSETTLED,
        exists().where(attempt_states.c.run_id == run_id, is_open)
        | exists().where(here, outcomes.c.outcome == Outcome.UNKNOWN),
    )
    yield Protection.LEASED, exists().where(leases.c.run_id == run_id, leases.c.until > now)
    yield Protection.ATTEMPTS, _has_counts_that_carry_on()
    later = outcomes.alias()
    again = select(later.c.message_id).where(
        later.c.message_id == outcomes.c.message_id, later.c.at > outcomes.c.at
    )
    is_pending = outcomes.c.outcome == Outcome.RETRY_PENDING
    yield Protection.RETRY_PENDING, exists().where(here, is_pending, ~again.exists())
    is_last = approvals.c.seq == _last_of_run(approvals)
    yield Protection.APPROVAL, exists().where(is_last, approvals.c.decision == "asked")
    is_kept = snapshots.c.pruned_at.is_(None)
    yield Protection.SNAPSHOT, exists().where(snapshots.c.run_id == run_id, is_kept)
    copies = select(archive.c.message_id).where(archive.c.run_id == run_id, is_unpruned())
    yield Protection.COPIES, copies.exists()
    yield Protection.NEWEST, or_(*(run_id.in_(newest) for newest in _newest()))


def _last_of_run(table: Table) -> Any:
    """Return the `seq` of the last row that a run has in a table."""
    other = table.alias()
    last = select(func.max(other.c.seq)).where(other.c.run_id == runs.c.run_id)
    return last.correlate(runs).scalar_subquery()


def _is_unfinished() -> ColumnElement[bool]:
    """Return the condition that a run has neither closed its account nor found that it has no work.

    A run that waits for work is not in the ledger yet.
    """
    is_closed = exists().where(sightings.c.run_id == runs.c.run_id)
    is_idle = exists().where(looks.c.seq == _last_of_run(looks), ~looks.c.is_work)
    begun = [
        exists().where(table.c.run_id == runs.c.run_id)
        for table in (snapshots, plans, passes, attempts, run_messages)
    ]
    return ~is_closed & (~is_idle | or_(*begun))


def _has_counts_that_carry_on() -> ColumnElement[bool]:
    """Return the condition that attempts of a run still count: its message is on the queue.

    They count for runs with the same rules. The rules may change back, so the digest is ignored.
    """
    other = runs.alias()
    carries = select(other.c.run_id).where(
        other.c.queue_manager == runs.c.queue_manager,
        other.c.queue == runs.c.queue,
        other.c.carry_attempts,
    )
    counted = select(attempt_states.c.seq).where(
        attempt_states.c.run_id == runs.c.run_id,
        attempt_states.c.state.in_(COUNTED),
        ~has_departed(attempt_states.c.message_id),
    )
    return counted.exists() & carries.exists()


def _newest() -> Iterator[Select[Any]]:
    """Yield queries for the runs that a later run of their queue or handler looks up.

    They are the last ones to start, to close an account, to act, to make a pass, to find work, to
    take a complete snapshot, to ask for an approval, to send an alert, and to open a breaker. The
    run with the newest attempt stays, too: ramps count attempts from a number, and SQLite would
    give the numbers of deleted rows again.
    """
    yield open_breakers()
    yield select(attempts.c.run_id).order_by(attempts.c.seq.desc()).limit(1)
    queue = runs.c.queue_manager, runs.c.queue
    by_handler = *queue, runs.c.handler
    is_whole = runs.c.message_keys == ()
    is_real = is_whole & ~runs.c.dry_run
    started = select(runs.c.run_id)
    yield _last(started, by_handler, runs.c.started_at)
    yield _last(started.where(is_real, has_acted()), queue, runs.c.started_at)
    closed = started.join(sightings)
    for condition in (is_real, is_whole, runs.c.run_id != ""):
        yield _last(closed.where(condition), queue, sightings.c.at)
    for places in (queue, (runs.c.queue_manager, runs.c.state_queue)):
        yield _last(started.join(passes), places, passes.c.seq)
    yield _last(started.join(looks).where(looks.c.is_work), (runs.c.handler,), looks.c.at)
    complete = started.join(snapshots).where(is_whole, snapshots.c.settled == 0)
    yield _last(complete, queue, snapshots.c.taken_at)
    yield _last(started.join(approvals), by_handler, approvals.c.seq)
    # An alert may be of a run that could not start, so it refers to no run.
    alerted = started.join(alerts, alerts.c.run_id == runs.c.run_id)
    yield _last(alerted, by_handler, alerts.c.seq)


def _last(query: Select[Any], within: tuple[Any, ...], by: ColumnElement[Any]) -> Select[Any]:
    """Return the query for the run with the highest value within each group."""
    rank = func.row_number().over(partition_by=within, order_by=by.desc()).label("rank")
    ranked = query.add_columns(rank).subquery()
    return select(ranked.c.run_id).where(ranked.c.rank == 1)


def links(connection: Connection, scope: ColumnElement[bool]) -> set[tuple[str, str]]:
    """Return pairs of a run within a scope and another run that needs its rows.

    The other run lists a message that the first one proves to have departed, or one of them has
    corrected the account of the other.
    """
    pairs: set[tuple[str, str]] = set()
    for table, has_left in (
        (outcomes, outcomes.c.outcome.in_(DEPARTED)),
        (attempts, attempts.c.state == AttemptState.CONFIRMED),
    ):
        query = (
            select(table.c.run_id, run_messages.c.run_id.label("other"))
            .join_from(table, runs)
            .join(run_messages, run_messages.c.message_id == table.c.message_id)
            .where(scope, has_left, run_messages.c.run_id != table.c.run_id)
        )
        pairs |= {(one, other) for one, other in connection.execute(query.distinct())}
    for one, other in ((learned.c.of_run, learned.c.run_id), (learned.c.run_id, learned.c.of_run)):
        query = select(one, other).join(runs, runs.c.run_id == one).where(scope, one != other)
        pairs |= {(first, second) for first, second in connection.execute(query.distinct())}
    return pairs


def is_unpruned() -> ColumnElement[bool]:
    """Return the condition that no prune has begun to remove an archive copy."""
    return ~exists().where(
        pruned_copies.c.run_id == archive.c.run_id,
        pruned_copies.c.message_id == archive.c.message_id,
    )


FINISHED: Final = (RestorationState.RESTORED, RestorationState.REFUSED)
TRIED: Final = (RestorationState.FAILED, RestorationState.NOT_ATTEMPTED)
"""The states after which the same restoration may try again when its task is cleared."""


def protected_copies(
    connection: Connection, run_id: str, before: datetime
) -> dict[int, Protection]:
    """Return which archived messages of a run a prune must keep, by what the ledger says.

    A restoration that could not put a copy keeps it until the copy and the try are older than
    `before`; a restoration that is not finished keeps it for as long.
    """
    copies = select(archive.c.message_id).where(archive.c.run_id == run_id)
    found = {row.message_id: Protection.HOLD for row in connection.execute(held_copies(run_id))}
    is_open = select(runs.c.run_id).where(runs.c.run_id == run_id, _is_unfinished())
    if connection.execute(is_open).first() is not None:
        for message_id in connection.scalars(copies):
            found.setdefault(message_id, Protection.UNFINISHED)
    for message_id in _being_restored(connection, run_id, before):
        found.setdefault(message_id, Protection.RESTORATION)
    return found


def _being_restored(connection: Connection, run_id: str, before: datetime) -> set[int]:
    states = restoration_states
    query = (
        select(states.c.restoration_id, states.c.message_id, states.c.state, states.c.at)
        .join(restorations)
        .where(states.c.run_id == run_id, ~restorations.c.dry_run)
        .order_by(states.c.seq)
    )
    latest = {(row.restoration_id, row.message_id): row for row in connection.execute(query)}
    restored: dict[int, datetime] = {}
    for row in latest.values():
        if row.state is RestorationState.RESTORED:
            restored[row.message_id] = max(row.at, restored.get(row.message_id, row.at))
    return {
        row.message_id
        for row in latest.values()
        if row.state not in FINISHED
        and not (row.state in TRIED and row.at < before)
        and not (
            row.state is RestorationState.UNKNOWN
            and row.message_id in restored
            and restored[row.message_id] >= row.at
        )
    }


def record_runs(connection: Connection, prune_id: int, run_ids: Sequence[str]) -> None:
    """Record runs and their totals as pruned; their approvals go to the audit, which stays."""
    if not run_ids:
        return
    names = [one.name for one in pruned_runs.c if one.name not in {"prune_id", "closed_at"}]
    query = select(*(runs.c[name] for name in names), literal(prune_id), sightings.c.at)
    query = query.join_from(runs, sightings, isouter=True).where(runs.c.run_id.in_(run_ids))
    columns = [*names, "prune_id", "closed_at"]
    connection.execute(insert(pruned_runs).from_select(columns, query))
    keep_approvals(connection, run_ids)
    for part in in_parts(count_outcomes(connection, run_ids)):
        add(connection, pruned_outcomes, [asdict(one) for one in part])


def count_outcomes(connection: Connection, run_ids: Collection[str]) -> list[PrunedOutcome]:
    """Count the outcomes of runs; an outcome that was learned later replaces the booked one."""
    found: dict[tuple[Ending, str, bool], int] = {}
    latest = {
        name: func.coalesce(learned.c[name], outcomes.c[name])
        for name in ("outcome", "target_q", "target_q_mgr")
    }
    kinds = [latest.get(column.name, column) for column in columns_of(outcomes, Ending)]
    own = select(*kinds, outcomes.c.run_id, func.count()).outerjoin(learned, IS_LEARNED)
    settled = settled_outcomes.c
    for is_settled, query, run_id in (
        (False, own.group_by(outcomes.c.run_id, *kinds), outcomes.c.run_id),
        (
            True,
            select(*columns_of(settled_outcomes, Ending), settled.run_id, settled.messages),
            settled.run_id,
        ),
    ):
        for some in in_parts(run_ids, KEYS_AT_ONCE):
            for *how, of_run, number in connection.execute(query.where(run_id.in_(some))):
                key = Ending(*how), of_run, is_settled
                found[key] = found.get(key, 0) + int(number)
    return [
        PrunedOutcome(**asdict(how), run_id=run_id, is_settled=is_settled, messages=number)
        for (how, run_id, is_settled), number in found.items()
    ]


# Delete the rows of a run, children before parents, in bounded transactions. Which tables have
# rows of a run follows from the declared foreign keys.

_PARENTS: Final = {"runs", "archive"}


def _references() -> Iterator[tuple[Table, Column[str]]]:
    """Yield the tables with the columns that refer to a run, children first."""
    for table in reversed(metadata.sorted_tables):
        for column in table.c:
            parents = {key.column.table.name for key in column.foreign_keys}
            if parents & _PARENTS and column.name != "message_id":
                yield table, column


OF_RUN: Final = list(_references())
OF_MESSAGE: Final = [(table, column) for table, column in OF_RUN if "message_id" in table.c]
_BY_MESSAGE: Final = [
    column
    for table in reversed(metadata.sorted_tables)
    for column in table.c
    if table is not identities and any(key.column.table is messages for key in column.foreign_keys)
]
"""The columns that refer to a message; its identity goes with the message."""


def erase_run(engine: Engine, run_id: str) -> None:
    """Delete all rows of a run, and the messages to which no other row refers.

    Each transaction deletes all that the run has of some hundred messages, so that no reader sees a
    message with some of its rows. The last one deletes the run. It may be called again after an
    interruption, and by two processes at once.
    """
    lots = select(settled_lots.c.lot_id).where(settled_lots.c.run_id == run_id)
    is_own = settled_messages.c.lot_id.in_(lots)
    queries = [
        *(select(table.c.message_id).where(column == run_id) for table, column in OF_MESSAGE),
        select(settled_messages.c.message_id).where(is_own),
    ]
    while True:
        with in_turn(engine) as connection:
            some = (connection.scalars(query.distinct().limit(KEYS_AT_ONCE)) for query in queries)
            ids = list(next(filter(None, map(list, some)), []))
            if not ids:
                for table, column in OF_RUN:
                    connection.execute(delete(table).where(column == run_id))
                for table in (alerts, failures, runs):
                    connection.execute(delete(table).where(table.c.run_id == run_id))
                return
            for table, column in OF_MESSAGE:
                connection.execute(
                    delete(table).where(column == run_id, table.c.message_id.in_(ids))
                )
            connection.execute(
                delete(settled_messages).where(is_own, settled_messages.c.message_id.in_(ids))
            )
            used = (connection.scalars(select(one).where(one.in_(ids))) for one in _BY_MESSAGE)
            if rest := set(ids).difference(chain.from_iterable(used)):
                for table in (identities, messages):
                    connection.execute(delete(table).where(table.c.message_id.in_(rest)))


class Prunes(Repository):
    """Prunes of the archive and of the ledger."""

    # -- the clock

    def newest_record(self) -> datetime | None:
        """Return the time of the newest record in the ledger, None if it is empty."""
        latest = [
            select(func.max(table.c[name]))
            for table, name in (
                (runs, "started_at"),
                (sightings, "at"),
                (snapshots, "taken_at"),
                (prunes, "at"),
                (holds, "at"),
            )
        ]
        # By the order of their rows: a maximum would read millions of them.
        latest += [
            select(table.c[name]).order_by(table.c.seq.desc()).limit(1)
            for table, name in (
                (looks, "at"),
                (attempts, "at"),
                (restoration_states, "at"),
                (passes, "started_at"),
            )
        ]
        found = [self._moment(query) for query in latest]
        return max((at for at in found if at is not None), default=None)

    def last(self) -> Prune | None:
        query = select(*columns_of(prunes, Prune)).order_by(prunes.c.at.desc())
        return self._one(Prune, query)

    def starts_since(self, since: datetime | None) -> list[datetime]:
        """Return when runs started after a time, or all of them, in order."""
        query = select(runs.c.started_at).order_by(runs.c.started_at)
        if since is not None:
            query = query.where(runs.c.started_at > since)
        return list(self._values(query))

    def trusted_until(self) -> datetime | None:
        """Return the latest time of a record for which a person confirmed the clock, or None."""
        return self._moment(select(func.max(prunes.c.trusted_until)))

    def begin(self, prune: Prune, trusted_until: datetime | None = None) -> int:
        """Record a prune; return its number.

        `trusted_until` is the time of the newest record for which its person confirmed the clock.
        """
        with self._engine.begin() as connection:
            return inserted(connection, prunes, asdict(prune) | {"trusted_until": trusted_until})

    # -- archive copies

    def runs_with_copies(self, handler: str, before: datetime) -> list[str]:
        """Return the runs of a handler that made copies before a time, oldest first.

        Runs without a copy that a prune could remove are left out.
        """
        query = (
            select(archive.c.run_id)
            .join(runs)
            .where(runs.c.handler == handler, archive.c.at < before, is_unpruned())
            .group_by(archive.c.run_id)
            .order_by(func.min(archive.c.at), archive.c.run_id)
        )
        return list(self._values(query))

    def protected_copies(self, run_id: str, before: datetime) -> dict[int, Protection]:
        """Return which archived messages of a run must be kept, and why."""
        with self._engine.connect() as connection:
            return protected_copies(connection, run_id, before)

    def intend_copies(
        self, prune_id: int, run_id: str, message_ids: Collection[int], before: datetime
    ) -> set[int]:
        """Record the copies that a prune removes from now on, and return them.

        Copies that must be kept now, or that another prune removes, are left out.
        """
        with in_turn(self._engine) as connection:
            kept = set(protected_copies(connection, run_id, before))
            gone = select(pruned_copies.c.message_id).where(pruned_copies.c.run_id == run_id)
            chosen = set(message_ids) - kept - set(connection.scalars(gone))
            own = {"run_id": run_id, "prune_id": prune_id}
            add(connection, pruned_copies, [own | {"message_id": one} for one in sorted(chosen)])
        return chosen

    def open_files(self) -> list[tuple[int, str, str]]:
        """Return the files that a prune was to change, and has not recorded as changed.

        They are (prune_id, run_id, location).
        """
        done = exists().where(
            pruned_files.c.prune_id == pruned_copies.c.prune_id,
            pruned_files.c.location == archive.c.location,
        )
        query = (
            select(pruned_copies.c.prune_id, archive.c.run_id, archive.c.location)
            .join_from(pruned_copies, archive)
            .where(~done)
            .distinct()
            .order_by(pruned_copies.c.prune_id, archive.c.location)
        )
        return [(row.prune_id, row.run_id, row.location) for row in self._rows(query)]

    def pruned_in(self, run_id: str, location: str) -> set[int]:
        """Return which messages' copies any prune was to remove from a file."""
        query = select(pruned_copies.c.message_id).join(archive)
        return set(
            self._values(query.where(archive.c.run_id == run_id, archive.c.location == location))
        )

    def finish_file(self, prune_id: int, location: str, at: datetime) -> None:
        """Record that a prune has removed its copies from a file, once."""
        self._add_once(pruned_files, {"prune_id": prune_id, "location": location}, {"at": at})

    # -- runs

    def closed_before(self, handler: str, before: datetime) -> list[str]:
        """Return the runs of a handler that began and ended before a time, oldest first."""
        query = select(runs.c.run_id).where(closed_before(handler, before))
        return list(self._values(query.order_by(runs.c.started_at, runs.c.run_id)))

    def protected_runs(
        self, handler: str, before: datetime, now: datetime, without_copies: Collection[str]
    ) -> tuple[dict[str, Protection], set[tuple[str, str]]]:
        """Return which of these runs must be kept, and which depend on which other runs."""
        scope = closed_before(handler, before)
        with self._engine.connect() as connection:
            return protected_runs(connection, scope, now, without_copies), links(connection, scope)

    def count_outcomes(self, run_ids: Collection[str]) -> list[PrunedOutcome]:
        """Return the outcomes of runs by number, as a prune keeps them."""
        with self._engine.connect() as connection:
            return count_outcomes(connection, run_ids)

    def intend_runs(self, prune_id: int, run_ids: Sequence[str], now: datetime) -> list[str]:
        """Record the runs that a prune removes from now on, and their totals; return them.

        Runs that must be kept now, or that another prune removes, are left out. The totals and
        the run's rows are both in the ledger until `erase` has ended; only the totals count.
        """
        chosen: list[str] = []
        for some in in_parts(run_ids):
            with in_turn(self._engine) as connection:
                kept = protected_runs(connection, runs.c.run_id.in_(some), now)
                gone = select(pruned_runs.c.run_id).where(pruned_runs.c.run_id.in_(some))
                left_out = {*kept, *connection.scalars(gone)}
                going = [run_id for run_id in some if run_id not in left_out]
                record_runs(connection, prune_id, going)
            chosen += going
        return chosen

    def open_runs(self) -> list[str]:
        """Return the runs that a prune was to remove and that are still in the ledger."""
        query = select(runs.c.run_id).join(pruned_runs, pruned_runs.c.run_id == runs.c.run_id)
        return list(self._values(query.order_by(runs.c.started_at, runs.c.run_id)))

    def erase(self, run_id: str) -> None:
        """Delete all rows of a run but its totals (see `erase_run`)."""
        erase_run(self._engine, run_id)

    def pruned_run(self, run_id: str) -> Prune | None:
        """Return the prune that has removed a run or is removing it, or None."""
        query = select(*columns_of(prunes, Prune)).join(pruned_runs)
        return self._one(Prune, query.where(pruned_runs.c.run_id == run_id))

    def outcomes_of(self, run_id: str) -> list[PrunedOutcome]:
        """Return the outcomes of a pruned run by number."""
        query = select(pruned_outcomes).where(pruned_outcomes.c.run_id == run_id)
        return [PrunedOutcome(**row) for row in self._all(query)]

    def history(self, names: Sequence[str], at_once: int) -> Iterator[Sequence[Row[Any]]]:
        """Yield columns of the totals of all pruned runs, without settled messages."""
        held = {column.name: column for column in (*pruned_runs.c, *pruned_outcomes.c)}
        query = select(*(held[name] for name in names)).join_from(pruned_outcomes, pruned_runs)
        with self._stream(query.where(~pruned_outcomes.c.is_settled)) as rows:
            yield from rows.partitions(at_once)
