"""The fields of a message in a snapshot, under IBM's names, with names for their numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final
from urllib.parse import urlencode

from mqdlq import constants
from mqdlq.causes import find_cause
from mqdlq.constants import ALL_NAMES
from mqdlq.errors import MqDlqError
from mqdlq.lake.row_search import (
    Condition,
    Snapshots,
    any_of,
    begins_with,
    contains,
    distinct_rows,
    equals,
    is_between,
    is_like,
    is_one_of,
)
from mqdlq.ledger import KEY_DIGITS
from mqdlq.model import Outcome
from mqdlq.structures import MQDLH, MQMD, Kind
from mqdlq.words import visible

_FAMILIES: Final = {
    "reason": ("MQRC", "MQFB"),
    "feedback": ("MQFB", "MQRC"),
    "msg_type": ("MQMT",),
    "persistence": ("MQPER",),
    "put_appl_type": ("MQAT",),
}
_WORDS: Final = {
    ("expiry", -1): "MQEI_UNLIMITED (-1)",
    ("coded_char_set_id", 0): "MQCCSI_UNDEFINED (0)",
    ("coded_char_set_id", -1): "MQCCSI_EMBEDDED (-1)",
    ("coded_char_set_id", -2): "MQCCSI_INHERIT (-2)",
    ("original_length", -1): "MQOL_UNDEFINED (-1)",
}


@dataclass(frozen=True, slots=True)
class ShownField:
    """A field: IBM's name and its value in words; `is_id` says that the value is digits."""

    name: str
    value: str
    is_id: bool = False


@dataclass(frozen=True, slots=True)
class ShownHeader:
    """A header: IBM's name, and its fields, or none if the snapshot keeps only the name."""

    name: str
    fields: tuple[ShownField, ...] = ()


def shown_headers(row: Mapping[str, Any]) -> list[ShownHeader]:
    """Return the MQMD, then the chain of headers, of a row with all columns of a snapshot."""
    shown = [ShownHeader("MQMD", _fields(row, MQMD.fields, ""))]
    chain: Sequence[str] = row["header_chain"] or ()
    for name in chain:
        of_dlh = _fields(row, MQDLH.fields, "dlh_") if name == "MQDLH" else ()
        shown.append(ShownHeader(name, of_dlh))
    return shown


def _fields(row: Mapping[str, Any], fields: Sequence[Any], prefix: str) -> tuple[ShownField, ...]:
    return tuple(
        ShownField(
            field.ibm_name, _value(field.name, row[prefix + field.name]), field.kind is Kind.BYTES
        )
        for field in fields
    )


