"""List the fields of a decoded header under IBM's names, for people and for JSON."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from mqdlq.headers.ccsid import replace_undecodable
from mqdlq.headers.chain import AMS_HEADER, ChainedHeader
from mqdlq.headers.records import Record, RulesHeader, RulesHeader2, TransmissionQueueHeader

Value = int | str | bytes


@dataclass(frozen=True, slots=True)
class HeaderField:
    """A field: IBM's name, its offset in the header, its length in bytes, and its value.

    Text has no trailing blanks; an undecodable byte in it is a lone surrogate. `within` is the
    structure inside the header that has the field: MsgDesc, or "".
    """

    ibm_name: str
    offset: int
    length: int
    value: Value
    within: str = ""


def header_fields(header: ChainedHeader) -> tuple[HeaderField, ...]:
    """Return the fields of a header in IBM's order, StrucId and Version first."""
    if header.record is None:
        return (HeaderField("StrucId", 0, 4, AMS_HEADER),)
    return (*record_fields(header.record), *_variable(header.record, header.length))


def record_fields(record: Record) -> tuple[HeaderField, ...]:
    return tuple(
        HeaderField(field.ibm_name, field.offset, field.length, getattr(record, field.name))
        for field in record.layout.values()
    )


def _variable(record: Record, length: int) -> Iterator[HeaderField]:
    start = record.length
    match record:
        case TransmissionQueueHeader():
            for field in record_fields(record.msg_desc):
                yield replace(field, offset=start + field.offset, within="MsgDesc")
        case RulesHeader():
            yield HeaderField("NameValueString", start, length - start, record.name_value_string)
        case RulesHeader2():
            for folder, place in zip(record.folders, record.folder_places(), strict=True):
                yield HeaderField("NameValueData", *place, folder)


def as_json(fields: tuple[HeaderField, ...]) -> dict[str, Any]:
    """Return fields as a JSON object: numbers, text, identifiers in hexadecimal digits.

    NameValueData is a list; the fields of MsgDesc are a nested object. An undecodable byte is
    U+FFFD.
    """
    shown: dict[str, Any] = {}
    for field in fields:
        place = shown.setdefault(field.within, {}) if field.within else shown
        value = field.value
        if isinstance(value, bytes):
            value = value.hex()
        elif isinstance(value, str):
            value = replace_undecodable(value)
        if field.ibm_name == "NameValueData":
            place.setdefault(field.ibm_name, []).append(value)
        else:
            place[field.ibm_name] = value
    return shown
