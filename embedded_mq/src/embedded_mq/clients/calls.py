"""The MQI calls that both client libraries make in the same way.

The arguments are handles and packed structures, and every call returns a completion code and a
reason code last, as in C. `ibmmqc` and `pymqe` add the calls in which the libraries differ.
"""

# ruff: noqa: N802 (the MQI's own names)

import itertools
import operator
import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from embedded_mq import mqi_constants as mq
from embedded_mq.constants import MQRC
from embedded_mq.engine.connection import Connection, NonblockingLock
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
from embedded_mq.option_structures import MQCMHO
from embedded_mq.pcf import command_server
from embedded_mq.storage import call_log, directories
from embedded_mq.storage.faults import apply_faults, faults, queue_manager_faults_due
from embedded_mq.storage.lies import LIES, with_lies
from embedded_mq.structures import MQGMO, MQMD, MQOD, MQPMO

FIRST_CONNECTION_HANDLE = 0x1000001  # not a handle of a real queue manager
UNUSABLE_HANDLE = -1
SHARED_HANDLE_OPTIONS = mq.MQCNO_HANDLE_SHARE_BLOCK | mq.MQCNO_HANDLE_SHARE_NO_BLOCK

PUT1_OPEN_OPTIONS = (
    opening.PASS_OR_SET_CONTEXT | mq.MQOO_ALTERNATE_USER_AUTHORITY | mq.MQOO_FAIL_IF_QUIESCING
)

Codes = tuple[int, int]
OK: Codes = (MQCC_OK, 0)

_connections: dict[int, Connection] = {}
_handles = itertools.count(FIRST_CONNECTION_HANDLE)
_handles_of_other_libraries: set[int] = set()
_inherited_connections: list[Connection] = []


class Error(Exception):
    """A client library passed an invalid MQI structure; the modules export this as `error`."""


def _forget_inherited_connections() -> None:
    """Forget the parent's connections in a forked child, which must not even close SQLite."""
    _inherited_connections.extend(_connections.values())
    for connection in _connections.values():
        connection.store.locks.close()
    _connections.clear()


os.register_at_fork(after_in_child=_forget_inherited_connections)


def connection_at(hconn: int) -> Connection:
    """Return the connection of a handle (MQRC_HCONN_ERROR, MQRC_CONNECTION_BROKEN).

    Raises TypeError for a handle that is not a number, as the C extensions do: the clients pass
    None after MQDISC.
    """
    connection = _connections.get(operator.index(hconn))
    if connection is None or (
        connection.thread is not None and connection.thread is not threading.current_thread()
    ):
        raise CallFailedError("MQRC_HCONN_ERROR")
    if connection.is_broken:
        raise CallFailedError("MQRC_CONNECTION_BROKEN")
    return connection


def execute_call(
    verb: str,
    hconn: int,
    operation: Callable[..., tuple[Any, ...]],
    failed: tuple[Any, ...],
    subject: int | bytes = 0,
    *arguments: Any,
) -> Any:
    """Execute one call on a connection: run `operation` with the connection and the arguments.

    If the call fails, the result is `failed` and the two codes. `subject` is the object handle or
    the packed MQOD of the call, if it has one.

    The handler of a signal may raise an exception at any point of a change. A call that is
    interrupted while it changes something therefore breaks the connection, with the same effect as
    if the process had been killed.
    """
    connection = None
    try:
        connection = connection_at(hconn)
        with connection.lock:  # threads that share the handle make one call at a time
            connection.store.has_written = False
            catalogue = connection.check_running()
            if faults or catalogue.has_faults or call_log.is_on():
                return _run_with_faults(verb, connection, operation, subject, arguments)
            answer = operation(connection, *arguments)
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
    operation: Callable[..., tuple[Any, ...]],
    subject: int | bytes,
    arguments: tuple[Any, ...],
) -> tuple[Any, ...]:
    queue = (
        connection.opened_name(subject)
        if isinstance(subject, int)
        else opening.object_name_in(subject)
    )
    call_log.note(connection.connection_id, verb, queue, arguments)
    due = faults.due(verb, queue) + queue_manager_faults_due(connection, verb, queue)
    apply_faults(due, "before", connection)
    lies = [fault.what for fault in due if fault.what in LIES]
    answer = with_lies(operation, lies)(connection, *arguments)
    if connection.has_new_commands:
        _serve_commands(connection)
    apply_faults(due, "after", connection)
    return answer


def _serve_commands(connection: Connection) -> None:
    connection.has_new_commands = False
    command_server.serve(connection.directory)


