"""The MQI calls both client libraries make alike: handles and packed structures in, the same out.

Every call ends with a completion and a reason code, as in C. `ibmmqc` and `pymqe` add the calls in
which the two libraries differ.
"""

# ruff: noqa: N802 (the MQI's own names)

from __future__ import annotations

import itertools
import os
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

from embedded_mq import mqi_constants as mq
from embedded_mq.constants import MQRC
from embedded_mq.engine.connection import Connection, ImpatientLock
from embedded_mq.engine.failures import (
    MQCC_FAILED,
    MQCC_OK,
    MQCC_WARNING,
    CallFailedError,
    log,
    not_emulated,
)
from embedded_mq.engine.messages import getting, putting
from embedded_mq.engine.objects import closing, opening
from embedded_mq.pcf import command_server
from embedded_mq.storage import directories
from embedded_mq.storage.faults import due_for_all, faults, strike
from embedded_mq.structures import MQCMHO, MQGMO, MQMD, MQOD, MQPMO

FIRST_CONNECTION_HANDLE = 0x1000001  # far from those of a real queue manager
UNUSABLE_HANDLE = -1
SHARED = mq.MQCNO_HANDLE_SHARE_BLOCK | mq.MQCNO_HANDLE_SHARE_NO_BLOCK

OPENING = opening.PASS_OR_SET | mq.MQOO_ALTERNATE_USER_AUTHORITY | mq.MQOO_FAIL_IF_QUIESCING

Codes = tuple[int, int]
OK: Codes = (MQCC_OK, 0)

_connections: dict[int, Connection] = {}
_handles = itertools.count(FIRST_CONNECTION_HANDLE)
_in_use_elsewhere: set[int] = set()
_left_by_the_parent: list[Connection] = []


class Error(Exception):
    """A client library passed what is no MQI structure; the modules show this class as `error`."""


def _forget_all() -> None:
    """In a forked child: handles are not inherited, and SQLite is not even to be closed."""
    _left_by_the_parent.extend(_connections.values())
    for connection in _connections.values():
        connection.store.locks.close()
    _connections.clear()


os.register_at_fork(after_in_child=_forget_all)


def connection_at(hconn: int) -> Connection:
    """Return the connection of a handle (MQRC_HCONN_ERROR, MQRC_CONNECTION_BROKEN)."""
    connection = _connections.get(hconn)
    if connection is None or (
        connection.thread is not None and connection.thread is not threading.current_thread()
    ):
        raise CallFailedError("MQRC_HCONN_ERROR")
    if connection.is_broken:
        raise CallFailedError("MQRC_CONNECTION_BROKEN")
    return connection


def run(
    verb: str,
    hconn: int,
    work: Callable[..., tuple[Any, ...]],
    failed: tuple[Any, ...],
    subject: int | bytes = 0,
    *arguments: Any,
) -> Any:
    """Make one call on a connection: `work` gets that and the arguments.

    A failure returns what `failed` holds, and the two codes behind it. `subject` is the object
    handle or the packed MQOD the call is about, if it is about one.

    A signal's handler may raise anything anywhere, between what is one step to everyone else. A
    call that is interrupted while it changes something therefore breaks the connection: what then
    stands is what would if the process had been killed.
    """
    connection = None
    try:
        connection = connection_at(hconn)
        with connection.lock:  # one call at a time, where threads share the handle
            connection.store.has_written = False
            catalogue = connection.check_running()
            if faults or catalogue.has_faults:
                return _run_with_faults(verb, connection, work, subject, arguments)
            answer = work(connection, *arguments)
            if connection.has_new_commands:
                _serve_commands(connection)
            return answer
    except CallFailedError as failure:
        return (*failed, failure.completion, failure.reason)
    except sqlite3.Error:
        log.exception("%s could not use the queue manager's database", verb)
        return (*failed, MQCC_FAILED, MQRC["MQRC_UNEXPECTED_ERROR"])
    except BaseException:
        if connection is not None and connection.store.has_written:
            connection.abandon()
        raise


def _run_with_faults(
    verb: str,
    connection: Connection,
    work: Callable[..., tuple[Any, ...]],
    subject: int | bytes,
    arguments: tuple[Any, ...],
) -> tuple[Any, ...]:
    queue = connection.name_of(subject) if isinstance(subject, int) else opening.name_in(subject)
    due = faults.due(verb, queue) + due_for_all(connection, verb, queue)
    strike(due, "before", connection)
    answer = work(connection, *arguments)
    if connection.has_new_commands:
        _serve_commands(connection)
    strike(due, "after", connection)
    return answer


