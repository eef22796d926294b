"""Dump the messages of a queue to text, one JSON line each, and load them again.

The first line names the format and the queue, the last line counts the messages. The lines between
them have the messages in the order of the queue, as MQGET would return them: ``MQMD`` with every
field under IBM's name, as text of full length, as hexadecimal digits or as a number; ``properties``
if there are any, each with its MQTYPE and MQPD fields; ``body`` in hexadecimal digits. Expiry is
the remaining time.
"""

import json
import struct
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from embedded_mq import mqi_constants as mq
from embedded_mq.character_fields import object_name
from embedded_mq.engine.connection import Connection, OpenObject
from embedded_mq.engine.failures import CallFailedError
from embedded_mq.engine.messages import putting
from embedded_mq.engine.messages.property_values import Property, unpack_properties
from embedded_mq.engine.objects import opening
from embedded_mq.errors import EmbeddedQueueManagerError
from embedded_mq.mqsc.administration import connect
from embedded_mq.structures import MQMD, MQOD, MQPMO

FORMAT, VERSION = "mqdlq queue dump", 1
BINARY = frozenset({"MsgId", "CorrelId", "AccountingToken", "GroupId"})
_FIELDS = {field.ibm_name: name for name, field in MQMD.layout.items()}

_MESSAGES = """
SELECT backout_count, expires_at, descriptor, properties, body
    FROM message
    WHERE queue_id = ? AND (expires_at IS NULL OR expires_at > ?)
        AND place NOT IN (SELECT place FROM held)
    ORDER BY rank, place
"""

_SET_BACKOUT_COUNT = """
UPDATE message SET backout_count = ?
    WHERE place = (SELECT max(place) FROM held WHERE connection_id = ?)
"""


def dump(name: str, queue: str, directory: Path | None = None) -> Iterator[str]:
    """Yield the lines of a dump, without uncommitted messages.

    Raises EmbeddedQueueManagerError if the local queue does not exist.
    """
    connection = connect(name, directory)
    try:
        definition = connection.store.catalogue().by_name.get(queue)
        if definition is None or definition.type != mq.MQQT_LOCAL:
            raise EmbeddedQueueManagerError(f"queue manager {name} has no local queue {queue}")
        connection.release_orphaned_messages()
        yield _line(format=FORMAT, version=VERSION, queue_manager=name, queue=queue)
        now, count = time.time(), 0
        for row in connection.store.execute(_MESSAGES, (definition.queue_id, now)):
            yield _message(*row, now=now)
            count += 1
        yield _line(messages=count)
    finally:
        connection.disconnect()


def _line(**values: Any) -> str:
    return json.dumps(values) + "\n"


def _message(
    backout_count: int,
    expires_at: float | None,
    descriptor: bytes,
    properties: bytes | None,
    body: bytes,
    *,
    now: float,
) -> str:
    md = MQMD.unpack(descriptor)
    md.version, md.backout_count = mq.MQMD_VERSION_2, backout_count
    if expires_at is not None:
        md.expiry = max(1, int((expires_at - now) * 10))
    fields = {shown: _written(shown, getattr(md, name)) for shown, name in _FIELDS.items()}
    held = [asdict(each) | {"value": _hex(each.value)} for each in unpack_properties(properties)]
    return _line(MQMD=fields, **({"properties": held} if held else {}), body=body.hex())


def _written(name: str, value: bytes | int) -> str | int:
    if isinstance(value, int):
        return value
    return value.hex() if name in BINARY else value.decode("latin-1")


