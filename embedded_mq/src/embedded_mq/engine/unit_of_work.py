"""A unit of work: what is put and got under syncpoint, made final or undone, while writing."""

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
    """What a connection knows of its unit of work; the messages are in the database.

    `calls` counts the messages that took part, as MAXUMSGS does. `has_commands` says that some went
    to the command queue. `fronts` are rank and place of the last message got from each queue, and
    the version of the database in which this connection can get none up to there.
    """

    calls: int = 0
    has_commands: bool = False
    fronts: dict[int, tuple[int, tuple[int, int]]] = field(default_factory=dict)

    def check_room(self, limit: int, messages: int = 1) -> None:
        """Refuse more than MAXUMSGS messages in one unit of work."""
        if self.calls + messages > limit:
            raise CallFailedError("MQRC_SYNCPOINT_LIMIT_REACHED")

    def front(self, queue_id: int, store: Store) -> tuple[int, int] | None:
        """Return behind which rank and place to look, rather than pass by all that has been got."""
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
