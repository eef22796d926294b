"""Choose messages of a source by number, message_key or MsgId."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, BinaryIO, Final

import pyarrow as pa

from mqdlq import lake
from mqdlq.errors import MqDlqError
from mqdlq.headers import describe, header_row
from mqdlq.lake.schema import HEADERS
from mqdlq.ledger.reading.message_keys import ambiguous
from mqdlq.model import MessageClass, QueueKind
from mqdlq.mqi.browse import BrowsedMessage
from mqdlq.mqi.connect import QueueManager
from mqdlq.rules import RulesTable
from mqdlq.rules.diagnostics import listed
from mqdlq.rules.keywords import EXTENSIONS, KEYWORDS, Kind
from mqdlq.stages.snapshot.preview import browse_rows
from mqdlq.stages.snapshot.rows import PropertyMatches
from mqdlq.tools.dumps import PastedMessage, as_text, looks_pasted, read_pasted


class SelectionError(MqDlqError, ValueError):
    """A message that was asked for is not there."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The messages to choose; none of the three means every message.

    `keys` are hexadecimal digits of message_key, of which the first few are enough; `msg_ids` are
    the 48 digits of a MsgId.
    """

    numbers: tuple[int, ...] = ()
    keys: tuple[str, ...] = ()
    msg_ids: tuple[str, ...] = ()

    def of(self, messages: Iterable[Message]) -> Iterator[Message]:
        """Yield the chosen messages in the order of the source.

        Raises SelectionError, after the last message, for what is not there, and MessageKeyError,
        before any message, for a prefix that fits several keys.
        """
        if not (self.numbers or self.keys or self.msg_ids):
            yield from messages
            return
        chosen = [message for message in messages if self._fits(message)]
        for prefix in self.keys:
            found = sorted({message.key for message in chosen if message.key.startswith(prefix)})
            if len(found) > 1:
                raise ambiguous(prefix, found, len(found))
        yield from chosen
        missing = [
            *(f"number {n}" for n in self.numbers if n not in {m.number for m in chosen}),
            *(f"key {k}" for k in self.keys if not any(m.key.startswith(k) for m in chosen)),
            *(f"MsgId {i}" for i in self.msg_ids if i not in {m.msg_id for m in chosen}),
        ]
        if missing:
            raise SelectionError("MQDLQ-903", f"no message here has {' or '.join(missing)}")

    def _fits(self, message: Message) -> bool:
        return (
            message.number in self.numbers
            or any(message.key.startswith(prefix) for prefix in self.keys)
            or message.msg_id in self.msg_ids
        )


# Read the messages that `mqdlq explain` is asked about: of a file, a snapshot or a live queue.
#
# Every source yields the same record: the columns that rules look at, and what identifies a
# message.

_COMPARED: Final = {
    column: keyword
    for keyword in KEYWORDS.values()
    for queue_kind in QueueKind
    if (column := keyword.column_on(queue_kind))
}
"""The columns that patterns compare, with the keywords."""
_IDENTITY: Final = ("browse_seq", "message_key", "msg_id")
_SOURCES: Final = sorted({name for each in EXTENSIONS.values() for name in each.sources})
_COLUMNS: Final = sorted({*_IDENTITY, "class", *_SOURCES, *_COMPARED})
_EXPECTED: Final = (
    'expected a JSON object such as {"dlh_reason": 2053}, JSON lines of mqdlq decode or mqdlq qm,'
    " the output of amqsbcg, a file of dmpmqmsg, or hexadecimal digits of a message's body"
)
_NOUNS: Final = {
    "timestamp[us, tz=UTC]": "a time such as 2026-11-22T12:00:00Z",
    "list<item: string>": "a list of names",
    "bool": "true or false",
    "int32": "a number",
}
_HEX_ENCODING: Final = 546
_HEX_CCSID: Final = 819


class MessageError(MqDlqError, ValueError):
    """The input is not a message; `place` is a file and a line."""

    def __init__(self, place: str, fault: str) -> None:
        super().__init__("MQDLQ-905", f"{place}: {fault}")


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


def file_messages(
    file: BinaryIO, name: str, table: RulesTable, warn: Callable[[str], None]
) -> Iterator[Message]:
    """Yield the messages of a file: JSON lines, or a paste as `mqdlq decode` reads it.

    The messages of a paste have the properties in their bodies that the table compares.

    Raises `MessageError` and `PasteError`, which name the line.
    """
    head = b""
    for line in file:
        head += line
        if line.strip():
            break
    if not head.strip():
        return
    row = _object(head)
    if head.lstrip()[:1] in {b"{", b"["} and not _is_of_qm(row):
        yield from _row_messages(head.splitlines(keepends=True), file, name, warn)
        return
    text = as_text(head + file.read())
    if not looks_pasted(text.split("\n")):
        raise MessageError(f"{name}:1", _EXPECTED)
    matches = PropertyMatches(table)
    for number, message in enumerate(read_pasted(text, name), start=1):
        yield _of_paste(number, message, matches)


def snapshot_messages(directory: str) -> Iterator[Message]:
    """Yield the messages of a finished snapshot; raises `LakeError`."""
    yield from map(_of_row, lake.whole_rows(directory, _COLUMNS))


def queue_messages(
    queue_manager: QueueManager, queue: str, table: RulesTable, clock: Callable[[], datetime]
) -> Iterator[Message]:
    """Browse a queue and yield its messages; raises `QueueManagerError`."""
    for rows in browse_rows(queue_manager, queue, table, _COLUMNS, clock):
        yield from map(_of_row, rows)


def _of_row(row: Mapping[str, Any]) -> Message:
    key, msg_id = row["message_key"].hex(), row["msg_id"].hex()
    label = f"message {row['browse_seq']}, MsgId {msg_id}"
    return Message(row["browse_seq"], label, MessageClass(row["class"]), row, key, msg_id)


def _of_paste(number: int, message: PastedMessage, matches: PropertyMatches) -> Message:
    md = message.descriptor
    label = f"message {number}, from line {message.line}"
    if md is not None:
        row = header_row(
            number,
            md.encode(),
            message.body,
            message.total_length,
            browsed_at=datetime.min.replace(tzinfo=UTC),  # nobody knows when it was browsed
        )
        row |= {"browsed_at": None, "expires_at": None}
        shown = BrowsedMessage(md.encode(), message.body, message.total_length)
        row |= matches.compare(shown, is_complete=False)
        found = _of_row(row)
        return Message(number, label, found.message_class, row, found.key, found.msg_id)
    seen = describe(
        message.body,
        message.total_length,
        encoding=_HEX_ENCODING,
        ccsid=_HEX_CCSID,
        format="MQDEAD",
        msg_flags=0,
    )
    values = {
        column: getattr(seen.dlh, column.removeprefix("dlh_"))
        for column in _COMPARED
        if seen.dlh and _is_of_dlh(column)
    }
    return Message(number, label, seen.cls, values, has_md=False)


def _is_of_dlh(column: str) -> bool:
    return column.startswith("dlh_")


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _is_of_qm(row: dict[str, Any] | None) -> bool:
    """Whether it is a line of `mqdlq qm browse` or the first line of `mqdlq qm dump`."""
    return row is not None and ("body" in row or str(row.get("format")).startswith("mqdlq"))


def _row_messages(
    first: Iterable[bytes], rest: Iterable[bytes], name: str, warn: Callable[[str], None]
) -> Iterator[Message]:
    known, count, number = set(HEADERS.names), 0, 0
    for lines in (first, rest):
        for line in lines:
            number += 1
            if not line.strip():
                continue
            place, row = f"{name}:{number}", _object(line)
            if row is None:
                raise MessageError(place, _EXPECTED)
            count += 1
            if isinstance(row.get("headers"), list):
                yield _of_decoded(count, number, place, row)
                continue
            if row and not row.keys() & set(HEADERS.names):
                raise MessageError(
                    place, f"{_unknown(min(row))}, nor is any other key here; {_EXPECTED}"
                )
            for unknown in row.keys() - known:
                known.add(unknown)  # once is enough: the next lines are likely to have it, too
                warn(f"{place}: warning: {_unknown(unknown)}, and is not looked at")
            yield _of_columns(count, number, place, row)


def _of_decoded(count: int, line: int, place: str, row: Mapping[str, Any]) -> Message:
    """Take a line of `mqdlq decode --format json`: fields under IBM's names, by header."""
    md, first = row.get("MQMD") or {}, (row["headers"] or [{}])[0]
    dlh = first.get("fields", {}) if first.get("type") == "MQDLH" else {}
    values = {
        column: (dlh if _is_of_dlh(column) else md).get(keyword.field)
        for column, keyword in _COMPARED.items()
    }
    found = _of_columns(count, line, place, {**values, "class": row.get("class")})
    return Message(
        count,
        found.label,
        found.message_class,
        found.values,
        msg_id=str(md.get("MsgId", "")),
        has_md=bool(md),
        is_row=True,
    )


