"""Execute MQPUT and MQPUT1.

IBM MQ docs, "MQPUT", "MQPMO - Put-message options" and the fields of "MQMD".
"""

import struct
import time
from functools import lru_cache

from embedded_mq import mqi_constants as mq
from embedded_mq.character_fields import normalised, object_name, text
from embedded_mq.constants import MQRC
from embedded_mq.engine.connection import Connection, ResolvedQueue
from embedded_mq.engine.failures import (
    MQCC_OK,
    MQCC_WARNING,
    CallFailedError,
    check_bits,
    not_emulated,
)
from embedded_mq.engine.messages import (
    context,
    depth_events,
    groups,
    placing,
    reports,
    streaming,
    transmission,
)
from embedded_mq.engine.messages.placing import NULL_ID, Content
from embedded_mq.engine.messages.properties import collect_properties, uses_message_handles
from embedded_mq.engine.objects.attributes import MAX_PRIORITY
from embedded_mq.headers import header_checks, mqmde, rfh2
from embedded_mq.headers.rfh2 import MQFMT_RF_HEADER_2, Description
from embedded_mq.headers.rfh2_folders import PropertyBudget
from embedded_mq.storage.catalogue import Catalogue
from embedded_mq.structures import MQMD, MQPMO

# True without being set: puts are synchronous, and authority is checked when the queue is opened.
OPTIONS_ALWAYS_TRUE = (
    mq.MQPMO_ALTERNATE_USER_AUTHORITY
    | mq.MQPMO_ASYNC_RESPONSE
    | mq.MQPMO_SYNC_RESPONSE
    | mq.MQPMO_RESOLVE_LOCAL_Q
)
KNOWN_OPTIONS = (
    mq.MQPMO_SYNCPOINT
    | mq.MQPMO_NO_SYNCPOINT
    | mq.MQPMO_NEW_MSG_ID
    | mq.MQPMO_NEW_CORREL_ID
    | mq.MQPMO_FAIL_IF_QUIESCING
    | context.CONTEXT_OPTIONS
    | OPTIONS_ALWAYS_TRUE
)
NAMES = mq.names_of("MQPMO")
PUT_OPTIONS = struct.Struct("4sii4xi")  # of the MQPMO: StrucId, Version, Options, Context
HANDLES_OF_MQPMO = slice(MQPMO.offset_of("original_msg_handle"), MQPMO.offset_of("pub_level"))
NO_HANDLES = bytes(20)
DESTINATIONS_OF_MQPMO = MQPMO.offset_of("known_dest_count")


def put(
    connection: Connection, handle: int, packed_md: bytes, packed_pmo: bytes, body: bytes
) -> tuple[bytes, bytes, int, int]:
    """Put a message; return its packed MQMD and MQPMO, a completion code and a reason code."""
    opened = connection.find_object(handle)
    if not opened.options & mq.MQOO_OUTPUT:
        raise CallFailedError("MQRC_NOT_OPEN_FOR_OUTPUT")
    md = MQMD.unpack(packed_md)
    struc_id, version, options, source = PUT_OPTIONS.unpack_from(packed_pmo)
    if struc_id != b"PMO " or version not in range(1, 4):
        raise CallFailedError("MQRC_PMO_ERROR")
    _check_options(options)
    _check(md)
    if options & mq.MQPMO_FAIL_IF_QUIESCING:
        connection.check_not_quiescing()
    resolved = opened.resolved(connection.store.last_catalogue)
    if resolved.is_put_inhibited:
        raise CallFailedError("MQRC_PUT_INHIBITED")
    warning = reports.check_report_options(md, is_remote=resolved.remote is not None)
    if resolved.checks_headers and md.version == mq.MQMD_VERSION_2:
        header_checks.check_headers(md, body)
    now = time.time()
    properties = None
    if packed_pmo[HANDLES_OF_MQPMO] != NO_HANDLES:
        properties = _properties(connection, resolved, md, MQPMO.unpack(packed_pmo), body)
    _complete(connection, resolved, md, options)
    context.fill_context(connection, opened, md, options, source, now)
    kept, body = groups.prepare_group_fields(connection, resolved, md, body)
    put_md = md.pack()
    sent = put_md if kept is md else kept.pack()
    if resolved.remote:
        sent, body = transmission.wrap_for_transmission(
            connection, resolved.remote, kept, body, now
        )
    _check_fits(resolved, kept, body)
    _store(connection, resolved, kept, options, (sent, properties, body), now)
    answer = packed_pmo[:DESTINATIONS_OF_MQPMO] + resolved.destinations
    return put_md, answer + packed_pmo[len(answer) :], *_completion(md, warning)


def _completion(md: MQMD, warning: str) -> tuple[int, int]:
    """Return the codes of a successful put.

    A priority that is too high is kept and counts as the highest (IBM MQ docs, "Priority (MQMD)").
    """
    if md.priority > MAX_PRIORITY:
        warning = "MQRC_PRIORITY_EXCEEDS_MAXIMUM"
    return (MQCC_WARNING, MQRC[warning]) if warning else (MQCC_OK, 0)


def _properties(
    connection: Connection, resolved: ResolvedQueue, md: MQMD, pmo: MQPMO, body: bytes
) -> bytes | None:
    if not uses_message_handles(pmo):
        return None
    properties = collect_properties(
        connection.message_handles, pmo, is_remote=resolved.remote is not None
    )
    if properties is not None:
        _check_header(md, body)
    return properties


