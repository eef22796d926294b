"""A unit of work: what is put and got under syncpoint, made final or undone, while writing.

What is put has its place on the queue at once, but stays in the process until MQCMIT. What is got
stays on the queue, held back from all others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from embedded_mq.engine.failures import CallFailedError
from embedded_mq.storage.board import BACKED_OUT, COMMITTED, GOT, UNITS
from embedded_mq.storage.store import Store


@dataclass(slots=True)
class Message:
    """A message with all it consists of; `place` and `rank` say where on its queue it stands."""

    place: int
    rank: int
    backout_count: int
    expires_at: float | None
    descriptor: bytes
    properties: bytes | None
    body: bytes


class Row(NamedTuple):
    """What is kept of a message: the columns of its row."""

    place: int
    queue_id: int
    rank: int
    msg_id: bytes
    correl_id: bytes | None
    expires_at: float | None
    backout_count: int
    descriptor: bytes
    properties: bytes | None
    body: bytes

    def message(self) -> Message:
        """Return it as a get returns it."""
        return Message(self.place, self.rank, self.backout_count, self.expires_at, *self[7:])


INSERT = "INSERT INTO message VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


@dataclass(slots=True)
class UnitOfWork:
    """What MQCMIT makes final: messages put, by queue and place, and places of those got.

    `number` tells it from the connection's unit before. `calls` counts what took part, as MAXUMSGS
    does. `reports` are the places of the reports put by the queue manager: nobody can get them
    before MQCMIT.
    """

    number: int
    puts: dict[int, dict[int, tuple[Any, ...]]] = field(default_factory=dict)
    gets: list[int] = field(default_factory=list)
    calls: int = 0
    reports: set[int] = field(default_factory=set)

    def check_room(self, limit: int, messages: int = 1) -> None:
        """Refuse more than MAXUMSGS messages in one unit of work."""
        if self.calls + messages > limit:
            raise CallFailedError("MQRC_SYNCPOINT_LIMIT_REACHED")

    def add(self, place: int, queue_id: int, *rest: Any) -> None:
        """Note what has been put, by the columns of its row."""
        self.puts.setdefault(queue_id, {})[place] = (place, queue_id, *rest)
        self.calls += 1

    def count_backouts(self, queue_id: int, times: int) -> None:
        """Give what has been put last to a queue a BackoutCount."""
        puts = self.puts[queue_id]
        row = Row(*next(reversed(puts.values())))
        puts[row.place] = tuple(row._replace(backout_count=times))

    def is_empty(self) -> bool:
        """Whether there is nothing to commit or back out."""
        return not self.calls

    def first(self, queue_id: int, fits: Callable[[Row], bool]) -> Message | None:
        """Return the first of its own messages on a queue that fits."""
        puts = self.puts[queue_id].values()
        rows = (Row(*row) for row in puts if row[0] not in self.reports)
        first = min(filter(fits, rows), key=lambda row: (row.rank, row.place), default=None)
        return first and first.message()


def make_final(store: Store, connection_id: int, unit: UnitOfWork) -> None:
    """Carry out MQCMIT; what was put to a queue that is deleted since goes with that."""
    if unit.gets:
        store.execute_many("DELETE FROM message WHERE place = ?", [(at,) for at in unit.gets])
    existing = store.catalogue().by_id
    for queue_id, puts in unit.puts.items():
        if queue_id in existing:
            store.execute_many(INSERT, puts.values())
    _end(store, connection_id, unit.number)
    store.announce(COMMITTED, 0, 0, connection_id, 0, 0)


def undo(store: Store, connection_id: int) -> None:
    """Carry out MQBACK, for one's own connection or for one that is gone.

    A unit of work that has ended in the database is left alone: its owner died before the board
    could say so.
    """
    ended = store.one(
        "SELECT units_ended FROM connection WHERE connection_id = ?", (connection_id,)
    )
    current = (ended + 1) % UNITS
    mine = store.board.held_by(connection_id)
    got = [(held.place,) for held in mine if (held.kind, held.unit) == (GOT, current)]
    if got:
        store.execute_many(
            "UPDATE message SET backout_count = backout_count + 1 WHERE place = ?", got
        )
    _end(store, connection_id, ended + 1)
    store.announce(BACKED_OUT, 0, 0, connection_id, 0, 0)


def _end(store: Store, connection_id: int, number: int) -> None:
    store.execute(
        "UPDATE connection SET units_ended = ? WHERE connection_id = ?", (number, connection_id)
    )
