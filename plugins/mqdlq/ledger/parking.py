"""Parked messages: what a run left for good under its rules, for later runs not to ask again.

A parked message is on the queue, and nothing is to be done with it while the rules stay the same.
Later snapshots record it compactly, and their runs book its outcome by number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import func, insert, select

from mqdlq.ledger import tables
from mqdlq.ledger.database import in_turn
from mqdlq.ledger.departures import has_departed
from mqdlq.ledger.facts import OutcomeFact, Run
from mqdlq.ledger.reading import LedgerReader
from mqdlq.ledger.tables import compact_snapshots, parked, parked_outcomes, parkings
from mqdlq.model import GIVEN_ACTION, Disposition, Outcome

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
class Lot:
    """Parked messages that were left alike: where their full rows are, and how they were left."""

    parking_id: int
    snapshot_id: str
    settled: Settled


class Parked(NamedTuple):
    """A parked message."""

    message_key: bytes
    message_id: int
    occurrence: int
    parking_id: int


def park(ledger: LedgerReader, run_id: str, snapshot_id: str, left: Iterable[Parking]) -> None:
    """Record which messages a run leaves for good; done before, it changes nothing."""
    lots: dict[tuple[bool, Settled], list[int]] = {}
    for one in left:
        lots.setdefault((one.needs_carry, one.settled), []).append(one.message_id)
    with in_turn(ledger.engine) as connection:  # it reads first: SQLite would not let it wait
        known = select(parkings.c.run_id).where(parkings.c.run_id == run_id).limit(1)
        if connection.execute(known).first() is not None:
            return
        for (needs_carry, settled), ids in lots.items():
            values = {"run_id": run_id, "snapshot_id": snapshot_id, "needs_carry": needs_carry}
            made = connection.execute(insert(parkings), {**values, **asdict(settled)})
            lot = made.inserted_primary_key[0] if made.inserted_primary_key else 0
            for start in range(0, len(ids), _AT_ONCE):
                rows = [{"parking_id": lot, "message_id": i} for i in ids[start : start + _AT_ONCE]]
                connection.execute(insert(parked), rows)


def last_complete_snapshot(ledger: LedgerReader, run: Run) -> datetime | None:
    """Return when another run last took a snapshot of the run's queue without compact rows.

    One for named messages does not count: it has looked at no other message anew.
    """
    table, runs = tables.snapshots, tables.runs
    query = (
        select(func.max(table.c.taken_at).label("at"))
        .join(runs, runs.c.run_id == table.c.run_id)
        .where(
            runs.c.queue_manager == run.queue_manager,
            runs.c.queue == run.queue,
            runs.c.run_id != run.run_id,
            runs.c.message_keys == (),
            table.c.run_id.not_in(select(compact_snapshots.c.run_id)),
        )
    )
    with ledger.engine.connect() as connection:
        at: datetime | None = connection.execute(query).scalar()
    return at


def lots_for(ledger: LedgerReader, run: Run) -> list[Lot]:
    """Return what is parked for this run, too, oldest first.

    That is what runs on its queue have parked since the last complete snapshot, by the same rules
    in the same reading. An action given for named messages is not rules, though it may read like a
    table of one rule: what it left is parked for nobody.
    """
    since = last_complete_snapshot(ledger, run)
    if since is None or run.has_given_action:
        return []
    table, runs = tables.snapshots, tables.runs
    query = (
        select(parkings)
        .join(runs, runs.c.run_id == parkings.c.run_id)
        .join(table, table.c.run_id == runs.c.run_id)
        .where(
            runs.c.queue_manager == run.queue_manager,
            runs.c.queue == run.queue,
            runs.c.rules_digest == run.rules_digest,
            runs.c.rules_source != GIVEN_ACTION,
            runs.c.nul_as_blank == run.nul_as_blank,
            runs.c.run_id != run.run_id,
            table.c.taken_at >= since,
        )
        .order_by(parkings.c.parking_id)
    )
    if not run.carry_attempts:
        query = query.where(~parkings.c.needs_carry)
    with ledger.engine.connect() as connection:
        return [
            Lot(
                row.parking_id,
                row.snapshot_id,
                Settled(Outcome(row.outcome), row.rule, row.action, row.target_q, row.target_q_mgr),
            )
            for row in connection.execute(query)
        ]


def messages_of(ledger: LedgerReader, lot: Lot) -> Iterator[list[Parked]]:
    """Yield the messages of a lot that have not departed since, many at a time."""
    table = tables.messages
    query = (
        select(table.c.message_key, table.c.message_id, table.c.occurrence, parked.c.parking_id)
        .join(table, table.c.message_id == parked.c.message_id)
        .where(parked.c.parking_id == lot.parking_id, ~has_departed(table.c.message_id))
    )
    with ledger.engine.connect() as connection:
        rows = connection.execution_options(yield_per=_AT_ONCE).execute(query)
        for part in rows.partitions():
            yield [Parked._make(row) for row in part]


def message_ids(
    ledger: LedgerReader, run: Run, keys: Collection[bytes]
) -> dict[tuple[bytes, int], int]:
    """Return the ids of messages in their latest residence, by key and occurrence."""
    table = tables.messages
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


def book_parked(
    ledger: LedgerReader,
    run_id: str,
    counts: Mapping[Settled, int],
    vanished: Iterable[tuple[int, Disposition, OutcomeFact]],
    at: datetime,
) -> None:
    """Book by number that parked messages were left as they had been, and list the others.

    Something happened to those that vanished, so they are a run's own now: they come as
    (browse_seq, disposition, outcome). All of it in one transaction.
    """
    listed, ended = [], []
    for browse_seq, disposition, fact in vanished:
        place = {"browse_seq": browse_seq, "disposition": disposition.value}
        listed.append({"run_id": run_id, "message_id": fact.message_id, **place})
        ended.append({"run_id": run_id, **asdict(fact)})
    rows = [
        {"run_id": run_id, "messages": messages, "at": at, **asdict(settled)}
        for settled, messages in counts.items()
        if messages
    ]
    with ledger.engine.begin() as connection:
        for table, values in (
            (tables.run_messages, listed),
            (tables.outcomes, ended),
            (parked_outcomes, rows),
        ):
            if values:
                connection.execute(insert(table), values)


def outcomes_of_parked(ledger: LedgerReader, run_id: str) -> dict[Settled, int]:
    """Return the outcomes of a run's parked messages, counted; empty before they are booked."""
    columns = [parked_outcomes.c[field.name] for field in fields(Settled)]
    query = select(*columns, parked_outcomes.c.messages).where(parked_outcomes.c.run_id == run_id)
    with ledger.engine.connect() as connection:
        rows = connection.execute(query)
        return {Settled(Outcome(row[0]), *row[1:-1]): row.messages for row in rows}