def _check(md: MQMD) -> None:
    if md.struc_id != b"MD  " or md.version not in {mq.MQMD_VERSION_1, mq.MQMD_VERSION_2}:
        raise CallFailedError("MQRC_MD_ERROR")
    if md.msg_type < 1:
        raise CallFailedError("MQRC_MSG_TYPE_ERROR")
    if md.expiry < 1 and md.expiry != mq.MQEI_UNLIMITED:
        raise CallFailedError("MQRC_EXPIRY_ERROR")
    if md.priority < mq.MQPRI_PRIORITY_AS_Q_DEF:
        raise CallFailedError("MQRC_PRIORITY_ERROR")
    if md.persistence not in range(3):
        raise CallFailedError("MQRC_PERSISTENCE_ERROR")
    if md.msg_type == mq.MQMT_REQUEST and not text(md.reply_to_q):
        raise CallFailedError("MQRC_MISSING_REPLY_TO_Q")


@lru_cache
def _check_options(options: int) -> None:
    """Refuse wrong options; the cache skips the check for options that have passed it."""
    check_bits(options, KNOWN_OPTIONS, "MQPMO", NAMES)
    if options & mq.MQPMO_SYNCPOINT and options & mq.MQPMO_NO_SYNCPOINT:
        raise CallFailedError("MQRC_OPTIONS_ERROR")


def _check_header(md: MQMD, body: bytes) -> None:
    """Refuse an invalid MQRFH2 from an application that puts properties in message handles.

    Other applications may put it (IBM MQ docs, "MQRFH2 headers that are not valid").
    """
    described = Description(md.encoding, md.coded_char_set_id, md.format)
    is_header = described.format == MQFMT_RF_HEADER_2
    if is_header and rfh2.read(body, 0, described.order, PropertyBudget()) is None:
        raise CallFailedError("MQRC_RFH_ERROR")


def _complete(connection: Connection, resolved: ResolvedQueue, md: MQMD, options: int) -> None:
    """Fill in the fields that the queue manager decides, with defaults of the opened queue."""
    if md.msg_id == NULL_ID or options & mq.MQPMO_NEW_MSG_ID:
        md.msg_id = connection.new_id()
    if options & mq.MQPMO_NEW_CORREL_ID:
        md.correl_id = connection.new_id()
    if md.priority == mq.MQPRI_PRIORITY_AS_Q_DEF:
        md.priority = resolved.priority
    if md.persistence == mq.MQPER_PERSISTENCE_AS_Q_DEF:
        md.persistence = resolved.persistence
    if md.coded_char_set_id in {mq.MQCCSI_Q_MGR, mq.MQCCSI_INHERIT}:
        md.coded_char_set_id = resolved.ccsid
    if md.version == mq.MQMD_VERSION_1:
        mqmde.set_defaults(md)
    md.backout_count = 0
    md.format = normalised(md.format)
    md.reply_to_q, md.reply_to_q_mgr = _reply_to(
        resolved.catalogue, text(md.reply_to_q), text(md.reply_to_q_mgr)
    )


def _reply_to(catalogue: Catalogue, name: str, q_mgr_name: str) -> tuple[bytes, bytes]:
    """Name the queue manager of the reply queue, also without a reply queue.

    IBM MQ docs, "ReplyToQMgr (MQMD)".
    """
    if not q_mgr_name:
        definition = catalogue.by_name.get(name)
        if definition is not None and definition.type == mq.MQQT_REMOTE:
            name, q_mgr_name = definition.text("RNAME"), definition.text("RQMNAME")
        else:
            q_mgr_name = catalogue.name
    return object_name(name), object_name(q_mgr_name)


def _check_fits(resolved: ResolvedQueue, md: MQMD, body: bytes) -> None:
    try:
        placing.check_fits(resolved, md, body)
    except CallFailedError as failure:
        if md.msg_flags & mq.MQMF_SEGMENTATION_ALLOWED:
            what = "segmentation by the queue manager (MQMF_SEGMENTATION_ALLOWED)"
            raise not_emulated(what, str(failure).split()[0]) from None
        raise


def _store(  # noqa: PLR0917
    connection: Connection,
    resolved: ResolvedQueue,
    md: MQMD,
    options: int,
    content: Content,
    now: float,
) -> None:
    """Store the message, and the report of its arrival if one is requested."""
    in_unit = bool(options & mq.MQPMO_SYNCPOINT)
    if in_unit:
        connection.unit_of_work.check_room(
            resolved.max_uncommitted, 1 + reports.is_arrival_reported(resolved, md)
        )
    is_durable = not in_unit and md.persistence == mq.MQPER_PERSISTENT
    try:
        with connection.store.transaction(durable=is_durable):
            _place(connection, resolved, md, content, now=now, in_unit=in_unit)
    except CallFailedError as failure:
        depth_events.report_failed_put(connection, resolved, failure, now)
        raise
    if resolved.is_command_queue and in_unit:
        connection.unit_of_work.has_commands = True
    elif resolved.is_command_queue:
        connection.has_new_commands = True


def _place(
    connection: Connection,
    resolved: ResolvedQueue,
    md: MQMD,
    content: Content,
    *,
    now: float,
    in_unit: bool,
) -> None:
    """Store the message, its report, and its copy for a stream queue: all of them or none."""
    if resolved.stream_q and resolved.must_duplicate:
        placing.check_room(connection, resolved)
        streaming.place_copy(connection, resolved, md, content, now=now, in_unit=in_unit)
    placing.place(connection, resolved, md, content, now=now, in_unit=in_unit)
    depth_events.report_put(connection, resolved, now)
    reports.report_arrival(connection, resolved, md, content, now=now, in_unit=in_unit)
    if resolved.stream_q and not resolved.must_duplicate:
        streaming.place_copy(connection, resolved, md, content, now=now, in_unit=in_unit)
