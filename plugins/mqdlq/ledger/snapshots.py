"""Snapshots of runs, the messages that later runs skip as settled, and the accepted plans.

No run has to act on a settled message while the rules stay the same. Later snapshots record it
in a compact row, and their runs book its outcome by number.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from itertools import count
from types import MappingProxyType
from typing import Any, Final

import sqlalchemy as sa

from mqdlq.causes import Cause, CountedCause
from mqdlq.ledger import tables as t
from mqdlq.ledger.database import (
    ROWS_AT_ONCE,
    Condition,
    Repository,
    Row,
    add,
    add_many,
    columns_of,
    in_parts,
    in_turn,
    inserted,
    is_last,
    is_on,
    select_records,
)
from mqdlq.ledger.messages import book, has_departed, is_at, lots_of, run_number
from mqdlq.ledger.runs import IS_FOR_ALL, has_acted, is_beside, whole_runs_before
from mqdlq.model import GIVEN_ACTION, AttemptState, Disposition, MessageClass

_COUNTS: Final = ("messages", "settled", "queues", "first_at", "last_at")


class Snapshots(Repository):
    """Snapshots of runs, the causes found in them, and which of them were pruned."""

    def record(self, snapshot: t.TakenSnapshot) -> None:
        """Record the snapshot a run works on; raise IntegrityError if the run has one."""
        self._add(t.snapshots, asdict(snapshot))

    def of_run(self, run_id: str) -> t.TakenSnapshot | None:
        return self._of_run(t.snapshots, t.TakenSnapshot, run_id)

    def not_settled(self) -> dict[str, str]:
        """Return the snapshots of runs that have not made their last browse: id to run id."""
        is_open = t.snapshots.c.run_id.not_in(sa.select(t.sightings.c.run_id))
        return self._map(sa.select(*t.snapshots.c["snapshot_id", "run_id"]).where(is_open))

    def taken_between(
        self, queue_manager: str, queue: str, start: datetime, end: datetime
    ) -> list[t.TakenSnapshot]:
        """Return the snapshots taken of a queue in a time, no backfills, oldest first."""
        at = t.snapshots.c.taken_at
        is_browsed = is_on(t.runs, queue_manager, queue) & (t.runs.c.run_type != "backfill")
        query = self.taken(is_browsed, (at >= start) & (at < end))
        return self._list(t.TakenSnapshot, query.order_by(at))

    @staticmethod
    def taken(*conditions: Condition) -> sa.Select[Any]:
        return select_records(t.snapshots, t.TakenSnapshot).join(t.runs).where(*conditions)

    def last_complete(self, run: t.Run) -> datetime | None:
        """Return when another run last took a snapshot of all messages, without compact rows."""
        query = sa.select(sa.func.max(t.snapshots.c.taken_at)).join(t.runs)
        return self._moment(query.where(is_beside(run), IS_FOR_ALL, t.snapshots.c.settled == 0))

    def record_pruned(self, snapshot_ids: Iterable[str], at: datetime) -> None:
        """Record snapshots as pruned, before they are; a recorded one stays as it is."""
        with in_turn(self._engine) as connection:
            for some in in_parts(snapshot_ids):
                is_meant = t.snapshots.c.snapshot_id.in_(some) & t.snapshots.c.pruned_at.is_(None)
                connection.execute(sa.update(t.snapshots).where(is_meant).values(pruned_at=at))

    def pruned_at(self, run_id: str) -> datetime | None:
        own = t.snapshots.c.run_id == run_id
        return self._moment(sa.select(t.snapshots.c.pruned_at).where(own))

    def record_causes(self, run_id: str, found: Iterable[CountedCause]) -> None:
        """Record why the messages of a run's snapshot are dead letters, once."""
        if not self.causes(run_id):
            self._add(t.causes, *({"run_id": run_id, **_row_of(counted)} for counted in found))

    def causes(self, run_id: str) -> list[CountedCause]:
        """Return the causes of a run, most frequent first, those without a destination last."""
        one = t.causes.c
        query = sa.select(t.causes).where(one.run_id == run_id)
        names = (one.reason, one.dest_q_name, one.cause_id)
        rows = self._rows(query.order_by(one.dest_q_name.is_(None), one.messages.desc(), *names))
        return [
            CountedCause(cause_in_row(row), **{name: getattr(row, name) for name in _COUNTS})
            for row in rows
        ]

    def new_causes(self, run: t.Run) -> list[CountedCause]:
        """Return the causes of a run that no earlier run met on its queue, most frequent first.

        Only causes of dead letters count. A cause is not new if an earlier run may have met it: if
        the run met the reason at destinations that the ledger does not know.
        """
        earlier = _met_causes().where(is_beside(run), t.runs.c.started_at <= run.started_at)
        return self._causes_beyond(run.run_id, earlier)

    def causes_never_acted_on(self, run: t.Run, snapshot_of: str) -> list[CountedCause]:
        """Return the causes in a run's snapshot that no other run for the queue acted on.

        The snapshot may be that of an earlier run on the queue of `run`, which has not begun.
        A run without a required approval did not act. The same causes count as in `new_causes`,
        without messages that an earlier run has settled.
        """
        acted = whole_runs_before(_met_causes(), run).where(has_acted())
        found = self._causes_beyond(snapshot_of, acted)
        return [one for one in found if one.messages > one.settled]

    def _causes_beyond(self, run_id: str, earlier: sa.Select[Any]) -> list[CountedCause]:
        known = {(row.reason, row.cause_id) for row in self._rows(earlier)}
        reasons = {reason for reason, _ in known}

        def is_new(cause: Cause) -> bool:
            if not cause.cause_id:
                return cause.reason not in reasons
            return not known & {(cause.reason, cause.cause_id), (cause.reason, "")}

        found = self.causes(run_id)
        return [one for one in found if one.cause.is_of_dead_letters and is_new(one.cause)]


