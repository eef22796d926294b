"""Delete the rows of a run, children before parents, in bounded transactions.

Which tables have rows of a run follows from the declared foreign keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final

from sqlalchemy import Column, Connection, Engine, Table, delete, select

from mqdlq.ledger.database import KEYS_AT_ONCE, in_turn
from mqdlq.ledger.tables import metadata
from mqdlq.ledger.tables.controls import identities
from mqdlq.ledger.tables.messages import messages, settled_lots, settled_messages
from mqdlq.ledger.tables.runs import alerts, failures, runs

_PARENTS: Final = {"runs", "archive"}


def _references() -> Iterator[tuple[Table, Column[str]]]:
    """Yield the tables with the columns that refer to a run, children first."""
    for table in reversed(metadata.sorted_tables):
        for column in table.c:
            parents = {key.column.table.name for key in column.foreign_keys}
            if parents & _PARENTS and column.name != "message_id":
                yield table, column


OF_RUN: Final = list(_references())
OF_MESSAGE: Final = [(table, column) for table, column in OF_RUN if "message_id" in table.c]
_BY_MESSAGE: Final = [
    column
    for table in reversed(metadata.sorted_tables)
    for column in table.c
    if table is not identities and any(key.column.table is messages for key in column.foreign_keys)
]
"""The columns that refer to a message; its identity goes with the message."""


def erase_run(engine: Engine, run_id: str) -> None:
    """Delete all rows of a run, and the messages to which no other row refers.

    Each transaction deletes all that the run has of some hundred messages, so that no reader sees a
    message with some of its rows. The last one deletes the run. It may be called again after an
    interruption, and by two processes at once.
    """
    while True:
        with in_turn(engine) as connection:
            ids = _some_messages(connection, run_id)
            if not ids:
                _erase_rest(connection, run_id)
                return
            _erase_messages(connection, run_id, ids)


def _some_messages(connection: Connection, run_id: str) -> Sequence[int]:
    lots = select(settled_lots.c.lot_id).where(settled_lots.c.run_id == run_id)
    settled = select(settled_messages.c.message_id).where(settled_messages.c.lot_id.in_(lots))
    queries = (select(table.c.message_id).where(column == run_id) for table, column in OF_MESSAGE)
    for query in chain(queries, [settled]):
        if ids := connection.scalars(query.distinct().limit(KEYS_AT_ONCE)).all():
            return ids
    return []


def _erase_messages(connection: Connection, run_id: str, ids: Sequence[int]) -> None:
    for table, column in OF_MESSAGE:
        connection.execute(delete(table).where(column == run_id, table.c.message_id.in_(ids)))
    lots = select(settled_lots.c.lot_id).where(settled_lots.c.run_id == run_id)
    connection.execute(
        delete(settled_messages).where(
            settled_messages.c.lot_id.in_(lots), settled_messages.c.message_id.in_(ids)
        )
    )
    used: set[Any] = set()
    for column in _BY_MESSAGE:
        used |= set(connection.scalars(select(column).where(column.in_(ids))))
    if rest := set(ids) - used:
        for table in (identities, messages):
            connection.execute(delete(table).where(table.c.message_id.in_(rest)))


def _erase_rest(connection: Connection, run_id: str) -> None:
    for table, column in OF_RUN:
        connection.execute(delete(table).where(column == run_id))
    for table in (alerts, failures, runs):
        connection.execute(delete(table).where(table.c.run_id == run_id))
