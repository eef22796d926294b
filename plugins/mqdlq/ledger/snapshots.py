"""Snapshots of runs, the messages that later runs skip as settled, and the accepted plans.

No run has to act on a settled message while the rules stay the same. Later snapshots record it
in a compact row, and their runs book its outcome by number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import count
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, RowMapping, Select, func, insert, select, update

from mqdlq.causes import Cause, CountedCause
from mqdlq.ledger.database import (
    ROWS_AT_ONCE,
    Repository,
    add,
    columns_of,
    in_parts,
    in_turn,
    inserted,
)
from mqdlq.ledger.messages import has_departed, outcome_row
from mqdlq.ledger.runs import has_acted, is_beside, is_on_queue, whole_runs_before
from mqdlq.ledger.tables import (
    AcceptedPlan,
    Approval,
    Ending,
    OutcomeFact,
    Run,
    TakenSnapshot,
    approvals,
    attempt_states,
    causes,
    messages,
    outcomes,
    passes,
    plans,
    run_messages,
    runs,
    settled_lots,
    settled_messages,
    settled_outcomes,
    sightings,
    snapshots,
)
from mqdlq.model import GIVEN_ACTION, AttemptState, Disposition, MessageClass

_COUNTS: Final = ("messages", "settled", "queues", "first_at", "last_at")


class Snapshots(Repository):
    """Snapshots of runs, the causes found in them, and which of them were pruned."""

    def record(self, snapshot: TakenSnapshot) -> None:
        """Record the snapshot a run works on.

        Raises sqlalchemy.exc.IntegrityError if the run has one.
        """
        self._add(snapshots, asdict(snapshot))

    def of_run(self, run_id: str) -> TakenSnapshot | None:
        return self._one(TakenSnapshot, taken_snapshots().where(snapshots.c.run_id == run_id))

    def not_settled(self) -> dict[str, str]:
        """Return the snapshots of runs that have not made their last browse: id to run id."""
        is_open = snapshots.c.run_id.not_in(select(sightings.c.run_id))
        return self._map(select(snapshots.c.snapshot_id, snapshots.c.run_id).where(is_open))

    def taken_between(
        self, queue_manager: str, queue: str, start: datetime, end: datetime
    ) -> list[TakenSnapshot]:
        """Return the snapshots taken of a queue from `start` up to `end`, oldest first.

        Snapshots that backfills put together do not count: nobody browsed the queue for them.
        """
        query = (
            taken_snapshots()
            .join(runs)
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
        is_complete = (runs.c.message_keys == ()) & (snapshots.c.settled == 0)
        query = select(func.max(snapshots.c.taken_at)).join(runs)
        return self._moment(query.where(is_beside(run), is_complete))

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
            self._add(causes, *({"run_id": run_id, **_row_of(counted)} for counted in found))

    def causes(self, run_id: str) -> list[CountedCause]:
        """Return why the messages of a run's snapshot are dead letters, most frequent first.

        Causes without a destination come last.
        """
        query = select(causes).where(causes.c.run_id == run_id)
        is_of_several = causes.c.dest_q_name.is_(None)
        names = (causes.c.reason, causes.c.dest_q_name, causes.c.cause_id)
        query = query.order_by(is_of_several, causes.c.messages.desc(), *names)
        return [
            CountedCause(cause_in_row(row), **{name: row[name] for name in _COUNTS})
            for row in self._all(query)
        ]

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
        known = {(row.reason, row.cause_id) for row in self._rows(earlier)}
        reasons = {reason for reason, _ in known}

        def is_new(cause: Cause) -> bool:
            if not cause.cause_id:
                return cause.reason not in reasons
            return not known & {(cause.reason, cause.cause_id), (cause.reason, "")}

        found = self.causes(run_id)
        return [one for one in found if one.cause.is_of_dead_letters and is_new(one.cause)]


def cause_in_row(row: RowMapping) -> Cause:
    """Return the cause of a row of `causes`."""
    cls = MessageClass(row["message_class"])
    return Cause(cls, row["reason"], row["dest_q_name"], row["dest_q_mgr_name"])


def _row_of(counted: CountedCause) -> dict[str, Any]:
    """Return the row of a counted cause, without its run."""
    cause = counted.cause
    return {
        "reason": cause.reason,
        "cause_id": cause.cause_id,
        "message_class": str(cause.cls),
        "dest_q_name": cause.dest_q_name,
        "dest_q_mgr_name": cause.dest_q_mgr_name,
        **{name: getattr(counted, name) for name in _COUNTS},
    }


def taken_snapshots() -> Select[Any]:
    """Select the snapshots of runs, for `TakenSnapshot`."""
    return select(*columns_of(snapshots, TakenSnapshot))


def _met_causes() -> Select[Any]:
    """Select the causes that runs met, each once."""
    return select(causes.c.reason, causes.c.cause_id).join(runs).distinct()


@dataclass(frozen=True, slots=True)
class SettledLot:
    """Messages settled in the same way: the snapshot with their full rows, and their outcome."""

    lot_id: int
    snapshot_id: str
    settled: Ending


class SettledMessage(NamedTuple):
    """A settled message."""

    message_key: bytes
    message_id: int
    occurrence: int
    lot_id: int


class SettledMessages(Repository):
    """Messages that runs have settled, in lots of messages settled in the same way."""

    def record(
        self, run_id: str, snapshot_id: str, found: Iterable[tuple[int, bool, Ending]]
    ) -> None:
        """Record the messages that a run has settled, (message_id, needs_carry, ending) each.

        `needs_carry`: they are settled for runs that carry attempts on only. The second call for a
        run does nothing.
        """
        lots: dict[tuple[bool, Ending], list[int]] = {}
        for message_id, needs_carry, ending in found:
            lots.setdefault((needs_carry, ending), []).append(message_id)
        with in_turn(self._engine) as connection:  # it reads first: SQLite would not let it wait
            known = select(settled_lots.c.run_id).where(settled_lots.c.run_id == run_id).limit(1)
            if connection.execute(known).first() is not None:
                return
            for (needs_carry, settled), ids in lots.items():
                values = {"run_id": run_id, "snapshot_id": snapshot_id, "needs_carry": needs_carry}
                lot = inserted(connection, settled_lots, {**values, **asdict(settled)})
                for some in in_parts(ids, ROWS_AT_ONCE):
                    rows = [{"lot_id": lot, "message_id": one} for one in some]
                    connection.execute(insert(settled_messages), rows)

    def lots_for(self, run: Run) -> list[SettledLot]:
        """Return the lots that count as settled for this run too, oldest first.

        Runs on its queue have settled them since the last complete snapshot, by the same rules
        in the same reading. An action given for named messages is not rules, though it may read
        like a table of one rule: its messages are settled for no run.
        """
        since = Snapshots(self._engine).last_complete(run)
        if since is None or run.has_given_action:
            return []
        how = columns_of(settled_lots, Ending)
        query = (
            select(settled_lots.c.lot_id, settled_lots.c.snapshot_id, *how)
            .select_from(settled_lots.join(runs).join(snapshots))
            .where(
                is_beside(run),
                runs.c.rules_digest == run.rules_digest,
                runs.c.rules_source != GIVEN_ACTION,
                runs.c.nul_as_blank == run.nul_as_blank,
                snapshots.c.taken_at >= since,
            )
            .order_by(settled_lots.c.lot_id)
        )
        if not run.carry_attempts:
            query = query.where(~settled_lots.c.needs_carry)
        found = self._rows(query)
        return [SettledLot(lot, snapshot_id, Ending(*how)) for lot, snapshot_id, *how in found]

    def of_lot(self, lot: SettledLot) -> Iterator[list[SettledMessage]]:
        """Yield the messages of a lot that have not departed since, some thousands at a time."""
        query = (
            select(
                messages.c.message_key,
                messages.c.message_id,
                messages.c.occurrence,
                settled_messages.c.lot_id,
            )
            .join_from(settled_messages, messages)
            .where(settled_messages.c.lot_id == lot.lot_id, ~has_departed(messages.c.message_id))
        )
        with self._stream(query) as rows:
            for part in rows.partitions():
                yield [SettledMessage._make(row) for row in part]

    def book(
        self,
        run_id: str,
        counts: Mapping[Ending, int],
        vanished: Iterable[tuple[int, Disposition, OutcomeFact]],
        at: datetime,
    ) -> None:
        """Book the outcomes of settled messages by number, and list the vanished messages.

        Vanished messages become the run's own: they come as (browse_seq, disposition, outcome). All
        is one transaction. Raises sqlalchemy.exc.IntegrityError if the run's settled messages are
        booked already.
        """
        listed, ended = [], []
        for browse_seq, disposition, fact in vanished:
            place = {"browse_seq": browse_seq, "disposition": disposition}
            listed.append({"run_id": run_id, "message_id": fact.message_id, **place})
            ended.append(outcome_row(run_id, fact))
        rows = [
            {"run_id": run_id, "messages": number, "at": at, **asdict(settled)}
            for settled, number in counts.items()
            if number
        ]
        with self._engine.begin() as connection:
            add(connection, run_messages, listed)
            add(connection, outcomes, ended)
            add(connection, settled_outcomes, rows)

    def outcomes(self, run_id: str) -> dict[Ending, int]:
        """Count the outcomes of a run's settled messages; empty before they are booked."""
        columns = [*columns_of(settled_outcomes, Ending), settled_outcomes.c.messages]
        query = select(*columns).where(settled_outcomes.c.run_id == run_id)
        with self._stream(query) as rows:
            return {Ending(*settled): number for *settled, number in rows}