def _serve_commands(connection: Connection) -> None:
    connection.has_new_commands = False
    command_server.serve(connection.directory)


def run_simple(
    verb: str, hconn: int, work: Callable[[Connection], object], subject: int | bytes = 0
) -> Codes:
    """Make a call that gives back nothing but its two codes."""

    def work_and_say_ok(connection: Connection) -> Codes:
        work(connection)
        return OK

    codes: Codes = run(verb, hconn, work_and_say_ok, (), subject)
    return codes


def check_length(structure: bytes, length: int, name: str) -> None:
    """Refuse a structure of another length, as the C extensions do."""
    if len(structure) != length:
        raise Error(f"{name} has {len(structure)} bytes, {length} are right")


def name_of(name: str | bytes) -> str:
    """Return a queue manager's name as the clients pass it, without what it is padded with."""
    return (name.decode("latin-1") if isinstance(name, bytes) else name).strip(" \0")


def reserve(hconn: int) -> int:
    """Keep a handle of another library out of use here; if it is in use, return one that stands in.

    A handle says by itself which library it belongs to.
    """
    shown = _free_handle() if hconn in _connections else hconn
    _in_use_elsewhere.add(shown)
    return shown


def release(hconn: int) -> None:
    """Let a reserved handle go."""
    _in_use_elsewhere.discard(hconn)


def _free_handle() -> int:
    return next(handle for handle in _handles if handle not in _in_use_elsewhere)


def connect(
    name: str | bytes, verb: str, user: str = "", options: int = 0, *, is_client: bool = False
) -> tuple[int, int, int]:
    """MQCONN and MQCONNX; an unknown queue manager is MQRC_Q_MGR_NAME_ERROR.

    The user is as good as the one who says so: there are no passwords here. `options` are those of
    the MQCNO. Unless they share the handle, it is the thread's, which has one at a time; a second
    MQCONN is given the same one (MQRC_ALREADY_CONNECTED), but for client connections.
    """
    wanted = name_of(name)
    is_shared = bool(options & SHARED)
    known = None if is_shared or is_client else _handle_of_this_thread(wanted)
    if known is not None:
        return known, MQCC_WARNING, MQRC["MQRC_ALREADY_CONNECTED"]
    due = faults.due(verb, "")
    try:
        strike(due, "before", None)
        connection = _connection_to(wanted, user, is_client=is_client)
        strike(due + due_for_all(connection, verb, ""), "after", connection)
    except CallFailedError as failure:
        return UNUSABLE_HANDLE, failure.completion, failure.reason
    except (sqlite3.Error, OSError):
        log.exception("the database of queue manager %s cannot be opened", wanted)
        return UNUSABLE_HANDLE, MQCC_FAILED, MQRC["MQRC_Q_MGR_NOT_AVAILABLE"]
    connection.thread = None if is_shared else threading.current_thread()
    if options & mq.MQCNO_HANDLE_SHARE_NO_BLOCK:
        connection.lock = ImpatientLock()
    hconn = _free_handle()
    _connections[hconn] = connection
    return hconn, *OK


def _handle_of_this_thread(name: str) -> int | None:
    for hconn, connection in _connections.items():
        is_here = connection.thread is threading.current_thread() and not connection.is_broken
        if is_here and connection.directory == directories.directory_of(name):
            return hconn
    return None


def _connection_to(name: str, user: str, *, is_client: bool) -> Connection:
    if not directories.exists(name):
        raise CallFailedError("MQRC_Q_MGR_NAME_ERROR")
    return Connection(directories.directory_of(name), user, is_client=is_client)


def MQCONN(name: str | bytes) -> tuple[int, int, int]:
    """Connect: (Hconn, completion, reason)."""
    return connect(name, "MQCONN")


def MQDISC(hconn: int) -> Codes:
    """Commit what is uncommitted and disconnect."""
    codes = run_simple("MQDISC", hconn, Connection.disconnect)
    connection = _connections.get(hconn)
    if connection is not None and connection.is_broken:
        del _connections[hconn]
    return codes


def MQCMIT(hconn: int) -> Codes:
    """Commit the unit of work."""
    return run_simple("MQCMIT", hconn, Connection.commit)


def MQBACK(hconn: int) -> Codes:
    """Back out the unit of work."""
    return run_simple("MQBACK", hconn, Connection.back_out)


