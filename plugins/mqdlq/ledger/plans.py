"""Plans: the accepted plan of a run with its messages, and its approval."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import count

from sqlalchemy import Connection, func, insert, select

from mqdlq.ledger.database import Repository, add, columns_of, in_parts, in_turn
from mqdlq.ledger.messages import has_departed
from mqdlq.ledger.runs import Run, is_beside
from mqdlq.ledger.tables.messages import attempt_states, messages, run_messages
from mqdlq.ledger.tables.runs import approvals, passes, plans, runs, snapshots
from mqdlq.model import AttemptState, Disposition

Place = tuple[bytes, int]  # a message key and its occurrence
Known = Mapping[Place, tuple[int | None, int]]


@dataclass(frozen=True, slots=True)
class AcceptedPlan:
    """The plan that a run acts by, and where it is."""

    run_id: str
    plan_id: str
    plan_hash: str
    location: str
    accepted_at: datetime


@dataclass(frozen=True, slots=True)
class Approval:
    """The question about a plan, and the answer, if there is one.

    `decision` is "asked", "approved" or "rejected", `who` the person who answered ("nobody" for a
    silence that counts as an answer), `guards` the names of the guards that asked, `why` the
    comment of the person.
    """

    plan_hash: str
    guards: tuple[str, ...]
    decision: str
    who: str
    at: datetime
    why: str = ""


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """The DAG run whose plan waits for an approval, and how many messages its snapshot has."""

    dag_run_id: str
    messages: int


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
        """Return a run's plan, or None."""
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

    def open_question(self, run: Run) -> OpenQuestion | None:
        """Return what another run of the handler asked last, by these rules, if it is unanswered.

        Only runs count that act on the whole of this run's queue. Airflow knows whether anybody
        still waits for the answer.
        """
        query = (
            select(approvals.c.decision, runs.c.dag_run_id, snapshots.c.messages)
            .join(runs, runs.c.run_id == approvals.c.run_id)
            .join(snapshots, snapshots.c.run_id == approvals.c.run_id)
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
        return OpenQuestion(row["dag_run_id"], row["messages"])

    def count_open_questions(self, run: Run, since: datetime) -> int:
        """Count the other runs of the handler on this queue whose last question is unanswered.

        Questions asked before `since` do not count.
        """
        newest = (
            select(func.max(approvals.c.seq))
            .join(runs, runs.c.run_id == approvals.c.run_id)
            .where(is_beside(run), runs.c.handler == run.handler)
            .group_by(approvals.c.run_id)
        )
        query = select(func.count()).where(
            approvals.c.seq.in_(newest), approvals.c.decision == "asked", approvals.c.at >= since
        )
        return int(next(iter(self._values(query))))


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
