"""Prunes: what they were to remove, what they have removed, and the totals that stay."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import func, insert, select

from mqdlq.ledger.database import Repository, add, in_parts, in_turn, inserted
from mqdlq.ledger.retention.erasure import erase_run
from mqdlq.ledger.retention.protections import (
    Protection,
    closed_before,
    is_unpruned,
    links,
    protected_copies,
    protected_runs,
)
from mqdlq.ledger.retention.totals import (
    HistoryTotal,
    PrunedOutcome,
    count_outcomes,
    record_runs,
)
from mqdlq.ledger.tables.messages import (
    archive,
    attempts,
    restoration_states,
)
from mqdlq.ledger.tables.retention import (
    holds,
    pruned_copies,
    pruned_files,
    pruned_outcomes,
    pruned_runs,
    prunes,
)
from mqdlq.ledger.tables.runs import looks, passes, runs, sightings, snapshots


@dataclass(frozen=True, slots=True)
class Prune:
    """A prune by the policy of a handler, in words; `who` is a person or "the schedule".

    `trusted_until` is the time of the newest record for which that person confirmed the clock.
    """

    handler: str
    policy: str
    who: str
    at: datetime
    trusted_until: datetime | None = None


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

    def history(self, at_once: int) -> Iterator[list[HistoryTotal]]:
        """Yield the totals of all pruned runs, without settled messages, some at a time."""
        held = {column.name: column for column in (*pruned_runs.c, *pruned_outcomes.c)}
        query = (
            select(*(held[name] for name in HistoryTotal._fields))
            .join_from(pruned_outcomes, pruned_runs)
            .where(~pruned_outcomes.c.is_settled)
        )
        with self._stream(query) as rows:
            for part in rows.partitions(at_once):
                yield [HistoryTotal._make(row) for row in part]
