"""MQGET: a descriptor to match and options in, a message browsed or taken out.

IBM MQ docs, "MQGET", "MQGMO - Get-message options" and the fields of "MQMD".
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import inf

from mqdlq.constants import MQRC
from mqdlq.mqi.embedded import mqi_constants as mq
from mqdlq.mqi.embedded import selection
from mqdlq.mqi.embedded.catalogue import Catalogue, Definition
from mqdlq.mqi.embedded.connection import Connection, OpenObject
from mqdlq.mqi.embedded.delivery import deliver
from mqdlq.mqi.embedded.failures import (
    MQCC_OK,
    MQCC_WARNING,
    CallFailedError,
    check_bits,
    log,
)
from mqdlq.mqi.embedded.properties import MessageHandle
from mqdlq.mqi.embedded.selection import Criteria
from mqdlq.mqi.embedded.structures import MQGMO, MQMD, object_name, text
from mqdlq.mqi.embedded.unit_of_work import Message

INPUT = mq.MQOO_INPUT_AS_Q_DEF | mq.MQOO_INPUT_SHARED | mq.MQOO_INPUT_EXCLUSIVE
BROWSE = mq.MQGMO_BROWSE_FIRST | mq.MQGMO_BROWSE_NEXT | mq.MQGMO_BROWSE_MSG_UNDER_CURSOR
UNDER_CURSOR = mq.MQGMO_MSG_UNDER_CURSOR | mq.MQGMO_BROWSE_MSG_UNDER_CURSOR
SYNCPOINTS = mq.MQGMO_SYNCPOINT | mq.MQGMO_NO_SYNCPOINT | mq.MQGMO_SYNCPOINT_IF_PERSISTENT
PROPERTIES = (
    mq.MQGMO_PROPERTIES_FORCE_MQRFH2
    | mq.MQGMO_NO_PROPERTIES
    | mq.MQGMO_PROPERTIES_IN_HANDLE
    | mq.MQGMO_PROPERTIES_COMPATIBILITY
)
KNOWN = (
    mq.MQGMO_WAIT
    | SYNCPOINTS
    | BROWSE
    | UNDER_CURSOR
    | mq.MQGMO_LOCK
    | mq.MQGMO_ACCEPT_TRUNCATED_MSG
    | mq.MQGMO_FAIL_IF_QUIESCING
    | mq.MQGMO_CONVERT
    | PROPERTIES
)
NAMES = mq.names_of("MQGMO")

# How often a waiting MQGET looks: soon at first, for those who wait for an answer.
FIRST_LOOKS_S, LATER_LOOKS_S, SOON_S = 0.002, 0.02, 0.2


MQGMO_VERSION_3 = 3
TRUNCATED_MSG_FAILED = MQRC["MQRC_TRUNCATED_MSG_FAILED"]


@dataclass(frozen=True, slots=True)
class Request:
    """What one MQGET asks for."""

    opened: OpenObject
    md: MQMD
    gmo: MQGMO
    max_length: int
    criteria: Criteria
    message_handle: MessageHandle | None

    @property
    def options(self) -> int:
        """The options of the MQGMO."""
        return self.gmo.options


@dataclass(slots=True)
class Got:
    """What MQGET gives back."""

    data: bytes
    md: MQMD
    gmo: MQGMO
    length: int
    completion: int = MQCC_OK
    reason: int = 0


def get(connection: Connection, handle: int, md: MQMD, gmo: MQGMO, max_length: int) -> Got:
    """Get or browse one message, waiting for it where the options say so."""
    opened = connection.object(handle)
    if gmo.options & mq.MQGMO_UNLOCK:
        return _unlock(connection, opened, md, gmo)
    _check(opened, md, gmo, max_length)
    request = Request(
        opened,
        md,
        gmo,
        max_length,
        selection.criteria(md, gmo),
        connection.message_handles.for_get(gmo),
    )
    is_waiting = gmo.options & mq.MQGMO_WAIT
    started = time.monotonic()
    is_limited = gmo.wait_interval != mq.MQWI_UNLIMITED
    deadline = started + gmo.wait_interval / 1000 if is_limited else inf
    while True:
        got = _get_now(connection, request)
        if got is not None:
            return got
        now = time.monotonic()
        if not is_waiting or now >= deadline:
            raise CallFailedError("MQRC_NO_MSG_AVAILABLE")
        time.sleep(min(FIRST_LOOKS_S if now - started < SOON_S else LATER_LOOKS_S, deadline - now))
        connection.check_running()


def _check(opened: OpenObject, md: MQMD, gmo: MQGMO, max_length: int) -> None:
    if gmo.struc_id != b"GMO " or gmo.version not in range(1, 5):
        raise CallFailedError("MQRC_GMO_ERROR")
    if md.struc_id != b"MD  " or md.version not in {mq.MQMD_VERSION_1, mq.MQMD_VERSION_2}:
        raise CallFailedError("MQRC_MD_ERROR")
    options = gmo.options
    check_bits(options, KNOWN, "MQGMO", NAMES)
    browsing = options & BROWSE
    checks = (
        (options & mq.MQGMO_LOCK and not browsing, "MQRC_OPTIONS_ERROR"),
        (browsing.bit_count() > 1, "MQRC_OPTIONS_ERROR"),
        (browsing and options & mq.MQGMO_MSG_UNDER_CURSOR, "MQRC_OPTIONS_ERROR"),
        (browsing and options & SYNCPOINTS & ~mq.MQGMO_NO_SYNCPOINT, "MQRC_OPTIONS_ERROR"),
        ((options & SYNCPOINTS).bit_count() > 1, "MQRC_OPTIONS_ERROR"),
        ((options & PROPERTIES).bit_count() > 1, "MQRC_OPTIONS_ERROR"),
        (
            (browsing or options & UNDER_CURSOR) and not opened.allows(mq.MQOO_BROWSE),
            "MQRC_NOT_OPEN_FOR_BROWSE",
        ),
        (not browsing and not opened.allows(INPUT), "MQRC_NOT_OPEN_FOR_INPUT"),
        (max_length < 0, "MQRC_BUFFER_LENGTH_ERROR"),
        (
            options & mq.MQGMO_WAIT and gmo.wait_interval < mq.MQWI_UNLIMITED,
            "MQRC_WAIT_INTERVAL_ERROR",
        ),
        (options & UNDER_CURSOR and opened.cursor is None, "MQRC_NO_MSG_UNDER_CURSOR"),
    )
    for is_wrong, reason in checks:
        if is_wrong:
            raise CallFailedError(reason)


def _get_now(connection: Connection, request: Request) -> Got | None:
    """Make one attempt; None means that no message fits."""
    if request.options & mq.MQGMO_FAIL_IF_QUIESCING:
        connection.check_not_quiescing()
    catalogue = connection.store.known
    path = request.opened.path(catalogue)
    if any(queue.number("GET") == mq.MQQA_GET_INHIBITED for queue in path):
        raise CallFailedError("MQRC_GET_INHIBITED")
    attempt = _browse if request.options & BROWSE else _take
    got = attempt(connection, catalogue, request, path)
    if got is None and connection.free_what_the_dead_hold():
        got = attempt(connection, catalogue, request, path)
    if got is None and request.options & UNDER_CURSOR:
        raise CallFailedError("MQRC_NO_MSG_UNDER_CURSOR")
    return got


def _unlock(connection: Connection, opened: OpenObject, md: MQMD, gmo: MQGMO) -> Got:
    """Unlock the message that was locked by browsing; it is not returned."""
    check_bits(gmo.options, mq.MQGMO_UNLOCK | mq.MQGMO_NO_SYNCPOINT, "MQGMO", NAMES)
    if opened.locked is None:
        return Got(b"", md, gmo, 0, MQCC_WARNING, MQRC["MQRC_NO_MSG_LOCKED"])
    with connection.store.writing():
        selection.unlock(connection, opened)
    return Got(b"", md, gmo, 0)


def _find(connection: Connection, request: Request, path: tuple[Definition, ...]) -> Message | None:
    return selection.find(
        connection, request.opened, path[-1].queue_id, request.criteria, request.options
    )


def _find_alive(
    connection: Connection, request: Request, path: tuple[Definition, ...]
) -> Message | None:
    """Find a message to take; one that has expired is discarded instead, with all its like."""
    wanted, queue_id = request.criteria, path[-1].queue_id
    opened, options = request.opened, request.options
    found = selection.find(connection, opened, queue_id, wanted, options, when=0.0)
    if found is None or found.expires_at is None or found.expires_at > time.time():
        return found
    selection.discard_expired(connection, queue_id)
    return _find(connection, request, path)


def _browse(
    connection: Connection,
    catalogue: Catalogue,
    request: Request,
    path: tuple[Definition, ...],
) -> Got | None:
    """Show a message, and lock it if asked to.

    What the handle had locked it unlocks by this, unless there is no message to show (IBM MQ docs,
    "MQGMO_LOCK").
    """
    opened = request.opened
    if opened.locked is None and not request.options & mq.MQGMO_LOCK:
        found = _find(connection, request, path)
        return None if found is None else _show(request, catalogue, path, found)
    with connection.store.writing():
        to_lock = opened.locked
        selection.unlock(connection, opened)
        found = _find(connection, request, path)
        got = None if found is None else _show(request, catalogue, path, found)
        if found is not None and got is not None:
            is_kept = request.options & mq.MQGMO_LOCK and got.reason != TRUNCATED_MSG_FAILED
            to_lock = found.place if is_kept else None
        if to_lock is not None:
            selection.lock(connection, opened, to_lock)
    return got


def _show(
    request: Request, catalogue: Catalogue, path: tuple[Definition, ...], found: Message
) -> Got:
    """Return a message; the cursor moves to it if it fits (IBM MQ docs, "MQGMO options")."""
    got = _answer(request, catalogue, path, found)
    if got.reason != TRUNCATED_MSG_FAILED:
        request.opened.cursor = (found.rank, found.place)
        request.opened.saved_context = None
    elif request.options & mq.MQGMO_BROWSE_FIRST:
        request.opened.cursor = None
    return got


def _take(
    connection: Connection,
    catalogue: Catalogue,
    request: Request,
    path: tuple[Definition, ...],
) -> Got | None:
    """Take a message off the queue, at once or with MQCMIT."""
    opened, locked = request.opened, request.opened.locked
    is_waiting = request.options & mq.MQGMO_WAIT and locked is None
    if is_waiting and _find(connection, request, path) is None:
        return None  # whoever waits looks often, and need not take a writer's turn for it
    with connection.store.writing(durable=not request.options & mq.MQGMO_SYNCPOINT):
        if locked is not None:  # hidden from all others, not from this handle
            selection.unlock(connection, opened)
        found = _find_alive(connection, request, path)
        got = None if found is None else _answer(request, catalogue, path, found)
        is_taken = got is not None and got.reason != TRUNCATED_MSG_FAILED
        if found is not None and got is not None and is_taken:
            _remove(connection, catalogue, request, found, got)
        if locked is not None and not (is_taken and found and found.place == locked):
            selection.lock(connection, opened, locked)
    if got is not None and is_taken and opened.allows(mq.MQOO_SAVE_ALL_CONTEXT):
        opened.saved_context = got.md
    return got


def _remove(
    connection: Connection, catalogue: Catalogue, request: Request, found: Message, got: Got
) -> None:
    under_syncpoint = request.options & mq.MQGMO_SYNCPOINT or (
        request.options & mq.MQGMO_SYNCPOINT_IF_PERSISTENT
        and got.md.persistence == mq.MQPER_PERSISTENT
    )
    queue_id = request.opened.queue_ids[-1]
    if under_syncpoint:
        connection.unit_of_work.check_room(catalogue.limit("MAXUMSGS"))
        selection.claim(connection, queue_id, found.place)
    else:
        selection.remove(connection, queue_id, found.place)


def _answer(
    request: Request, catalogue: Catalogue, path: tuple[Definition, ...], found: Message
) -> Got:
    """Fill in what the caller gets back for a message."""
    md, gmo, handle = MQMD.unpack(found.descriptor), request.gmo.copy(), request.message_handle
    body, properties = deliver(found, md, gmo, handle, path[0])
    length = len(body)
    # What was put with a version 1 descriptor has the defaults of what that lacks.
    md.version, md.backout_count = mq.MQMD_VERSION_2, found.backout_count
    if found.expires_at is not None:
        md.expiry = max(1, int((found.expires_at - time.time()) * 10))
    got = Got(body[: request.max_length], md, gmo, length)
    gmo.resolved_q_name = object_name(path[-1].name)
    if gmo.version >= MQGMO_VERSION_3:
        gmo.msg_token, gmo.returned_length = selection.token(found.place), len(got.data)
    got.completion, got.reason = _completion(request, catalogue, md, length)
    if got.reason != TRUNCATED_MSG_FAILED and handle is not None:
        handle.fill(properties)
    if request.md.version == mq.MQMD_VERSION_1:
        _keep_version_1(request.md, md)
    return got


def _completion(request: Request, catalogue: Catalogue, md: MQMD, length: int) -> tuple[int, int]:
    if length > request.max_length:
        accepted = request.options & mq.MQGMO_ACCEPT_TRUNCATED_MSG
        name = "MQRC_TRUNCATED_MSG_ACCEPTED" if accepted else "MQRC_TRUNCATED_MSG_FAILED"
        return MQCC_WARNING, MQRC[name]
    if request.options & mq.MQGMO_CONVERT and _differs(request.md, md, catalogue.limit("CCSID")):
        # What cannot be converted is returned as it is: IBM MQ docs, "MQGMO_CONVERT".
        is_known = text(md.format)
        log.warning("MQGMO_CONVERT is not emulated; the message is returned unconverted")
        return MQCC_WARNING, MQRC["MQRC_NOT_CONVERTED" if is_known else "MQRC_FORMAT_ERROR"]
    return MQCC_OK, MQRC["MQRC_NONE"]


def _differs(wanted: MQMD, md: MQMD, default_ccsid: int) -> bool:
    ccsid = wanted.coded_char_set_id
    if ccsid == mq.MQCCSI_Q_MGR:
        ccsid = default_ccsid
    return ccsid != md.coded_char_set_id or wanted.encoding != md.encoding


def _keep_version_1(given: MQMD, md: MQMD) -> None:
    """Leave the fields alone that a version 1 descriptor does not have."""
    md.version, md.group_id, md.msg_seq_number = given.version, given.group_id, given.msg_seq_number
    md.offset, md.msg_flags = given.offset, given.msg_flags
    md.original_length = given.original_length