def MQBEGIN(hconn: int) -> Codes:
    """Begin a global unit of work: there is no other resource manager that could take part."""
    warning = MQCC_WARNING, MQRC["MQRC_NO_EXTERNAL_PARTICIPANTS"]
    codes: Codes = run("MQBEGIN", hconn, lambda _: warning, ())
    return codes


def MQOPEN(hconn: int, od: bytes, options: int) -> tuple[int, bytes, int, int]:
    """Open an object: (Hobj, MQOD, completion, reason)."""
    check_length(od, MQOD.length, "MQOD")
    answer: tuple[int, bytes, int, int] = run(
        "MQOPEN", hconn, _open, (UNUSABLE_HANDLE, od), od, MQOD.unpack(od), options
    )
    return answer


def _open(connection: Connection, od: MQOD, options: int) -> tuple[int, bytes, int, int]:
    opened = opening.open_object(connection, od, options)
    return opened.handle, od.pack(), *OK


def MQCLOSE(hconn: int, hobj: int, options: int) -> Codes:
    """Close an object."""
    return run_simple(
        "MQCLOSE", hconn, lambda connection: closing.close(connection, hobj, options), hobj
    )


Put = tuple[bytes, bytes, int, int]
Got = tuple[bytes, bytes, bytes, int, int, int]


def MQPUT(hconn: int, hobj: int, md: bytes, pmo: bytes, message: bytes) -> Put:
    """Put a message: (MQMD, MQPMO, completion, reason)."""
    check_length(md, MQMD.length, "MQMD")
    check_length(pmo, MQPMO.length, "MQPMO")
    answer: Put = run("MQPUT", hconn, putting.put, (md, pmo), hobj, hobj, md, pmo, message)
    return answer


def MQPUT1(hconn: int, od: bytes, md: bytes, pmo: bytes, message: bytes) -> Put:
    """Open, put one message and close: (MQMD, MQPMO, completion, reason)."""
    for structure, kind in ((od, MQOD), (md, MQMD), (pmo, MQPMO)):
        check_length(structure, kind.length, kind.__name__)
    answer: Put = run("MQPUT1", hconn, _put_one, (md, pmo), od, od, md, pmo, message)
    return answer


def _put_one(connection: Connection, od: bytes, md: bytes, pmo: bytes, message: bytes) -> Put:
    # The options of MQPMO and MQOO that concern opening have the same values.
    options = MQPMO.unpack(pmo).options & OPENING | mq.MQOO_OUTPUT
    opened = opening.open_object(connection, MQOD.unpack(od), options, is_held=False)
    try:
        return putting.put(connection, opened.handle, md, pmo, message)
    finally:
        connection.drop_object(opened)


def MQGET(hconn: int, hobj: int, md: bytes, gmo: bytes, max_length: int) -> Got:
    """Get a message: (data, MQMD, MQGMO, the message's full length, completion, reason)."""
    check_length(md, MQMD.length, "MQMD")
    check_length(gmo, MQGMO.length, "MQGMO")
    failed = b"", md, gmo, 0
    answer: Got = run("MQGET", hconn, getting.get, failed, hobj, hobj, md, gmo, max_length)
    return answer


def MQCRTMH(hconn: int, cmho: bytes) -> tuple[int, int, int]:
    """Create a message handle: (Hmsg, completion, reason)."""
    check_length(cmho, MQCMHO.length, "MQCMHO")
    options = MQCMHO.unpack(cmho).options
    answer: tuple[int, int, int] = run(
        "MQCRTMH",
        hconn,
        lambda connection: (connection.message_handles.create(options), *OK),
        (UNUSABLE_HANDLE,),
    )
    return answer


def MQSUB(hconn: int, sd: bytes, hobj: int) -> tuple[bytes, int, int, int, int]:
    """Subscribe: refused."""
    codes = unsupported("MQSUB", hconn)
    return sd, hobj, UNUSABLE_HANDLE, *codes


def unsupported(verb: str, hconn: int) -> Codes:
    """Refuse a verb that is not emulated (MQRC_FUNCTION_NOT_SUPPORTED)."""

    def refuse(_: Connection) -> None:
        raise not_emulated(verb, "MQRC_FUNCTION_NOT_SUPPORTED")

    return run_simple(verb, hconn, refuse)


COMMON = (
    MQCONN,
    MQDISC,
    MQCMIT,
    MQBACK,
    MQBEGIN,
    MQOPEN,
    MQCLOSE,
    MQPUT,
    MQPUT1,
    MQGET,
    MQCRTMH,
    MQSUB,
)
