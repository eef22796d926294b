"""Lies for tests: a queue manager that deviates from IBM MQ in one respect, without an error.

A lie is a kind of fault (see `faults`): its name is the WHAT of a fault on one of its verbs, such
as ``MQCMIT:1+:commit-lost:before``. The name alone stands for all calls of all its verbs. A program
that checks a queue manager before it relies on it must find each lie.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from embedded_mq import mqi_constants as mq
from embedded_mq.constants import MQRC
from embedded_mq.engine.connection import Connection, OpenObject
from embedded_mq.engine.failures import MQCC_OK, CallFailedError
from embedded_mq.engine.messages import selection
from embedded_mq.headers import header_checks
from embedded_mq.storage.schema import GOT, PUT
from embedded_mq.structures import MQDLH, MQGMO, MQMD, MQPMO

Answer = tuple[Any, ...]
Operation = Callable[..., Answer]
"""The work of a call: takes the connection and the call's arguments."""

PutArguments = tuple[Any, bytes, bytes, bytes]
"""The arguments of MQPUT and MQPUT1: handle or packed MQOD, MQMD, MQPMO, and body."""
GetArguments = tuple[int, bytes, bytes, int]
"""The arguments of MQGET: handle, MQMD, MQGMO, and the length of the buffer."""

CONTEXT = mq.MQPMO_PASS_ALL_CONTEXT | mq.MQPMO_SET_ALL_CONTEXT
BROWSE = mq.MQGMO_BROWSE_FIRST | mq.MQGMO_BROWSE_NEXT
TRUNCATED = {MQRC["MQRC_TRUNCATED_MSG_ACCEPTED"], MQRC["MQRC_TRUNCATED_MSG_FAILED"]}
REASON_OF_MQDLH = MQDLH.slice_of("reason")


@dataclass(frozen=True, slots=True)
class Lie:
    """A lie: the verbs that it applies to, and the function that runs the call in its place."""

    verbs: tuple[str, ...]
    tell: Callable[..., Answer]


def _lose_commit(connection: Connection, _: Operation, __: tuple[()]) -> Answer:
    connection.back_out()
    return MQCC_OK, 0


def _commit_backout(connection: Connection, _: Operation, __: tuple[()]) -> Answer:
    connection.commit()
    return MQCC_OK, 0


def _hide_backout(connection: Connection, operation: Operation, _: tuple[()]) -> Answer:
    query = "SELECT place FROM held WHERE connection_id = ? AND kind = ?"
    places = connection.store.execute(query, (connection.connection_id, GOT)).fetchall()
    answer = operation(connection)
    with connection.store.transaction():
        connection.store.execute_many(
            "UPDATE message SET backout_count = backout_count - 1 WHERE place = ?", places
        )
    return answer


def _share(connection: Connection, operation: Operation, opened: tuple[Any, int]) -> Answer:
    od, options = opened
    if options & mq.MQOO_INPUT_EXCLUSIVE:
        options += mq.MQOO_INPUT_SHARED - mq.MQOO_INPUT_EXCLUSIVE
    return operation(connection, od, options)


def _replace_context(connection: Connection, operation: Operation, put: PutArguments) -> Answer:
    target, md, pmo, body = put
    changed = MQPMO.unpack(pmo)
    changed.options &= ~CONTEXT
    return operation(connection, target, md, changed.pack(), body)


def _replace_msg_id(connection: Connection, operation: Operation, put: PutArguments) -> Answer:
    target, md, pmo, body = put
    changed = MQPMO.unpack(pmo)
    if changed.options & mq.MQPMO_SET_ALL_CONTEXT:
        changed.options |= mq.MQPMO_NEW_MSG_ID
    return operation(connection, target, md, changed.pack(), body)


def _drop_properties(connection: Connection, operation: Operation, put: PutArguments) -> Answer:
    target, md, pmo, body = put
    changed = MQPMO.unpack(pmo)
    if changed.action == mq.MQACTP_FORWARD:
        changed.original_msg_handle, changed.action = 0, mq.MQACTP_NEW
    return operation(connection, target, md, changed.pack(), body)


def _ignore_expiry(connection: Connection, operation: Operation, put: PutArguments) -> Answer:
    target, md, pmo, body = put
    changed = MQMD.unpack(md)
    changed.expiry = mq.MQEI_UNLIMITED
    return operation(connection, target, changed.pack(), pmo, body)


def _change_header(connection: Connection, operation: Operation, put: PutArguments) -> Answer:
    target, md, pmo, body = put
    if body.startswith(b"DLH "):
        changed = bytearray(body)
        changed[REASON_OF_MQDLH] = bytes(4)
        body = bytes(changed)
    return operation(connection, target, md, pmo, body)


def _refuse_header(connection: Connection, operation: Operation, put: PutArguments) -> Answer:
    _, md, _, body = put
    header_checks.check_headers(MQMD.unpack(md), body)
    return operation(connection, *put)


def _rename_full(connection: Connection, operation: Operation, arguments: Answer) -> Answer:
    try:
        return operation(connection, *arguments)
    except CallFailedError as failure:
        if failure.reason == MQRC["MQRC_Q_FULL"]:
            raise CallFailedError("MQRC_PUT_INHIBITED") from failure
        raise


