"""Commit or back out the messages that a unit of work has put and got."""

from dataclasses import dataclass, field

from embedded_mq.engine.failures import CallFailedError
from embedded_mq.storage.schema import GOT, LOCKED, PUT, REPORT
from embedded_mq.storage.store import Store


@dataclass(slots=True)
class Message:
    """A stored message; `place` and `rank` define its position on its queue."""

    place: int
    rank: int
    backout_count: int
    expires_at: float | None
    descriptor: bytes
    properties: bytes | None
    body: bytes


@dataclass(slots=True)
class UnitOfWork:
    """A connection's state of its unit of work; the messages are in the database.

    `calls` counts its messages as MAXUMSGS does. `has_commands` says that it has put to the command
    queue. `search_starts` has the rank and place of the last message got from each queue, so that a
    search need not skip every message that the unit has got. An entry is valid while no other
    connection changes the database (`Store.data_version`); this connection removes it when it makes
    a message visible again.
    """

    calls: int = 0
    has_commands: bool = False
    search_starts: dict[int, tuple[int, tuple[int, int]]] = field(default_factory=dict)

    def check_room(self, limit: int, messages: int = 1) -> None:
        """Refuse more than MAXUMSGS messages in one unit of work."""
        if self.calls + messages > limit:
            raise CallFailedError("MQRC_SYNCPOINT_LIMIT_REACHED")

    def search_start(self, queue_id: int, store: Store) -> tuple[int, int] | None:
        """Return the rank and place after which a search may start, None for the whole queue."""
        version, search_start = self.search_starts.get(queue_id, (None, None))
        return search_start if version == store.data_version() else None


REMOVE_HELD = """
DELETE FROM message WHERE place IN (
    SELECT place FROM held WHERE connection_id = ? AND kind IN (?, ?))
"""
COUNT_BACKOUT = """
UPDATE message SET backout_count = backout_count + 1 WHERE place IN (
    SELECT place FROM held WHERE connection_id = ? AND kind = ?)
"""
RELEASE = "DELETE FROM held WHERE connection_id = ? AND kind <> ?"


def commit_messages(store: Store, connection_id: int) -> None:
    """Commit: remove the messages got, and make the messages put visible."""
    store.execute(REMOVE_HELD, (connection_id, GOT, GOT))
    store.execute(RELEASE, (connection_id, LOCKED))


def back_out_messages(store: Store, connection_id: int) -> None:
    """Back out the unit of work of this connection or of a dead one."""
    store.execute(COUNT_BACKOUT, (connection_id, GOT))
    store.execute(REMOVE_HELD, (connection_id, PUT, REPORT))
    store.execute(RELEASE, (connection_id, LOCKED))
