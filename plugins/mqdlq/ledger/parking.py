"""Parked messages: what a run left for good under its rules, for later runs not to ask again.

A parked message is on the queue, and nothing is to be done with it while the rules stay the same.
Later snapshots record it compactly, and their runs book its outcome by number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from itertools import islice

from sqlalchemy import func, insert, select

from mqdlq.ledger import schema
from mqdlq.ledger.facts import Run
from mqdlq.ledger.parking_tables import compact_snapshots, parked, parked_outcomes
from mqdlq.ledger.reading import LedgerReader
from mqdlq.model import DEPARTED, Disposition, Outcome

_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True, order=True)
class Settled:
    """How a message was left: its outcome, and the rule, action and target that decided."""

    outcome: Outcome
    rule: int
    action: str
    target_q: str
    target_q_mgr: str


@dataclass(frozen=True, slots=True)
class Parking:
    """A message that a run leaves for good; `needs_carry`: only where attempts carry on."""

    message_id: int
    needs_carry: bool
    settled: Settled


@dataclass(frozen=True, slots=True)
class Parked:
    """A parked message: its place in the ledger, where its full row is, and how it was left."""

    message_id: int
    occurrence: int
    snapshot_id: str
    settled: Settled


def park(ledger: LedgerReader, run_id: str, snapshot_id: str, left: Iterable[Parking]) -> None:
    """Record which messages a run leaves for good; done before, it changes nothing."""
    rows = (
        {
            "run_id": run_id,
            "message_id": parking.message_id,
            "snapshot_id": snapshot_id,
            "needs_carry": parking.needs_carry,
            **asdict(parking.settled),
        }
        for parking in left
    )
    with ledger.engine.begin() as connection:
        known = select(parked.c.run_id).where(parked.c.run_id == run_id).limit(1)
        if connection.execute(known).first() is None:
            while batch := list(islice(rows, _AT_ONCE)):
                connection.execute(insert(parked), batch)


def last_complete_snapshot(ledger: LedgerReader, run: Run) -> datetime | None:
    """Return when another run last took a snapshot of the run's queue without compact rows."""
    table, runs = schema.snapshots, schema.runs
    query = (
        select(func.max(table.c.taken_at).label("at"))
        .join(runs, runs.c.run_id == table.c.run_id)
        .where(
            runs.c.queue_manager == run.queue_manager,
            runs.c.queue == run.queue,
            runs.c.run_id != run.run_id,
            table.c.run_id.not_in(select(compact_snapshots.c.run_id)),
        )
    )
    with ledger.engine.connect() as connection:
        at: datetime | None = connection.execute(query).scalar()
    return at


def parking_runs(ledger: LedgerReader, run: Run) -> set[str]:
    """Return the runs whose parked messages are parked for this run, too.

    Those on its queue since the last complete snapshot, by the same rules in the same reading.
    """
    since = last_complete_snapshot(ledger, run)
    if since is None:
        return set()
    table, runs = schema.snapshots, schema.runs
    query = (
        select(runs.c.run_id)
        .join(table, runs.c.run_id == table.c.run_id)
        .where(
            runs.c.queue_manager == run.queue_manager,
            runs.c.queue == run.queue,
            runs.c.rules_digest == run.rules_digest,
            runs.c.nul_as_blank == run.nul_as_blank,
            table.c.taken_at >= since,
        )
    )
    with ledger.engine.connect() as connection:
        return set(connection.scalars(query)) - {run.run_id}


def parked_messages(
    ledger: LedgerReader, run: Run, runs: Collection[str], keys: Collection[bytes]
) -> dict[bytes, list[Parked]]:
    """Return what these runs have parked of the messages with these keys, by occurrence.

    What has departed since is not among them. At most some hundred keys at once.
    """
    table, ended = schema.messages, schema.outcomes
    departed = select(ended.c.message_id).where(
        ended.c.message_id == table.c.message_id,
        ended.c.outcome.in_([outcome.value for outcome in DEPARTED]),
    )
    query = (
        select(table.c.message_key, table.c.occurrence, parked)
        .join(parked, parked.c.message_id == table.c.message_id)
        .where(
            table.c.queue_manager == run.queue_manager,
            table.c.queue == run.queue,
            table.c.message_key.in_(keys),
            ~departed.exists(),
        )
        .order_by(table.c.occurrence)
    )
    if not run.carry_attempts:
        query = query.where(~parked.c.needs_carry)
    newest: dict[bytes, dict[int, Parked]] = {}
    with ledger.engine.connect() as connection:
        for row in connection.execute(query):
            if row.run_id in runs:
                settled = Settled(
                    Outcome(row.outcome), row.rule, row.action, row.target_q, row.target_q_mgr
                )
                found = Parked(row.message_id, row.occurrence, row.snapshot_id, settled)
                places = newest.setdefault(row.message_key, {})
                known = places.get(row.message_id)
                if known is None or known.snapshot_id < found.snapshot_id:
                    places[row.message_id] = found
    return {key: list(places.values()) for key, places in newest.items()}


def message_ids(
    ledger: LedgerReader, run: Run, keys: Collection[bytes]
) -> dict[tuple[bytes, int], int]:
    """Return the ids of messages in their latest residence, by key and occurrence."""
    table = schema.messages
    query = (
        select(table)
        .where(
            table.c.queue_manager == run.queue_manager,
            table.c.queue == run.queue,
            table.c.message_key.in_(keys),
        )
        .order_by(table.c.residence)
    )
    with ledger.engine.connect() as connection:
        rows = connection.execute(query)
        return {(row.message_key, row.occurrence): row.message_id for row in rows}


def list_parked(
    ledger: LedgerReader, run_id: str, vanished: Iterable[tuple[int, int, Disposition]]
) -> None:
    """List parked messages among a run's own, since something happened to them.

    They come as (message id, browse_seq, disposition).
    """
    rows = [
        {"run_id": run_id, "message_id": key, "browse_seq": seq, "disposition": disposition.value}
        for key, seq, disposition in vanished
    ]
    if rows:
        with ledger.engine.begin() as connection:
            connection.execute(insert(schema.run_messages), rows)


def book_parked(
    ledger: LedgerReader, run_id: str, counts: Mapping[Settled, int], at: datetime
) -> None:
    """Book by number that parked messages were left as they had been."""
    rows = [
        {"run_id": run_id, "messages": messages, "at": at, **asdict(settled)}
        for settled, messages in counts.items()
    ]
    if rows:
        with ledger.engine.begin() as connection:
            connection.execute(insert(parked_outcomes), rows)


def outcomes_of_parked(ledger: LedgerReader, run_id: str) -> dict[Settled, int]:
    """Return the outcomes of a run's parked messages, counted; empty before they are booked."""
    columns = [parked_outcomes.c[field.name] for field in fields(Settled)]
    query = select(*columns, parked_outcomes.c.messages).where(parked_outcomes.c.run_id == run_id)
    with ledger.engine.connect() as connection:
        rows = connection.execute(query)
        return {Settled(Outcome(row[0]), *row[1:-1]): row.messages for row in rows}
