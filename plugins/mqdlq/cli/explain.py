"""The command `mqdlq explain`: for each message, which rules match and why the others do not.

Messages are of a file, a snapshot or a live queue.
"""

import difflib
import json
import re
import string
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final

import click

from mqdlq import directories
from mqdlq.cli.output import Output, now, refusing
from mqdlq.cli.queue_managers import Address, AddressOptions, known
from mqdlq.cli.rules import STANDARD_INPUT, QueueKindOption, parse_table
from mqdlq.errors import (
    ConnectionSettingsError,
    HandlerError,
    MalformedHeaderError,
    MessageKeyError,
    MqDlqError,
    PasteError,
    ambiguous_key,
)
from mqdlq.headers import COLUMNS
from mqdlq.model import MessageClass, QueueKind
from mqdlq.reading.explanations import (
    RULES_APPLY_TO,
    explanation_as_json,
    explanation_as_text,
    unasked_as_json,
)
from mqdlq.rules import RulesError, RulesTable, with_nuls_as_blanks
from mqdlq.rules import explain as explain_message
from mqdlq.rules.diagnostics import listed
from mqdlq.rules.keywords import EXTENSIONS, KEYWORDS, Kind
from mqdlq.stages.snapshot.properties import PropertyMatches
from mqdlq.tools.dumps import PastedMessage, as_text, json_object, looks_pasted, read_pasted
from mqdlq.tools.pasted_rows import pasted_values

_HEXADECIMAL: Final = frozenset(string.hexdigits)
_SNAPSHOT_ID: Final = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}")
_COMPARED: Final = {
    column: keyword
    for keyword in KEYWORDS.values()
    for queue_kind in QueueKind
    if (column := keyword.column_on(queue_kind))
}
"""The columns that patterns compare, with the keywords."""
_SOURCES: Final = sorted({name for each in EXTENSIONS.values() for name in each.sources})
_IDENTITY: Final = {"browse_seq", "message_key", "msg_id", "class"}
_COLUMNS: Final = sorted({*_IDENTITY, *_SOURCES, *_COMPARED})
_EXPECTED: Final = (
    'expected a JSON object such as {"dlh_reason": 2053}, JSON lines of mqdlq decode or mqdlq qm,'
    " the output of amqsbcg, a file of dmpmqmsg, or hexadecimal digits of a message's body"
)
_NOUNS: Final = {
    "time": "a time such as 2026-11-22T12:00:00Z",
    "texts": "a list of names",
    "bool": "true or false",
    "long": "a number",
}


_IS_OF_KIND: Final[Mapping[str, Callable[[Any], bool]]] = {
    "time": lambda value: isinstance(value, datetime) and value.tzinfo is not None,
    "texts": lambda value: isinstance(value, list) and all(isinstance(one, str) for one in value),
    "bool": lambda value: isinstance(value, bool),
    "long": lambda value: type(value) is int,
}


class SourceError(MqDlqError, ValueError):
    """The named source is not a file, a snapshot or a queue manager."""


class MessageError(MqDlqError, ValueError):
    """The input is not a message, or one that was asked for is not there."""


def _not_a_message(place: str, fault: str) -> MessageError:
    return MessageError("MQDLQ-905", f"{place}: {fault}")


_PLACED: Final = (
    HandlerError,
    MalformedHeaderError,
    MessageError,
    MessageKeyError,
    PasteError,
    RulesError,
)
"""Errors that begin with the place in a file."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message: `number` counts from 1 in its source, `values` go by column of a snapshot.

    `key` and `msg_id` are hexadecimal digits, "" where the source does not show them. `has_md` is
    whether the source shows the MQMD. `is_row` is whether it is a JSON object of columns or of
    `mqdlq decode`.
    """

    number: int
    label: str
    message_class: MessageClass
    values: Mapping[str, Any]
    key: str = ""
    msg_id: str = ""
    has_md: bool = True
    is_row: bool = False


