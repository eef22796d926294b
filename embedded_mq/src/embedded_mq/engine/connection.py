"""One connection (MQHCONN) to an embedded queue manager: its handles and its unit of work.

If the process of a connection dies, another connection detects this and backs out its unit of work.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from embedded_mq import mqi_constants as mq
from embedded_mq.character_fields import object_name
from embedded_mq.engine import unit_of_work
from embedded_mq.engine.failures import CallFailedError, log
from embedded_mq.engine.messages.properties import MessageHandles
from embedded_mq.engine.objects import authority, definitions
from embedded_mq.engine.objects.attributes import (
    COMMAND_QUEUE,
    PERFORMANCE_EVENT_QUEUE,
    QUEUE_MANAGER_EVENT_QUEUE,
)
from embedded_mq.engine.objects.resolution import Destination
from embedded_mq.engine.unit_of_work import UnitOfWork
from embedded_mq.storage.catalogue import CREATED_BY, ENDED, QUIESCING, Catalogue, Definition
from embedded_mq.storage.directories import process_program, process_user
from embedded_mq.storage.store import Store

FIRST_OBJECT_HANDLE = 2
USER_LENGTH = 12
QUIESCING_REASONS = {"Q_MGR": "MQRC_Q_MGR_QUIESCING", "CONNECTION": "MQRC_CONNECTION_QUIESCING"}
STOPPING_REASONS = {"Q_MGR": "MQRC_Q_MGR_STOPPING", "CONNECTION": "MQRC_CONNECTION_STOPPING"}


@dataclass(slots=True)
class OpenObject:
    """An open object (MQHOBJ); `queue_ids` are its definitions, from the opened to the last one.

    `cursor` is the browse cursor: the rank and place of the message under it. `locked` is the place
    of the message that the handle has locked. `saved_context` is the packed descriptor of the last
    message got with MQOO_SAVE_ALL_CONTEXT. `has_created` says that the open call created the
    (dynamic) queue.
    """

    handle: int
    options: int
    queue_ids: tuple[int, ...] = ()
    remote: tuple[str, str] | None = None
    cursor: tuple[int, int] | None = None
    locked: int | None = None
    saved_context: bytes | None = None
    has_created: bool = False
    _resolved: ResolvedQueue | None = None

    def allows(self, option: int) -> bool:
        """Return whether the object was opened with any of these options."""
        return bool(self.options & option)

    def path(self, catalogue: Catalogue) -> tuple[Definition, ...]:
        """Return the current definitions."""
        return self.resolved(catalogue).path

    def resolved(self, catalogue: Catalogue) -> ResolvedQueue:
        """Return the current definitions, with the attributes that every call needs."""
        if self._resolved is None or self._resolved.catalogue is not catalogue:
            try:
                path = tuple([catalogue.by_id[queue_id] for queue_id in self.queue_ids])
            except KeyError:
                raise CallFailedError("MQRC_Q_DELETED") from None
            self._resolved = ResolvedQueue(catalogue, path, self.remote)
        return self._resolved


_DESTINATIONS = struct.Struct("iii48s48s")  # in the MQPMO: counts and resolved names


class ResolvedQueue:
    """The definitions to which an open queue is resolved, with attributes for puts and gets."""

    __slots__ = (
        "catalogue",
        "ccsid",
        "checks_headers",
        "destinations",
        "has_depth_events",
        "is_command_queue",
        "is_fifo",
        "is_get_inhibited",
        "is_monitored",
        "is_put_inhibited",
        "is_temporary",
        "max_depth",
        "max_length",
        "max_length_of_q_mgr",
        "max_uncommitted",
        "must_duplicate",
        "opened",
        "path",
        "persistence",
        "priority",
        "queue_id",
        "queue_name",
        "remote",
        "resolved_q_name",
        "stream_q",
    )

    def __init__(
        self, catalogue: Catalogue, path: tuple[Definition, ...], remote: tuple[str, str] | None
    ) -> None:
        """Look up the attributes."""
        self.catalogue, self.path, self.remote = catalogue, path, remote
        self.is_put_inhibited = any(queue.number("PUT") == mq.MQQA_PUT_INHIBITED for queue in path)
        self.is_get_inhibited = any(queue.number("GET") == mq.MQQA_GET_INHIBITED for queue in path)
        if not path:
            return
        self.opened, queue = path[0], path[-1]
        self.queue_id = queue.queue_id
        self.is_command_queue = queue.name == COMMAND_QUEUE
        # No events are generated for event queues.
        self.has_depth_events = (
            bool(catalogue.number("PERFMEV"))
            and any(queue.number(word) for word in ("QDPHIEV", "QDPLOEV", "QDPMAXEV"))
            and queue.name not in {PERFORMANCE_EVENT_QUEUE, QUEUE_MANAGER_EVENT_QUEUE}
        )
        self.is_monitored = catalogue.monitoring(queue) != mq.MQMON_OFF
        self.is_fifo = queue.number("MSGDLVSQ") == mq.MQMDS_FIFO
        self.is_temporary = queue.is_temporary
        self.queue_name = queue.name
        self.stream_q = str(queue.attributes.get("STREAMQ", ""))
        self.must_duplicate = queue.number("STRMQOS") == mq.MQST_MUST_DUP
        self.max_depth = queue.number("MAXDEPTH")
        self.max_length = queue.number("MAXMSGL")
        self.priority = self.opened.number("DEFPRTY")
        self.persistence = self.opened.number("DEFPSIST")
        self.ccsid = catalogue.number("CCSID")
        self.checks_headers = bool(catalogue.number("HDRCHECK"))
        self.max_length_of_q_mgr = catalogue.number("MAXMSGL")
        self.max_uncommitted = catalogue.number("MAXUMSGS")
        self.resolved_q_name = object_name(queue.name)
        known, unknown = (0, 1) if remote else (1, 0)
        resolved = map(object_name, remote or (queue.name, catalogue.name))
        self.destinations = _DESTINATIONS.pack(known, unknown, 0, *resolved)


class NonblockingLock:
    """A lock for MQCNO_HANDLE_SHARE_NO_BLOCK: a call that finds it taken fails."""

    def __init__(self) -> None:
        """Create a free lock."""
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise CallFailedError("MQRC_CALL_IN_PROGRESS")

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class Connection:
    """The engine's side of one MQHCONN."""

    def __init__(
        self,
        directory: Path,
        user: str = "",
        *,
        is_administrative: bool = False,
        is_client: bool = False,
    ) -> None:
        """Connect to the queue manager in a directory, and recover dead connections.

        Without `user`, the user is that of this process. An administrative connection needs no
        authority, and a quiescing queue manager accepts it. A client connection, made with an MQCD,
        gets the reason codes for the end of a connection, not for the end of the queue manager.
        """
        self._reason_subject = "CONNECTION" if is_client else "Q_MGR"
        self.directory = directory
        self.store = Store(directory)
        self.thread: threading.Thread | None = None
        self.is_administrative = is_administrative
        self.lock: AbstractContextManager[object] = threading.RLock()
        self.is_broken = False
        self.has_new_commands = False
        """Whether it has put to the command queue since the last run of the command server."""
        self.changes_trace = False
        """Whether the current get changes the message's trace properties (see `lies`)."""
        self.user = (user or process_user())[:USER_LENGTH]
        self.unit_of_work = UnitOfWork()
        self.message_handles = MessageHandles()
        self._objects: dict[int, OpenObject] = {}
        self._put_to: tuple[bytes, OpenObject | None, Catalogue | None] = (b"", None, None)
        self._last_handle = FIRST_OBJECT_HANDLE - 1
        self._ids_issued = 0
        try:
            with self.store.transaction():
                self._register()
        except BaseException:
            self.store.close()
            raise

    def _register(self) -> None:
        catalogue = self.store.catalogue()
        if catalogue.status == ENDED:
            raise CallFailedError("MQRC_Q_MGR_NOT_AVAILABLE")
        if not self.is_administrative:
            self.check_not_quiescing()
            self.check_authority(authority.QUEUE_MANAGER, catalogue.name, "CONNECT")
        self._start = catalogue.start
        row = self.store.execute(
            "INSERT INTO connection(pid, user, application) VALUES(?, ?, ?)",
            (os.getpid(), self.user, process_program()),
        )
        self.connection_id = int(row.lastrowid or 0)
        self.store.locks.mark_alive(self.connection_id)
        name = catalogue.name.encode().ljust(12)[:12]
        self._id_prefix = b"AMQ " + name + (self.connection_id % 2**24).to_bytes(3, "big")
        self.recover_dead_connections()

    # Checks of every call

    def check_running(self) -> Catalogue:
        """Raise CallFailedError if the queue manager has ended since the connection was made.

        The end of the queue manager has backed out the unit of work. Returns the current
        definitions.
        """
        catalogue = self.store.catalogue()
        if catalogue.start == self._start and catalogue.status != ENDED:
            return catalogue
        self._close()
        is_ended = catalogue.status == ENDED
        raise CallFailedError(
            STOPPING_REASONS[self._reason_subject] if is_ended else "MQRC_CONNECTION_BROKEN"
        )

    def check_not_quiescing(self) -> None:
        """Raise CallFailedError if the queue manager is quiescing."""
        if self.store.last_catalogue.status == QUIESCING:
            raise CallFailedError(QUIESCING_REASONS[self._reason_subject])

    def check_authority(self, kind: str, name: str, *needed: str, user: str | None = None) -> None:
        """Raise CallFailedError unless the user has the authorities for an object."""
        if not self.is_administrative:
            who = self.user if user is None else user
            authority.check(self.store.catalogue(), who, kind, name, needed)

    # Objects

    def add_object(self, options: int, destination: Destination | None) -> OpenObject:
        """Give an opened object the next free handle."""
        self._last_handle += 1
        ids = tuple(queue.queue_id for queue in destination.path) if destination else ()
        opened = OpenObject(
            self._last_handle, options, ids, destination.remote if destination else None
        )
        self._objects[opened.handle] = opened
        return opened

    def drop_object(self, opened: OpenObject, od: bytes = b"") -> None:
        """Remove an object that is closed or could not be opened.

        `od` is the packed MQOD of an object that the next MQPUT1 is likely to open again.
        """
        del self._objects[opened.handle]
        if od:
            self._put_to = od, opened, self.store.last_catalogue

    def reopen(self, od: bytes, options: int) -> OpenObject | None:
        """Return what the last MQPUT1 opened by the same MQOD, if no definition has changed."""
        last_od, opened, catalogue = self._put_to
        if opened is None or catalogue is not self.store.last_catalogue:
            return None
        if (last_od, opened.options) != (od, options):
            return None
        self._objects[opened.handle] = opened
        return opened

    def find_object(self, handle: int) -> OpenObject:
        """Return an open object (MQRC_HOBJ_ERROR)."""
        if handle not in self._objects:
            raise CallFailedError("MQRC_HOBJ_ERROR")
        return self._objects[handle]

    def opened_name(self, handle: int) -> str:
        """Return the name by which an object was opened, "" for an unknown handle or queue."""
        opened = self._objects.get(handle)
        queue_id = opened.queue_ids[0] if opened and opened.queue_ids else 0
        queue = self.store.catalogue().by_id.get(queue_id)
        return queue.name if queue else ""

    def new_id(self) -> bytes:
        """Return a message identifier that no other message of this queue manager has.

        IBM MQ docs, "MsgId (MQMD)": AMQ, the queue manager's name, then a unique value.
        """
        self._ids_issued += 1
        return self._id_prefix + self._ids_issued.to_bytes(5, "big")

    # Units of work

    def commit(self) -> None:
        """Commit the unit of work to disk (IBM MQ docs, "MQCMIT")."""
        if not self.unit_of_work.calls:
            return
        try:
            with self.store.transaction(durable=True):
                unit_of_work.commit_messages(self.store, self.connection_id)
        except sqlite3.Error as error:
            log.exception("the unit of work could not be written and is backed out")
            self.back_out()
            raise CallFailedError("MQRC_BACKED_OUT") from error
        self.has_new_commands |= self.unit_of_work.has_commands
        self.unit_of_work = UnitOfWork()

    def back_out(self) -> None:
        """Back out the unit of work (IBM MQ docs, "MQBACK")."""
        if self.unit_of_work.calls:
            with self.store.transaction():
                unit_of_work.back_out_messages(self.store, self.connection_id)
            self.unit_of_work = UnitOfWork()

    def depth(self, queue_id: int) -> int:
        """Return CURDEPTH, which includes uncommitted puts and excludes uncommitted gets.

        Expired messages count until a get would return them (IBM MQ docs, "CurrentQDepth").
        """
        self.release_orphaned_messages()
        return self.store.depth(queue_id) or 0

    # End of the connection

    def disconnect(self) -> None:
        """Commit the unit of work and end (IBM MQ docs, "MQDISC")."""
        if not self.is_broken:
            self.commit()
            self._end()

    def break_connection(self) -> None:
        """Break the connection: the queue manager backs out the unit of work."""
        if not self.is_broken:
            self.back_out()
            self._end()

    def abandon(self) -> None:
        """Close without a backout: other connections back out the unit of work."""
        log.error("a call was interrupted while it changed something: the connection is broken")
        self._close()

    def _end(self) -> None:
        with self.store.transaction():
            self._delete_rows_of(self.connection_id)
            is_last = self.store.fetch_value("SELECT 1 FROM connection") is None
            if is_last and self.store.catalogue().status == QUIESCING:
                self.store.execute("UPDATE operation SET status = ?", (ENDED,))
                self.store.definitions_changed()
        self._close()

    def _close(self) -> None:
        self.is_broken = True
        self._objects.clear()
        self.unit_of_work = UnitOfWork()
        self.store.close()

    def _delete_rows_of(self, connection_id: int) -> None:
        for table in ("held", "open_handle", "connection"):
            delete = f"DELETE FROM {table} WHERE connection_id = ?"  # noqa: S608 (one of the three)
            self.store.execute(delete, (connection_id,))
        for queue in self.store.catalogue().by_id.values():
            if queue.is_temporary and queue.number(CREATED_BY) == connection_id:
                definitions.remove(self.store, queue.queue_id)

    def release_orphaned_messages(self) -> bool:
        """Back out the units of work of dead connections; return whether there were any."""
        if not self._dead_connections():
            return False
        with self.store.transaction():
            return self.recover_dead_connections()

    def recover_dead_connections(self) -> bool:
        """Do the same inside a write transaction."""
        dead = self._dead_connections()
        for connection_id in dead:
            unit_of_work.back_out_messages(self.store, connection_id)
            self._delete_rows_of(connection_id)
            self.unit_of_work.search_starts.clear()
        return bool(dead)

    def _dead_connections(self) -> list[int]:
        rows = self.store.execute(
            "SELECT connection_id FROM connection WHERE connection_id <> ?", (self.connection_id,)
        ).fetchall()
        return [other for (other,) in rows if not self.store.locks.is_alive(other)]
