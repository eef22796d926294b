"""Create, change, delete and clear queue objects for MQSC and PCF commands.

Every function runs inside a write transaction and checks everything before it changes anything. IBM
MQ docs, "MQSC commands reference" and "Definitions of the Programmable Command Formats".
"""

from collections.abc import Mapping

from embedded_mq import mqi_constants as mq
from embedded_mq.engine.connection import Connection
from embedded_mq.engine.objects import definitions
from embedded_mq.engine.objects.attributes import QUEUE_ATTRIBUTES, Value, defaults
from embedded_mq.storage.catalogue import Definition
from embedded_mq.storage.directories import NAME

TYPES = {
    "QLOCAL": mq.MQQT_LOCAL,
    "QALIAS": mq.MQQT_ALIAS,
    "QREMOTE": mq.MQQT_REMOTE,
    "QMODEL": mq.MQQT_MODEL,
}
KIND_OF = {number: kind for kind, number in TYPES.items()}


class CommandRefusedError(Exception):
    """A command is refused.

    The text is for MQSC. `reason` is the name of the reason code in a PCF response.
    """

    def __init__(self, reason: str, message: str) -> None:
        """Take the reason code's name and the text."""
        super().__init__(message)
        self.reason = reason


def check_name(name: str | None) -> str:
    """Return a valid object name (IBM MQ docs, "Rules for naming IBM MQ objects")."""
    if name is None or not NAME.fullmatch(name):
        raise CommandRefusedError(
            "MQRCCF_OBJECT_NAME_ERROR",
            f"{name or ''!r} is not a valid object name; use 1 to 48 of A-Z a-z 0-9 . _ / %",
        )
    return name


def matches_name(name: str, pattern: str) -> bool:
    """Return whether a name matches `pattern`, a name or a generic name.

    A generic name ends with an asterisk (IBM MQ docs, "Generic values").
    """
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def create(
    connection: Connection,
    queue_type: int,
    name: str | None,
    values: Mapping[str, Value],
    *,
    like: str | None = None,
    replace: bool = False,
) -> None:
    """Create a queue with these attributes; other attributes come from `like` or the defaults."""
    name = check_name(name)
    attributes = defaults(QUEUE_ATTRIBUTES[queue_type])
    if like is not None:
        model = find_existing(connection, like, queue_type, "MQRCCF_LIKE_OBJECT_WRONG_TYPE")
        # A dynamic queue has further attributes, which another queue does not get.
        known = QUEUE_ATTRIBUTES[model.type]
        attributes |= {key: value for key, value in model.attributes.items() if key in known}
    attributes |= values
    check_stream(connection, name, attributes)
    store = connection.store
    if name not in store.catalogue().by_name:
        definitions.add(store, name, queue_type, attributes)
    elif replace:
        queue = find_existing(connection, name, queue_type, "MQRCCF_OBJECT_WRONG_TYPE")
        definitions.change(store, queue, attributes)
    else:
        raise CommandRefusedError(
            "MQRCCF_OBJECT_ALREADY_EXISTS",
            f"{name} already exists; DEFINE {KIND_OF[queue_type]}({name}) REPLACE changes it",
        )


def check_stream(connection: Connection, name: str, attributes: Mapping[str, Value]) -> None:
    """Refuse a STREAMQ that IBM MQ does not support ("Streaming queue restrictions")."""
    stream_q = str(attributes.get("STREAMQ", ""))
    if not stream_q:
        return
    queues = connection.store.catalogue().by_name
    stream = queues.get(stream_q)
    if attributes["USAGE"] == mq.MQUS_TRANSMISSION:
        raise CommandRefusedError(
            "MQRCCF_STREAMQ_NOT_SUPPORTED",
            f"{name} is a transmission queue, which cannot have a STREAMQ",
        )
    if stream_q.startswith("SYSTEM.") or (stream and stream.type == mq.MQQT_MODEL):
        raise CommandRefusedError(
            "MQRCCF_STREAMQ_DEST_NOT_SUPP",
            f"STREAMQ({stream_q}) must not name a SYSTEM queue or a model queue",
        )
    if stream_q == name or (stream and stream.attributes.get("STREAMQ")):
        raise CommandRefusedError(
            "MQRCCF_STREAMQ_DEST_CONFLICT",
            f"STREAMQ({stream_q}) is not valid; name another queue that has no STREAMQ",
        )
    if any(queue.attributes.get("STREAMQ") == name for queue in queues.values()):
        raise CommandRefusedError(
            "MQRCCF_STREAMQ_CONFLICT",
            f"{name} is the STREAMQ of another queue and cannot have one itself",
        )


def change(
    connection: Connection, queue_type: int, name: str | None, values: Mapping[str, Value]
) -> None:
    """Change attributes of a queue; other attributes keep their values."""
    queue = find_existing(connection, name, queue_type)
    attributes = {**queue.attributes, **values}
    check_stream(connection, queue.name, attributes)
    definitions.change(connection.store, queue, attributes)


def delete(connection: Connection, queue: Definition, *, purge: bool = False) -> None:
    """Delete a queue, with its messages only if `purge` is set."""
    _check_unused(connection, queue)
    if queue.type == mq.MQQT_LOCAL:
        depth = connection.store.depth(queue.queue_id)
        if depth and not purge:
            raise CommandRefusedError(
                "MQRC_Q_NOT_EMPTY",
                f"{queue.name} holds {depth} messages; DELETE ... PURGE also removes them",
            )
    definitions.remove(connection.store, queue.queue_id)


def clear(connection: Connection, queue: Definition) -> None:
    """Remove the messages of a local queue."""
    if queue.type != mq.MQQT_LOCAL:
        raise CommandRefusedError(
            "MQRCCF_Q_WRONG_TYPE", "only a local queue can be cleared; use CLEAR QLOCAL(name)"
        )
    _check_unused(connection, queue)
    definitions.remove_messages(connection.store, queue.queue_id)


def find_existing(
    connection: Connection,
    name: str | None,
    queue_type: int | None = None,
    wrong_type: str = "MQRCCF_Q_WRONG_TYPE",
) -> Definition:
    """Return the queue with this name, which must have the type if one is given."""
    name = check_name(name)
    queue = connection.store.catalogue().by_name.get(name)
    if queue is None:
        kind = KIND_OF[queue_type or mq.MQQT_LOCAL]
        raise CommandRefusedError(
            "MQRC_UNKNOWN_OBJECT_NAME",
            f"queue {name} does not exist; DEFINE {kind}({name}) creates it",
        )
    if queue_type not in {None, queue.type}:
        raise CommandRefusedError(
            wrong_type, f"{name} is a {KIND_OF[queue.type]}, not a {KIND_OF[queue_type or 0]}"
        )
    return queue


def _check_unused(connection: Connection, queue: Definition) -> None:
    """Refuse a queue that is open, with any options, or has uncommitted messages.

    IBM MQ docs, "CLEAR QLOCAL", "2055 (0807) (RC2055)", "4004 (0FA4) (RC4004)".
    """
    if definitions.has_uncommitted(connection.store, queue.queue_id):
        raise CommandRefusedError(
            "MQRC_Q_NOT_EMPTY",
            f"{queue.name} has uncommitted messages; commit them or back them out first",
        )
    handles = definitions.count_handles(connection.store, queue.queue_id)
    if handles:
        raise CommandRefusedError(
            "MQRCCF_OBJECT_OPEN",
            f"{queue.name} is in use; close it first (open handles: {handles})",
        )
