"""End a unit of work: make the messages put and got under syncpoint final, or undo that."""

from __future__ import annotations

from dataclasses import dataclass, field

from embedded_mq.engine.failures import CallFailedError
from embedded_mq.storage.schema import GOT, LOCKED, PUT, REPORT
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


@dataclass(slots=True)
class UnitOfWork:
    """A connection's own notes on its unit of work; the messages are in the database.

    `calls` counts its messages as MAXUMSGS does. `has_commands`: some went to the command queue.
    `fronts` saves searches from skipping every message that the unit has got: for each queue, the
    rank and place of the last one. It is valid while no other connection changes the database
    (`Store.data_version`); this connection removes it when it shows a message again.
    """

    calls: int = 0
    has_commands: bool = False
    fronts: dict[int, tuple[int, tuple[int, int]]] = field(default_factory=dict)

    def check_room(self, limit: int, messages: int = 1) -> None:
        """Refuse more than MAXUMSGS messages in one unit of work."""
        if self.calls + messages > limit:
            raise CallFailedError("MQRC_SYNCPOINT_LIMIT_REACHED")

    def front(self, queue_id: int, store: Store) -> tuple[int, int] | None:
        """Return the rank and place behind which a search may begin, None for the whole queue."""
        version, front = self.fronts.get(queue_id, (None, None))
        return front if version == store.data_version() else None


REMOVE_HELD = """
DELETE FROM message WHERE place IN (
    SELECT place FROM held WHERE connection_id = ? AND kind IN (?, ?))
"""
COUNT_BACKOUT = """
UPDATE message SET backout_count = backout_count + 1 WHERE place IN (
    SELECT place FROM held WHERE connection_id = ? AND kind = ?)
"""
RELEASE = "DELETE FROM held WHERE connection_id = ? AND kind <> ?"


def make_final(store: Store, connection_id: int) -> None:
    """Carry out MQCMIT: remove the messages got, show the messages put."""
    store.execute(REMOVE_HELD, (connection_id, GOT, GOT))
    store.execute(RELEASE, (connection_id, LOCKED))


def undo(store: Store, connection_id: int) -> None:
    """Carry out MQBACK, for one's own connection or for one that is dead."""
    store.execute(COUNT_BACKOUT, (connection_id, GOT))
    store.execute(REMOVE_HELD, (connection_id, PUT, REPORT))
    store.execute(RELEASE, (connection_id, LOCKED))
