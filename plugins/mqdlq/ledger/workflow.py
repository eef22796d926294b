"""What the workflow needs of the ledger to know whether there is work: a queue in, facts out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, insert, select

from mqdlq.ledger import tables
from mqdlq.ledger.facts import Run
from mqdlq.ledger.reading import LedgerReader
from mqdlq.ledger.tables import approvals, causes, looks
from mqdlq.model import Outcome


@dataclass(frozen=True, slots=True)
class Look:
    """What a run saw of its queue: whether that was work, and why, in words for people."""

    depth: int
    is_work: bool
    why: str
    at: datetime


@dataclass(frozen=True, slots=True)
class LastAccount:
    """The last whole account of a queue: what it left there, by which rules, and when.

    `left` is the number of messages accounted for and still there, `pending` how many of them are
    to be tried again, `others_until` until when other runs own some of them, if they do.
    """

    run_id: str
    rules_digest: str
    left: int
    at: datetime
    pending: int
    last_pass: datetime | None
    others_until: datetime | None


@dataclass(frozen=True, slots=True)
class Approval:
    """What was asked of a person about a plan, and the answer, if there is one.

    `decision` is "asked", "approved" or "rejected", `who` the person who answered ("nobody" for a
    silence that counts as an answer), `guards` the names of the guards that asked.
    """

    plan_hash: str
    guards: tuple[str, ...]
    decision: str
    who: str
    at: datetime


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """The DAG run whose plan is to be approved, and how many messages its snapshot has."""

    dag_run_id: str
    messages: int


@dataclass(frozen=True, slots=True)
class TakenSnapshot:
    """A snapshot that a run took, and where it stands."""

    run_id: str
    snapshot_id: str
    location: str
    taken_at: datetime


@dataclass(frozen=True, slots=True)
class Cause:
    """How many messages of a snapshot have this reason in their MQDLH, and since when the oldest.

    Reason 0 stands for messages without an MQDLH.
    """

    reason: int
    messages: int
    oldest: datetime | None


def record_look(ledger: LedgerReader, run_id: str, look: Look) -> None:
    """Record what a run saw."""
    with ledger.engine.begin() as connection:
        connection.execute(insert(looks), {"run_id": run_id, **asdict(look)})


def last_look(ledger: LedgerReader, run_id: str) -> Look | None:
    """Return what a run saw when it last looked, or None."""
    columns = (looks.c.depth, looks.c.is_work, looks.c.why, looks.c.at)
    row = _first(
        ledger, select(*columns).where(looks.c.run_id == run_id).order_by(looks.c.seq.desc())
    )
    return Look(**row) if row else None


def broken_off(ledger: LedgerReader, handler: str, but: str) -> datetime | None:
    """Return when a handler's last run with work saw it, if it has left no account of the queue.

    Run `but` does not count.
    """
    runs, seen = tables.runs, tables.sightings
    row = _first(
        ledger,
        select(looks.c.at, seen.c.run_id)
        .join(runs, runs.c.run_id == looks.c.run_id)
        .outerjoin(seen, seen.c.run_id == looks.c.run_id)
        .where(runs.c.handler == handler, runs.c.run_id != but, looks.c.is_work)
        .order_by(looks.c.at.desc()),
    )
    return row["at"] if row and row["run_id"] is None else None


def last_account(ledger: LedgerReader, queue_manager: str, queue: str) -> LastAccount | None:
    """Return the last account of a queue by a run that acted on all of its messages, or None."""
    runs, seen = tables.runs, tables.sightings
    row = _first(
        ledger,
        select(
            runs.c.run_id,
            runs.c.rules_digest,
            (seen.c.depth - seen.c.arrived).label("left"),
            seen.c.at,
        )
        .join(runs, runs.c.run_id == seen.c.run_id)
        .where(
            runs.c.queue_manager == queue_manager,
            runs.c.queue == queue,
            ~runs.c.dry_run,
            runs.c.message_keys == (),
        )
        .order_by(seen.c.at.desc()),
    )
    if row is None:
        return None
    passes = tables.passes
    last_pass = _first(
        ledger,
        select(func.max(passes.c.started_at).label("at"))
        .join(runs, runs.c.run_id == passes.c.run_id)
        .where(runs.c.queue_manager == queue_manager, runs.c.queue == queue),
    )
    return LastAccount(
        **row,
        pending=_pending(ledger, row["run_id"]),
        last_pass=last_pass["at"] if last_pass else None,
        others_until=_others_until(ledger, row["run_id"]),
    )


def record_approval(ledger: LedgerReader, run_id: str, approval: Approval) -> None:
    """Record that a person was asked about a plan, or what the answer was."""
    with ledger.engine.begin() as connection:
        connection.execute(insert(approvals), {"run_id": run_id, **asdict(approval)})


def last_approval(ledger: LedgerReader, run_id: str) -> Approval | None:
    """Return what came last of asking a person about a run's plan; None where nobody was asked."""
    columns = [approvals.c[field.name] for field in fields(Approval)]
    query = select(*columns).where(approvals.c.run_id == run_id).order_by(approvals.c.seq.desc())
    row = _first(ledger, query)
    return Approval(**row) if row else None


