"""Find the message that an MQGET selects, by its match options and the browse cursor.

Every query walks an index from a known position and stops at its first row, so that the cost of
browsing a message does not depend on the depth of the queue.
"""

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
    """The criteria of a search: an index, an SQL condition, and the values in it."""

    index: str
    condition: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)


ANY = Criteria("in_order")
BY_PLACE = Criteria("", "AND place = :at")


def read_criteria(md: bytes, gmo: MQGMO) -> Criteria:
    """Return the criteria for the MatchOptions that the version of the MQGMO has.

    Version 1 has none and matches both identifiers; MsgToken needs version 3; a null identifier
    matches any message (IBM MQ docs, "MatchOptions (MQGMO)", "MsgId (MQMD)").
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
    return replace(BY_PLACE, values={"at": min(place, LAST_PLACE)})


def token(place: int) -> bytes:
    """Return the MsgToken of a message, which is unique and never reused on a queue manager."""
    return place.to_bytes(TOKEN_LENGTH, "big")


@cache
def _query(index: str, condition: str, position: str = "") -> str:
    """Return the query for the first matching message that the caller may see."""
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
    """Return the query for the first matching message after a rank and a place.

    It combines two queries that use the whole index: for one comparison of (rank, place), SQLite
    would use the index for the rank alone and walk the whole queue at every call.
    """
    same_rank = _query(index, condition, "AND rank = :rank AND place > :place")
    lower_rank = _query(index, condition, "AND rank > :rank")
    return f"SELECT * FROM ({same_rank}) UNION ALL SELECT * FROM ({lower_rank}) LIMIT 1"  # noqa: S608


def find_message(
    connection: Connection, opened: OpenObject, queue_id: int, wanted: Criteria, options: int
) -> Message | None:
    """Return the first matching message, by priority and then by place.

    A message that a unit of work has put is visible only to gets in the same unit of work, not to
    other gets and not to browses (IBM MQ docs, "MQPMO_SYNCPOINT").
    """
    values: dict[str, Any] = {
        "queue": queue_id,
        "locked": opened.locked or 0,
        "unit": connection.connection_id if options & SYNCPOINT else 0,
        **wanted.values,
    }
    start = opened.cursor if options & mq.MQGMO_BROWSE_NEXT else None
    if options & UNDER_CURSOR and opened.cursor is not None:
        wanted, values["at"] = BY_PLACE, opened.cursor[1]
    elif options & SYNCPOINT and wanted is ANY and opened.locked is None:
        start = connection.unit_of_work.search_start(queue_id, connection.store)
    query = _query(wanted.index, wanted.condition)
    if start is not None:
        query = _query_behind(wanted.index, wanted.condition)
        values["rank"], values["place"] = start
    row = connection.store.execute(query, values).fetchone()
    return row and Message(*row)


def discard_expired(
    connection: Connection, opened: OpenObject, queue_id: int, wanted: Criteria, options: int
) -> None:
    """Discard the expired messages that a get or browse would return before a valid one.

    Expired messages after it, or that do not match, stay and count (IBM MQ docs, "Expiry (MQMD)").
    """
    with connection.store.transaction():
        while has_expired(found := find_message(connection, opened, queue_id, wanted, options)):
            discard(connection, found)
            if opened.locked == found.place:
                opened.locked = None


def has_expired(message: Message | None) -> TypeGuard[Message]:
    expires_at = None if message is None else message.expires_at
    return expires_at is not None and expires_at <= time.time()


def discard(connection: Connection, expired: Message) -> None:
    """Remove an expired message, with a report if requested, inside a write transaction."""
    reports.report_expiry(connection, expired)
    remove(connection, expired.place)


def remove(connection: Connection, place: int) -> None:
    """Delete a message, inside a write transaction."""
    connection.store.execute("DELETE FROM message WHERE place = ?", (place,))


_DELETE_HELD = "DELETE FROM message WHERE place IN (SELECT place FROM held WHERE place = ?)"


def claim(connection: Connection, queue_id: int, found: Message) -> None:
    """Hide a message from all applications until the unit of work ends.

    A message that the same unit of work has put is deleted at once, because neither a commit nor a
    backout would keep it. Called inside a write transaction.
    """
    connection.unit_of_work.calls += 1
    execute, place = connection.store.execute, found.place
    if not execute(_DELETE_HELD, (place,)).rowcount:
        execute(HOLD, (place, queue_id, connection.connection_id, GOT))


def lock(connection: Connection, opened: OpenObject, queue_id: int, found: Message) -> None:
    """Hide a browsed message from all other handles (MQGMO_LOCK), inside a write transaction."""
    opened.locked = found.place
    connection.store.execute(HOLD, (found.place, queue_id, connection.connection_id, LOCKED))


def unlock(connection: Connection, opened: OpenObject) -> None:
    """Unlock the message that a handle has locked, if any, inside a write transaction."""
    if opened.locked is not None:
        connection.store.execute("DELETE FROM held WHERE place = ?", (opened.locked,))
        connection.unit_of_work.search_starts.clear()
        opened.locked = None
