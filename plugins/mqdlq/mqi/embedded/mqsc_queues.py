"""DEFINE, ALTER, DELETE and CLEAR of queues, ALTER QMGR: a command in, what was done out.

Called while writing. IBM MQ docs, "MQSC commands reference".
"""

from __future__ import annotations

from mqdlq.mqi.embedded import definitions
from mqdlq.mqi.embedded import mqi_constants as mq
from mqdlq.mqi.embedded.attributes import (
    IGNORED_QUEUE_KEYWORDS,
    IGNORED_QUEUE_MANAGER_KEYWORDS,
    QUEUE_ATTRIBUTES,
    QUEUE_MANAGER_ATTRIBUTES,
    Value,
    defaults,
)
from mqdlq.mqi.embedded.catalogue import Definition
from mqdlq.mqi.embedded.connection import Connection
from mqdlq.mqi.embedded.mqsc import Command, ProblemError, without
from mqdlq.mqi.embedded.mqsc_values import Given, check_name, given

TYPES = {
    "QLOCAL": mq.MQQT_LOCAL,
    "QALIAS": mq.MQQT_ALIAS,
    "QREMOTE": mq.MQQT_REMOTE,
    "QMODEL": mq.MQQT_MODEL,
}
KIND_OF = {number: kind for kind, number in TYPES.items()}
_ALSO = {"ALTER": ["QMGR"], "DISPLAY": ["QMGR", "QMSTATUS", "QUEUE", "AUTHREC"]}


def queue_type(command: Command) -> int:
    """Return the type of queue a command is about."""
    if command.kind not in TYPES:
        known = ", ".join([*TYPES, *_ALSO.get(command.verb, [])])
        raise ProblemError(
            command.line,
            f"{command.verb} {command.kind} is not known; {command.verb} takes {known}",
        )
    return TYPES[command.kind]


def define(connection: Connection, command: Command) -> list[str]:
    """DEFINE a queue, like another one or with the defaults, or REPLACE it."""
    kind = queue_type(command)
    name = check_name(command.name, command.line)
    found, rest = without(command, "REPLACE", "NOREPLACE", "LIKE")
    attributes = defaults(QUEUE_ATTRIBUTES[kind])
    if "LIKE" in found:
        attributes |= _attributes_of(connection, command, found["LIKE"])
    change = _given(command.with_parameters(rest))
    attributes |= change.values
    store = connection.store
    if name not in store.catalogue().by_name:
        definitions.add(store, name, kind, attributes)
    elif "REPLACE" in found:
        definitions.change(store, _existing(connection, command), attributes)
    else:
        raise ProblemError(
            command.line,
            f"{name} exists already; DEFINE {command.kind}({name}) REPLACE changes it",
        )
    return _done("defined", command, change)


def _attributes_of(connection: Connection, command: Command, like: str | None) -> dict[str, Value]:
    """Return the attributes of the queue named by LIKE, without what is a dynamic queue's alone."""
    model = _existing(connection, command.with_name(like))
    known = QUEUE_ATTRIBUTES[model.type]
    return {keyword: value for keyword, value in model.attributes.items() if keyword in known}


def alter(connection: Connection, command: Command) -> list[str]:
    """ALTER a queue or the queue manager: what is not given stays as it is."""
    if command.kind == "QMGR":
        return _alter_queue_manager(connection, command)
    queue = _existing(connection, command)
    change = _given(command)
    definitions.change(connection.store, queue, dict(queue.attributes) | change.values)
    return _done("altered", command, change)


def _alter_queue_manager(connection: Connection, command: Command) -> list[str]:
    change = given(
        command.parameters, QUEUE_MANAGER_ATTRIBUTES, IGNORED_QUEUE_MANAGER_KEYWORDS, "QMGR"
    )
    for keyword, value in change.values.items():
        connection.store.execute(
            "UPDATE queue_manager SET value = ? WHERE keyword = ?", (value, keyword)
        )
    connection.store.definitions_changed()
    return _done("altered", command, change)


def delete(connection: Connection, command: Command) -> list[str]:
    """DELETE a queue; one that holds messages with PURGE only."""
    queue = _existing(connection, command)
    found, rest = without(command, "PURGE", "NOPURGE")
    if rest:
        raise ProblemError(command.line, "DELETE takes PURGE or NOPURGE and nothing else")
    _check_unused(connection, queue, command)
    if queue.type == mq.MQQT_LOCAL:
        depth = connection.store.depth(queue.queue_id)
        if depth and "PURGE" not in found:
            raise ProblemError(
                command.line,
                f"{queue.name} holds {depth} messages; DELETE ... PURGE removes them too",
            )
    definitions.remove(connection.store, queue.queue_id)
    return _done("deleted", command, Given())


def clear(connection: Connection, command: Command) -> list[str]:
    """CLEAR a local queue of its messages."""
    queue = _existing(connection, command)
    if queue.type != mq.MQQT_LOCAL or command.parameters:
        raise ProblemError(command.line, "CLEAR QLOCAL(name) is right")
    _check_unused(connection, queue, command)
    definitions.remove_messages(connection.store, queue.queue_id)
    return _done("cleared", command, Given())


def _existing(connection: Connection, command: Command) -> Definition:
    name = check_name(command.name, command.line)
    kind = queue_type(command)
    queue = connection.store.catalogue().by_name.get(name)
    if queue is None:
        raise ProblemError(command.line, f"there is no queue {name}; DEFINE {command.kind}({name})")
    if queue.type != kind:
        raise ProblemError(command.line, f"{name} is a {KIND_OF[queue.type]}, not {command.kind}")
    return queue


def _given(command: Command) -> Given:
    return given(
        command.parameters,
        QUEUE_ATTRIBUTES[queue_type(command)],
        IGNORED_QUEUE_KEYWORDS,
        f"{command.kind}({command.name})",
    )


def _check_unused(connection: Connection, queue: Definition, command: Command) -> None:
    inputs, _ = definitions.open_counts(connection.store, queue.queue_id)
    if inputs or definitions.has_uncommitted(connection.store, queue.queue_id):
        raise ProblemError(
            command.line,
            f"{queue.name} is open for input or has uncommitted messages; close it first",
        )


def _done(what: str, command: Command, change: Given) -> list[str]:
    subject = command.kind if command.name is None else f"{command.kind}({command.name})"
    notes = [f"{what} {subject}"]
    if change.ignored:
        notes.append(f"ignored: {' '.join(change.ignored)}")
    if change.inert:
        notes.append(f"kept without effect: {' '.join(change.inert)}")
    return ["; ".join(notes)]
