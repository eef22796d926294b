"""Execute MQGET: browse a message or remove it from its queue.

IBM MQ docs, "MQGET", "MQGMO - Get-message options" and the fields of "MQMD".
"""

import struct
import time
from dataclasses import dataclass
from functools import lru_cache
from math import inf

from embedded_mq import mqi_constants as mq
from embedded_mq.character_fields import text
from embedded_mq.constants import MQRC
from embedded_mq.engine.connection import Connection, OpenObject, ResolvedQueue
from embedded_mq.engine.failures import MQCC_OK, MQCC_WARNING, CallFailedError, check_bits, log
from embedded_mq.engine.messages import (
    depth_events,
    groups,
    monitoring,
    reports,
    selection,
    tracing,
)
from embedded_mq.engine.messages.delivery import deliver, may_have_rfh2_headers
from embedded_mq.engine.messages.properties import MessageHandle
from embedded_mq.engine.messages.property_values import Property
from embedded_mq.engine.messages.selection import Criteria
from embedded_mq.engine.unit_of_work import Message
from embedded_mq.headers import mqmde
from embedded_mq.structures import DEFAULTS_OF_VERSION_2, MQGMO, MQMD, MQMD_LENGTH_1

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
KNOWN_OPTIONS = (
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

# The intervals at which a waiting MQGET looks for a message: short ones first, for quick replies.
FIRST_LOOKS_S, LATER_LOOKS_S, SOON_S = 0.002, 0.02, 0.2


MQGMO_VERSION_2 = 2
MQGMO_VERSION_3 = 3
LONG = struct.Struct("i")
BEGIN_OF_MQMD = MQMD.slice_of("struc_id", "version")
BEGINNING_1 = MQMD.struc_id + LONG.pack(mq.MQMD_VERSION_1)
BEGINNING_2 = MQMD.struc_id + LONG.pack(mq.MQMD_VERSION_2)
BEGINNINGS = frozenset({BEGINNING_1, BEGINNING_2})
EXPIRY_OF_MQMD = MQMD.offset_of("expiry")
BACKOUT_COUNT_OF_MQMD = MQMD.offset_of("backout_count")
FORMAT_OF_MQMD = MQMD.slice_of("format")
MSG_FLAGS_OF_MQMD = MQMD.offset_of("msg_flags")
RESOLVED_NAME_OF_MQGMO = MQGMO.offset_of("resolved_q_name")
GROUP_STATUS_OF_MQGMO = MQGMO.offset_of("group_status")
MSG_TOKEN_OF_MQGMO = MQGMO.offset_of("msg_token")
REASON = 5
TRUNCATED_MSG_FAILED = MQRC["MQRC_TRUNCATED_MSG_FAILED"]


@dataclass(slots=True)
class GetRequest:
    """The arguments of one MQGET."""

    opened: OpenObject
    md: bytes
    packed_gmo: bytes
    gmo: MQGMO
    options: int
    max_length: int
    criteria: Criteria
    message_handle: MessageHandle | None


GetResult = tuple[bytes, bytes, bytes, int, int, int]
"""The result of MQGET: data, MQMD, MQGMO, the message's full length, completion and reason."""


def get(
    connection: Connection, handle: int, packed_md: bytes, packed_gmo: bytes, max_length: int
) -> GetResult:
    """Get or browse one message, and wait for it if the options say so."""
    opened, gmo = connection.find_object(handle), MQGMO.unpack(packed_gmo)
    if gmo.options & mq.MQGMO_UNLOCK:
        return _unlock(connection, opened, packed_md, gmo)
    _check(opened, packed_md, gmo, max_length)
    request = GetRequest(
        opened,
        packed_md,
        packed_gmo,
        gmo,
        gmo.options,
        max_length,
        selection.read_criteria(packed_md, gmo),
        connection.message_handles.find_for_get(gmo),
    )
    got = _try_get(connection, request)
    if got is not None:
        return got
    if gmo.options & mq.MQGMO_WAIT:
        return _wait(connection, request)
    raise CallFailedError("MQRC_NO_MSG_AVAILABLE")


def _wait(connection: Connection, request: GetRequest) -> GetResult:
    interval = request.gmo.wait_interval
    started = time.monotonic()
    deadline = inf if interval == mq.MQWI_UNLIMITED else started + interval / 1000
    while (now := time.monotonic()) < deadline:
        connection.store.has_written = False  # an interrupted sleep changes nothing
        time.sleep(min(FIRST_LOOKS_S if now - started < SOON_S else LATER_LOOKS_S, deadline - now))
        connection.check_running()
        got = _try_get(connection, request)
        if got is not None:
            return got
    raise CallFailedError("MQRC_NO_MSG_AVAILABLE")


def _check(opened: OpenObject, md: bytes, gmo: MQGMO, max_length: int) -> None:
    if gmo.struc_id != b"GMO " or gmo.version not in range(1, 5):
        raise CallFailedError("MQRC_GMO_ERROR")
    if md[BEGIN_OF_MQMD] not in BEGINNINGS:
        raise CallFailedError("MQRC_MD_ERROR")
    _check_options(gmo.options, opened.options)
    if max_length < 0:
        raise CallFailedError("MQRC_BUFFER_LENGTH_ERROR")
    if gmo.options & mq.MQGMO_WAIT and gmo.wait_interval < mq.MQWI_UNLIMITED:
        raise CallFailedError("MQRC_WAIT_INTERVAL_ERROR")
    if gmo.options & UNDER_CURSOR and opened.cursor is None:
        raise CallFailedError("MQRC_NO_MSG_UNDER_CURSOR")


@lru_cache
def _check_options(options: int, opened_for: int) -> None:
    """Refuse wrong options; the cache skips the check for options that have passed it."""
    check_bits(options, KNOWN_OPTIONS, "MQGMO", NAMES)
    browsing = options & BROWSE
    checks = (
        (options & mq.MQGMO_LOCK and not browsing, "MQRC_OPTIONS_ERROR"),
        (browsing.bit_count() > 1, "MQRC_OPTIONS_ERROR"),
        (browsing and options & mq.MQGMO_MSG_UNDER_CURSOR, "MQRC_OPTIONS_ERROR"),
        (browsing and options & SYNCPOINTS & ~mq.MQGMO_NO_SYNCPOINT, "MQRC_OPTIONS_ERROR"),
        ((options & SYNCPOINTS).bit_count() > 1, "MQRC_OPTIONS_ERROR"),
        ((options & PROPERTIES).bit_count() > 1, "MQRC_OPTIONS_ERROR"),
        (
            (browsing or options & UNDER_CURSOR) and not opened_for & mq.MQOO_BROWSE,
            "MQRC_NOT_OPEN_FOR_BROWSE",
        ),
        (not browsing and not opened_for & INPUT, "MQRC_NOT_OPEN_FOR_INPUT"),
    )
    for is_wrong, reason in checks:
        if is_wrong:
            raise CallFailedError(reason)


def _try_get(connection: Connection, request: GetRequest) -> GetResult | None:
    """Try once; return None if no message matches."""
    if request.options & mq.MQGMO_FAIL_IF_QUIESCING:
        connection.check_not_quiescing()
    resolved = request.opened.resolved(connection.store.last_catalogue)
    if resolved.is_get_inhibited:
        raise CallFailedError("MQRC_GET_INHIBITED")
    attempt = _browse if request.options & BROWSE else _remove_from_queue
    try:
        got = attempt(connection, resolved, request)
        if got is None and connection.release_orphaned_messages():
            got = attempt(connection, resolved, request)
    except _FoundExpiredError:
        selection.discard_expired(
            connection, request.opened, resolved.queue_id, request.criteria, request.options
        )
        return _try_get(connection, request)
    if got is None and request.options & UNDER_CURSOR:
        raise CallFailedError("MQRC_NO_MSG_UNDER_CURSOR")
    return got


def _unlock(connection: Connection, opened: OpenObject, md: bytes, gmo: MQGMO) -> GetResult:
    """Unlock the message that a browse has locked, without returning it."""
    check_bits(gmo.options, mq.MQGMO_UNLOCK | mq.MQGMO_NO_SYNCPOINT, "MQGMO", NAMES)
    if opened.locked is None:
        return b"", md, gmo.pack(), 0, MQCC_WARNING, MQRC["MQRC_NO_MSG_LOCKED"]
    with connection.store.transaction():
        selection.unlock(connection, opened)
    return b"", md, gmo.pack(), 0, MQCC_OK, 0


def _find(connection: Connection, request: GetRequest, resolved: ResolvedQueue) -> Message | None:
    found = selection.find_message(
        connection, request.opened, resolved.queue_id, request.criteria, request.options
    )
    if selection.has_expired(found):
        raise _FoundExpiredError
    return found


class _FoundExpiredError(Exception):
    """The message found has expired: it is to be discarded first."""


def _browse(
    connection: Connection, resolved: ResolvedQueue, request: GetRequest
) -> GetResult | None:
    """Browse a message, and lock it if the options say so.

    This unlocks the handle's locked message, unless no message matches (IBM MQ docs,
    "MQGMO_LOCK").
    """
    opened = request.opened
    if opened.locked is None and not request.options & mq.MQGMO_LOCK:
        found = _find(connection, request, resolved)
        return None if found is None else _show_message(request, resolved, found)
    with connection.store.transaction():
        found = _find(connection, request, resolved)
        if found is None:
            return None
        got = _show_message(request, resolved, found)
        selection.unlock(connection, opened)
        if request.options & mq.MQGMO_LOCK and got[REASON] != TRUNCATED_MSG_FAILED:
            selection.lock(connection, opened, resolved.queue_id, found)
    return got


def _show_message(request: GetRequest, resolved: ResolvedQueue, found: Message) -> GetResult:
    """Return a message, and move the cursor to it if it fits (IBM MQ docs, "MQGMO options")."""
    got = _fill_result(request, resolved, found)
    if got[REASON] != TRUNCATED_MSG_FAILED:
        request.opened.cursor = (found.rank, found.place)
        request.opened.saved_context = None
    elif request.options & mq.MQGMO_BROWSE_FIRST:
        request.opened.cursor = None
    return got


def _remove_from_queue(
    connection: Connection, resolved: ResolvedQueue, request: GetRequest
) -> GetResult | None:
    """Remove a message from the queue, at once or at MQCMIT."""
    options = request.options
    if options & mq.MQGMO_WAIT and _find(connection, request, resolved) is None:
        return None  # a waiting get looks often, and needs no write lock for that
    with connection.store.transaction(durable=not options & mq.MQGMO_SYNCPOINT):
        found = _find(connection, request, resolved)
        return None if found is None else _remove_message(connection, resolved, request, found)


def _remove_message(
    connection: Connection, resolved: ResolvedQueue, request: GetRequest, found: Message
) -> GetResult:
    opened, unit, place = request.opened, connection.unit_of_work, found.place
    seen = tracing.with_new_trace(found) if connection.changes_trace else found
    got = _fill_result(request, resolved, seen)
    if got[REASON] == TRUNCATED_MSG_FAILED:
        return got
    if opened.locked == place:
        selection.unlock(connection, opened)
    if request.options & mq.MQGMO_SYNCPOINT or (
        request.options & mq.MQGMO_SYNCPOINT_IF_PERSISTENT
        and MQMD.unpack(got[1]).persistence == mq.MQPER_PERSISTENT
    ):
        unit.check_room(
            resolved.max_uncommitted, 1 + reports.is_delivery_reported(found.descriptor)
        )
        selection.claim(connection, resolved.queue_id, found)
        if request.criteria is selection.ANY and not request.options & UNDER_CURSOR:
            unit.search_starts[resolved.queue_id] = (
                connection.store.data_version(),
                (found.rank, place),
            )
        reports.report_delivery(connection, found, in_unit=True)
    else:
        selection.remove(connection, place)
        reports.report_delivery(connection, found, in_unit=False)
    depth_events.report_get(connection, resolved)
    if resolved.is_monitored:
        monitoring.note_get(connection.store, resolved, time.time())
    if opened.allows(mq.MQOO_SAVE_ALL_CONTEXT):
        opened.saved_context = got[1]
    return got


def _fill_result(request: GetRequest, resolved: ResolvedQueue, found: Message) -> GetResult:
    """Return the result of MQGET for a message."""
    body, descriptor, gmo, max_length = (
        found.body,
        found.descriptor,
        request.gmo,
        request.max_length,
    )
    properties: list[Property] = []
    if found.properties is not None or may_have_rfh2_headers(descriptor[FORMAT_OF_MQMD], body):
        md = MQMD.unpack(descriptor)
        body, properties = deliver(found, md, gmo, request.message_handle, resolved.opened)
        descriptor = md.pack()
    is_version_1 = request.md[BEGIN_OF_MQMD] == BEGINNING_1
    if is_version_1 and descriptor[MQMD_LENGTH_1:] != DEFAULTS_OF_VERSION_2:
        md = MQMD.unpack(descriptor)
        body = mqmde.make_extension(md, resolved.ccsid) + body
        descriptor = md.pack()
    length, codes = len(body), (MQCC_OK, 0)
    if length > max_length or request.options & mq.MQGMO_CONVERT:
        codes = _completion(request, resolved, descriptor, length)
    if request.message_handle is not None and codes[1] != TRUNCATED_MSG_FAILED:
        request.message_handle.replace_all(properties)
    data, given = body[:max_length], request.packed_gmo
    answer = given[:RESOLVED_NAME_OF_MQGMO] + resolved.resolved_q_name
    if gmo.version >= MQGMO_VERSION_2:
        (flags,) = LONG.unpack_from(descriptor, MSG_FLAGS_OF_MQMD)
        answer += given[len(answer) : GROUP_STATUS_OF_MQGMO] + groups.group_statuses(flags)
    answer += given[len(answer) : MSG_TOKEN_OF_MQGMO]
    if gmo.version >= MQGMO_VERSION_3:
        answer += selection.token(found.place) + LONG.pack(len(data))
    answer += given[len(answer) :]
    return data, _returned_descriptor(request, descriptor, found), answer, length, *codes


def _returned_descriptor(request: GetRequest, descriptor: bytes, found: Message) -> bytes:
    """Return the descriptor with the current BackoutCount and Expiry, in the caller's version.

    A message put with a version 1 descriptor has defaults in the fields of version 2; a version 1
    descriptor of the caller keeps its own bytes there.
    """
    is_version_1 = request.md[BEGIN_OF_MQMD] == BEGINNING_1
    if (
        not is_version_1
        and descriptor[BEGIN_OF_MQMD] == BEGINNING_2
        and not found.backout_count
        and found.expires_at is None
    ):
        return descriptor
    changed = bytearray(descriptor)
    changed[BEGIN_OF_MQMD] = BEGINNING_1 if is_version_1 else BEGINNING_2
    LONG.pack_into(changed, BACKOUT_COUNT_OF_MQMD, found.backout_count)
    if found.expires_at is not None:
        left = max(1, int((found.expires_at - time.time()) * 10))
        LONG.pack_into(changed, EXPIRY_OF_MQMD, left)
    if is_version_1:
        changed[MQMD_LENGTH_1:] = request.md[MQMD_LENGTH_1:]
    return bytes(changed)


def _completion(
    request: GetRequest, resolved: ResolvedQueue, packed: bytes, length: int
) -> tuple[int, int]:
    if length > request.max_length:
        accepted = request.options & mq.MQGMO_ACCEPT_TRUNCATED_MSG
        name = "MQRC_TRUNCATED_MSG_ACCEPTED" if accepted else "MQRC_TRUNCATED_MSG_FAILED"
        return MQCC_WARNING, MQRC[name]
    md = MQMD.unpack(packed)
    if _needs_conversion(MQMD.unpack(request.md), md, resolved.ccsid):
        # Data that cannot be converted is returned unchanged: IBM MQ docs, "MQGMO_CONVERT".
        is_known = text(md.format)
        log.warning("MQGMO_CONVERT is not emulated; the message is returned unconverted")
        return MQCC_WARNING, MQRC["MQRC_NOT_CONVERTED" if is_known else "MQRC_FORMAT_ERROR"]
    return MQCC_OK, MQRC["MQRC_NONE"]


def _needs_conversion(wanted: MQMD, md: MQMD, default_ccsid: int) -> bool:
    ccsid = wanted.coded_char_set_id
    if ccsid == mq.MQCCSI_Q_MGR:
        ccsid = default_ccsid
    return ccsid != md.coded_char_set_id or wanted.encoding != md.encoding