def _of_columns(count: int, line: int, place: str, row: Mapping[str, Any]) -> Message:
    values: dict[str, Any] = {}
    for column, keyword in _COMPARED.items():
        value = row.get(column)
        expected, noun = (str, "text") if keyword.kind is Kind.TEXT else (int, "a number")
        if value is not None and type(value) is not expected:
            found = type(value).__name__
            raise MessageError(place, f"{column} must be {noun}, found {found}")
        values[column] = value.rstrip(" ") if isinstance(value, str) else value
    values |= {name: _source(place, name, row[name]) for name in _SOURCES if name in row}
    return Message(
        count,
        f"message at line {line}",
        _class(place, row),
        values,
        key=str(row.get("message_key") or ""),
        msg_id=str(row.get("msg_id") or ""),
        is_row=True,
    )


def _source(place: str, name: str, value: Any) -> Any:
    """Return a column that only extensions use; raise MessageError for a value of another type."""
    kind = HEADERS.field(name).type
    try:
        return _converted(value, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError, TypeError):
        found = type(value).__name__
        raise MessageError(place, f"{name} must be {_NOUNS[str(kind)]}, found {found}") from None


def _converted(value: Any, kind: pa.DataType) -> Any:
    if not isinstance(value, str):
        return pa.scalar(value, kind).as_py()
    found = datetime.fromisoformat(value) if pa.types.is_timestamp(kind) else None
    if found is None or found.tzinfo is None:
        raise TypeError
    return found


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, HEADERS.names, n=1)
    meant = f" (did you mean {near[0]}?)" if near else ""
    return f"{name!r} is not a column of a snapshot{meant}"


def _class(place: str, row: Mapping[str, Any]) -> MessageClass:
    """Return the class of a message; one that has none is taken for a dead letter."""
    written = row.get("class")
    if written is None:
        return MessageClass.DEAD_LETTER
    if written not in list(MessageClass):
        raise MessageError(place, f"class must be {listed(MessageClass)}")
    return MessageClass(written)