def explain(
    source: str,
    queue: str = "",
    *,
    rules: BinaryIO,
    number: tuple[int, ...] = (),
    key: tuple[str, ...] = (),
    msg_id: tuple[str, ...] = (),
    nul_as_blank: bool = False,
    queue_kind: QueueKindOption = QueueKind.DEAD_LETTER,
    output: Output = "text",
    address: AddressOptions,
) -> Iterator[str]:
    """Implement `mqdlq explain`.

    A file holds JSON lines, or whatever `mqdlq decode` reads: the output of amqsbcg, a file of
    dmpmqmsg, or hexadecimal digits of a body. A line of JSON is an object with columns of a
    snapshot (a column that is absent is blank, or 0), a line of `mqdlq decode --format json`, or a
    line of `mqdlq qm browse --format json`. A queue is browsed, and nothing changes.

    Messages are numbered from 1 in a file, and by browse_seq in a snapshot or on a queue. For a
    message that no rule matches, the nearest rule is named: the first of those with the fewest
    keywords that fail. No rule is asked about a message whose class is not dead_letter, or, with
    --queue-kind backout, not no_dlh.

    Exit code 0 if every message was explained; 1 if the input, the table or a chosen message is
    not valid or not there; 2 if an argument is wrong.

    Takes:
      SOURCE: A file (- is standard input), a snapshot's id, or a queue manager.
      QUEUE: The queue of a queue manager; else the table's INPUTQ, else DEADQ.
      --rules PATH: The rules table.
      --message NUMBER: Only the message of this number; repeatable.
      --key HEX: Only the message with this message_key, or its beginning; repeatable.
      --msg-id HEX: Only messages with this MsgId; repeatable.
      --nul-as-blank: Compare NULs as blanks; IBM's handler does not.

    For example:
      mqdlq explain --rules include/rules/demo.rules QM1 SYSTEM.DEAD.LETTER.QUEUE --message 65
      mqdlq explain --rules include/rules/demo.rules 20261121T120000Z-1a2b3c4d --format json
      mqdlq decode dump.txt --format json | mqdlq explain --rules include/rules/demo.rules -
      echo '{"dlh_reason": 2053}' | mqdlq explain --rules include/rules/demo.rules -
      mqdlq explain --queue-kind backout --rules include/rules/backout.rules QM1 ORDERS.BACKOUT
    """
    with refusing(SourceError, ConnectionSettingsError), refusing(*_PLACED, code=1, prefix=""):
        keys, msg_ids = _digits("--key", key, 64), _digits("--msg-id", msg_id, 48)
        table = parse_table(rules, queue_kind)
        with _opened(source, queue, table, address) as messages:
            chosen = _chosen(messages, number, keys, msg_ids)
            for message in _warned(chosen, source, table):
                values = with_nuls_as_blanks(message.values) if nul_as_blank else message.values
                yield _explained(message, table, values, output)


def _digits(option: str, given: Sequence[str], most: int) -> tuple[str, ...]:
    """Return hexadecimal digits in lower case; raise SourceError for anything else."""
    for digits in given:
        if not 0 < len(digits) <= most or not set(digits) <= _HEXADECIMAL:
            raise SourceError(
                "MQDLQ-901", f"{option}: expected up to {most} hexadecimal digits, found {digits!r}"
            )
    return tuple(digits.lower() for digits in given)


def _chosen(
    messages: Iterable[Message], numbers: Sequence[int], keys: Sequence[str], msg_ids: Sequence[str]
) -> Iterator[Message]:
    """Yield the chosen messages in the order of the source, or all if nothing is chosen.

    `keys` may be beginnings of a message_key. Raises MessageError, after the last message, for
    what is not there, and MessageKeyError, before any message, if a key fits several.
    """
    if not (numbers or keys or msg_ids):
        yield from messages
        return
    chosen = [
        message
        for message in messages
        if message.number in numbers
        or message.msg_id in msg_ids
        or message.key.startswith(tuple(keys))
    ]
    for prefix in keys:
        found = sorted({message.key for message in chosen if message.key.startswith(prefix)})
        if len(found) > 1:
            raise ambiguous_key(prefix, found, len(found))
    yield from chosen
    missing = [
        *(f"number {n}" for n in numbers if n not in {m.number for m in chosen}),
        *(f"key {k}" for k in keys if not any(m.key.startswith(k) for m in chosen)),
        *(f"MsgId {i}" for i in msg_ids if i not in {m.msg_id for m in chosen}),
    ]
    if missing:
        raise MessageError("MQDLQ-903", f"no message here has {' or '.join(missing)}")


