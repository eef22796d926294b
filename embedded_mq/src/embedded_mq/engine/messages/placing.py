"""Store a message on a local queue."""

from embedded_mq import mqi_constants as mq
from embedded_mq.engine.connection import Connection, ResolvedQueue
from embedded_mq.engine.failures import CallFailedError
from embedded_mq.engine.messages import monitoring
from embedded_mq.engine.objects.attributes import MAX_PRIORITY
from embedded_mq.storage.schema import PUT
from embedded_mq.structures import MQMD

NULL_ID = bytes(24)
IDENTIFIERS = MQMD.reader("msg_id", "correl_id")

Content = tuple[bytes, bytes | None, bytes]
"""The packed MQMD, the properties and the body of a message, as they are stored."""


def check_fits(resolved: ResolvedQueue, md: MQMD, body: bytes) -> None:
    """Refuse a message that the queue does not accept at any depth."""
    if len(body) > resolved.max_length_of_q_mgr:
        raise CallFailedError("MQRC_MSG_TOO_BIG_FOR_Q_MGR")
    if len(body) > resolved.max_length:
        raise CallFailedError("MQRC_MSG_TOO_BIG_FOR_Q")
    if resolved.is_temporary and md.persistence == mq.MQPER_PERSISTENT:
        raise CallFailedError("MQRC_PERSISTENT_NOT_ALLOWED")


def check_room(connection: Connection, resolved: ResolvedQueue) -> None:
    """Refuse a message for a full queue (MQRC_Q_FULL), inside a write transaction."""
    if not _has_room(connection, resolved) and not (
        connection.recover_dead_connections() and _has_room(connection, resolved)
    ):
        raise CallFailedError("MQRC_Q_FULL")


def _has_room(connection: Connection, resolved: ResolvedQueue) -> bool:
    depth = connection.store.depth(resolved.queue_id)
    if depth is None:
        raise CallFailedError("MQRC_Q_DELETED")
    return depth < resolved.max_depth


INSERT = """
INSERT INTO message VALUES(
    (SELECT max(last_place, (SELECT coalesce(max(place), 0) FROM message)) + 1 FROM operation),
    ?, ?, ?, ?, ?, 0, ?, ?, ?)
"""
HOLD = "INSERT INTO held VALUES(?, ?, ?, ?)"


def place(
    connection: Connection,
    resolved: ResolvedQueue,
    md: MQMD,
    content: Content,
    *,
    now: float,
    in_unit: bool,
    kind: int = PUT,
) -> None:
    """Store a message on its queue inside a write transaction (MQRC_Q_FULL if it is full).

    In a unit of work it is held, as a PUT or as a REPORT, until MQCMIT.
    """
    store, queue_id = connection.store, resolved.queue_id
    check_room(connection, resolved)
    # A message of lower rank is got earlier; MSGDLVSQ(FIFO) ignores priorities.
    rank = 0 if resolved.is_fifo else max(0, MAX_PRIORITY - md.priority)
    expires_at = None if md.expiry == mq.MQEI_UNLIMITED else now + md.expiry / 10
    msg_id, correl_id = IDENTIFIERS.unpack_from(content[0])
    correl_id = None if correl_id == NULL_ID else correl_id
    row = store.execute(INSERT, (queue_id, rank, msg_id, correl_id, expires_at, *content))
    if resolved.is_monitored:
        monitoring.note_put(store, resolved, now)
    if in_unit:
        store.execute(HOLD, (row.lastrowid, queue_id, connection.connection_id, kind))
        connection.unit_of_work.calls += 1
    connection.unit_of_work.search_starts.pop(queue_id, None)
