"""Which message an MQGET means: what to match and where the browse cursor stands in, one row out.

Every query walks an index from a known position and stops at its first row, so that browsing a
queue costs the same per message however deep it is.
"""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeGuard

from embedded_mq import mqi_constants as mq
from embedded_mq.engine.connection import Connection, OpenObject
from embedded_mq.engine.failures import CallFailedError, not_emulated
from embedded_mq.engine.messages import reports
from embedded_mq.engine.unit_of_work import Message, Row
from embedded_mq.storage.board import GOT, IS_ORDERED, LOCKED, REMOVED, TAKEN_BACK, UNITS, Held
from embedded_mq.storage.store import Store
from embedded_mq.structures import MQGMO, MQMD

MATCH_BY_DEFAULT = mq.MQMO_MATCH_MSG_ID | mq.MQMO_MATCH_CORREL_ID
UNDER_CURSOR = mq.MQGMO_MSG_UNDER_CURSOR | mq.MQGMO_BROWSE_MSG_UNDER_CURSOR
SYNCPOINT = mq.MQGMO_SYNCPOINT | mq.MQGMO_SYNCPOINT_IF_PERSISTENT
EMULATED_MATCHES = MATCH_BY_DEFAULT | mq.MQMO_MATCH_MSG_TOKEN
NAMES = mq.names_of("MQMO")
NULL_ID = bytes(24)
TOKEN_LENGTH = 16
IDENTIFIERS = struct.Struct("24s24s")
IDENTIFIERS_OF_MQMD = MQMD.place_of("msg_id", "correl_id")
NULL_IDENTIFIERS = bytes(48)
LAST_PLACE = 2**63 - 1

LOOKS = 3 if IS_ORDERED else 0
"""How often to look without the turn."""


@dataclass(frozen=True, slots=True)
class Criteria:
    """What a message must match: an index, its SQL condition, the values for that."""

    index: str
    condition: str = ""
    values: tuple[Any, ...] = ()
    msg_id: bytes = NULL_ID
    correl_id: bytes = NULL_ID

    def fits(self, row: Row) -> bool:
        """Whether a message that is not in the database yet matches."""
        return (
            (self.msg_id in {NULL_ID, row.msg_id})
            and (self.correl_id in {NULL_ID, row.correl_id})
            and (row.expires_at is None or row.expires_at > time.time())
            and bool(self.index)
        )


ANY = Criteria("in_order")
AT_A_PLACE = Criteria("", "AND place = ?")


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
    if is_msg_id and is_correl_id:
        both = "AND msg_id = ? AND correl_id = ?"
        return Criteria("by_msg_id", both, (msg_id, correl_id), msg_id, correl_id)
    if is_msg_id:
        return Criteria("by_msg_id", "AND msg_id = ?", (msg_id,), msg_id)
    if is_correl_id:
        return Criteria("by_correl_id", "AND correl_id = ?", (correl_id,), NULL_ID, correl_id)
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
    return replace(AT_A_PLACE, values=(min(place, LAST_PLACE),))


def token(place: int) -> bytes:
    """Return the MsgToken of a message: unique and never used again on this queue manager."""
    return place.to_bytes(TOKEN_LENGTH, "big")


WHOLE = "place, rank, backout_count, expires_at, descriptor, properties, body"


@cache
def _query(what: str, index: str, condition: str, position: str) -> str:
    parts = (
        f"SELECT {what} FROM message",  # noqa: S608 (the texts are this module's)
        f"INDEXED BY {index}" if index else "",
        "WHERE queue_id = ?",
        condition,
        position,
        "ORDER BY rank, place",
        "LIMIT 1" if what == WHOLE else "",
    )
    return " ".join(parts)


AT_ONE = f"SELECT {WHOLE} FROM message WHERE place = ?"  # noqa: S608
SAME_RANK_BEHIND = "AND rank = ? AND place > ?"
LOWER_RANK = "AND rank > ?"


def find(
    connection: Connection, opened: OpenObject, queue_id: int, wanted: Criteria, options: int
) -> Message | None:
    """Return the first message that fits, by priority and then by place.

    What a unit of work has put is not visible outside it (IBM MQ docs, "MQPMO_SYNCPOINT"), but
    within: a get that is part of it, and no other and no browse, finds that too.
    """
    cursor = opened.cursor
    if cursor is not None:
        if options & UNDER_CURSOR:
            wanted, cursor = replace(AT_A_PLACE, values=(cursor[1],)), None
        elif not options & mq.MQGMO_BROWSE_NEXT:
            cursor = None
    found = _committed(connection, opened, queue_id, wanted, cursor)
    if not options & SYNCPOINT or queue_id not in connection.unit_of_work.puts:
        return found
    own = connection.unit_of_work.first(queue_id, wanted.fits)
    if options & mq.MQGMO_MSG_UNDER_CURSOR or own is None:
        return found
    return own if found is None or (own.rank, own.place) < (found.rank, found.place) else found