def _value(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.hex() if any(value) else f"{len(value)} zeros"
    if isinstance(value, str):
        return visible(value)
    if words := _WORDS.get((name, value)):
        return words
    found = constants.name_of(value, _FAMILIES.get(name, ()))
    return f"{found} ({value})" if found else str(value)


# Filters of messages: which of them to find, parsed from a query string and rendered to one.

ID_DIGITS: Final = 48
_CAUSE_DIGITS: Final = 12
_LONGEST: Final = 200
_DIGITS: Final = re.compile("[0-9a-fA-F]+")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_LARGEST: Final = 2**31 - 1


class FilterError(MqDlqError, ValueError):
    """A parameter of a filter is not valid; `parameter` is its name."""

    def __init__(self, parameter: str, fault: str, expected: str) -> None:
        """Name the parameter, its fault, and what would be right."""
        super().__init__("MQDLQ-975", f"{parameter}: {fault}; expected {expected}")
        self.parameter = parameter


class Presence(StrEnum):
    """States of messages that are not outcomes."""

    ON_QUEUE = "on_queue"
    DEPARTED = "departed"
    NO_OUTCOME = "no_outcome"


PRESENCE_WORDS: Final = {
    Presence.ON_QUEUE: "on the queue",
    Presence.DEPARTED: "departed",
    Presence.NO_OUTCOME: "without an outcome",
}
State = Outcome | Presence


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """The messages to find; an empty field narrows nothing, and all others apply together.

    Identifiers are hexadecimal digits; of a key, the first are enough if they are unique. In names,
    ``*`` and ``?`` are wildcards as in rules, and case matters. `text` is a key, a MsgId or
    CorrelId, a reason, or words, each of which occurs in a name, whatever its case, or begins a
    key. `since` is included and `until` is not: they are about when the message was dead-lettered,
    or put if its MQDLH does not say. `expires_before` selects messages that expire before a time.
    Days end at midnight UTC. `state` is the last outcome, or a `Presence`.
    """

    text: str = ""
    msg_id: str = ""
    correl_id: str = ""
    message_key: str = ""
    queue_manager: str = ""
    queue: str = ""
    application: str = ""
    user: str = ""
    dest_q_name: str = ""
    dest_q_mgr_name: str = ""
    format: str = ""
    reason: int | None = None
    cause_id: str = ""
    since: datetime | None = None
    until: datetime | None = None
    expires_before: datetime | None = None
    state: State | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it narrows nothing."""
        return self == MessageFilter()

    @classmethod
    def parse(
        cls, parameters: Iterable[tuple[str, str]], others: Collection[str] = ()
    ) -> MessageFilter:
        """Parse the parameters of a query string; blank values narrow nothing.

        `others` are parameters of the page, which are skipped. Raises `FilterError` for an unknown
        or repeated parameter, because a filter that is read too widely would act on more messages,
        and for a value that is not valid.
        """
        given: dict[str, Any] = {}
        for name, text in parameters:
            if name in others or not text.strip():
                continue
            if name not in _PARSERS:
                expected = ", ".join(_PARSERS)
                raise FilterError(_shortened(name), "no filter has this name", f"one of {expected}")
            if name in given:
                raise FilterError(name, "it is given twice", "one value")
            given[name] = _PARSERS[name](name, text)
        found = cls(**given)
        if found.since and found.until and found.since >= found.until:
            raise FilterError("until", "it is not after since", "a later day or time")
        return found

    def parameters(self) -> dict[str, str]:
        """Return the query parameters that `parse` reads, without the empty ones."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: _rendered(value) for name, value in given.items() if value not in {None, ""}}

    def query(self, **more: str | int) -> str:
        """Return the query string, with more parameters at its end; "" for an empty filter."""
        return urlencode(self.parameters() | more)


def _text(name: str, text: str) -> str:
    if len(text) > _LONGEST:
        raise FilterError(name, f"it has {len(text)} characters", f"at most {_LONGEST}")
    return text.rstrip(" ")  # a name may begin with a blank, and never ends with one


def _digits(length: int, least: int | None = None) -> Callable[[str, str], str]:
    expected = f"{length} hexadecimal digits" + (", or the first of them" if least else "")

    def parse(name: str, text: str) -> str:
        value = text.strip()
        if not (least or length) <= len(value) <= length or not _DIGITS.fullmatch(value):
            raise FilterError(name, f"found {_shortened(value)!r}", expected)
        return value.lower()

    return parse


def _reason(name: str, text: str) -> int:
    value = text.strip()
    number = reason_number(value)
    if number is None:
        raise FilterError(
            name,
            f"found {_shortened(value)!r}",
            "a reason code such as 2053, or its name such as MQRC_Q_FULL",
        )
    return number


def reason_number(text: str) -> int | None:
    """Return the number of a reason code, given as digits or by its name; None for other text."""
    named = text.upper()
    if named.startswith(("MQRC_", "MQFB_")):
        return ALL_NAMES.get(named)
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(_LARGEST))
    return int(text) if is_number and int(text) <= _LARGEST else None


def _start(name: str, value: str) -> datetime:
    return _moment(name, value, timedelta())


def _end(name: str, value: str) -> datetime:
    """Parse a time, or a day, which is included."""
    return _moment(name, value, timedelta(days=1))


def _moment(name: str, text: str, of_day: timedelta) -> datetime:
    value = text.strip()
    try:
        at = datetime.fromisoformat(value)
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
        return at + of_day if _DATE.fullmatch(value) else at
    except (ValueError, OverflowError):
        raise FilterError(
            name,
            f"found {_shortened(value)!r}",
            "a day or a time in UTC, such as 2026-11-21 or 2026-11-21T09:30",
        ) from None


def _state(name: str, text: str) -> State:
    value = text.strip()
    for kind in (Outcome, Presence):
        if value in [str(one) for one in kind]:
            return kind(value)
    allowed = ", ".join(map(str, (*Presence, *Outcome)))
    raise FilterError(name, f"found {_shortened(value)!r}", f"one of {allowed}")


def _shortened(text: str) -> str:
    return text if len(text) <= KEY_DIGITS else text[:KEY_DIGITS] + "…"