@contextmanager
def _opened(
    source: str, queue: str, table: RulesTable, address: Address
) -> Iterator[Iterator[Message]]:
    """Yield the messages of a file, a snapshot or a queue; raise SourceError for others."""
    if source == "-" and not queue:
        yield _file_messages(sys.stdin.buffer, STANDARD_INPUT, table)
    elif not queue and Path(source).is_file():
        with Path(source).open("rb") as file:
            yield _file_messages(file, source, table)
    elif not queue and _SNAPSHOT_ID.fullmatch(source):
        from mqdlq import lake  # noqa: PLC0415 (a file needs neither Arrow nor the ledger)

        directory = lake.find_snapshot(directories.lake(), source)
        yield map(_of_row, lake.whole_rows(directory, _COLUMNS))
    elif not queue and ("://" in source or Path(source).is_dir()):
        from mqdlq import lake  # noqa: PLC0415 (as above)

        yield map(_of_row, lake.whole_rows(source.rstrip("/"), _COLUMNS))
    elif queue or address.knows(source):
        from mqdlq.stages.snapshot.preview import browse_rows, choose_queue  # noqa: PLC0415 (as above)

        with address.connect(source) as found:
            name = choose_queue(found, table, queue)
            batches = browse_rows(found, name, table, _COLUMNS, now)
            yield (_of_row(row) for rows in batches for row in rows)
    else:
        raise SourceError(
            "MQDLQ-902",
            f"{source} is not a file, a snapshot's id or a queue manager that is known here"
            f" ({known()}); to browse a queue manager of this machine, also name its queue",
        )


def _warned(messages: Iterator[Message], source: str, table: RulesTable) -> Iterator[Message]:
    """Pass the messages on; warn if there are none, or the rules look at an MQMD that is absent."""
    name = STANDARD_INPUT if source == "-" else source
    is_empty = True
    of_md = [
        keyword.name
        for keyword in KEYWORDS.values()
        if (column := keyword.column_on(table.queue_kind)) in table.columns
        and not column.startswith("dlh_")
    ]
    for message in messages:
        if of_md and not message.has_md:
            absent = f"without an MQMD, {listed(of_md, 'and')} compare with blank or 0"
            click.echo(f"{name}: warning: {absent}", err=True)
            of_md = []
        is_empty = False
        yield message
    if is_empty:
        click.echo(f"{name}: there is no message to explain", err=True)


def _explained(message: Message, table: RulesTable, values: Any, output: Output) -> str:
    if not table.acts_on(message.message_class):
        if output == "text":
            left = f"rules apply to {RULES_APPLY_TO[table.queue_kind]} only, so it is left"
            return f"{message.label}: its class is {message.message_class}; {left}"
        found = unasked_as_json(message.message_class, table)
    elif output == "text":
        return explanation_as_text(message.label, table, explain_message(table, values))
    else:
        found = explanation_as_json(explain_message(table, values))
    if not message.is_row:
        identity = {"number": message.number, "message_key": message.key, "msg_id": message.msg_id}
        found = {"message": identity, **found}
    return json.dumps(found)


def _file_messages(file: BinaryIO, name: str, table: RulesTable) -> Iterator[Message]:
    """Yield the messages of a file: JSON lines, or a paste as `mqdlq decode` reads it.

    The messages of a paste have the properties in their bodies that the table compares. Raises
    MessageError and PasteError, which name the line.
    """
    head = b""
    for line in file:
        head += line
        if line.strip():
            break
    if not head.strip():
        return
    row = json_object(head) or {}
    # A line of `mqdlq qm browse`, or the first line of `mqdlq qm dump`, is read as a paste.
    is_of_qm = "body" in row or str(row.get("format")).startswith("mqdlq")
    if head.lstrip()[:1] in {b"{", b"["} and not is_of_qm:
        yield from _row_messages(chain(head.splitlines(keepends=True), file), name)
        return
    text = as_text(head + file.read())
    if not looks_pasted(text.split("\n")):
        raise _not_a_message(f"{name}:1", _EXPECTED)
    matches = PropertyMatches(table)
    for number, message in enumerate(read_pasted(text, name), start=1):
        yield _of_paste(number, message, matches)


