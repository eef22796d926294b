"""Find in the ledger what a prune must keep, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Self

from sqlalchemy import ColumnElement, Connection, Select, func, or_, select

from mqdlq.ledger.attempts import COUNTED
from mqdlq.ledger.controls.ramps import open_breakers
from mqdlq.ledger.messages import has_departed
from mqdlq.ledger.retention.holds import held_copies, held_runs
from mqdlq.ledger.runs import has_acted
from mqdlq.ledger.tables.messages import (
    archive,
    attempt_states,
    attempts,
    learned,
    leases,
    outcomes,
    restoration_states,
    restorations,
    run_messages,
)
from mqdlq.ledger.tables.retention import pruned_copies, pruned_runs
from mqdlq.ledger.tables.runs import (
    alerts,
    approvals,
    looks,
    passes,
    plans,
    runs,
    sightings,
    snapshots,
)
from mqdlq.model import DEPARTED, AttemptState, Outcome, RestorationState


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
