"""Snapshots: which runs took them, where they are, and why their messages are dead letters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, select, update

from mqdlq.causes import Cause, CountedCause
from mqdlq.ledger.database import Repository, columns_of, in_parts, in_turn
from mqdlq.ledger.reading.causes import counted_cause, row_of
from mqdlq.ledger.runs import Run, has_acted, is_beside, is_on_queue, whole_runs_before
from mqdlq.ledger.tables.runs import causes, runs, sightings, snapshots


@dataclass(frozen=True, slots=True)
class TakenSnapshot:
    """A snapshot that a run works on: where it is, and how many messages it has.

    `settled` of them have compact rows.
    """

    run_id: str
    snapshot_id: str
    location: str
    messages: int
    taken_at: datetime
    settled: int = 0


class Snapshots(Repository):
    """Snapshots of runs, the causes found in them, and which of them were pruned."""

    def record(self, snapshot: TakenSnapshot) -> None:
        """Record the snapshot a run works on.

        Raises sqlalchemy.exc.IntegrityError if the run has one.
        """
        self._add(snapshots, asdict(snapshot))

    def of_run(self, run_id: str) -> TakenSnapshot | None:
        """Return a run's snapshot, or None."""
        return self._one(TakenSnapshot, taken_snapshots().where(snapshots.c.run_id == run_id))

    def not_settled(self) -> dict[str, str]:
        """Return the snapshots of runs that have not made their last browse: id to run id."""
        settled = select(sightings.c.run_id)
        query = select(snapshots).where(snapshots.c.run_id.not_in(settled))
        return {row["snapshot_id"]: row["run_id"] for row in self._all(query)}

    def taken_between(
        self, queue_manager: str, queue: str, start: datetime, end: datetime
    ) -> list[TakenSnapshot]:
        """Return the snapshots taken of a queue from `start` up to `end`, oldest first.

        Snapshots that backfills put together do not count: nobody browsed the queue for them.
        """
        query = (
            taken_snapshots()
            .join(runs, runs.c.run_id == snapshots.c.run_id)
            .where(
                is_on_queue(queue_manager, queue),
                runs.c.run_type != "backfill",
                snapshots.c.taken_at >= start,
                snapshots.c.taken_at < end,
            )
            .order_by(snapshots.c.taken_at)
        )
        return [TakenSnapshot(**row) for row in self._all(query)]

    def last_complete(self, run: Run) -> datetime | None:
        """Return when another run last took a snapshot of the run's queue without compact rows.

        A snapshot for named messages does not count: it has no current row of other messages.
        """
        query = (
            select(func.max(snapshots.c.taken_at))
            .join(runs, runs.c.run_id == snapshots.c.run_id)
            .where(
                is_beside(run),
                runs.c.message_keys == (),
                snapshots.c.settled == 0,
            )
        )
        return self._moment(query)

    def record_pruned(self, snapshot_ids: Iterable[str], at: datetime) -> None:
        """Record snapshots as pruned, before they are; a recorded one stays as it is."""
        with in_turn(self._engine) as connection:
            for some in in_parts(snapshot_ids):
                is_meant = snapshots.c.snapshot_id.in_(some) & snapshots.c.pruned_at.is_(None)
                connection.execute(update(snapshots).where(is_meant).values(pruned_at=at))

    def pruned_at(self, run_id: str) -> datetime | None:
        """Return when the snapshot of a run was pruned, None if it was not."""
        return self._moment(select(snapshots.c.pruned_at).where(snapshots.c.run_id == run_id))

    def record_causes(self, run_id: str, found: Iterable[CountedCause]) -> None:
        """Record why the messages of a run's snapshot are dead letters, once."""
        if not self.causes(run_id):
            self._add(causes, *({"run_id": run_id, **row_of(counted)} for counted in found))

    def causes(self, run_id: str) -> list[CountedCause]:
        """Return why the messages of a run's snapshot are dead letters, most frequent first.

        Causes without a destination come last.
        """
        query = select(causes).where(causes.c.run_id == run_id)
        is_of_several = causes.c.dest_q_name.is_(None)
        names = (causes.c.reason, causes.c.dest_q_name, causes.c.cause_id)
        query = query.order_by(is_of_several, causes.c.messages.desc(), *names)
        return [counted_cause(row) for row in self._all(query)]

    def new_causes(self, run: Run) -> list[CountedCause]:
        """Return the causes of a run that no earlier run met on its queue, most frequent first.

        Only causes of dead letters count. A cause is not new if an earlier run may have met it: if
        the run met the reason at destinations that the ledger does not know.
        """
        earlier = _met_causes().where(is_beside(run), runs.c.started_at <= run.started_at)
        return self._causes_beyond(run.run_id, earlier)

    def causes_never_acted_on(self, run: Run, snapshot_of: str) -> list[CountedCause]:
        """Return the causes in a run's snapshot that no other run for the queue acted on.

        The snapshot may be that of an earlier run on the queue of `run`, which has not begun.
        A run without a required approval did not act. The same causes count as in `new_causes`,
        without messages that an earlier run has settled.
        """
        acted = whole_runs_before(_met_causes(), run).where(has_acted())
        found = self._causes_beyond(snapshot_of, acted)
        return [one for one in found if one.messages > one.settled]

    def _causes_beyond(self, run_id: str, earlier: Select[Any]) -> list[CountedCause]:
        known = {(row["reason"], row["cause_id"]) for row in self._all(earlier)}
        reasons = {reason for reason, _ in known}

        def is_new(cause: Cause) -> bool:
            if not cause.cause_id:
                return cause.reason not in reasons
            return not known & {(cause.reason, cause.cause_id), (cause.reason, "")}

        found = self.causes(run_id)
        return [one for one in found if one.cause.is_of_dead_letters and is_new(one.cause)]


def taken_snapshots() -> Select[Any]:
    """Select the snapshots of runs, for `TakenSnapshot`."""
    return select(*columns_of(snapshots, TakenSnapshot))


def _met_causes() -> Select[Any]:
    """Select the causes that runs met, each once."""
    columns = select(causes.c.reason, causes.c.cause_id)
    return columns.join(runs, runs.c.run_id == causes.c.run_id).distinct()