Place = tuple[bytes, int]  # a message key and its occurrence
Known = Mapping[Place, tuple[int | None, int]]


class Plans(Repository):
    """Accepted plans, and the approvals that were asked for them."""

    def record(
        self,
        run: Run,
        plan: AcceptedPlan,
        rows: Iterable[tuple[int, bytes, Disposition]],
        settled: Mapping[bytes, Collection[int]] | None = None,
    ) -> None:
        """Record an accepted plan and its messages, (browse_seq, message_key, disposition) each.

        The k-th of equal keys is the k-th occurrence that has not departed and is not `settled`; if
        there are fewer, it is a new one. A message whose last residence on the queue
        ended (it was delivered, forwarded, discarded, taken, or expired) is back in a new one.
        All of it is one transaction. Raises sqlalchemy.exc.IntegrityError if the run has a plan.
        """
        given = _Occurrences(settled or {})
        with in_turn(self._engine) as connection:
            connection.execute(insert(plans), asdict(plan))
            for part in in_parts(rows):
                known = _known(connection, run, {key for _, key, _ in part})
                here = _still_here(connection, known)
                places = [(key, given.next_of(key, here.get(key, ()))) for _, key, _ in part]
                ids = _message_ids(connection, run, places, known)
                listed = [
                    {
                        "run_id": run.run_id,
                        "message_id": ids[place],
                        "browse_seq": browse_seq,
                        "disposition": disposition,
                    }
                    for place, (browse_seq, _, disposition) in zip(places, part, strict=True)
                ]
                connection.execute(insert(run_messages), listed)

    def of_run(self, run_id: str) -> AcceptedPlan | None:
        return self._one(AcceptedPlan, select(plans).where(plans.c.run_id == run_id))

    def other_runs_with(self, plan_id: str, run_id: str) -> list[str]:
        """Return the ids of other runs that have begun a pass by this very plan, oldest first."""
        begun = select(passes.c.seq).where(passes.c.run_id == plans.c.run_id)
        query = (
            select(plans.c.run_id)
            .join(runs, runs.c.run_id == plans.c.run_id)
            .where(plans.c.plan_id == plan_id, plans.c.run_id != run_id, begun.exists())
            .order_by(runs.c.started_at)
        )
        return list(self._values(query))

    def record_approval(self, run_id: str, approval: Approval) -> None:
        """Record that a person was asked about a plan, or what the answer was."""
        self._add(approvals, {"run_id": run_id, **asdict(approval)})

    def last_approval(self, run_id: str) -> Approval | None:
        """Return the last question or answer about a run's plan; None if nobody was asked."""
        query = select(*columns_of(approvals, Approval)).where(approvals.c.run_id == run_id)
        return self._one(Approval, query.order_by(approvals.c.seq.desc()))

    def open_question(self, run: Run) -> tuple[str, int] | None:
        """Return what another run of the handler asked last, by these rules, if it is unanswered.

        Returns the DAG run, and how many messages its snapshot has. Only runs count that act on the
        whole of this run's queue. Airflow knows whether anybody still waits for the answer.
        """
        query = (
            select(approvals.c.decision, runs.c.dag_run_id, snapshots.c.messages)
            .select_from(approvals.join(runs).join(snapshots, snapshots.c.run_id == runs.c.run_id))
            .where(
                is_beside(run),
                runs.c.handler == run.handler,
                runs.c.rules_digest == run.rules_digest,
                runs.c.message_keys == (),
            )
            .order_by(approvals.c.seq.desc())
        )
        row = self._first(query)
        if row is None or row["decision"] != "asked":
            return None
        return row["dag_run_id"], row["messages"]

    def count_open_questions(self, run: Run, since: datetime) -> int:
        """Count the other runs of the handler on this queue whose last question is unanswered.

        Questions asked before `since` do not count.
        """
        newest = (
            select(func.max(approvals.c.seq))
            .join(runs)
            .where(is_beside(run), runs.c.handler == run.handler)
            .group_by(approvals.c.run_id)
        )
        query = select(func.count()).where(
            approvals.c.seq.in_(newest), approvals.c.decision == "asked", approvals.c.at >= since
        )
        return self._count(query)


