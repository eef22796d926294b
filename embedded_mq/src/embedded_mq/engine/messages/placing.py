"""A message given its place on a local queue: its MQMD and content in, a row and an event out."""

from __future__ import annotations

from embedded_mq import mqi_constants as mq
from embedded_mq.engine.connection import Connection, Way
from embedded_mq.engine.failures import CallFailedError
from embedded_mq.engine.objects.attributes import MAX_PRIORITY
from embedded_mq.engine.unit_of_work import INSERT
from embedded_mq.storage.board import ADDED, PUT, UNITS
from embedded_mq.structures import MQMD

NULL_ID = bytes(24)
IDENTIFIERS = MQMD.reader("msg_id", "correl_id")

Content = tuple[bytes, bytes | None, bytes]
"""The packed MQMD, the properties and the body of a message, as they are kept."""


def check_fits(way: Way, md: MQMD, body: bytes) -> None:
    """Refuse a message that the queue does not take, however many are on it."""
    if len(body) > way.max_length_of_q_mgr:
        raise CallFailedError("MQRC_MSG_TOO_BIG_FOR_Q_MGR")
    if len(body) > way.max_length:
        raise CallFailedError("MQRC_MSG_TOO_BIG_FOR_Q")
    if way.is_temporary and md.persistence == mq.MQPER_PERSISTENT:
        raise CallFailedError("MQRC_PERSISTENT_NOT_ALLOWED")


def check_room(connection: Connection, way: Way) -> None:
    """Refuse a message for which the queue has no room (MQRC_Q_FULL), with the turn."""
    if connection.store.depth(way.queue_id) >= way.max_depth:
        raise CallFailedError("MQRC_Q_FULL")


def place(
    connection: Connection, way: Way, md: MQMD, content: Content, *, now: float, in_unit: bool
) -> int:
    """Put a message on its queue, unless that is full (MQRC_Q_FULL); returns its place.

    In the unit of work it needs the turn, and is put by MQCMIT; else it is put while writing.
    """
    store, queue_id = connection.store, way.queue_id
    check_room(connection, way)
    # The lower the rank, the earlier it is got; MSGDLVSQ(FIFO) knows no priorities.
    rank = 0 if way.is_fifo else max(0, MAX_PRIORITY - md.priority)
    expires_at = None if md.expiry == mq.MQEI_UNLIMITED else now + md.expiry / 10
    msg_id, correl_id = IDENTIFIERS.unpack_from(content[0])
    row = (rank, msg_id, None if correl_id == NULL_ID else correl_id, expires_at, 0, *content)
    place = store.board.next_place()
    if in_unit:
        unit, owner = connection.unit_of_work, connection.connection_id
        store.board.append(PUT, rank, unit.number % UNITS, owner, queue_id, place)
        unit.add(place, queue_id, *row)
    else:
        store.execute(INSERT, (place, queue_id, *row))
        store.announce(ADDED, rank, 0, 0, queue_id, place)
    return place