def _of_row(row: Mapping[str, Any]) -> Message:
    key, msg_id = row["message_key"].hex(), row["msg_id"].hex()
    label = f"message {row['browse_seq']}, MsgId {msg_id}"
    return Message(row["browse_seq"], label, MessageClass(row["class"]), row, key, msg_id)


def _of_paste(number: int, message: PastedMessage, matches: PropertyMatches) -> Message:
    label = f"message {number}, from line {message.line}"
    cls, values = pasted_values(number, message, matches)
    if message.descriptor is not None:
        return replace(_of_row(values), label=label)
    return Message(number, label, cls, values, has_md=False)


def _row_messages(lines: Iterable[bytes], name: str) -> Iterator[Message]:
    known, count = set(COLUMNS), 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place, row = f"{name}:{number}", json_object(line)
        if row is None:
            raise _not_a_message(place, _EXPECTED)
        count += 1
        if isinstance(row.get("headers"), list):
            yield _of_decoded(count, number, place, row)
            continue
        if row and not row.keys() & COLUMNS.keys():
            raise _not_a_message(
                place, f"{_unknown(min(row))}, nor is any other key here; {_EXPECTED}"
            )
        for unknown in row.keys() - known:
            known.add(unknown)  # once is enough: the next lines are likely to have it, too
            fault = f"{_unknown(unknown)}, and is not looked at"
            click.echo(f"{place}: warning: {fault}", err=True)
        yield _of_columns(count, number, place, row)


def _of_decoded(count: int, line: int, place: str, row: Mapping[str, Any]) -> Message:
    """Take a line of `mqdlq decode --format json`: fields under IBM's names, by header."""
    md, first = row.get("MQMD") or {}, (row["headers"] or [{}])[0]
    dlh = first.get("fields", {}) if first.get("type") == "MQDLH" else {}
    values = {
        column: (dlh if column.startswith("dlh_") else md).get(keyword.field)
        for column, keyword in _COMPARED.items()
    }
    found = _of_columns(count, line, place, {**values, "class": row.get("class")})
    return replace(found, msg_id=str(md.get("MsgId", "")), has_md=bool(md))


def _of_columns(count: int, line: int, place: str, row: Mapping[str, Any]) -> Message:
    values: dict[str, Any] = {}
    for column, keyword in _COMPARED.items():
        value = row.get(column)
        expected, noun = (str, "text") if keyword.kind is Kind.TEXT else (int, "a number")
        if value is not None and type(value) is not expected:
            found = type(value).__name__
            raise _not_a_message(place, f"{column} must be {noun}, found {found}")
        values[column] = value.rstrip(" ") if isinstance(value, str) else value
    values |= {name: _source(place, name, row[name]) for name in _SOURCES if name in row}
    written = MessageClass.DEAD_LETTER if row.get("class") is None else row["class"]
    if written not in list(MessageClass):
        raise _not_a_message(place, f"class must be {listed(MessageClass)}")
    return Message(
        count,
        f"message at line {line}",
        MessageClass(written),
        values,
        key=str(row.get("message_key") or ""),
        msg_id=str(row.get("msg_id") or ""),
        is_row=True,
    )


def _source(place: str, name: str, value: Any) -> Any:
    """Return a column that only extensions use; raise MessageError for a value of another type."""
    kind, found = COLUMNS[name], value
    if kind == "time" and isinstance(value, str):
        with suppress(ValueError):
            found = datetime.fromisoformat(value)
    if found is not None and not _IS_OF_KIND[kind](found):
        noun = _NOUNS[kind]
        raise _not_a_message(place, f"{name} must be {noun}, found {type(value).__name__}")
    return found


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, COLUMNS, n=1)
    meant = f" (did you mean {near[0]}?)" if near else ""
    return f"{name!r} is not a column of a snapshot{meant}"