class _Occurrences:
    """Which occurrence each sighting of a key is: those still here first, then new ones.

    Nearly all keys are met once: an iterator is made for the others only.
    """

    def __init__(self, settled: Mapping[bytes, Collection[int]]) -> None:
        self._settled = settled
        self._given: dict[bytes, int | Iterator[int]] = {}

    def next_of(self, key: bytes, here: Sequence[int]) -> int:
        """Return the occurrence of the next sighting; `here` lists those still on the queue."""
        given = self._given.get(key)
        if not isinstance(given, Iterator):
            taken = {given, *self._settled.get(key, ())}
            rest = _untaken(here, taken)
            occurrence = next(rest)
            self._given[key] = occurrence if given is None else rest
            return occurrence
        return next(given)


def _untaken(here: Sequence[int], taken: Collection[int | None]) -> Iterator[int]:
    first = [occurrence for occurrence in here if occurrence not in taken]
    yield from first
    yield from (other for other in count() if other not in taken and other not in first)


def _still_here(connection: Connection, known: Known) -> dict[bytes, list[int]]:
    """Return by key which occurrences have not departed, those in doubt last, as a browse does."""
    here: dict[bytes, list[tuple[int, int]]] = defaultdict(list)
    for (key, occurrence), (message_id, _) in known.items():
        if message_id is not None:
            here[key].append((occurrence, message_id))
    of_twins = [message_id for twins in here.values() if len(twins) > 1 for _, message_id in twins]
    doubt = _in_doubt(connection, of_twins) if of_twins else frozenset[int]()
    return {
        key: [occurrence for occurrence, _ in sorted(twins, key=lambda t: (t[1] in doubt, t[0]))]
        for key, twins in here.items()
    }