def _forget_cursor(connection: Connection, operation: Operation, get: GetArguments) -> Answer:
    hobj, md, gmo, length = get
    changed = MQGMO.unpack(gmo)
    changed.options &= ~mq.MQGMO_MSG_UNDER_CURSOR
    return operation(connection, hobj, md, changed.pack(), length)


def _truncate(connection: Connection, operation: Operation, get: GetArguments) -> Answer:
    hobj, md, gmo, length = get
    changed = MQGMO.unpack(gmo)
    changed.options |= mq.MQGMO_ACCEPT_TRUNCATED_MSG
    data, *rest, full, completion, reason = operation(connection, hobj, md, changed.pack(), length)
    if reason in TRUNCATED:
        full, completion, reason = len(data), MQCC_OK, 0
    return (data, *rest, full, completion, reason)


def _reverse_browse(connection: Connection, operation: Operation, get: GetArguments) -> Answer:
    hobj, md, gmo, length = get
    changed = MQGMO.unpack(gmo)
    if not changed.options & BROWSE or changed.match_options & mq.MQMO_MATCH_MSG_TOKEN:
        return operation(connection, *get)
    places = _places_in_reverse(connection, connection.find_object(hobj), changed.options)
    changed.options = changed.options & ~BROWSE | mq.MQGMO_BROWSE_FIRST
    changed.version, changed.match_options = 4, mq.MQMO_MATCH_MSG_TOKEN
    changed.msg_token = selection.token(places[0] if places else 0)
    return operation(connection, hobj, md, changed.pack(), length)


def _places_in_reverse(connection: Connection, opened: OpenObject, options: int) -> list[int]:
    """Return the places of the visible messages that were not yet browsed, the last one first."""
    queue_id = opened.resolved(connection.store.last_catalogue).queue_id
    rows = connection.store.execute(
        "SELECT place FROM message WHERE queue_id = ? AND place NOT IN (SELECT place FROM held)"
        " ORDER BY rank DESC, place DESC",
        (queue_id,),
    ).fetchall()
    places = [place for (place,) in rows]
    if options & mq.MQGMO_BROWSE_NEXT and opened.cursor and opened.cursor[1] in places:
        return places[places.index(opened.cursor[1]) + 1 :]
    return places


def _show_uncommitted(connection: Connection, operation: Operation, get: GetArguments) -> Answer:
    _, _, gmo, _ = get
    if not MQGMO.unpack(gmo).options & BROWSE:
        return operation(connection, *get)
    store, key = connection.store, (PUT, connection.connection_id)
    with store.transaction():
        held = store.execute("SELECT * FROM held WHERE kind = ? AND connection_id <> ?", key)
        rows = held.fetchall()
        store.execute("DELETE FROM held WHERE kind = ? AND connection_id <> ?", key)
    try:
        return operation(connection, *get)
    finally:
        with store.transaction():
            store.execute_many("INSERT INTO held VALUES(?, ?, ?, ?)", rows)


def _change_trace(connection: Connection, operation: Operation, arguments: Answer) -> Answer:
    connection.changes_trace = True
    try:
        return operation(connection, *arguments)
    finally:
        connection.changes_trace = False


PUTS = ("MQPUT", "MQPUT1")
LIES: Mapping[str, Lie] = {
    "browse-reversed": Lie(("MQGET",), _reverse_browse),
    "cursor-forgotten": Lie(("MQGET",), _forget_cursor),
    "truncation-silent": Lie(("MQGET",), _truncate),
    "uncommitted-visible": Lie(("MQGET",), _show_uncommitted),
    "commit-lost": Lie(("MQCMIT",), _lose_commit),
    "backout-committed": Lie(("MQBACK",), _commit_backout),
    "backout-uncounted": Lie(("MQBACK",), _hide_backout),
    "exclusive-shared": Lie(("MQOPEN",), _share),
    "context-replaced": Lie(PUTS, _replace_context),
    "msg-id-replaced": Lie(PUTS, _replace_msg_id),
    "properties-dropped": Lie(PUTS, _drop_properties),
    "expiry-ignored": Lie(PUTS, _ignore_expiry),
    "header-changed": Lie(PUTS, _change_header),
    "header-refused": Lie(PUTS, _refuse_header),
    "full-renamed": Lie(PUTS, _rename_full),
    "trace": Lie(("MQGET",), _change_trace),
}
"""The lies by their names.

With `trace`, a message that is got, not browsed, gets new properties `traceparent` and
`tracestate`: the only one that is true, of IBM MQ for z/OS with OTELTRAC(ON).
"""


def expanded(text: str) -> list[str]:
    """Return the faults that a text stands for: the name of a lie stands for one of each verb."""
    if text in LIES:
        return [f"{verb}:1+:{text}:before" for verb in LIES[text].verbs]
    return [text]


def with_lies(operation: Operation, names: list[str]) -> Operation:
    """Return the operation of a call, run by these lies."""
    for name in names:
        operation = _told(LIES[name], operation)
    return operation


def _told(lie: Lie, operation: Operation) -> Operation:
    def lying(connection: Connection, *arguments: Any) -> Answer:
        return lie.tell(connection, operation, arguments)

    return lying
