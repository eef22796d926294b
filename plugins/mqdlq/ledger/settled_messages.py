"""Settled messages: messages that a run left on the queue, and that later runs skip.

No run has to act on a settled message while the rules stay the same. Later snapshots record it
in a compact row, and their runs book its outcome by number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import insert, select

from mqdlq.ledger.database import (
    ROWS_AT_ONCE,
    Repository,
    add,
    columns_of,
    in_parts,
    in_turn,
    inserted,
)
from mqdlq.ledger.messages import has_departed
from mqdlq.ledger.outcomes import OutcomeFact, row_of
from mqdlq.ledger.runs import Run, is_beside
from mqdlq.ledger.snapshots import Snapshots
from mqdlq.ledger.tables.messages import (
    messages,
    outcomes,
    run_messages,
    settled_lots,
    settled_messages,
    settled_outcomes,
)
from mqdlq.ledger.tables.runs import runs, snapshots
from mqdlq.model import GIVEN_ACTION, Disposition, Outcome


@dataclass(frozen=True, slots=True, order=True)
class Settled:
    """How a message was left: its outcome, and the rule, action and target that decided."""

    outcome: Outcome
    rule: int
    action: str
    target_q: str
    target_q_mgr: str


@dataclass(frozen=True, slots=True)
class NewlySettled:
    """A message that a run has settled; `needs_carry`: only for runs that carry attempts on."""

    message_id: int
    needs_carry: bool
    settled: Settled


@dataclass(frozen=True, slots=True)
class SettledLot:
    """Messages settled in the same way: the snapshot with their full rows, and their outcome."""

    lot_id: int
    snapshot_id: str
    settled: Settled


class SettledMessage(NamedTuple):
    """A settled message."""

    message_key: bytes
    message_id: int
    occurrence: int
    lot_id: int


class SettledMessages(Repository):
    """Messages that runs have settled, in lots of messages settled in the same way."""

    def record(self, run_id: str, snapshot_id: str, found: Iterable[NewlySettled]) -> None:
        """Record the messages that a run has settled; the second call for a run does nothing."""
        lots: dict[tuple[bool, Settled], list[int]] = {}
        for one in found:
            lots.setdefault((one.needs_carry, one.settled), []).append(one.message_id)
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
        query = (
            select(settled_lots)
            .join(runs, runs.c.run_id == settled_lots.c.run_id)
            .join(snapshots, snapshots.c.run_id == runs.c.run_id)
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
        names = [field.name for field in fields(Settled)]
        return [
            SettledLot(row["lot_id"], row["snapshot_id"], Settled(*(row[name] for name in names)))
            for row in self._all(query)
        ]

    def of_lot(self, lot: SettledLot) -> Iterator[list[SettledMessage]]:
        """Yield the messages of a lot that have not departed since, some thousands at a time."""
        query = (
            select(
                messages.c.message_key,
                messages.c.message_id,
                messages.c.occurrence,
                settled_messages.c.lot_id,
            )
            .join(messages, messages.c.message_id == settled_messages.c.message_id)
            .where(settled_messages.c.lot_id == lot.lot_id, ~has_departed(messages.c.message_id))
        )
        with self._stream(query) as rows:
            for part in rows.partitions():
                yield [SettledMessage._make(row) for row in part]

    def book(
        self,
        run_id: str,
        counts: Mapping[Settled, int],
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
            ended.append(row_of(run_id, fact))
        rows = [
            {"run_id": run_id, "messages": number, "at": at, **asdict(settled)}
            for settled, number in counts.items()
            if number
        ]
        with self._engine.begin() as connection:
            add(connection, run_messages, listed)
            add(connection, outcomes, ended)
            add(connection, settled_outcomes, rows)

    def outcomes(self, run_id: str) -> dict[Settled, int]:
        """Count the outcomes of a run's settled messages; empty before they are booked."""
        columns = [*columns_of(settled_outcomes, Settled), settled_outcomes.c.messages]
        query = select(*columns).where(settled_outcomes.c.run_id == run_id)
        with self._stream(query) as rows:
            return {Settled(*settled): number for *settled, number in rows}