def _hex(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value


def load(
    name: str,
    queue: str,
    lines: Iterable[str],
    *,
    source: str = "<dump>",
    directory: Path | None = None,
) -> int:
    """Put the messages of a dump to a queue, all or none; return their number.

    They are put in one unit of work with all their context. Raises EmbeddedQueueManagerError with
    the source and the line for an invalid dump and for a message that cannot be put.
    """
    connection = connect(name, directory)
    try:
        count = _load(connection, queue, iter(lines), source)
        connection.commit()
    except CallFailedError as failure:
        connection.break_connection()
        raise EmbeddedQueueManagerError(
            f"{source} cannot be loaded into {queue}: {failure}; no message was put"
        ) from failure
    except BaseException:
        connection.break_connection()
        raise
    connection.disconnect()
    return count


def _load(connection: Connection, queue: str, lines: Iterator[str], source: str) -> int:
    head = _read(next(lines, ""))
    if (head.get("format"), head.get("version")) != (FORMAT, VERSION):
        raise EmbeddedQueueManagerError(
            f"{source}, line 1: this is not a dump of a queue, which begins with"
            f" {_line(format=FORMAT, version=VERSION)}".rstrip()
        )
    opened = _opened(connection, queue)
    count = 0
    for number, line in enumerate(lines, start=2):
        row = _read(line)
        if "messages" in row:
            return _checked_count(row["messages"], count, f"{source}, line {number}")
        try:
            md, properties, body = _parsed(row)
        except (KeyError, TypeError, ValueError, AttributeError, struct.error) as error:
            raise EmbeddedQueueManagerError(
                f"{source}, line {number}: this is not a message of a dump"
            ) from error
        try:
            _put(connection, opened, md, properties, body)
        except CallFailedError as failure:
            raise EmbeddedQueueManagerError(
                f"{source}, line {number}: the message cannot be put on {queue}: {failure};"
                " no message was put"
            ) from failure
        count += 1
    raise EmbeddedQueueManagerError(
        f"{source}: the dump is truncated after {count} messages; its last line is missing"
    )


def _read(line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError:
        return {}
    return row if isinstance(row, dict) else {}


def _checked_count(said: object, count: int, place: str) -> int:
    if said != count:
        raise EmbeddedQueueManagerError(
            f"{place}: it counts {said} messages, but the dump has {count}"
        )
    return count


def _parsed(row: dict[str, Any]) -> tuple[MQMD, list[Property], bytes]:
    values: dict[str, Any] = {
        name: _value(shown, row["MQMD"][shown]) for shown, name in _FIELDS.items()
    }
    md = MQMD.unpack(MQMD.from_values(values.values()).pack())
    if vars(md) != values:
        raise ValueError("a field is too long")
    properties = [_property(**each) for each in row.get("properties", ())]
    return md, properties, bytes.fromhex(row["body"])


def _value(name: str, value: str | int) -> bytes | int:
    if isinstance(value, int):
        return value
    return bytes.fromhex(value) if name in BINARY else value.encode("latin-1")


def _property(**fields: Any) -> Property:
    if fields["type"] == mq.MQTYPE_BYTE_STRING:
        fields["value"] = bytes.fromhex(fields["value"])
    return Property(**fields)


def _opened(connection: Connection, queue: str) -> OpenObject:
    od = MQOD.unpack(bytes(MQOD.length))
    od.struc_id, od.version, od.object_type = b"OD  ", 1, mq.MQOT_Q
    od.object_name = object_name(queue)
    return opening.open_object(connection, od, mq.MQOO_OUTPUT | mq.MQOO_SET_ALL_CONTEXT)


def _put(
    connection: Connection, opened: OpenObject, md: MQMD, properties: list[Property], body: bytes
) -> None:
    pmo = MQPMO.unpack(bytes(MQPMO.length))
    pmo.struc_id, pmo.version = b"PMO ", 3
    pmo.options = mq.MQPMO_SYNCPOINT | mq.MQPMO_SET_ALL_CONTEXT
    if properties:
        pmo.new_msg_handle = connection.message_handles.create(mq.MQCMHO_NO_VALIDATION)
        connection.message_handles.at(pmo.new_msg_handle).replace_all(properties)
    putting.put(connection, opened.handle, md.pack(), pmo.pack(), body)
    if md.backout_count:  # an MQPUT cannot set it
        with connection.store.transaction():
            values = (md.backout_count, connection.connection_id)
            connection.store.execute(_SET_BACKOUT_COUNT, values)
