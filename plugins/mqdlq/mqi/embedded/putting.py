"""MQPUT and MQPUT1: a descriptor, options and a body in, a message on a queue out.

IBM MQ docs, "MQPUT", "MQPMO - Put-message options" and the fields of "MQMD".
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from mqdlq.mqi.embedded import context, rfh2, transmission
from mqdlq.mqi.embedded import mqi_constants as mq
from mqdlq.mqi.embedded.catalogue import Catalogue, Definition
from mqdlq.mqi.embedded.connection import Connection, OpenObject
from mqdlq.mqi.embedded.failures import CallFailedError, check_bits
from mqdlq.mqi.embedded.properties import properties_to_put
from mqdlq.mqi.embedded.rfh2 import MQFMT_RF_HEADER_2, Description
from mqdlq.mqi.embedded.store import AVAILABLE, PUT
from mqdlq.mqi.embedded.structures import MQMD, MQPMO, normalised, object_name, text
from mqdlq.mqi.embedded.unit_of_work import Message, Pending

# What a server does anyway: it answers at once. Authority is checked when the queue is opened.
HOLD_ANYWAY = (
    mq.MQPMO_ALTERNATE_USER_AUTHORITY
    | mq.MQPMO_ASYNC_RESPONSE
    | mq.MQPMO_SYNC_RESPONSE
    | mq.MQPMO_RESOLVE_LOCAL_Q
)
KNOWN = (
    mq.MQPMO_SYNCPOINT
    | mq.MQPMO_NO_SYNCPOINT
    | mq.MQPMO_NEW_MSG_ID
    | mq.MQPMO_NEW_CORREL_ID
    | mq.MQPMO_FAIL_IF_QUIESCING
    | context.CHOICES
    | HOLD_ANYWAY
)
NAMES = mq.names_of("MQPMO")
LOWEST_RANK = 9
NULL_ID = bytes(24)


@dataclass(slots=True)
class Parcel:
    """A message on its way to a queue."""

    queue: Definition
    md: MQMD
    properties: bytes | None
    body: bytes

    @property
    def rank(self) -> int:
        """The lower, the earlier it is got; MSGDLVSQ(FIFO) knows no priorities."""
        if self.queue.number("MSGDLVSQ") == mq.MQMDS_FIFO:
            return 0
        return LOWEST_RANK - self.md.priority


def put(
    connection: Connection, handle: int, md: MQMD, pmo: MQPMO, body: bytes
) -> tuple[MQMD, MQPMO]:
    """Put a message; returns the descriptor and options as the caller gets them back."""
    opened = connection.object(handle)
    if not opened.allows(mq.MQOO_OUTPUT):
        raise CallFailedError("MQRC_NOT_OPEN_FOR_OUTPUT")
    _check(md, pmo)
    if pmo.options & mq.MQPMO_FAIL_IF_QUIESCING:
        connection.check_not_quiescing()
    catalogue = connection.store.known
    path = opened.path(catalogue)
    if any(queue.number("PUT") == mq.MQQA_PUT_INHIBITED for queue in path):
        raise CallFailedError("MQRC_PUT_INHIBITED")
    now = time.time()
    properties = properties_to_put(
        connection.message_handles, pmo, is_remote=opened.remote is not None
    )
    if properties is not None:
        _check_header(md, body)
    sent = md.copy()
    _complete(connection, catalogue, path[0], sent, pmo)
    context.fill_in(connection, opened, sent, pmo, now)
    message = Parcel(path[-1], sent, properties, body)
    if opened.remote:
        message.md, message.body = transmission.enveloped(
            connection, opened.remote, sent, body, now
        )
    _check_length(catalogue, message)
    if message.queue.is_temporary and sent.persistence == mq.MQPER_PERSISTENT:
        raise CallFailedError("MQRC_PERSISTENT_NOT_ALLOWED")
    _store(connection, catalogue, message, pmo, now)
    _answer(opened, catalogue, path, pmo)
    return sent, pmo


def _check(md: MQMD, pmo: MQPMO) -> None:
    if pmo.struc_id != b"PMO " or pmo.version not in range(1, 4):
        raise CallFailedError("MQRC_PMO_ERROR")
    check_bits(pmo.options, KNOWN, "MQPMO", NAMES)
    if pmo.options & mq.MQPMO_SYNCPOINT and pmo.options & mq.MQPMO_NO_SYNCPOINT:
        raise CallFailedError("MQRC_OPTIONS_ERROR")
    if md.struc_id != b"MD  " or md.version not in {mq.MQMD_VERSION_1, mq.MQMD_VERSION_2}:
        raise CallFailedError("MQRC_MD_ERROR")
    checks = (
        (md.msg_type < 1, "MQRC_MSG_TYPE_ERROR"),
        (md.expiry < 1 and md.expiry != mq.MQEI_UNLIMITED, "MQRC_EXPIRY_ERROR"),
        (md.priority not in range(mq.MQPRI_PRIORITY_AS_Q_DEF, 10), "MQRC_PRIORITY_ERROR"),
        (md.persistence not in range(3), "MQRC_PERSISTENCE_ERROR"),
        (
            md.msg_type == mq.MQMT_REQUEST and not text(md.reply_to_q),
            "MQRC_MISSING_REPLY_TO_Q",
        ),
    )
    for is_wrong, reason in checks:
        if is_wrong:
            raise CallFailedError(reason)


def _check_header(md: MQMD, body: bytes) -> None:
    """Refuse a broken MQRFH2, from an application that knows of properties only.

    Older ones do not fail (IBM MQ docs, "MQRFH2 headers that are not valid").
    """
    described = Description(md.encoding, md.coded_char_set_id, md.format)
    is_header = described.format == MQFMT_RF_HEADER_2
    if is_header and rfh2.read(body, 0, described.order) is None:
        raise CallFailedError("MQRC_RFH_ERROR")


def _complete(
    connection: Connection, catalogue: Catalogue, opened: Definition, md: MQMD, pmo: MQPMO
) -> None:
    """Fill in what the queue manager decides; defaults are those of the queue first opened."""
    if md.msg_id == NULL_ID or pmo.options & mq.MQPMO_NEW_MSG_ID:
        md.msg_id = connection.new_id()
    if pmo.options & mq.MQPMO_NEW_CORREL_ID:
        md.correl_id = connection.new_id()
    if md.priority == mq.MQPRI_PRIORITY_AS_Q_DEF:
        md.priority = opened.number("DEFPRTY")
    if md.persistence == mq.MQPER_PERSISTENCE_AS_Q_DEF:
        md.persistence = opened.number("DEFPSIST")
    if md.coded_char_set_id in {mq.MQCCSI_Q_MGR, mq.MQCCSI_INHERIT}:
        md.coded_char_set_id = catalogue.limit("CCSID")
    if md.version == mq.MQMD_VERSION_1:
        md.group_id, md.msg_seq_number, md.offset = bytes(24), 1, 0
        md.msg_flags, md.original_length = 0, -1
    md.backout_count = 0
    md.format = normalised(md.format)
    _complete_reply_to(catalogue, md)


def _complete_reply_to(catalogue: Catalogue, md: MQMD) -> None:
    """Name the queue manager of the reply queue (IBM MQ docs, "ReplyToQMgr (MQMD)")."""
    name, q_mgr_name = text(md.reply_to_q), text(md.reply_to_q_mgr)
    if name and not q_mgr_name:
        definition = catalogue.by_name.get(name)
        if definition is not None and definition.type == mq.MQQT_REMOTE:
            name, q_mgr_name = definition.text("RNAME"), definition.text("RQMNAME")
        else:
            q_mgr_name = catalogue.name
    md.reply_to_q, md.reply_to_q_mgr = object_name(name), object_name(q_mgr_name)


def _check_length(catalogue: Catalogue, message: Parcel) -> None:
    if len(message.body) > catalogue.limit("MAXMSGL"):
        raise CallFailedError("MQRC_MSG_TOO_BIG_FOR_Q_MGR")
    if len(message.body) > message.queue.number("MAXMSGL"):
        raise CallFailedError("MQRC_MSG_TOO_BIG_FOR_Q")


def _store(
    connection: Connection, catalogue: Catalogue, message: Parcel, pmo: MQPMO, now: float
) -> None:
    """Give the message its place, and its content at once or, under syncpoint, at MQCMIT."""
    under_syncpoint = bool(pmo.options & mq.MQPMO_SYNCPOINT)
    if under_syncpoint:
        connection.unit_of_work.check_room(catalogue.limit("MAXUMSGS"))
    md, store = message.md, connection.store
    queue_id, rank = message.queue.queue_id, message.rank
    correl_id = md.correl_id if md.correl_id != NULL_ID else None
    expires_at = None if md.expiry == mq.MQEI_UNLIMITED else now + md.expiry / 10
    is_durable = not under_syncpoint and md.persistence == mq.MQPER_PERSISTENT
    with store.writing(durable=is_durable):
        _take_room(connection, message.queue)
        row = store.execute(
            "INSERT INTO message(queue_id, rank, state, connection_id, msg_id, correl_id,"
            " expires_at) VALUES(?, ?, ?, ?, ?, ?, ?)",
            (
                queue_id,
                rank,
                PUT if under_syncpoint else AVAILABLE,
                connection.connection_id if under_syncpoint else None,
                md.msg_id,
                correl_id,
                expires_at,
            ),
        )
        place, content = int(row.lastrowid or 0), (md.pack(), message.properties, message.body)
        if not under_syncpoint:
            store.execute("INSERT INTO content VALUES(?, ?, ?, ?)", (place, *content))
    if under_syncpoint:
        stored = Message(place, rank, 0, expires_at, *content)
        connection.unit_of_work.add(queue_id, Pending(stored, md.msg_id, correl_id))


def _take_room(connection: Connection, queue: Definition) -> None:
    """Count the message in; a full queue may hold what the dead put and never committed."""
    raise_depth = (
        "UPDATE depth SET messages = messages + 1 WHERE queue_id = ? AND messages < ?",
        (queue.queue_id, queue.number("MAXDEPTH")),
    )
    if connection.store.execute(*raise_depth).rowcount:
        return
    if not connection.clear_the_dead() or not connection.store.execute(*raise_depth).rowcount:
        raise CallFailedError("MQRC_Q_FULL")


def _answer(
    opened: OpenObject, catalogue: Catalogue, path: tuple[Definition, ...], pmo: MQPMO
) -> None:
    resolved = opened.remote or (path[-1].name, catalogue.name)
    pmo.resolved_q_name, pmo.resolved_q_mgr_name = map(object_name, resolved)
    pmo.known_dest_count, pmo.unknown_dest_count = int(not opened.remote), int(bool(opened.remote))
    pmo.invalid_dest_count = 0
