"""One connection (MQHCONN) to an embedded queue manager: its handles and its unit of work.

If the process of a connection dies, the next connection that looks for dead ones backs out its unit
of work.
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
from embedded_mq.engine import unit_of_work
from embedded_mq.engine.failures import CallFailedError, log
from embedded_mq.engine.messages.properties import MessageHandles
from embedded_mq.engine.objects import authority, definitions
from embedded_mq.engine.objects.attributes import COMMAND_QUEUE
from embedded_mq.engine.objects.resolution import Destination
from embedded_mq.engine.unit_of_work import UnitOfWork
from embedded_mq.storage.catalogue import CREATED_BY, ENDED, QUIESCING, Catalogue, Definition
from embedded_mq.storage.directories import process_user
from embedded_mq.storage.store import Store
from embedded_mq.structures import object_name

FIRST_OBJECT_HANDLE = 2
USER_LENGTH = 12
QUIESCING_FOR = {"Q_MGR": "MQRC_Q_MGR_QUIESCING", "CONNECTION": "MQRC_CONNECTION_QUIESCING"}
STOPPING = {"Q_MGR": "MQRC_Q_MGR_STOPPING", "CONNECTION": "MQRC_CONNECTION_STOPPING"}


@dataclass(slots=True)
class OpenObject:
    """What an MQHOBJ stands for; `queue_ids` are the definitions from the opened to the last one.

    `cursor` is the browse cursor: rank and place of the message under it; `locked` is the place of
    the message locked by it. `saved_context` is the packed descriptor of the last message got with
    MQOO_SAVE_ALL_CONTEXT. `has_created` says that the open call made the (dynamic) queue.
    """

    handle: int
    options: int
    queue_ids: tuple[int, ...] = ()
    remote: tuple[str, str] | None = None
    cursor: tuple[int, int] | None = None
    locked: int | None = None
    saved_context: bytes | None = None
    has_created: bool = False
    _way: Way | None = None

    def allows(self, option: int) -> bool:
        """Whether the object was opened with any of these options."""
        return bool(self.options & option)

    def path(self, catalogue: Catalogue) -> tuple[Definition, ...]:
        """Return the definitions as they are now."""
        return self.way(catalogue).path

    def way(self, catalogue: Catalogue) -> Way:
        """Return the definitions as they are now, with what every call asks of them."""
        if self._way is None or self._way.catalogue is not catalogue:
            try:
                path = tuple([catalogue.by_id[queue_id] for queue_id in self.queue_ids])
            except KeyError:
                raise CallFailedError("MQRC_Q_DELETED") from None
            self._way = Way(catalogue, path, self.remote)
        return self._way


_DESTINATIONS = struct.Struct("iii48s48s")  # in the MQPMO: counts and resolved names


class Way:
    """The definitions an open queue leads through, and what every put and get asks of them."""

    __slots__ = (
        "catalogue",
        "ccsid",
        "checks_headers",
        "destinations",
        "is_fifo",
        "is_get_inhibited",
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
        "takes_commands",
    )

    def __init__(
        self, catalogue: Catalogue, path: tuple[Definition, ...], remote: tuple[str, str] | None
    ) -> None:
        """Look everything up."""
        self.catalogue, self.path, self.remote = catalogue, path, remote
        self.is_put_inhibited = any(queue.number("PUT") == mq.MQQA_PUT_INHIBITED for queue in path)
        self.is_get_inhibited = any(queue.number("GET") == mq.MQQA_GET_INHIBITED for queue in path)
        if not path:
            return
        self.opened, queue = path[0], path[-1]
        self.queue_id = queue.queue_id
        self.takes_commands = queue.name == COMMAND_QUEUE
        self.is_fifo = queue.number("MSGDLVSQ") == mq.MQMDS_FIFO
        self.is_temporary = queue.is_temporary
        self.queue_name = queue.name
        self.stream_q = str(queue.attributes.get("STREAMQ", ""))
        self.must_duplicate = queue.number("STRMQOS") == mq.MQST_MUST_DUP
        self.max_depth = queue.number("MAXDEPTH")
        self.max_length = queue.number("MAXMSGL")
        self.priority = self.opened.number("DEFPRTY")
        self.persistence = self.opened.number("DEFPSIST")
        self.ccsid = catalogue.limit("CCSID")
        self.checks_headers = bool(catalogue.limit("HDRCHECK"))
        self.max_length_of_q_mgr = catalogue.limit("MAXMSGL")
        self.max_uncommitted = catalogue.limit("MAXUMSGS")
        self.resolved_q_name = object_name(queue.name)
        known, unknown = (0, 1) if remote else (1, 0)
        resolved = map(object_name, remote or (queue.name, catalogue.name))
        self.destinations = _DESTINATIONS.pack(known, unknown, 0, *resolved)


class ImpatientLock:
    """A lock for MQCNO_HANDLE_SHARE_NO_BLOCK: who finds it taken does not wait."""

    def __init__(self) -> None:
        """Nobody holds it yet."""
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
        """Connect to the queue manager in a directory; the dead are cleared away first.

        Without a user it is the one this process runs as. An administrative connection needs no
        authority, and is let in by a queue manager that is quiescing. A client's, made with an
        MQCD, is told of the end of its connection, not of that of the queue manager.
        """
        self._about = "CONNECTION" if is_client else "Q_MGR"
        self.directory = directory
        self.store = Store(directory)
        self.thread: threading.Thread | None = None
        self.is_administrative = is_administrative
        self.lock: AbstractContextManager[object] = threading.RLock()
        self.is_broken = False
        self.has_new_commands = False
        """Whether it has put to the command queue since the command server last looked."""
        self.changes_trace = False
        """Whether the message that is being got gets other trace properties (see `faults`)."""
        self.user = (user or process_user())[:USER_LENGTH]
        self.unit_of_work = UnitOfWork()
        self.message_handles = MessageHandles()
        self._objects: dict[int, OpenObject] = {}
        self._last_handle = FIRST_OBJECT_HANDLE - 1
        self._ids_given = 0
        try:
            with self.store.writing():
                self._be_let_in()
        except BaseException:
            self.store.close()
            raise

    def _be_let_in(self) -> None:
        catalogue = self.store.catalogue()
        if catalogue.status == ENDED:
            raise CallFailedError("MQRC_Q_MGR_NOT_AVAILABLE")
        if not self.is_administrative:
            self.check_not_quiescing()
            self.check_authority(authority.QUEUE_MANAGER, catalogue.name, "CONNECT")
        self._start = catalogue.start
        row = self.store.execute("INSERT INTO connection(pid) VALUES(?)", (os.getpid(),))
        self.connection_id = int(row.lastrowid or 0)
        self.store.locks.show_alive(self.connection_id)
        name = catalogue.name.encode().ljust(12)[:12]
        self._ids_begin = b"AMQ " + name + (self.connection_id % 2**24).to_bytes(3, "big")
        self.clear_the_dead()

    # What holds for every call

    def check_running(self) -> Catalogue:
        """Refuse if the queue manager has been ended since the connection was made.

        Its end has backed out the unit of work: there is nothing left to do. Returns the
        definitions, looked at anew.
        """
        catalogue = self.store.catalogue()
        if catalogue.start == self._start and catalogue.status != ENDED:
            return catalogue
        self._close()
        is_ended = catalogue.status == ENDED
        raise CallFailedError(STOPPING[self._about] if is_ended else "MQRC_CONNECTION_BROKEN")

    def check_not_quiescing(self) -> None:
        """Refuse what is to fail while the queue manager is quiescing."""
        if self.store.known.status == QUIESCING:
            raise CallFailedError(QUIESCING_FOR[self._about])

    def check_authority(self, kind: str, name: str, *needed: str, user: str | None = None) -> None:
        """Refuse what the connection's user, or another one, may not do with an object."""
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

    def drop_object(self, opened: OpenObject) -> None:
        """Let go of an object that is closed, or could not be opened after all."""
        del self._objects[opened.handle]

    def object(self, handle: int) -> OpenObject:
        """Return an open object (MQRC_HOBJ_ERROR)."""
        if handle not in self._objects:
            raise CallFailedError("MQRC_HOBJ_ERROR")
        return self._objects[handle]

    def name_of(self, handle: int) -> str:
        """Return the name an object was opened by, "" where there is no such handle or queue."""
        opened = self._objects.get(handle)
        queue_id = opened.queue_ids[0] if opened and opened.queue_ids else 0
        queue = self.store.catalogue().by_id.get(queue_id)
        return queue.name if queue else ""

    def new_id(self) -> bytes:
        """Return a message identifier no other message of this queue manager has.

        IBM MQ docs, "MsgId (MQMD)": AMQ, the queue manager's name, then what makes it unique.
        """
        self._ids_given += 1
        return self._ids_begin + self._ids_given.to_bytes(5, "big")

    # Units of work

    def commit(self) -> None:
        """Make the unit of work final, on disk when this returns (IBM MQ docs, "MQCMIT")."""
        if not self.unit_of_work.calls:
            return
        try:
            with self.store.writing(durable=True):
                unit_of_work.make_final(self.store, self.connection_id)
        except sqlite3.Error as error:
            log.exception("the unit of work could not be written and is backed out")
            self.back_out()
            raise CallFailedError("MQRC_BACKED_OUT") from error
        self.has_new_commands |= self.unit_of_work.has_commands
        self.unit_of_work = UnitOfWork()

    def back_out(self) -> None:
        """Undo the unit of work (IBM MQ docs, "MQBACK")."""
        if self.unit_of_work.calls:
            with self.store.writing():
                unit_of_work.undo(self.store, self.connection_id)
            self.unit_of_work = UnitOfWork()

    def depth(self, queue_id: int) -> int:
        """Return CURDEPTH: with what is put and not committed, without what is got and not.

        Expired messages count until someone would have got them (IBM MQ docs, "CurrentQDepth").
        """
        self.free_what_the_dead_hold()
        return self.store.depth(queue_id) or 0

    # Life and death

    def disconnect(self) -> None:
        """Commit and end (IBM MQ docs, "MQDISC": an open unit of work is committed)."""
        if not self.is_broken:
            self.commit()
            self._end()

    def break_off(self) -> None:
        """Lose the connection: the queue manager backs out what was not committed."""
        if not self.is_broken:
            self.back_out()
            self._end()

    def abandon(self) -> None:
        """Be as good as dead: others back out what is not committed, by what the database says."""
        log.error("a call was interrupted while it changed something: the connection is broken")
        self._close()

    def _end(self) -> None:
        with self.store.writing():
            self._forget(self.connection_id)
            is_last = self.store.one("SELECT 1 FROM connection") is None
            if is_last and self.store.catalogue().status == QUIESCING:
                self.store.execute("UPDATE operation SET status = ?", (ENDED,))
                self.store.definitions_changed()
        self._close()

    def _close(self) -> None:
        self.is_broken = True
        self._objects.clear()
        self.unit_of_work = UnitOfWork()
        self.store.close()

    def _forget(self, connection_id: int) -> None:
        for table in ("held", "open_handle", "connection"):
            delete = f"DELETE FROM {table} WHERE connection_id = ?"  # noqa: S608 (one of the three)
            self.store.execute(delete, (connection_id,))
        for queue in self.store.catalogue().by_id.values():
            if queue.is_temporary and queue.number(CREATED_BY) == connection_id:
                definitions.remove(self.store, queue.queue_id)

    def free_what_the_dead_hold(self) -> bool:
        """Back out the units of work of dead connections; return whether there were any."""
        if not self._dead():
            return False
        with self.store.writing():
            return self.clear_the_dead()

    def clear_the_dead(self) -> bool:
        """Do the same while writing."""
        dead = self._dead()
        for connection_id in dead:
            unit_of_work.undo(self.store, connection_id)
            self._forget(connection_id)
            self.unit_of_work.fronts.clear()
        return bool(dead)

    def _dead(self) -> list[int]:
        rows = self.store.execute(
            "SELECT connection_id FROM connection WHERE connection_id <> ?", (self.connection_id,)
        ).fetchall()
        return [other for (other,) in rows if not self.store.locks.is_alive(other)]
