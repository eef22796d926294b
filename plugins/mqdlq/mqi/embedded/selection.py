"""Which message an MQGET means: what to match and where the browse cursor stands in, one row out.

Every query walks an index from a known position and stops at its first row, so that browsing a
queue costs the same per message however deep it is.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from typing import Any

from mqdlq.mqi.embedded import mqi_constants as mq
from mqdlq.mqi.embedded.connection import Connection, OpenObject
from mqdlq.mqi.embedded.failures import CallFailedError, not_emulated
from mqdlq.mqi.embedded.structures import MQGMO, MQMD
from mqdlq.mqi.embedded.unit_of_work import Message, Pending

MATCH_BY_DEFAULT = mq.MQMO_MATCH_MSG_ID | mq.MQMO_MATCH_CORREL_ID
SYNCPOINT = mq.MQGMO_SYNCPOINT | mq.MQGMO_SYNCPOINT_IF_PERSISTENT
EMULATED_MATCHES = MATCH_BY_DEFAULT | mq.MQMO_MATCH_MSG_TOKEN
NAMES = mq.names_of("MQMO")
NULL_ID = bytes(24)
TOKEN_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Criteria:
    """What a message must match: an index, its SQL condition, the values for that."""

    index: str
    condition: str = ""
    values: tuple[Any, ...] = ()
    msg_id: bytes = NULL_ID
    correl_id: bytes = NULL_ID

    def fits(self, held: Pending) -> bool:
        """Whether a message that is not in the database yet matches."""
        return (
            (self.msg_id in {NULL_ID, held.msg_id})
            and (self.correl_id in {NULL_ID, held.correl_id})
            and (held.message.expires_at is None or held.message.expires_at > time.time())
            and bool(self.index)
        )


def criteria(md: MQMD, gmo: MQGMO) -> Criteria:
    """Read MatchOptions as far as the structure's version lets them count.

    Version 1 has none and matches both identifiers; MsgToken needs version 3; a null identifier
    matches anything (IBM MQ docs, "MatchOptions (MQGMO)", "MsgId (MQMD)").
    """
    matches = gmo.match_options if gmo.version > 1 else MATCH_BY_DEFAULT
    for bit in (1 << place for place in range(matches.bit_length())):
        if matches & bit and not bit & EMULATED_MATCHES:
            name = NAMES.get(bit, f"MQMO bit {bit:#x}")
            raise not_emulated(name, "MQRC_MATCH_OPTIONS_ERROR")
    if matches & mq.MQMO_MATCH_MSG_TOKEN:
        return _by_token(gmo)
    msg_id = md.msg_id if matches & mq.MQMO_MATCH_MSG_ID else NULL_ID
    correl_id = md.correl_id if matches & mq.MQMO_MATCH_CORREL_ID else NULL_ID
    if NULL_ID not in {msg_id, correl_id}:
        both = "AND m.msg_id = ? AND m.correl_id = ?"
        return Criteria("by_msg_id", both, (msg_id, correl_id), msg_id, correl_id)
    if msg_id != NULL_ID:
        return Criteria("by_msg_id", "AND m.msg_id = ?", (msg_id,), msg_id)
    if correl_id != NULL_ID:
        return Criteria("by_correl_id", "AND m.correl_id = ?", (correl_id,), NULL_ID, correl_id)
    return Criteria("available")


def _by_token(gmo: MQGMO) -> Criteria:
    if gmo.version < 3:  # noqa: PLR2004 (the first version with a MsgToken)
        raise CallFailedError("MQRC_MATCH_OPTIONS_ERROR")
    if gmo.options & mq.MQGMO_WAIT:
        raise CallFailedError("MQRC_MSG_TOKEN_ERROR")
    return Criteria("", "AND m.place = ?", (int.from_bytes(gmo.msg_token, "big"),))


def token(place: int) -> bytes:
    """Return the MsgToken of a message: unique and never used again on this queue manager."""
    return place.to_bytes(TOKEN_LENGTH, "big")


@cache
def _query(index: str, condition: str, position: str) -> str:
    parts = (
        "SELECT m.place, m.rank, m.backout_count, m.expires_at, c.descriptor, c.properties, c.body",
        "FROM message AS m",
        f"INDEXED BY {index}" if index else "",
        "CROSS JOIN content AS c ON c.place = m.place",
        "WHERE m.queue_id = ? AND m.state = 0 AND (m.expires_at IS NULL OR m.expires_at > ?)",
        condition,
        position,
        "ORDER BY m.rank, m.place LIMIT 1",
    )
    return " ".join(parts)


AT_THE_PLACE = "AND m.place = ?"
SAME_RANK_BEHIND = "AND m.rank = ? AND m.place > ?"
LOWER_RANK = "AND m.rank > ?"


def find(
    connection: Connection,
    opened: OpenObject,
    queue_id: int,
    wanted: Criteria,
    options: int,
    *,
    when: float | None = None,
) -> Message | None:
    """Return the first message that fits and has not expired, by priority and then by place.

    What a unit of work has put is not visible outside it (IBM MQ docs, "MQPMO_SYNCPOINT"), but
    within: a get that is part of it, and no other and no browse, finds that too.
    """
    at = time.time() if when is None else when
    found = _committed(connection, opened, queue_id, wanted, options, at)
    if not options & SYNCPOINT or queue_id not in connection.unit_of_work.puts:
        return found
    own = connection.unit_of_work.first(queue_id, wanted.fits)
    if options & mq.MQGMO_MSG_UNDER_CURSOR or own is None:
        return found
    return own if found is None or (own.rank, own.place) < (found.rank, found.place) else found


def _committed(  # noqa: PLR0917
    connection: Connection,
    opened: OpenObject,
    queue_id: int,
    wanted: Criteria,
    options: int,
    when: float,
) -> Message | None:
    def first(condition: Criteria, position: str, *values: Any) -> Message | None:
        query = _query(condition.index, condition.condition, position)
        row = connection.store.execute(
            query, (queue_id, when, *condition.values, *values)
        ).fetchone()
        return row and Message(*row)

    cursor = opened.cursor
    if cursor is None:
        return first(wanted, "")
    rank, place = cursor
    if options & (mq.MQGMO_MSG_UNDER_CURSOR | mq.MQGMO_BROWSE_MSG_UNDER_CURSOR):
        return first(Criteria(""), AT_THE_PLACE, place)
    if not options & mq.MQGMO_BROWSE_NEXT:
        return first(wanted, "")
    # Two queries, each wholly on the index: for one comparison of (rank, place) SQLite would use
    # the index for the rank alone and walk the whole queue at every call.
    return first(wanted, SAME_RANK_BEHIND, rank, place) or first(wanted, LOWER_RANK, rank)


def discard_expired(connection: Connection, queue_id: int) -> None:
    """Remove the messages nobody can get any more, while writing."""
    execute = connection.store.execute
    expired = execute(
        "SELECT place FROM message INDEXED BY expiring"
        " WHERE queue_id = ? AND state = 0 AND expires_at <= ?",
        (queue_id, time.time()),
    ).fetchall()
    for place in expired:
        remove(connection, queue_id, place[0])


def remove(connection: Connection, queue_id: int, place: int) -> None:
    """Delete a message for good, while writing."""
    connection.store.execute("DELETE FROM message WHERE place = ?", (place,))
    connection.store.execute("DELETE FROM content WHERE place = ?", (place,))
    _count_out(connection, queue_id)


def claim(connection: Connection, queue_id: int, place: int) -> None:
    """Hold a message back from everyone until the unit of work ends, while writing.

    One that the unit of work itself has put is gone at once: whether committed or backed out.
    """
    unit = connection.unit_of_work
    unit.calls += 1
    if unit.puts[queue_id].pop(place, None) is not None:
        connection.store.execute("DELETE FROM message WHERE place = ?", (place,))
    else:
        connection.store.execute(
            "UPDATE message SET state = 2, connection_id = ? WHERE place = ?",
            (connection.connection_id, place),
        )
        unit.gets += 1
    _count_out(connection, queue_id)


def lock(connection: Connection, opened: OpenObject, place: int) -> None:
    """Hide a message that is browsed from all other handles (MQGMO_LOCK), while writing."""
    connection.store.execute(
        "UPDATE message SET state = 3, connection_id = ? WHERE place = ? AND state = 0",
        (connection.connection_id, place),
    )
    opened.locked = place


def unlock(connection: Connection, opened: OpenObject) -> None:
    """Show the message again that a handle has locked, if there is one, while writing."""
    connection.store.execute(
        "UPDATE message SET state = 0, connection_id = NULL"
        " WHERE place = ? AND state = 3 AND connection_id = ?",
        (opened.locked, connection.connection_id),
    )
    opened.locked = None


def _count_out(connection: Connection, queue_id: int) -> None:
    connection.store.execute(
        "UPDATE depth SET messages = messages - 1 WHERE queue_id = ?", (queue_id,)
    )