def execute_simple_call(
    verb: str, hconn: int, operation: Callable[[Connection], object], subject: int | bytes = 0
) -> Codes:
    """Execute a call that returns only its two codes."""

    def operation_with_codes(connection: Connection) -> Codes:
        operation(connection)
        return OK

    codes: Codes = execute_call(verb, hconn, operation_with_codes, (), subject)
    return codes


def check_length(structure: bytes, length: int, name: str) -> None:
    """Raise `Error` for a structure of another length, as the C extensions do."""
    if len(structure) != length:
        raise Error(f"{name} has {len(structure)} bytes; it must have {length}")


def unpadded_name(name: str | bytes) -> str:
    """Return a queue manager's name without the padding that the clients pass."""
    return (name.decode("latin-1") if isinstance(name, bytes) else name).strip(" \0")


def reserve_handle(hconn: int) -> int:
    """Reserve a connection handle of another library; if it is already in use, return a substitute.

    So a handle always identifies its library.
    """
    shown = _free_handle() if hconn in _connections else hconn
    _handles_of_other_libraries.add(shown)
    return shown


def release_handle(hconn: int) -> None:
    """Release a reserved handle."""
    _handles_of_other_libraries.discard(hconn)


def _free_handle() -> int:
    return next(handle for handle in _handles if handle not in _handles_of_other_libraries)


def connect(
    name: str | bytes, verb: str, user: str = "", options: int = 0, *, is_client: bool = False
) -> tuple[int, int, int]:
    """Execute MQCONN or MQCONNX (MQRC_Q_MGR_NAME_ERROR for an unknown queue manager).

    The user is trusted: there are no passwords here. `options` are those of the MQCNO. Unless they
    share the handle, it belongs to the thread, which has one at a time: a second MQCONN returns the
    same handle (MQRC_ALREADY_CONNECTED), except for client connections.
    """
    wanted = unpadded_name(name)
    is_shared = bool(options & SHARED_HANDLE_OPTIONS)
    known = None if is_shared or is_client else _handle_of_this_thread(wanted)
    if known is not None:
        return known, MQCC_WARNING, MQRC["MQRC_ALREADY_CONNECTED"]
    due = faults.due(verb, "")
    try:
        apply_faults(due, "before", None)
        connection = _connection_to(wanted, user, is_client=is_client)
        apply_faults(due + queue_manager_faults_due(connection, verb, ""), "after", connection)
    except CallFailedError as failure:
        return UNUSABLE_HANDLE, failure.completion, failure.reason
    except (sqlite3.Error, OSError):
        log.exception("the database of queue manager %s cannot be opened", wanted)
        return UNUSABLE_HANDLE, MQCC_FAILED, MQRC["MQRC_Q_MGR_NOT_AVAILABLE"]
    call_log.note(connection.connection_id, verb, wanted)
    connection.thread = None if is_shared else threading.current_thread()
    if options & mq.MQCNO_HANDLE_SHARE_NO_BLOCK:
        connection.lock = NonblockingLock()
    hconn = _free_handle()
    _connections[hconn] = connection
    return hconn, *OK


def _handle_of_this_thread(name: str) -> int | None:
    for hconn, connection in _connections.items():
        is_here = connection.thread is threading.current_thread() and not connection.is_broken
        if is_here and connection.directory == directories.directory_of(name):
            return hconn
    return None


def connected_directories() -> list[Path]:
    """Return the directories of the queue managers that this process is connected to."""
    return [found.directory for found in _connections.values() if not found.is_broken]


def _connection_to(name: str, user: str, *, is_client: bool) -> Connection:
    if not directories.exists(name):
        raise CallFailedError("MQRC_Q_MGR_NAME_ERROR")
    return Connection(directories.directory_of(name), user, is_client=is_client)


def MQCONN(name: str | bytes) -> tuple[int, int, int]:
    """Connect: (Hconn, completion, reason)."""
    return connect(name, "MQCONN")


def MQDISC(hconn: int) -> Codes:
    """Commit the unit of work and disconnect."""
    codes = execute_simple_call("MQDISC", hconn, Connection.disconnect)
    connection = _connections.get(hconn)
    if connection is not None and connection.is_broken:
        del _connections[hconn]
    return codes


def MQCMIT(hconn: int) -> Codes:
    """Commit the unit of work."""
    return execute_simple_call("MQCMIT", hconn, Connection.commit)


def MQBACK(hconn: int) -> Codes:
    """Back out the unit of work."""
    return execute_simple_call("MQBACK", hconn, Connection.back_out)