CAUSE_IN_ROW: Final = t.causes.c["message_class", "reason", "dest_q_name", "dest_q_mgr_name"]
"""The columns that `cause_in_row` reads."""


def cause_in_row(row: Row) -> Cause:
    cls = MessageClass(row.message_class)
    return Cause(cls, row.reason, row.dest_q_name, row.dest_q_mgr_name)


def _row_of(counted: CountedCause) -> dict[str, Any]:
    cause = counted.cause
    return {
        "reason": cause.reason,
        "cause_id": cause.cause_id,
        "message_class": str(cause.cls),
        "dest_q_name": cause.dest_q_name,
        "dest_q_mgr_name": cause.dest_q_mgr_name,
        **{name: getattr(counted, name) for name in _COUNTS},
    }


def _met_causes() -> sa.Select[Any]:
    return sa.select(t.causes.c.reason, t.causes.c.cause_id).join(t.runs).distinct()


class SettledMessages(Repository):
    """Messages that runs have settled, in lots of messages settled in the same way."""

    def record(
        self, run_id: str, snapshot_id: str, found: Iterable[tuple[int, bool, t.Ending]]
    ) -> None:
        """Record the messages that a run has settled, once: (message_id, needs_carry, ending) each.

        `needs_carry`: they are settled for runs that carry attempts on only.
        """
        lots = defaultdict[tuple[bool, t.Ending], list[int]](list)
        for message_id, needs_carry, ending in found:
            lots[needs_carry, ending].append(message_id)
        with in_turn(self._engine) as connection:  # it reads first: SQLite would not let it wait
            known = sa.select(t.settled_lots.c.run_id).where(t.settled_lots.c.run_id == run_id)
            if connection.execute(known.limit(1)).first() is not None:
                return
            for (needs_carry, settled), ids in lots.items():
                values = {"run_id": run_id, "snapshot_id": snapshot_id, "needs_carry": needs_carry}
                lot = inserted(connection, t.settled_lots, {**values, **asdict(settled)})
                for some in in_parts(ids, ROWS_AT_ONCE):
                    rows = [{"lot_id": lot, "message_id": one} for one in some]
                    connection.execute(sa.insert(t.settled_messages), rows)

    def lots_for(self, run: t.Run) -> Sequence[Row]:
        """Return the lots that count as settled for this run too, oldest first.

        Each row has `lot_id`, `snapshot_id`, and the fields of the messages' `Ending`. Runs on its
        queue have settled them since the last complete snapshot, by the same rules in the same
        reading. An action given for named messages is not rules, though it may read like a table of
        one rule: its messages are settled for no run.
        """
        since = Snapshots(self._engine).last_complete(run)
        if since is None or run.has_given_action:
            return []
        lot = t.settled_lots.c
        query = (
            sa.select(lot.lot_id, lot.snapshot_id, *columns_of(t.settled_lots, t.Ending))
            .select_from(t.settled_lots.join(t.runs).join(t.snapshots))
            .where(
                is_beside(run),
                t.runs.c.rules_digest == run.rules_digest,
                t.runs.c.rules_source != GIVEN_ACTION,
                t.runs.c.nul_as_blank == run.nul_as_blank,
                t.snapshots.c.taken_at >= since,
            )
            .order_by(lot.lot_id)
        )
        return self._rows(query if run.carry_attempts else query.where(~lot.needs_carry))

    def of_lot(self, lot_id: int) -> Iterator[Sequence[Row]]:
        """Yield (message_key, message_id, occurrence) of a lot, in parts, if not departed."""
        query = (
            sa.select(*t.messages.c["message_key", "message_id", "occurrence"])
            .join_from(t.settled_messages, t.messages)
            .where(t.settled_messages.c.lot_id == lot_id, ~has_departed(t.messages.c.message_id))
        )
        with self._stream(query) as rows:
            yield from rows.partitions()

    def book(
        self,
        run_id: str,
        counts: Mapping[t.Ending, int],
        vanished: Iterable[tuple[int, Disposition, t.OutcomeFact]],
        at: datetime,
    ) -> None:
        """Book the outcomes of settled messages by number, and list the vanished messages.

        Vanished messages become the run's own: they come as (browse_seq, disposition, outcome). All
        is one transaction. Raises sqlalchemy.exc.IntegrityError if the run's settled messages are
        booked already.
        """
        gone = list(vanished)
        rows = [
            {"run_id": run_id, "messages": number, "at": at, **asdict(settled)}
            for settled, number in counts.items()
            if number
        ]
        with in_turn(self._engine) as connection:
            run_no = run_number(connection, run_id)
            listed = [
                {"run_no": run_no, "message_id": fact.message_id}
                | {"browse_seq": browse_seq, "disposition": disposition}
                for browse_seq, disposition, fact in gone
            ]
            add(connection, t.listed_messages, listed)
            book(connection, run_no, lots_of(fact for _, _, fact in gone))
            add(connection, t.settled_outcomes, rows)

    def outcomes(self, run_id: str) -> dict[t.Ending, int]:
        """Count the outcomes of a run's settled messages; empty before they are booked."""
        query = select_records(t.settled_outcomes, t.Ending)
        query = query.add_columns(t.settled_outcomes.c.messages)
        rows = self._rows(query.where(t.settled_outcomes.c.run_id == run_id))
        return {t.Ending(*settled): number for *settled, number in rows}