def _in_doubt(connection: Connection, message_ids: Sequence[int]) -> Collection[int]:
    """Return which of these messages are in a unit of work that nobody could settle."""
    found: set[int] = set()
    for some in in_parts(message_ids):
        query = select(attempt_states.c.message_id).where(
            attempt_states.c.message_id.in_(some), attempt_states.c.state == AttemptState.UNKNOWN
        )
        found.update(connection.scalars(query))
    return found


def _message_ids(
    connection: Connection, run: Run, places: Sequence[Place], known: Known
) -> dict[Place, int]:
    """Return the ids of messages by place; add messages that are new or in a new residence."""
    here = {"queue_manager": run.queue_manager, "queue": run.queue}
    added = []
    for key, occurrence in places:
        message_id, residence = known.get((key, occurrence), (None, 0))
        if message_id is None:
            place = {"message_key": key, "occurrence": occurrence, "residence": residence}
            added.append({**here, **place})
    if added:
        add(connection, messages, added)
        known = _known(connection, run, {key for key, _ in places})
    return {place: found for place, (found, _) in known.items() if found}


def _known(connection: Connection, run: Run, keys: set[bytes]) -> Known:
    """Map known places to (message id, residence), or to (None, next residence) if it ended."""
    query = (
        select(messages, has_departed(messages.c.message_id).label("departed"))
        .where(
            messages.c.queue_manager == run.queue_manager,
            messages.c.queue == run.queue,
            messages.c.message_key.in_(keys),
        )
        .order_by(messages.c.residence)
    )
    return {
        (row.message_key, row.occurrence): (
            (None, row.residence + 1) if row.departed else (row.message_id, row.residence)
        )
        for row in connection.execute(query)
    }