def MQBEGIN(hconn: int) -> Codes:
    """Begin a global unit of work, with the warning that no other resource manager takes part."""
    warning = MQCC_WARNING, MQRC["MQRC_NO_EXTERNAL_PARTICIPANTS"]
    codes: Codes = execute_call("MQBEGIN", hconn, lambda _: warning, ())
    return codes


def MQOPEN(hconn: int, od: bytes, options: int) -> tuple[int, bytes, int, int]:
    """Open an object: (Hobj, MQOD, completion, reason)."""
    check_length(od, MQOD.length, "MQOD")
    answer: tuple[int, bytes, int, int] = execute_call(
        "MQOPEN", hconn, _open, (UNUSABLE_HANDLE, od), od, MQOD.unpack(od), options
    )
    return answer


def _open(connection: Connection, od: MQOD, options: int) -> tuple[int, bytes, int, int]:
    opened = opening.open_object(connection, od, options)
    return opened.handle, od.pack(), *OK


def MQCLOSE(hconn: int, hobj: int, options: int) -> Codes:
    """Close an object."""
    return execute_simple_call(
        "MQCLOSE", hconn, lambda connection: closing.close(connection, hobj, options), hobj
    )


PutResult = tuple[bytes, bytes, int, int]
GetResult = tuple[bytes, bytes, bytes, int, int, int]


def MQPUT(hconn: int, hobj: int, md: bytes, pmo: bytes, message: bytes) -> PutResult:
    """Put a message: (MQMD, MQPMO, completion, reason)."""
    check_length(md, MQMD.length, "MQMD")
    check_length(pmo, MQPMO.length, "MQPMO")
    answer: PutResult = execute_call(
        "MQPUT", hconn, putting.put, (md, pmo), hobj, hobj, md, pmo, message
    )
    return answer


def MQPUT1(hconn: int, od: bytes, md: bytes, pmo: bytes, message: bytes) -> PutResult:
    """Open, put one message and close: (MQMD, MQPMO, completion, reason)."""
    for structure, kind in ((od, MQOD), (md, MQMD), (pmo, MQPMO)):
        check_length(structure, kind.length, kind.__name__)
    answer: PutResult = execute_call("MQPUT1", hconn, _put_one, (md, pmo), od, od, md, pmo, message)
    return answer


def _put_one(connection: Connection, od: bytes, md: bytes, pmo: bytes, message: bytes) -> PutResult:
    # The options of MQPMO and MQOO that concern opening have the same values.
    (_, _, asked, _) = putting.PUT_OPTIONS.unpack_from(pmo)
    options = asked & PUT1_OPEN_OPTIONS | mq.MQOO_OUTPUT
    opened = connection.reopen(od, options)
    if opened is None:
        opened = opening.open_object(connection, MQOD.unpack(od), options, is_registered=False)
    try:
        return putting.put(connection, opened.handle, md, pmo, message)
    finally:
        connection.drop_object(opened, od)


def MQGET(hconn: int, hobj: int, md: bytes, gmo: bytes, max_length: int) -> GetResult:
    """Get a message: (data, MQMD, MQGMO, the message's full length, completion, reason)."""
    check_length(md, MQMD.length, "MQMD")
    check_length(gmo, MQGMO.length, "MQGMO")
    failed = b"", md, gmo, 0
    answer: GetResult = execute_call(
        "MQGET", hconn, getting.get, failed, hobj, hobj, md, gmo, max_length
    )
    return answer


def MQCRTMH(hconn: int, cmho: bytes) -> tuple[int, int, int]:
    """Create a message handle: (Hmsg, completion, reason)."""
    check_length(cmho, MQCMHO.length, "MQCMHO")
    options = MQCMHO.unpack(cmho).options
    answer: tuple[int, int, int] = execute_call(
        "MQCRTMH",
        hconn,
        lambda connection: (connection.message_handles.create(options), *OK),
        (UNUSABLE_HANDLE,),
    )
    return answer


def MQSUB(hconn: int, sd: bytes, hobj: int) -> tuple[bytes, int, int, int, int]:
    """Refuse to subscribe."""
    codes = refuse_call("MQSUB", hconn)
    return sd, hobj, UNUSABLE_HANDLE, *codes


def refuse_call(verb: str, hconn: int) -> Codes:
    """Refuse a verb that is not emulated (MQRC_FUNCTION_NOT_SUPPORTED)."""

    def refuse(_: Connection) -> None:
        raise not_emulated(verb, "MQRC_FUNCTION_NOT_SUPPORTED")

    return execute_simple_call(verb, hconn, refuse)


COMMON_CALLS = (
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
