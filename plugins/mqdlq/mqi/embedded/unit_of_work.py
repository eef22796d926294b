"""A unit of work: what is put and got under syncpoint, made final or undone, while writing.

What is put has its place on the queue at once, as a row nobody else sees; its content stays in the
process until MQCMIT. What is got stays on the queue, claimed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from mqdlq.mqi.embedded.failures import CallFailedError
from mqdlq.mqi.embedded.store import Store


@dataclass(frozen=True, slots=True)
class Message:
    """A message with all it consists of; `place` and `rank` say where on its queue it stands."""

    place: int
    rank: int
    backout_count: int
    expires_at: float | None
    descriptor: bytes
    properties: bytes | None
    body: bytes


@dataclass(frozen=True, slots=True)
class Pending:
    """A message put and not committed, and the identifiers by which its own unit may get it."""

    message: Message
    msg_id: bytes
    correl_id: bytes | None


@dataclass(slots=True)
class UnitOfWork:
    """What MQCMIT makes final: messages put, by queue and place, and how many were got.

    `calls` counts what took part, as MAXUMSGS does; `last_place` is where the last put stands.
    """

    puts: dict[int, dict[int, Pending]] = field(default_factory=lambda: defaultdict(dict))
    gets: int = 0
    calls: int = 0
    last_place: int = 0

    def check_room(self, limit: int) -> None:
        """Refuse more than MAXUMSGS messages in one unit of work."""
        if self.calls >= limit:
            raise CallFailedError("MQRC_SYNCPOINT_LIMIT_REACHED")

    def add(self, queue_id: int, pending: Pending) -> None:
        """Note what has been put."""
        self.last_place = pending.message.place
        self.puts[queue_id][self.last_place] = pending
        self.calls += 1

    def is_empty(self) -> bool:
        """Whether there is nothing to commit or back out."""
        return not self.calls

    def first(self, queue_id: int, fits: Callable[[Pending], bool]) -> Message | None:
        """Return the first of its own messages on a queue that fits."""
        messages = (held.message for held in self.puts[queue_id].values() if fits(held))
        return min(messages, key=lambda message: (message.rank, message.place), default=None)


def make_final(store: Store, connection_id: int, unit: UnitOfWork) -> None:
    """Carry out MQCMIT."""
    mine = (connection_id,)
    if unit.gets:
        store.execute(
            "DELETE FROM content WHERE place IN"
            " (SELECT place FROM message WHERE connection_id = ? AND state = 2)",
            mine,
        )
        store.execute("DELETE FROM message WHERE connection_id = ? AND state = 2", mine)
    messages = [held.message for puts in unit.puts.values() for held in puts.values()]
    if messages:
        store.execute_many(
            "INSERT INTO content VALUES(?, ?, ?, ?)",
            [(m.place, m.descriptor, m.properties, m.body) for m in messages],
        )
        released = store.execute(
            "UPDATE message SET state = 0, connection_id = NULL"
            " WHERE connection_id = ? AND state = 1",
            mine,
        )
        if released.rowcount < len(messages):  # a temporary queue has gone with what was put to it
            store.execute_many(
                "DELETE FROM content WHERE place = ?1"
                " AND NOT EXISTS (SELECT 1 FROM message WHERE place = ?1)",
                [(message.place,) for message in messages],
            )


def undo(store: Store, connection_id: int) -> None:
    """Carry out MQBACK, for one's own connection or for one that is gone."""
    mine = (connection_id,)
    # CURDEPTH has counted both already: the messages got come back, those put never were.
    changes = store.execute(
        "SELECT sum(CASE state WHEN 2 THEN 1 ELSE -1 END), queue_id FROM message"
        " WHERE connection_id = ? AND state < 3 GROUP BY queue_id",
        mine,
    ).fetchall()
    for change in changes:
        store.execute("UPDATE depth SET messages = messages + ? WHERE queue_id = ?", change)
    store.execute("DELETE FROM message WHERE connection_id = ? AND state = 1", mine)
    store.execute(
        "UPDATE message SET state = 0, connection_id = NULL, backout_count = backout_count + 1"
        " WHERE connection_id = ? AND state = 2",
        mine,
    )


def unlock(store: Store, connection_id: int) -> None:
    """Free what a connection has locked while browsing; a unit of work has no part in that."""
    store.execute(
        "UPDATE message SET state = 0, connection_id = NULL WHERE connection_id = ? AND state = 3",
        (connection_id,),
    )
