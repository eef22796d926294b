"""Run DISPLAY for queues and the queue manager: one line for each object.

IBM MQ docs, "DISPLAY QUEUE", "DISPLAY QMGR", "DISPLAY QMSTATUS", "Generic values" and the WHERE
parameter.
"""

import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from embedded_mq import mqi_constants as mq
from embedded_mq.engine.connection import Connection
from embedded_mq.engine.objects import definitions
from embedded_mq.engine.objects.attributes import (
    QUEUE_ATTRIBUTES,
    QUEUE_MANAGER_ATTRIBUTES,
    Attribute,
    Value,
)
from embedded_mq.engine.objects.queue_objects import KIND_OF, matches_name
from embedded_mq.mqsc.queues import queue_type
from embedded_mq.mqsc.syntax import Command, ProblemError, split_parameters
from embedded_mq.storage.catalogue import ALTERED, CREATED, DEFINITION_TYPE, Definition

OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "LT": operator.lt,
    "GT": operator.gt,
    "LE": operator.le,
    "GE": operator.ge,
    "EQ": operator.eq,
    "NE": operator.ne,
    "LK": lambda value, pattern: matches_name(str(value), str(pattern)),
    "NL": lambda value, pattern: not matches_name(str(value), str(pattern)),
}
_CONDITION = re.compile(r"(?P<keyword>\w+)[ ,]+(?P<operator>\w+)[ ,]+(?P<value>\S.*)")
_DEFINITION_TYPES = {
    mq.MQQDT_PERMANENT_DYNAMIC: "PERMDYN",
    mq.MQQDT_TEMPORARY_DYNAMIC: "TEMPDYN",
}


def display(connection: Connection, command: Command) -> list[str]:
    """Return a line for each object that the command names."""
    catalogue = connection.store.catalogue()
    if command.kind == "QMGR":
        values = {key: value for key, value in catalogue.queue_manager.items() if key != "QMNAME"}
        words = words_of(values, QUEUE_MANAGER_ATTRIBUTES)
        return [" ".join([f"QMNAME({catalogue.name})", *shown(command, words)])]
    if command.kind == "QMSTATUS":
        return [f"QMNAME({catalogue.name}) STATUS({catalogue.status})"]
    wanted = None if command.kind == "QUEUE" else queue_type(command)
    name = command.name or ""
    found, rest = split_parameters(command, "WHERE")
    condition = _condition(command, found["WHERE"]) if "WHERE" in found else None
    queues = [
        queue
        for queue in catalogue.by_name.values()
        if wanted in {None, queue.type} and matches_name(queue.name, name)
    ]
    if not queues:
        raise ProblemError(command.line, f"queue {name} does not exist")
    lines = []
    for queue in queues:
        values = _values(connection, queue)
        words = words_of(values, QUEUE_ATTRIBUTES[queue.type])
        if condition is None or condition.holds(values, words):
            known = _keywords(command) if command.kind == "QUEUE" else ()
            attributes = shown(command.with_parameters(rest), words, known)
            heading = [f"QUEUE({queue.name})", f"TYPE({KIND_OF[queue.type]})"]
            lines.append(" ".join([*heading, *attributes]))
    return lines


@dataclass(frozen=True, slots=True)
class Condition:
    """``WHERE(keyword operator value)``."""

    keyword: str
    compare: Callable[[Any, Any], bool]
    value: str

    def holds(self, values: Mapping[str, Value], words: Mapping[str, str]) -> bool:
        """Return whether an object has the attribute and satisfies the condition."""
        if self.keyword not in values:
            return False
        word, value = words[self.keyword], values[self.keyword]
        is_number = word == str(value) and isinstance(value, int) and self.value.isdecimal()
        return self.compare(value, int(self.value)) if is_number else self.compare(word, self.value)


def _condition(command: Command, text: str | None) -> Condition:
    match = _CONDITION.fullmatch(text or "")
    if match is None or match["operator"] not in OPERATORS:
        known = " ".join(OPERATORS)
        raise ProblemError(
            command.line,
            f"WHERE({text or ''}) is not valid; use WHERE(CURDEPTH GT 0), with one of {known}",
        )
    if match["keyword"] not in _keywords(command):
        raise ProblemError(command.line, _unknown(command, match["keyword"]))
    return Condition(match["keyword"], OPERATORS[match["operator"]], match["value"])


_OF_LOCAL_QUEUES = ("CURDEPTH", "IPPROCS", "OPPROCS", "DEFTYPE", "CRDATE", "CRTIME")
_OF_ALL_QUEUES = ("ALTDATE", "ALTTIME")


def _keywords(command: Command) -> set[str]:
    types = QUEUE_ATTRIBUTES if command.kind == "QUEUE" else [queue_type(command)]
    known = {word for number in types for word in QUEUE_ATTRIBUTES[number]}
    return known | {*_OF_LOCAL_QUEUES, *_OF_ALL_QUEUES}


def _values(connection: Connection, queue: Definition) -> dict[str, Value]:
    known = QUEUE_ATTRIBUTES[queue.type]
    values = {keyword: queue.attributes[keyword] for keyword in known}
    altered = (str(queue.attributes.get(one, "")) for one in ALTERED)
    values |= zip(_OF_ALL_QUEUES, altered, strict=True)
    if queue.type == mq.MQQT_LOCAL:
        inputs, outputs = definitions.count_open_handles(connection.store, queue.queue_id)
        depth = connection.store.depth(queue.queue_id) or 0
        kind = _DEFINITION_TYPES.get(queue.number(DEFINITION_TYPE), "PREDEFINED")
        created = (str(queue.attributes.get(one, "")) for one in CREATED)
        values |= zip(_OF_LOCAL_QUEUES, (depth, inputs, outputs, kind, *created), strict=True)
    return values


def words_of(values: Mapping[str, Value], attributes: Mapping[str, Attribute]) -> dict[str, str]:
    return {
        keyword: attributes[keyword].format_value(value) if keyword in attributes else str(value)
        for keyword, value in values.items()
    }


def shown(command: Command, words: Mapping[str, str], known: Collection[str] = ()) -> Iterator[str]:
    """Yield the requested attributes, by default all of them.

    An object shows only the attributes of its type, which are some of those `known`.
    """
    asked = {parameter.keyword for parameter in command.parameters} - {"ALL"}
    unknown = asked - words.keys() - set(known)
    if unknown:
        raise ProblemError(command.line, _unknown(command, min(unknown)))
    for keyword, word in words.items():
        if not asked or keyword in asked:
            yield word if word in {keyword, f"NO{keyword}"} else f"{keyword}({word})"


def _unknown(command: Command, keyword: str) -> str:
    return f"{command.kind} has no attribute {keyword} to display"
