"""The history of one message over all runs: its residences, listings, attempts and outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import select

from mqdlq.ledger.database import Repository, columns_of
from mqdlq.ledger.tables.messages import (
    Attempt,
    CopyState,
    Learned,
    OutcomeFact,
    attempt_states,
    learned,
    messages,
    outcomes,
    restoration_states,
    restorations,
    run_messages,
)
from mqdlq.ledger.tables.runs import runs, snapshots
from mqdlq.model import Disposition, RestorationState

MOST: Final = 500
"""How many facts of each kind a history has at most, the newest."""

_MOST_MESSAGES: Final = 100
_FINAL: Final = tuple(
    state
    for state in RestorationState
    if state not in {RestorationState.SELECTED, RestorationState.INTENDED}
)


@dataclass(frozen=True, slots=True)
class Resident:
    """A message with the key: equal ones are counted by `occurrence`, its returns by `residence`.

    Both are from 0.
    """

    message_id: int
    occurrence: int
    residence: int


@dataclass(frozen=True, slots=True)
class Listing:
    """A run that lists the message; `seen_at` is when its snapshot was taken."""

    message_id: int
    run_id: str
    handler: str
    started_by: str
    dry_run: bool
    browse_seq: int
    disposition: Disposition
    snapshot_id: str
    seen_at: datetime


@dataclass(frozen=True, slots=True)
class Restored:
    """State of a copy of the message in a restoration."""

    restoration_id: str
    who: str
    to_queue: str
    to_queue_manager: str
    copy: CopyState


@dataclass(frozen=True, slots=True)
class MessageHistory:
    """All facts about the messages of a queue with one key; each list is oldest first.

    `is_complete` is False if there are more facts of a kind than `MOST`.
    """

    residents: tuple[Resident, ...]
    listings: tuple[Listing, ...]
    attempts: tuple[Attempt, ...]
    outcomes: tuple[tuple[str, OutcomeFact], ...]
    learned: tuple[Learned, ...]
    restored: tuple[Restored, ...]
    is_complete: bool


class MessageHistories(Repository):
    """Histories of messages."""

    def of_key(self, handler: str, queue_manager: str, queue: str, key: bytes) -> MessageHistory:
        """Return the history of the messages of a queue that have this key, in a handler's runs."""
        query = (
            select(*columns_of(messages, Resident))
            .where(
                messages.c.queue_manager == queue_manager,
                messages.c.queue == queue,
                messages.c.message_key == key,
            )
            .order_by(messages.c.residence.desc(), messages.c.occurrence)
            .limit(_MOST_MESSAGES)
        )
        residents = sorted(
            (Resident(**row) for row in self._all(query)),
            key=lambda one: (one.residence, one.occurrence),
        )
        ids = [one.message_id for one in residents]

        def newest(query: Any, table: Any, order: str) -> list[Any]:
            """Return the newest rows about these messages, oldest first."""
            own = select(runs.c.run_id).where(runs.c.handler == handler)
            query = query.where(table.c.message_id.in_(ids), table.c.run_id.in_(own))
            column = query.selected_columns[order]
            return list(reversed(self._all(query.order_by(column.desc()).limit(MOST))))

        tried = newest(select(attempt_states), attempt_states, "seq")
        kinds = (
            [Listing(**row) for row in newest(_LISTINGS, run_messages, "seen_at")],
            [Attempt(**{"message_key": key, **_without(row, "seq")}) for row in tried],
            [
                (row["run_id"], OutcomeFact(**_without(row, "run_id")))
                for row in newest(select(outcomes), outcomes, "at")
            ],
            [Learned(**row) for row in newest(select(learned), learned, "at")],
            [_restored(row) for row in newest(_RESTORED, restoration_states, "seq")],
        )
        listings, attempts, ends, news, restored = kinds
        return MessageHistory(
            tuple(residents),
            tuple(listings),
            tuple(attempts),
            tuple(ends),
            tuple(news),
            tuple(restored),
            is_complete=len(residents) < _MOST_MESSAGES
            and all(len(facts) < MOST for facts in kinds),
        )


_LISTINGS: Final = (
    select(
        run_messages.c.message_id,
        run_messages.c.run_id,
        runs.c.handler,
        runs.c.started_by,
        runs.c.dry_run,
        run_messages.c.browse_seq,
        run_messages.c.disposition,
        snapshots.c.snapshot_id,
        snapshots.c.taken_at.label("seen_at"),
    )
    .join(runs, runs.c.run_id == run_messages.c.run_id)
    .join(snapshots, snapshots.c.run_id == run_messages.c.run_id)
)
_RESTORED: Final = (
    select(
        restoration_states,
        restorations.c.who,
        restorations.c.to_queue,
        restorations.c.to_queue_manager,
    )
    .join(restorations, restorations.c.restoration_id == restoration_states.c.restoration_id)
    .where(restoration_states.c.state.in_(_FINAL))
)


def _without(row: Any, name: str) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != name}


def _restored(row: Any) -> Restored:
    names = ("run_id", "message_id", "state", "at", "unit", "mqrc", "why")
    return Restored(
        restoration_id=row["restoration_id"],
        who=row["who"],
        to_queue=row["to_queue"],
        to_queue_manager=row["to_queue_manager"],
        copy=CopyState(**{name: row[name] for name in names}),
    )