def open_question(ledger: LedgerReader, run: Run) -> OpenQuestion | None:
    """Return what another run of the handler asked last, by these rules, if no answer is known.

    Of runs that act on the whole of this run's queue. Whether anybody still waits for the answer is
    for Airflow to say.
    """
    runs, taken = tables.runs, tables.snapshots
    row = _first(
        ledger,
        select(approvals.c.decision, runs.c.dag_run_id, taken.c.messages)
        .join(runs, runs.c.run_id == approvals.c.run_id)
        .join(taken, taken.c.run_id == approvals.c.run_id)
        .where(
            runs.c.handler == run.handler,
            runs.c.queue_manager == run.queue_manager,
            runs.c.queue == run.queue,
            runs.c.rules_digest == run.rules_digest,
            runs.c.message_keys == (),
            runs.c.run_id != run.run_id,
        )
        .order_by(approvals.c.seq.desc()),
    )
    if row is None or row["decision"] != "asked":
        return None
    return OpenQuestion(row["dag_run_id"], row["messages"])


def record_causes(ledger: LedgerReader, run_id: str, found: Iterable[Cause]) -> None:
    """Record why the messages of a run's snapshot are dead letters, once."""
    if causes_of(ledger, run_id):
        return
    rows = [{"run_id": run_id, **asdict(cause)} for cause in found]
    if rows:
        with ledger.engine.begin() as connection:
            connection.execute(insert(causes), rows)


def causes_of(ledger: LedgerReader, run_id: str) -> list[Cause]:
    """Return why the messages of a run's snapshot are dead letters, by reason."""
    query = select(causes.c.reason, causes.c.messages, causes.c.oldest).where(
        causes.c.run_id == run_id
    )
    with ledger.engine.connect() as connection:
        found = connection.execute(query.order_by(causes.c.reason)).mappings()
        return [Cause(**row) for row in found]


def earlier_reasons(ledger: LedgerReader, run: Run) -> set[int]:
    """Return the reasons that earlier runs met on a run's queue."""
    runs = tables.runs
    query = (
        select(causes.c.reason)
        .join(runs, runs.c.run_id == causes.c.run_id)
        .where(
            runs.c.queue_manager == run.queue_manager,
            runs.c.queue == run.queue,
            runs.c.run_id != run.run_id,
            runs.c.started_at <= run.started_at,
        )
        .distinct()
    )
    with ledger.engine.connect() as connection:
        return set(connection.scalars(query))


def snapshots_between(
    ledger: LedgerReader, queue_manager: str, queue: str, start: datetime, end: datetime
) -> list[TakenSnapshot]:
    """Return the snapshots taken of a queue from `start` up to `end`, oldest first.

    What backfills put together are none: nobody browsed the queue for them.
    """
    runs, taken = tables.runs, tables.snapshots
    query = (
        select(taken.c.run_id, taken.c.snapshot_id, taken.c.location, taken.c.taken_at)
        .join(runs, runs.c.run_id == taken.c.run_id)
        .where(
            runs.c.queue_manager == queue_manager,
            runs.c.queue == queue,
            runs.c.run_type != "backfill",
            taken.c.taken_at >= start,
            taken.c.taken_at < end,
        )
        .order_by(taken.c.taken_at)
    )
    with ledger.engine.connect() as connection:
        return [TakenSnapshot(**row) for row in connection.execute(query).mappings()]


def _pending(ledger: LedgerReader, run_id: str) -> int:
    ended = tables.outcomes
    query = select(func.count().label("number")).where(
        ended.c.run_id == run_id, ended.c.outcome == Outcome.RETRY_PENDING.value
    )
    return int((_first(ledger, query) or {"number": 0})["number"])


def _others_until(ledger: LedgerReader, run_id: str) -> datetime | None:
    """Return when the last lease ends of the messages a run passed by; a lease given up is over."""
    ended, lease, later = tables.outcomes, tables.leases, tables.leases.alias()
    newest = select(func.max(later.c.seq)).where(later.c.message_id == lease.c.message_id)
    query = (
        select(func.max(lease.c.until).label("until"))
        .join(ended, ended.c.message_id == lease.c.message_id)
        .where(
            ended.c.run_id == run_id,
            ended.c.outcome == Outcome.OWNED_BY_RUN.value,
            lease.c.seq == newest.scalar_subquery(),
        )
    )
    found: datetime | None = (_first(ledger, query) or {"until": None})["until"]
    return found


def _first(ledger: LedgerReader, query: Select[Any]) -> dict[str, Any] | None:
    with ledger.engine.connect() as connection:
        row = connection.execute(query.limit(1)).mappings().first()
    return dict(row) if row else None