Place = tuple[bytes, int]  # a message key and its occurrence
Known = Mapping[Place, tuple[int | None, int]]

_PLACE: Final = ("queue_manager", "queue", "message_key", "occurrence", "residence")
_ADD: Final = sa.insert(t.messages)
_LISTED: Final = ("run_no", "browse_seq", "disposition")
_LIST: Final = sa.insert(t.listed_messages).from_select(
    [*_LISTED, "message_id"],
    sa.select(
        *(sa.bindparam(name, type_=t.listed_messages.c[name].type) for name in _LISTED),
        t.messages.c.message_id,
    ).where(*(t.messages.c[name] == sa.bindparam(name) for name in _PLACE)),
)
"""Lists the message at a place: the database finds its number, also if it was just added."""


class Plans(Repository):
    """Accepted plans, and the approvals that were asked for them."""

    def record(
        self,
        run: t.Run,
        plan: t.AcceptedPlan,
        rows: Iterable[tuple[int, bytes, Disposition]],
        settled: Mapping[bytes, Collection[int]] = MappingProxyType({}),
    ) -> None:
        """Record an accepted plan and its messages, (browse_seq, message_key, disposition) each.

        The k-th of equal keys is the k-th occurrence that has not departed and is not `settled`; if
        there are fewer, it is a new one. A message whose last residence on the queue
        ended (it was delivered, forwarded, discarded, taken, or expired) is back in a new one.
        All of it is one transaction. Raises sqlalchemy.exc.IntegrityError if the run has a plan.
        """
        with in_turn(self._engine) as connection:
            connection.execute(sa.insert(t.plans), asdict(plan))
            run_no = run_number(connection, run.run_id)
            for part in in_parts(rows, ROWS_AT_ONCE):
                known, taken = _known(connection, run, [key for _, key, _ in part])
                here = _still_here(connection, known)
                choices: dict[bytes, Iterator[int]] = {}
                added, listed = [], []
                for browse_seq, key, disposition in part:
                    if key not in choices:
                        others = (*taken.get(key, ()), *settled.get(key, ()))
                        new = (
                            _untaken(here.get(key, ()), others)
                            if key in here or others
                            else count()
                        )
                        choices[key] = new
                    occurrence = next(choices[key])
                    message_id, residence = known.get((key, occurrence), (None, 0))
                    place = (run.queue_manager, run.queue, key, occurrence, residence)
                    listed.append((*place, run_no, browse_seq, str(disposition)))
                    if message_id is None:
                        added.append(place)
                add_many(connection, _ADD, _PLACE, added)
                add_many(connection, _LIST, (*_PLACE, *_LISTED), listed)

    def of_run(self, run_id: str) -> t.AcceptedPlan | None:
        return self._of_run(t.plans, t.AcceptedPlan, run_id)

    def other_runs_with(self, plan_id: str, run_id: str) -> Sequence[str]:
        """Return the ids of other runs that have begun a pass by this very plan, oldest first."""
        plan = t.plans.c
        has_begun = sa.exists().where(t.passes.c.run_id == plan.run_id)
        query = sa.select(plan.run_id).join(t.runs, t.runs.c.run_id == plan.run_id)
        is_other = (plan.plan_id == plan_id) & (plan.run_id != run_id) & has_begun
        return self._values(query.where(is_other).order_by(t.runs.c.started_at))

    def before(self, run: t.Run) -> tuple[str, str] | None:
        """Return id and plan location of the last run for the whole queue before a run."""
        query = (
            sa.select(t.runs.c.run_id, t.plans.c.location)
            .join(t.plans, t.plans.c.run_id == t.runs.c.run_id)
            .where(is_on(t.runs, run.queue_manager, run.queue), t.runs.c.handler == run.handler)
            .where(IS_FOR_ALL, t.runs.c.started_at < run.started_at)
        )
        row = self._first(query.order_by(t.runs.c.started_at.desc()))
        return None if row is None else (row.run_id, row.location)

    def record_approval(self, run_id: str, approval: t.Approval) -> None:
        self._add(t.approvals, {"run_id": run_id, **asdict(approval)})

    def last_approval(self, run_id: str) -> t.Approval | None:
        return self._of_run(t.approvals, t.Approval, run_id)

    def open_question(self, run: t.Run) -> tuple[str, int] | None:
        """Return what another run of the handler asked last, by these rules, if it is unanswered.

        Returns the DAG run, and how many messages its snapshot has. Only runs count that act on the
        whole of this run's queue. Airflow knows whether anybody still waits for the answer.
        """
        asked = t.approvals.join(t.runs).join(t.snapshots, t.snapshots.c.run_id == t.runs.c.run_id)
        query = (
            sa.select(t.approvals.c.decision, t.runs.c.dag_run_id, t.snapshots.c.messages)
            .select_from(asked)
            .where(is_beside(run), t.runs.c.handler == run.handler, IS_FOR_ALL)
            .where(t.runs.c.rules_digest == run.rules_digest)
            .order_by(t.approvals.c.seq.desc())
        )
        row = self._first(query)
        return (row.dag_run_id, row.messages) if row and row.decision == "asked" else None

    def count_open_questions(self, run: t.Run, since: datetime) -> int:
        """Count the other runs here whose last question, since a time, is unanswered."""
        asked = t.approvals.c
        is_open = (asked.decision == "asked") & (asked.at >= since)
        query = sa.select(sa.func.count()).join_from(t.approvals, t.runs)
        query = query.where(is_beside(run), t.runs.c.handler == run.handler)
        return self._count(query.where(is_open, is_last(t.approvals, "run_id")))