def _rendered(value: Any) -> str:
    if not isinstance(value, datetime):
        return str(value)
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


_PARSERS: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "text": _text,
    "msg_id": _digits(ID_DIGITS),
    "correl_id": _digits(ID_DIGITS),
    "message_key": _digits(KEY_DIGITS, 1),
    "queue_manager": _text,
    "queue": _text,
    "application": _text,
    "user": _text,
    "dest_q_name": _text,
    "dest_q_mgr_name": _text,
    "format": _text,
    "reason": _reason,
    "cause_id": _digits(_CAUSE_DIGITS),
    "since": _start,
    "until": _end,
    "expires_before": _end,
    "state": _state,
}
PARAMETERS: Final = tuple(_PARSERS)
"""The names of the query parameters of a filter."""


# Translate a filter into conditions on the rows of snapshots.

_NAMES: Final = (
    "put_appl_name",
    "user_identifier",
    "dlh_dest_q_name",
    "dlh_dest_q_mgr_name",
    "dlh_format",
    "format",
)
_OF_A_CAUSE: Final = ("class", "dlh_reason", "dlh_dest_q_name", "dlh_dest_q_mgr_name")
_MOST_DESTINATIONS: Final = 200_000
_LEAST: Final = 6
"""How many digits a word has at least that may be the beginning of a key."""
_HEXADECIMAL: Final = frozenset("0123456789abcdef")


def conditions_of(chosen: MessageFilter, snapshots: Snapshots) -> list[Condition]:
    """Return the conditions of a filter, all of which a row must meet.

    `queue_manager`, `queue` and `state` are not among them: a row does not have them. The
    `snapshots` say which destinations belong to a cause.
    """
    found = [*_of_text(chosen.text), *_of_identifiers(chosen), *_of_names(chosen)]
    if chosen.reason is not None:
        found.append(equals(chosen.reason, "dlh_reason"))
    if chosen.since or chosen.until:
        found.append(is_between(chosen.since, chosen.until, "dead_lettered_at", "put_at"))
    if chosen.expires_before:
        found.append(is_between(None, chosen.expires_before, "expires_at"))
    if chosen.cause_id:
        found.append(_of_cause(chosen.cause_id, snapshots, found))
    return found


def _of_text(text: str) -> Iterator[Condition]:
    digits = text.strip().lower()
    if set(digits) <= _HEXADECIMAL and len(digits) in {ID_DIGITS, KEY_DIGITS}:
        columns = ("msg_id", "correl_id") if len(digits) == ID_DIGITS else ("message_key",)
        yield equals(bytes.fromhex(digits), *columns)
        return
    for word in text.split():
        found = [contains(word, *_NAMES)]
        if (reason := reason_number(word)) is not None:
            found.append(equals(reason, "dlh_reason"))
        if _LEAST <= len(word) < KEY_DIGITS and set(word.lower()) <= _HEXADECIMAL:
            found.append(begins_with(word.lower(), "message_key"))
        yield any_of(found)


def _of_identifiers(chosen: MessageFilter) -> Iterator[Condition]:
    for name in ("msg_id", "correl_id", "message_key"):
        if digits := getattr(chosen, name):
            yield equals(bytes.fromhex(digits), name)


def _of_names(chosen: MessageFilter) -> Iterator[Condition]:
    for pattern, column in (
        (chosen.application, "put_appl_name"),
        (chosen.user, "user_identifier"),
        (chosen.dest_q_name, "dlh_dest_q_name"),
        (chosen.dest_q_mgr_name, "dlh_dest_q_mgr_name"),
    ):
        if pattern:
            yield is_like(pattern, column)
    if chosen.format:
        # An MQDLH keeps the Format of the message in its own, and MQMD.Format is then MQDEAD.
        yield is_like(chosen.format, "dlh_format", "format")


def _of_cause(cause_id: str, snapshots: Snapshots, others: Sequence[Condition]) -> Condition:
    """Return the condition that a row's cause has this id; generated names are one cause."""
    known = distinct_rows(snapshots, others, _OF_A_CAUSE, _MOST_DESTINATIONS)
    rows = []
    for cls, reason, dest_q_name, dest_q_mgr_name in known:
        row = (cls, reason or 0, dest_q_name or "", dest_q_mgr_name or "")
        if find_cause(*row).cause_id == cause_id:
            rows.append(row)
    return is_one_of(rows, *_OF_A_CAUSE)
