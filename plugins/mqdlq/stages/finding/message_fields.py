"""The fields of a message in a snapshot, under IBM's names, with names for their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mqdlq import constants
from mqdlq.stages.report.wording import visible
from mqdlq.structures import MQDLH, MQMD, Kind

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