def _untaken(here: Sequence[int], taken: Collection[int]) -> Iterator[int]:
    """Yield the occurrences that sightings of a key may be: those still here, then new ones."""
    first = [occurrence for occurrence in here if occurrence not in taken]
    yield from first
    yield from (other for other in count() if other not in taken and other not in first)


def _still_here(connection: sa.Connection, known: Known) -> dict[bytes, list[int]]:
    """Return by key which occurrences have not departed, those in doubt last, as a browse does."""
    here: dict[bytes, list[tuple[int, int]]] = defaultdict(list)
    for (key, occurrence), (message_id, _) in known.items():
        if message_id is not None:
            here[key].append((occurrence, message_id))
    of_twins = [message_id for twins in here.values() if len(twins) > 1 for _, message_id in twins]
    doubt = _in_doubt(connection, of_twins)
    return {
        key: [occurrence for occurrence, _ in sorted(twins, key=lambda t: (t[1] in doubt, t[0]))]
        for key, twins in here.items()
    }


def _in_doubt(connection: sa.Connection, message_ids: Sequence[int]) -> Collection[int]:
    """Return which of these messages are in a unit of work that nobody could settle."""
    found: set[int] = set()
    state = t.attempt_states.c
    for some in in_parts(message_ids):
        is_meant = state.message_id.in_(some) & (state.state == AttemptState.UNKNOWN)
        found.update(connection.scalars(sa.select(state.message_id).where(is_meant)))
    return found


def _known(
    connection: sa.Connection, run: t.Run, keys: Sequence[bytes]
) -> tuple[Known, dict[bytes, list[int]]]:
    """Map known places to (message id, residence), or to (None, next residence) if it ended.

    Returns by key, too, which occurrences the run has listed already.
    """
    own = t.run_messages.c
    is_listed = sa.exists().where(
        own.run_id == run.run_id, own.message_id == t.messages.c.message_id
    )
    query = (
        sa.select(
            t.messages,
            has_departed(t.messages.c.message_id).label("departed"),
            is_listed.label("own"),
        )
        .where(is_at(run.queue_manager, run.queue))
        .where(t.messages.c.message_key.in_(sa.bindparam("keys", expanding=True)))
        .order_by(t.messages.c.residence)
    )
    known: dict[Place, tuple[int | None, int]] = {}
    taken = defaultdict[bytes, list[int]](list)
    for some in in_parts(keys):
        for row in connection.execute(query, {"keys": some}):
            held = (None, row.residence + 1) if row.departed else (row.message_id, row.residence)
            known[row.message_key, row.occurrence] = held
            if row.own:
                taken[row.message_key].append(row.occurrence)
    return known, taken
