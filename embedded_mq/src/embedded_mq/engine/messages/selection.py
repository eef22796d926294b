"""Which message an MQGET means: what to match and where the browse cursor stands in, one row out.

Every query walks an index from a known position and stops at its first row, so that browsing a
queue costs the same per message however deep it is.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeGuard

from embedded_mq import mqi_constants as mq
from embedded_mq.engine.connection import Connection, OpenObject
from embedded_mq.engine.failures import CallFailedError, not_emulated
from embedded_mq.engine.messages import reports
from embedded_mq.engine.messages.placing import HOLD
from embedded_mq.engine.unit_of_work import Message
from embedded_mq.storage.schema import GOT, LOCKED, PUT
from embedded_mq.structures import MQGMO, MQMD

MATCH_BY_DEFAULT = mq.MQMO_MATCH_MSG_ID | mq.MQMO_MATCH_CORREL_ID
UNDER_CURSOR = mq.MQGMO_MSG_UNDER_CURSOR | mq.MQGMO_BROWSE_MSG_UNDER_CURSOR
SYNCPOINT = mq.MQGMO_SYNCPOINT | mq.MQGMO_SYNCPOINT_IF_PERSISTENT
EMULATED_MATCHES = MATCH_BY_DEFAULT | mq.MQMO_MATCH_MSG_TOKEN
NAMES = mq.names_of("MQMO")
NULL_ID = bytes(24)
TOKEN_LENGTH = 16
IDENTIFIERS = struct.Struct("24s24s")
IDENTIFIERS_OF_MQMD = MQMD.slice_of("msg_id", "correl_id")
NULL_IDENTIFIERS = bytes(48)
LAST_PLACE = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Criteria:
    """What a message must match: an index, its SQL condition, the values for that."""

    index: str
    condition: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)


ANY = Criteria("in_order")
AT_A_PLACE = Criteria("", "AND place = :at")


def criteria(md: bytes, gmo: MQGMO) -> Criteria:
    """Read MatchOptions as far as the structure's version lets them count.

    Version 1 has none and matches both identifiers; MsgToken needs version 3; a null identifier
    matches anything (IBM MQ docs, "MatchOptions (MQGMO)", "MsgId (MQMD)").
    """
    matches = gmo.match_options if gmo.version > 1 else MATCH_BY_DEFAULT
    if matches & ~MATCH_BY_DEFAULT:
        _check_matches(matches)
        if matches & mq.MQMO_MATCH_MSG_TOKEN:
            return _by_token(gmo)
    if md[IDENTIFIERS_OF_MQMD] == NULL_IDENTIFIERS:
        return ANY
    return _by_identifiers(matches, *IDENTIFIERS.unpack(md[IDENTIFIERS_OF_MQMD]))


def _by_identifiers(matches: int, msg_id: bytes, correl_id: bytes) -> Criteria:
    is_msg_id = matches & mq.MQMO_MATCH_MSG_ID and msg_id != NULL_ID
    is_correl_id = matches & mq.MQMO_MATCH_CORREL_ID and correl_id != NULL_ID
    values = {"msg_id": msg_id, "correl_id": correl_id}
    if is_msg_id and is_correl_id:
        return Criteria("by_msg_id", "AND msg_id = :msg_id AND correl_id = :correl_id", values)
    if is_msg_id:
        return Criteria("by_msg_id", "AND msg_id = :msg_id", values)
    if is_correl_id:
        return Criteria("by_correl_id", "AND correl_id = :correl_id", values)
    return ANY


def _check_matches(matches: int) -> None:
    for bit in (1 << place for place in range(matches.bit_length())):
        if matches & bit and not bit & EMULATED_MATCHES:
            name = NAMES.get(bit, f"MQMO bit {bit:#x}")
            raise not_emulated(name, "MQRC_MATCH_OPTIONS_ERROR")


def _by_token(gmo: MQGMO) -> Criteria:
    if gmo.version < 3:  # noqa: PLR2004 (the first version with a MsgToken)
        raise CallFailedError("MQRC_MATCH_OPTIONS_ERROR")
    if gmo.options & mq.MQGMO_WAIT:
        raise CallFailedError("MQRC_MSG_TOKEN_ERROR")
    place = int.from_bytes(gmo.msg_token, "big")
    return replace(AT_A_PLACE, values={"at": min(place, LAST_PLACE)})


def token(place: int) -> bytes:
    """Return the MsgToken of a message: unique and never used again on this queue manager."""
    return place.to_bytes(TOKEN_LENGTH, "big")


@cache
def _query(index: str, condition: str, position: str = "") -> str:
    """Return the query for the first message that fits and that the caller may see."""
    return f"""
        SELECT place, rank, backout_count, expires_at, descriptor, properties, body
        FROM message {f"INDEXED BY {index}" if index else ""}
        WHERE queue_id = :queue {condition} {position}
        AND NOT EXISTS (
            SELECT 1 FROM held WHERE held.place = message.place
            AND held.place <> :locked
            AND NOT (held.kind = {PUT} AND held.connection_id = :unit)
        )
        ORDER BY rank, place LIMIT 1
    """  # noqa: S608 (the texts are this module's)


@cache
def _query_behind(index: str, condition: str) -> str:
    """Return the query for the first such message behind a rank and a place.

    Two queries in one, each wholly on the index: for one comparison of (rank, place) SQLite would
    use the index for the rank alone and walk the whole queue at every call.
    """
    same_rank = _query(index, condition, "AND rank = :rank AND place > :place")
    lower_rank = _query(index, condition, "AND rank > :rank")
    return f"SELECT * FROM ({same_rank}) UNION ALL SELECT * FROM ({lower_rank}) LIMIT 1"  # noqa: S608


def find(
    connection: Connection, opened: OpenObject, queue_id: int, wanted: Criteria, options: int
) -> Message | None:
    """Return the first message that fits, by priority and then by place.

    What a unit of work has put is not visible outside it (IBM MQ docs, "MQPMO_SYNCPOINT"), but
    within: a get that is part of it, and no other and no browse, finds that too.
    """
    values: dict[str, Any] = {
        "queue": queue_id,
        "locked": opened.locked or 0,
        "unit": connection.connection_id if options & SYNCPOINT else 0,
        **wanted.values,
    }
    start = opened.cursor if options & mq.MQGMO_BROWSE_NEXT else None
    if options & UNDER_CURSOR and opened.cursor is not None:
        wanted, values["at"] = AT_A_PLACE, opened.cursor[1]
    elif options & SYNCPOINT and wanted is ANY and opened.locked is None:
        start = connection.unit_of_work.front(queue_id, connection.store)
    query = _query(wanted.index, wanted.condition)
    if start is not None:
        query = _query_behind(wanted.index, wanted.condition)
        values["rank"], values["place"] = start
    row = connection.store.execute(query, values).fetchone()
    return row and Message(*row)


EXPIRED = """SELECT 1 FROM message INDEXED BY expiring
    WHERE queue_id = ? AND expires_at <= ? LIMIT 1"""


def discard_expired(
    connection: Connection, opened: OpenObject, queue_id: int, wanted: Criteria, options: int
) -> None:
    """Discard each expired message that a get or browse would return, up to the first that lives.

    IBM MQ docs, "Expiry (MQMD)". Those behind that one, or that do not fit, stay and are counted.
    """
    store, now = connection.store, time.time()
    if store.one(EXPIRED, (queue_id, now)) is None:
        return
    if not _has_expired(find(connection, opened, queue_id, wanted, options), now):
        return
    with store.writing():
        while _has_expired(found := find(connection, opened, queue_id, wanted, options), now):
            discard(connection, found)
            if opened.locked == found.place:
                opened.locked = None


def _has_expired(message: Message | None, now: float) -> TypeGuard[Message]:
    return message is not None and message.expires_at is not None and message.expires_at <= now


def discard(connection: Connection, expired: Message) -> None:
    """Remove a message whose Expiry has passed, and report it if asked to, while writing."""
    reports.expired(connection, expired)
    remove(connection, expired.place)


def remove(connection: Connection, place: int) -> None:
    """Delete a message for good, while writing."""
    connection.store.execute("DELETE FROM message WHERE place = ?", (place,))


_DELETE_HELD = "DELETE FROM message WHERE place IN (SELECT place FROM held WHERE place = ?)"


def claim(connection: Connection, queue_id: int, found: Message) -> None:
    """Hold a message back from everyone until the unit of work ends, while writing.

    One that the unit of work itself has put is gone at once: whether committed or backed out.
    """
    connection.unit_of_work.calls += 1
    execute, place = connection.store.execute, found.place
    if not execute(_DELETE_HELD, (place,)).rowcount:
        execute(HOLD, (place, queue_id, connection.connection_id, GOT))


def lock(connection: Connection, opened: OpenObject, queue_id: int, found: Message) -> None:
    """Hide a message that is browsed from all other handles (MQGMO_LOCK), while writing."""
    opened.locked = found.place
    connection.store.execute(HOLD, (found.place, queue_id, connection.connection_id, LOCKED))


def unlock(connection: Connection, opened: OpenObject) -> None:
    """Show the message again that a handle has locked, if there is one, while writing."""
    if opened.locked is not None:
        connection.store.execute("DELETE FROM held WHERE place = ?", (opened.locked,))
        connection.unit_of_work.fronts.clear()
        opened.locked = None
