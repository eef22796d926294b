"""A decoded header in, its fields under IBM's names out, as people and JSON are shown them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mqdlq.headers.ccsid import storable
from mqdlq.headers.chain import AMS_HEADER, ChainedHeader
from mqdlq.headers.records import MessageDescriptor1, Record, TransmissionQueueHeader
from mqdlq.headers.rfh import NAME_VALUE_LENGTH, RulesHeader, RulesHeader2

Value = int | str | bytes


@dataclass(frozen=True, slots=True)
class ShownField:
    """A field: IBM's name, its offset in the header, and its value.

    Text has no trailing blanks; a byte that is no character in it is a lone surrogate. `length` is
    in bytes. `within` is the structure that stands in the header and holds the field: MsgDesc,
    or "".
    """

    ibm_name: str
    offset: int
    length: int
    value: Value
    within: str = ""


def shown_fields(header: ChainedHeader) -> tuple[ShownField, ...]:
    """Return the fields of a header in IBM's order, StrucId and Version first."""
    if header.record is None:
        return (ShownField("StrucId", 0, 4, AMS_HEADER),)
    return (*_of(header.record), *_variable(header.record, header.length))


def descriptor_fields(descriptor: MessageDescriptor1) -> tuple[ShownField, ...]:
    """Return the fields of an MQMD."""
    return _of(descriptor)


def _of(record: Record) -> tuple[ShownField, ...]:
    return tuple(
        ShownField(field.ibm_name, field.offset, field.length, getattr(record, field.name))
        for field in record.layout.values()
    )


def _variable(record: Record, length: int) -> tuple[ShownField, ...]:
    """Return what comes after the fixed part of a header."""
    match record:
        case TransmissionQueueHeader():
            return tuple(
                replace(field, offset=record.length + field.offset, within="MsgDesc")
                for field in _of(record.msg_desc)
            )
        case RulesHeader():
            return (_folder("NameValueString", record.length, length, record.name_value_string),)
        case RulesHeader2():
            places = [*record.folder_offsets(), length + NAME_VALUE_LENGTH]
            return tuple(
                _folder("NameValueData", start, following - NAME_VALUE_LENGTH, folder)
                for folder, start, following in zip(
                    record.folders, places, places[1:], strict=False
                )
            )
        case _:
            return ()


def _folder(name: str, start: int, end: int, value: str | bytes) -> ShownField:
    return ShownField(name, start, end - start, value)


def as_json(fields: tuple[ShownField, ...]) -> dict[str, Any]:
    """Return fields as a JSON object: numbers, text, identifiers in hexadecimal digits.

    NameValueData is a list, the fields of MsgDesc are an object of their own. A byte that is no
    character is U+FFFD.
    """
    shown: dict[str, Any] = {}
    for field in fields:
        place = shown.setdefault(field.within, {}) if field.within else shown
        value = field.value
        if isinstance(value, bytes):
            value = value.hex()
        elif isinstance(value, str):
            value = storable(value)
        if field.ibm_name == "NameValueData":
            place.setdefault(field.ibm_name, []).append(value)
        else:
            place[field.ibm_name] = value
    return shown


def undecoded(fields: tuple[ShownField, ...]) -> tuple[ShownField, ...]:
    """Return the fields of text that hold bytes which are no characters."""
    return tuple(
        field
        for field in fields
        if isinstance(field.value, str) and storable(field.value) != field.value
    )
