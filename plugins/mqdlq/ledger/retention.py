"""Retention: legal holds, what a prune must keep, and what prunes have removed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from enum import StrEnum
from itertools import chain
from typing import Any, Final, NamedTuple, Self

from sqlalchemy import (
    Column,
    ColumnElement,
    CompoundSelect,
    Connection,
    Engine,
    FromClause,
    Row,
    Select,
    Table,
    delete,
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
from mqdlq.ledger.database import KEYS_AT_ONCE, Repository, add, in_parts, in_turn, inserted
from mqdlq.ledger.messages import has_departed
from mqdlq.ledger.runs import has_acted
from mqdlq.ledger.tables import metadata
from mqdlq.ledger.tables.controls import identities
from mqdlq.ledger.tables.messages import (
    archive,
    attempt_states,
    attempts,
    learned,
    leases,
    messages,
    outcomes,
    restoration_states,
    restorations,
    run_messages,
    settled_lots,
    settled_messages,
    settled_outcomes,
)
from mqdlq.ledger.tables.retention import (
    Prune,
    holds,
    pruned_copies,
    pruned_files,
    pruned_outcomes,
    pruned_runs,
    prunes,
    released_holds,
)
from mqdlq.ledger.tables.runs import (
    alerts,
    approvals,
    failures,
    looks,
    passes,
    plans,
    runs,
    sightings,
    snapshots,
)
from mqdlq.model import DEPARTED, AttemptState, Outcome, RestorationState


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
                raise _nothing_to_hold(hold)
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
        query = select(snapshots.c.snapshot_id, held.c.hold_id).join(
            held, held.c.run_id == snapshots.c.run_id
        )
        return {row["snapshot_id"]: row["hold_id"] for row in self._all(query)}

    def covered(self, hold: Hold) -> Held:
        """Count what a hold covers."""
        with self._engine.connect() as connection:
            kept = [row.run_id for row in connection.execute(_covered(hold))]
            is_gone = pruned_runs.c.run_id.in_(kept)
            gone = set(connection.scalars(select(pruned_runs.c.run_id).where(is_gone)))
            copies = select(archive.c.run_id, pruned_copies.c.run_id.label("pruned")).outerjoin(
                pruned_copies,
                (pruned_copies.c.run_id == archive.c.run_id)
                & (pruned_copies.c.message_id == archive.c.message_id),
            )
            if hold.message_key:
                copies = copies.join(messages, messages.c.message_id == archive.c.message_id)
                copies = copies.where(messages.c.message_key == bytes.fromhex(hold.message_key))
            else:
                copies = copies.join(runs, runs.c.run_id == archive.c.run_id)
                copies = copies.where(
                    runs.c.handler == hold.handler if hold.handler else runs.c.run_id == hold.run_id
                )
            found = connection.execute(copies).all()
        pruned = sum(row.pruned is not None for row in found)
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
).outerjoin(released_holds, released_holds.c.hold_id == holds.c.hold_id)


def _hold(row: Any) -> Hold:
    values = dict(row)
    for name in ("released_by", "release_reason"):
        values[name] = values[name] or ""
    key = values.pop("message_key")
    return Hold(**values, message_key=key.hex() if key else "")


def _covered(hold: Hold) -> CompoundSelect[Any]:
    """Return the query for the runs that a hold covers, pruned runs included."""
    if hold.message_key:
        listed = select(run_messages.c.run_id).join(
            messages, messages.c.message_id == run_messages.c.message_id
        )
        return union(listed.where(messages.c.message_key == bytes.fromhex(hold.message_key)))
    name, value = ("handler", hold.handler) if hold.handler else ("run_id", hold.run_id)
    return union(
        *(select(table.c.run_id).where(table.c[name] == value) for table in (runs, pruned_runs))
    )


def _nothing_to_hold(hold: Hold) -> LedgerError:
    subject = f"run {hold.run_id}" if hold.run_id else f"message {hold.message_key}"
    return LedgerError(
        "MQDLQ-252",
        f"the ledger has no {subject}, so that a hold on it would keep nothing; correct the name",
    )


def _applies() -> ColumnElement[bool]:
    released = select(released_holds.c.hold_id).where(released_holds.c.hold_id == holds.c.hold_id)
    return ~released.exists()


def held_runs(scope: ColumnElement[bool]) -> CompoundSelect[Any]:
    """Return the query for the runs within a scope that a hold covers, each with its hold."""
    columns = runs.c.run_id, holds.c.hold_id
    by_name = select(*columns).where(
        scope,
        _applies(),
        or_(
            (holds.c.handler != "") & (holds.c.handler == runs.c.handler),
            (holds.c.run_id != "") & (holds.c.run_id == runs.c.run_id),
        ),
    )
    by_message = (
        select(*columns)
        .join(run_messages, run_messages.c.run_id == runs.c.run_id)
        .join(messages, messages.c.message_id == run_messages.c.message_id)
        .join(holds, holds.c.message_key == messages.c.message_key)
        .where(scope, _applies())
    )
    return union(by_name, by_message)


def held_copies(run_id: str) -> CompoundSelect[Any]:
    """Return the query for the archived messages of a run that a hold covers, with the hold."""
    own = archive.c.run_id == run_id
    source: FromClause = archive.join(runs, runs.c.run_id == archive.c.run_id)
    by_name = (
        select(archive.c.message_id, holds.c.hold_id)
        .select_from(source)
        .join(holds, literal(True))
        .where(
            own,
            _applies(),
            or_(
                (holds.c.handler != "") & (holds.c.handler == runs.c.handler),
                (holds.c.run_id != "") & (holds.c.run_id == runs.c.run_id),
            ),
        )
    )
    by_message = (
        select(archive.c.message_id, holds.c.hold_id)
        .join(messages, messages.c.message_id == archive.c.message_id)
        .join(holds, holds.c.message_key == messages.c.message_key)
        .where(own, _applies())
    )
    return union(by_name, by_message)


class Protection(StrEnum):
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

    words: str

    def __new__(cls, value: str, words: str = "") -> Self:
        """Make a member of its declaration; a lookup has the value only."""
        member = str.__new__(cls, value)
        member._value_, member.words = value, words
        return member


def closed_before(handler: str, before: datetime) -> ColumnElement[bool]:
    """Return the condition that a run of a handler began, and closed its account, before a time.

    It is true for a run without an account, too. Runs that a prune is removing do not count.
    """
    late = select(sightings.c.run_id).where(
        sightings.c.run_id == runs.c.run_id, sightings.c.at >= before
    )
    going = select(pruned_runs.c.run_id).where(pruned_runs.c.run_id == runs.c.run_id)
    is_old = (runs.c.handler == handler) & (runs.c.started_at < before)
    return is_old & ~late.exists() & ~going.exists()


def protected_runs(
    connection: Connection,
    scope: ColumnElement[bool],
    now: datetime,
    without_copies: Collection[str] = (),
) -> dict[str, Protection]:
    """Return which runs within a scope a prune must keep, with the first reason that holds.

    `without_copies` are runs whose archive copies are about to be pruned.
    """
    found: dict[str, Protection] = {}
    for row in connection.execute(held_runs(scope)):
        found[row.run_id] = Protection.HOLD
    for why, condition in _conditions(now):
        for run_id in connection.scalars(select(runs.c.run_id).where(scope, condition)):
            if why is not Protection.COPIES or run_id not in without_copies:
                found.setdefault(run_id, why)
    return found


def _conditions(now: datetime) -> Iterator[tuple[Protection, ColumnElement[bool]]]:
    run_id = runs.c.run_id
    yield Protection.UNFINISHED, _is_unfinished()
    state = attempt_states.c.state
    in_doubt = (state == AttemptState.UNKNOWN) & ~has_departed(attempt_states.c.message_id)
    is_open = or_(state == AttemptState.INTENDED, in_doubt)
    open_units = select(attempt_states.c.seq).where(attempt_states.c.run_id == run_id, is_open)
    unknown = select(outcomes.c.message_id).where(
        outcomes.c.run_id == run_id,
        outcomes.c.outcome == Outcome.UNKNOWN,
        ~has_departed(outcomes.c.message_id),
    )
    yield Protection.UNSETTLED, open_units.exists() | unknown.exists()
    leased = select(leases.c.seq).where(leases.c.run_id == run_id, leases.c.until > now)
    yield Protection.LEASED, leased.exists()
    yield Protection.ATTEMPTS, _has_counts_that_carry_on()
    later = outcomes.alias()
    again = select(later.c.message_id).where(
        later.c.message_id == outcomes.c.message_id, later.c.at > outcomes.c.at
    )
    pending = select(outcomes.c.message_id).where(
        outcomes.c.run_id == run_id,
        outcomes.c.outcome == Outcome.RETRY_PENDING,
        ~has_departed(outcomes.c.message_id),
        ~again.exists(),
    )
    yield Protection.RETRY_PENDING, pending.exists()
    answers = approvals.alias()
    last = select(func.max(answers.c.seq)).where(answers.c.run_id == run_id)
    asked = select(approvals.c.seq).where(
        approvals.c.seq == last.correlate(runs).scalar_subquery(), approvals.c.decision == "asked"
    )
    yield Protection.APPROVAL, asked.exists()
    kept = select(snapshots.c.run_id).where(
        snapshots.c.run_id == run_id, snapshots.c.pruned_at.is_(None)
    )
    yield Protection.SNAPSHOT, kept.exists()
    copies = select(archive.c.message_id).where(archive.c.run_id == run_id, is_unpruned())
    yield Protection.COPIES, copies.exists()
    yield Protection.NEWEST, or_(*(run_id.in_(newest) for newest in _newest()))


def _is_unfinished() -> ColumnElement[bool]:
    """Return the condition that a run has neither closed its account nor found that it has no work.

    A run that waits for work is not in the ledger yet.
    """
    closed = select(sightings.c.run_id).where(sightings.c.run_id == runs.c.run_id)
    seen = looks.alias()
    last = select(func.max(seen.c.seq)).where(seen.c.run_id == runs.c.run_id)
    idle = select(looks.c.seq).where(
        looks.c.seq == last.correlate(runs).scalar_subquery(), ~looks.c.is_work
    )
    begun = [
        select(table.c.run_id).where(table.c.run_id == runs.c.run_id).exists()
        for table in (snapshots, plans, passes, attempts, run_messages)
    ]
    return ~closed.exists() & (~idle.exists() | or_(*begun))


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
    handler = (runs.c.handler,)
    by_handler = *queue, *handler
    is_whole = runs.c.message_keys == ()
    is_real = is_whole & ~runs.c.dry_run
    started = select(runs.c.run_id)
    yield _last(started, by_handler, runs.c.started_at)
    yield _last(started.where(is_real, has_acted()), queue, runs.c.started_at)
    closed = select(runs.c.run_id).join(sightings, sightings.c.run_id == runs.c.run_id)
    for condition in (is_real, is_whole, runs.c.run_id != ""):
        yield _last(closed.where(condition), queue, sightings.c.at)
    passed = select(runs.c.run_id).join(passes, passes.c.run_id == runs.c.run_id)
    for places in (queue, (runs.c.queue_manager, runs.c.state_queue)):
        yield _last(passed, places, passes.c.seq)
    looked = select(runs.c.run_id).join(looks, looks.c.run_id == runs.c.run_id)
    yield _last(looked.where(looks.c.is_work), handler, looks.c.at)
    complete = (
        select(runs.c.run_id)
        .join(snapshots, snapshots.c.run_id == runs.c.run_id)
        .where(is_whole, snapshots.c.settled == 0)
    )
    yield _last(complete, queue, snapshots.c.taken_at)
    for table in (approvals, alerts):
        told = select(runs.c.run_id).join(table, table.c.run_id == runs.c.run_id)
        yield _last(told, by_handler, table.c.seq)


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
            .join(runs, runs.c.run_id == table.c.run_id)
            .join(run_messages, run_messages.c.message_id == table.c.message_id)
            .where(scope, has_left, run_messages.c.run_id != table.c.run_id)
            .distinct()
        )
        pairs |= {(row.run_id, row.other) for row in connection.execute(query)}
    for one, other in ((learned.c.of_run, learned.c.run_id), (learned.c.run_id, learned.c.of_run)):
        query = select(one.label("run_id"), other.label("other")).join(runs, runs.c.run_id == one)
        found = connection.execute(query.where(scope, one != other).distinct())
        pairs |= {(row.run_id, row.other) for row in found}
    return pairs


def is_unpruned() -> ColumnElement[bool]:
    """Return the condition that no prune has begun to remove an archive copy."""
    gone = select(pruned_copies.c.run_id).where(
        pruned_copies.c.run_id == archive.c.run_id,
        pruned_copies.c.message_id == archive.c.message_id,
    )
    return ~gone.exists()


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
    found: dict[int, Protection] = {}
    for row in connection.execute(held_copies(run_id)):
        found[row.message_id] = Protection.HOLD
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
        .join(restorations, restorations.c.restoration_id == states.c.restoration_id)
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


class PrunedOutcome(NamedTuple):
    """How many messages of a pruned run had this outcome by this rule.

    `is_settled` counts the settled messages of its snapshot.
    """

    run_id: str
    is_settled: bool
    outcome: Outcome
    rule: int
    action: str
    target_q: str
    target_q_mgr: str
    messages: int


def record_runs(connection: Connection, prune_id: int, run_ids: Sequence[str]) -> None:
    """Record runs and their totals as pruned; their approvals go to the audit, which stays."""
    if not run_ids:
        return
    own = {column.name for column in pruned_runs.c} - {"prune_id", "closed_at"}
    names = sorted(own)
    query = select(*(runs.c[name] for name in names), literal(prune_id), sightings.c.at).outerjoin(
        sightings, sightings.c.run_id == runs.c.run_id
    )
    connection.execute(
        insert(pruned_runs).from_select(
            [*names, "prune_id", "closed_at"], query.where(runs.c.run_id.in_(run_ids))
        )
    )
    keep_approvals(connection, run_ids)
    rows = [row._asdict() for row in count_outcomes(connection, run_ids)]
    for part in in_parts(rows):
        add(connection, pruned_outcomes, part)


def count_outcomes(connection: Connection, run_ids: Collection[str]) -> list[PrunedOutcome]:
    """Count the outcomes of runs; an outcome that was learned later replaces the booked one."""
    found: dict[tuple[Any, ...], int] = {}
    latest = {
        name: func.coalesce(learned.c[name], outcomes.c[name])
        for name in ("outcome", "target_q", "target_q_mgr")
    }
    kinds = [latest.get(name, outcomes.c[name]) for name in PrunedOutcome._fields[2:7]]
    own = (
        select(outcomes.c.run_id, *kinds, func.count())
        .outerjoin(
            learned,
            (learned.c.of_run == outcomes.c.run_id)
            & (learned.c.message_id == outcomes.c.message_id),
        )
        .group_by(outcomes.c.run_id, *kinds)
    )
    names = PrunedOutcome._fields[2:]
    settled = select(settled_outcomes.c.run_id, *(settled_outcomes.c[name] for name in names))
    for is_settled, query, run_id in (
        (False, own, outcomes.c.run_id),
        (True, settled, settled_outcomes.c.run_id),
    ):
        for some in in_parts(run_ids, KEYS_AT_ONCE):
            for row in connection.execute(query.where(run_id.in_(some))):
                first, *kind, number = row
                key = (first, is_settled, Outcome(kind[0]), *kind[1:])
                found[key] = found.get(key, 0) + int(number)
    return [PrunedOutcome._make([*key, number]) for key, number in found.items()]


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
    while True:
        with in_turn(engine) as connection:
            ids = _some_messages(connection, run_id)
            if not ids:
                _erase_rest(connection, run_id)
                return
            _erase_messages(connection, run_id, ids)


def _some_messages(connection: Connection, run_id: str) -> Sequence[int]:
    lots = select(settled_lots.c.lot_id).where(settled_lots.c.run_id == run_id)
    settled = select(settled_messages.c.message_id).where(settled_messages.c.lot_id.in_(lots))
    queries = (select(table.c.message_id).where(column == run_id) for table, column in OF_MESSAGE)
    for query in chain(queries, [settled]):
        if ids := connection.scalars(query.distinct().limit(KEYS_AT_ONCE)).all():
            return ids
    return []


def _erase_messages(connection: Connection, run_id: str, ids: Sequence[int]) -> None:
    for table, column in OF_MESSAGE:
        connection.execute(delete(table).where(column == run_id, table.c.message_id.in_(ids)))
    lots = select(settled_lots.c.lot_id).where(settled_lots.c.run_id == run_id)
    connection.execute(
        delete(settled_messages).where(
            settled_messages.c.lot_id.in_(lots), settled_messages.c.message_id.in_(ids)
        )
    )
    used: set[Any] = set()
    for column in _BY_MESSAGE:
        used |= set(connection.scalars(select(column).where(column.in_(ids))))
    if rest := set(ids) - used:
        for table in (identities, messages):
            connection.execute(delete(table).where(table.c.message_id.in_(rest)))


def _erase_rest(connection: Connection, run_id: str) -> None:
    for table, column in OF_RUN:
        connection.execute(delete(table).where(column == run_id))
    for table in (alerts, failures, runs):
        connection.execute(delete(table).where(table.c.run_id == run_id))


@dataclass(frozen=True, slots=True)
class PrunedRun:
    """A run whose rows were removed, or are being removed, by a prune at `at` with this policy."""

    run_id: str
    handler: str
    policy: str
    at: datetime


class OpenFile(NamedTuple):
    """A file of the archive from which a prune was to remove copies, and has not finished."""

    prune_id: int
    run_id: str
    location: str


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
            select(table.c.at).order_by(table.c.seq.desc()).limit(1)
            for table in (looks, attempts, restoration_states)
        ]
        latest.append(select(passes.c.started_at).order_by(passes.c.seq.desc()).limit(1))
        found = [self._moment(query) for query in latest]
        return max((at for at in found if at is not None), default=None)

    def last(self) -> Prune | None:
        """Return the last prune, or None."""
        columns = [prunes.c[field.name] for field in fields(Prune)]
        return self._one(Prune, select(*columns).order_by(prunes.c.at.desc()))

    def starts_since(self, since: datetime | None) -> list[datetime]:
        """Return when runs started after a time, or all of them, in order."""
        query = select(runs.c.started_at).order_by(runs.c.started_at)
        return list(
            self._values(query if since is None else query.where(runs.c.started_at > since))
        )

    def trusted_until(self) -> datetime | None:
        """Return the latest time of a record for which a person confirmed the clock, or None."""
        return self._moment(select(func.max(prunes.c.trusted_until)))

    def begin(self, prune: Prune) -> int:
        """Record a prune; return its number."""
        with self._engine.begin() as connection:
            return inserted(connection, prunes, asdict(prune))

    # -- archive copies

    def runs_with_copies(self, handler: str, before: datetime) -> list[str]:
        """Return the runs of a handler that made copies before a time, oldest first.

        Runs without a copy that a prune could remove are left out.
        """
        query = (
            select(archive.c.run_id)
            .join(runs, runs.c.run_id == archive.c.run_id)
            .where(runs.c.handler == handler, archive.c.at < before, is_unpruned())
            .group_by(archive.c.run_id)
            .order_by(func.min(archive.c.at), archive.c.run_id)
        )
        return list(self._values(query))

    def protected_copies(self, run_id: str, before: datetime) -> dict[int, Protection]:
        """Return which archived messages of a run must be kept (see `protections`)."""
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
            rows = [
                {"run_id": run_id, "message_id": one, "prune_id": prune_id}
                for one in sorted(chosen)
            ]
            add(connection, pruned_copies, rows)
        return chosen

    def open_files(self) -> list[OpenFile]:
        """Return the files that a prune was to change, and has not recorded as changed."""
        done = select(pruned_files.c.prune_id).where(
            pruned_files.c.prune_id == pruned_copies.c.prune_id,
            pruned_files.c.location == archive.c.location,
        )
        query = (
            select(pruned_copies.c.prune_id, archive.c.run_id, archive.c.location)
            .join(
                archive,
                (archive.c.run_id == pruned_copies.c.run_id)
                & (archive.c.message_id == pruned_copies.c.message_id),
            )
            .where(~done.exists())
            .distinct()
            .order_by(pruned_copies.c.prune_id, archive.c.location)
        )
        return [OpenFile(**row) for row in self._all(query)]

    def pruned_in(self, run_id: str, location: str) -> set[int]:
        """Return which messages' copies any prune was to remove from a file."""
        query = (
            select(pruned_copies.c.message_id)
            .join(
                archive,
                (archive.c.run_id == pruned_copies.c.run_id)
                & (archive.c.message_id == pruned_copies.c.message_id),
            )
            .where(archive.c.run_id == run_id, archive.c.location == location)
        )
        return set(self._values(query))

    def finish_file(self, prune_id: int, location: str, at: datetime) -> None:
        """Record that a prune has removed its copies from a file, once."""
        with in_turn(self._engine) as connection:
            known = select(pruned_files.c.at).where(
                pruned_files.c.prune_id == prune_id, pruned_files.c.location == location
            )
            if connection.execute(known).first() is None:
                values = {"prune_id": prune_id, "location": location, "at": at}
                connection.execute(insert(pruned_files), values)

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
        """Delete all rows of a run but its totals (see `erasure`)."""
        erase_run(self._engine, run_id)

    def pruned_run(self, run_id: str) -> PrunedRun | None:
        """Return a run that a prune has removed or is removing, or None."""
        columns = [
            (prunes if name in {"policy", "at"} else pruned_runs).c[name]
            for name in PrunedRun.__slots__
        ]
        query = select(*columns).join(prunes, prunes.c.prune_id == pruned_runs.c.prune_id)
        return self._one(PrunedRun, query.where(pruned_runs.c.run_id == run_id))

    def outcomes_of(self, run_id: str) -> list[PrunedOutcome]:
        """Return the outcomes of a pruned run by number."""
        query = select(pruned_outcomes).where(pruned_outcomes.c.run_id == run_id)
        return [PrunedOutcome(**row) for row in self._all(query)]

    def history(self, names: Sequence[str], at_once: int) -> Iterator[Sequence[Row[Any]]]:
        """Yield columns of the totals of all pruned runs, without settled messages."""
        held = {column.name: column for column in (*pruned_runs.c, *pruned_outcomes.c)}
        query = (
            select(*(held[name] for name in names))
            .join_from(pruned_outcomes, pruned_runs)
            .where(~pruned_outcomes.c.is_settled)
        )
        with self._stream(query) as rows:
            yield from rows.partitions(at_once)
