"""Run DEFINE, ALTER, DELETE and CLEAR for queues, and ALTER QMGR.

The functions run inside a write transaction. IBM MQ docs, "MQSC commands reference".
"""

from embedded_mq.engine.connection import Connection
from embedded_mq.engine.objects import queue_objects
from embedded_mq.engine.objects.attributes import (
    IGNORED_QUEUE_KEYWORDS,
    IGNORED_QUEUE_MANAGER_KEYWORDS,
    QUEUE_ATTRIBUTES,
    QUEUE_MANAGER_ATTRIBUTES,
)
from embedded_mq.engine.objects.queue_objects import TYPES
from embedded_mq.mqsc.syntax import Command, ProblemError, split_parameters
from embedded_mq.mqsc.values import CheckedAttributes, check_attributes

_ALSO = {
    "DEFINE": ["CHANNEL"],
    "ALTER": ["QMGR", "CHANNEL"],
    "DELETE": ["CHANNEL"],
    "DISPLAY": ["QMGR", "QMSTATUS", "QUEUE", "AUTHREC", "CHANNEL", "CHSTATUS"],
}


def queue_type(command: Command) -> int:
    """Return the type of queue in a command."""
    if command.kind not in TYPES:
        known = ", ".join([*TYPES, *_ALSO.get(command.verb, [])])
        raise ProblemError(
            command.line,
            f"{command.verb} {command.kind} is not supported; {command.verb} takes {known}",
        )
    return TYPES[command.kind]


def define(connection: Connection, command: Command) -> list[str]:
    """Define or replace a queue, with the attributes of another one or with defaults."""
    kind = queue_type(command)
    name = queue_objects.check_name(command.name)
    found, rest = split_parameters(command, "REPLACE", "NOREPLACE", "LIKE")
    like = found.get("LIKE") or "" if "LIKE" in found else None
    change = _given(command.with_parameters(rest))
    queue_objects.create(
        connection, kind, name, change.values, like=like, replace="REPLACE" in found
    )
    return done("defined", command, change)


def alter(connection: Connection, command: Command) -> list[str]:
    """Alter a queue or the queue manager; other attributes keep their values."""
    if command.kind == "QMGR":
        return _alter_queue_manager(connection, command)
    kind = queue_type(command)
    queue_objects.find_existing(connection, command.name, kind)
    change = _given(command)
    queue_objects.change(connection, kind, command.name, change.values)
    return done("altered", command, change)


def _alter_queue_manager(connection: Connection, command: Command) -> list[str]:
    change = check_attributes(
        command.parameters, QUEUE_MANAGER_ATTRIBUTES, IGNORED_QUEUE_MANAGER_KEYWORDS, "QMGR"
    )
    for keyword, value in change.values.items():
        connection.store.execute(
            "INSERT OR REPLACE INTO queue_manager VALUES(?, ?)", (keyword, value)
        )
    connection.store.definitions_changed()
    return done("altered", command, change)


def delete(connection: Connection, command: Command) -> list[str]:
    """Delete a queue, with its messages only if PURGE is given."""
    queue = queue_objects.find_existing(connection, command.name, queue_type(command))
    found, rest = split_parameters(command, "PURGE", "NOPURGE")
    if rest:
        raise ProblemError(command.line, "DELETE takes only PURGE or NOPURGE")
    queue_objects.delete(connection, queue, purge="PURGE" in found)
    return done("deleted", command, CheckedAttributes())


def clear(connection: Connection, command: Command) -> list[str]:
    """Remove the messages of a local queue."""
    queue = queue_objects.find_existing(connection, command.name, queue_type(command))
    if command.parameters:
        raise ProblemError(command.line, "CLEAR takes no parameters; use CLEAR QLOCAL(name)")
    queue_objects.clear(connection, queue)
    return done("cleared", command, CheckedAttributes())


def _given(command: Command) -> CheckedAttributes:
    return check_attributes(
        command.parameters,
        QUEUE_ATTRIBUTES[queue_type(command)],
        IGNORED_QUEUE_KEYWORDS,
        f"{command.kind}({command.name})",
    )


def done(what: str, command: Command, change: CheckedAttributes) -> list[str]:
    subject = command.kind if command.name is None else f"{command.kind}({command.name})"
    notes = [f"{what} {subject}"]
    if change.ignored:
        notes.append(f"ignored: {' '.join(change.ignored)}")
    if change.inert:
        notes.append(f"kept without effect: {' '.join(change.inert)}")
    return ["; ".join(notes)]