def _committed(
    connection: Connection,
    opened: OpenObject,
    queue_id: int,
    wanted: Criteria,
    cursor: tuple[int, int] | None,
) -> Message | None:
    """Look at the board and into the database at one moment: while nothing happens in between.

    Where too much happens, the turn brings it to a halt.
    """
    store, mine = connection.store, opened.locked and opened.locked.place
    board = store.board
    for _ in range(LOOKS):
        board.catch_up()
        begun = board.position
        start = (
            board.fronts.get(queue_id) if cursor is None and wanted is ANY and not mine else cursor
        )
        found = _first(store, queue_id, wanted, start, mine)
        board.catch_up()
        if board.position == begun:
            return found
    with store.turn:
        return _first(store, queue_id, wanted, cursor, mine)


def _first(
    store: Store,
    queue_id: int,
    wanted: Criteria,
    start: tuple[int, int] | None,
    mine: int | None,
) -> Message | None:
    """Return the first message behind a rank and place that nobody holds, or that is `mine`.

    Two queries, each wholly on the index: for one comparison of (rank, place) SQLite would use the
    index for the rank alone and walk the whole queue at every call.
    """
    values = (queue_id, *wanted.values)
    if start is None:
        return _first_of(store, wanted, "", values, mine)
    return _first_of(store, wanted, SAME_RANK_BEHIND, (*values, *start), mine) or _first_of(
        store, wanted, LOWER_RANK, (*values, start[0]), mine
    )


def _first_of(
    store: Store, wanted: Criteria, position: str, values: tuple[Any, ...], mine: int | None
) -> Message | None:
    query = _query(WHOLE, wanted.index, wanted.condition, position)
    row = store.execute(query, values).fetchone()
    if row is None:
        return None
    held = store.board.held
    if row[0] not in held or row[0] == mine:
        return Message(*row)
    query = _query("place", wanted.index, wanted.condition, position)
    for (place,) in store.execute(query, values):
        if place not in held or place == mine:
            row = store.execute(AT_ONE, (place,)).fetchone()
            return Message(*row)
    return None


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
            discard(connection, queue_id, found)
            if opened.locked is not None and opened.locked.place == found.place:
                opened.locked = None


def _has_expired(message: Message | None, now: float) -> TypeGuard[Message]:
    return message is not None and message.expires_at is not None and message.expires_at <= now


def discard(connection: Connection, queue_id: int, expired: Message) -> None:
    """Remove a message whose Expiry has passed, and report it if asked to, while writing."""
    reports.expired(connection, expired)
    remove(connection, queue_id, expired.place)


def remove(connection: Connection, queue_id: int, place: int) -> None:
    """Delete a message for good, while writing."""
    connection.store.execute("DELETE FROM message WHERE place = ?", (place,))
    connection.store.announce(REMOVED, 0, 0, 0, queue_id, place)


def claim(connection: Connection, queue_id: int, found: Message) -> None:
    """Hold a message back from everyone until the unit of work ends, with the turn.

    One that the unit of work itself has put is gone at once: whether committed or backed out.
    """
    unit = connection.unit_of_work
    unit.calls += 1
    kind = GOT
    if queue_id in unit.puts and unit.puts[queue_id].pop(found.place, None) is not None:
        kind = TAKEN_BACK
    else:
        unit.gets.append(found.place)
    connection.store.board.append(
        kind, found.rank, unit.number % UNITS, connection.connection_id, queue_id, found.place
    )


def lock(connection: Connection, opened: OpenObject, queue_id: int, found: Message) -> None:
    """Hide a message that is browsed from all other handles (MQGMO_LOCK), with the turn."""
    opened.locked = Held(LOCKED, found.rank, 0, connection.connection_id, queue_id, found.place)
    connection.store.board.append(*opened.locked)


def unlock(connection: Connection, opened: OpenObject) -> None:
    """Show the message again that a handle has locked, if there is one, with the turn."""
    if opened.locked is not None:
        connection.store.board.append(*opened.locked.freed())
        opened.locked = None
