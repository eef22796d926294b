"""Types and values of message properties, their conversion, and their form in the store.

IBM MQ docs, "Property data types and values", "MQINQMP - Inquire message property" (conversion).
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from embedded_mq import mqi_constants as mq
from embedded_mq.engine.failures import CallFailedError

Value = bytes | str | int | float | None

LENGTHS = {
    mq.MQTYPE_BOOLEAN: 4,
    mq.MQTYPE_INT8: 1,
    mq.MQTYPE_INT16: 2,
    mq.MQTYPE_INT32: 4,
    mq.MQTYPE_INT64: 8,
    mq.MQTYPE_FLOAT32: 4,
    mq.MQTYPE_FLOAT64: 8,
}
"""The lengths in bytes of numeric values."""

INTEGERS = frozenset({mq.MQTYPE_INT8, mq.MQTYPE_INT16, mq.MQTYPE_INT32, mq.MQTYPE_INT64})
FLOATS = frozenset({mq.MQTYPE_FLOAT32, mq.MQTYPE_FLOAT64})
_PYTHON_TYPES: Mapping[int, type] = {
    mq.MQTYPE_STRING: str,
    mq.MQTYPE_BYTE_STRING: bytes,
    mq.MQTYPE_NULL: type(None),
    **dict.fromkeys(FLOATS, float),
    **dict.fromkeys({mq.MQTYPE_BOOLEAN, *INTEGERS}, int),
}


@dataclass(frozen=True, slots=True)
class Property:
    """One property: its MQTYPE, its value as a Python object, its MQPD fields.

    A name without a folder belongs to the folder `usr`.
    """

    name: str
    type: int
    value: Value
    support: int = mq.MQPD_SUPPORT_OPTIONAL
    context: int = mq.MQPD_NO_CONTEXT
    copy_options: int = mq.MQCOPY_DEFAULT

    @property
    def length(self) -> int:
        """The length of the value in bytes."""
        if isinstance(self.value, str):
            return len(self.value.encode())
        return len(self.value) if isinstance(self.value, bytes) else LENGTHS.get(self.type, 0)

    @property
    def path(self) -> list[str]:
        """The folder and the further parts of the name."""
        parts = self.name.split(".")
        return parts if len(parts) > 1 else ["usr", *parts]


def check_value(property_type: int, value: Value) -> Value:
    """Return a value as its type requires it (MQRC_PROPERTY_TYPE_ERROR)."""
    if property_type == mq.MQTYPE_STRING and isinstance(value, bytes):
        return value.decode()
    expected = _PYTHON_TYPES.get(property_type)
    if expected is None or not isinstance(value, expected):
        raise CallFailedError("MQRC_PROPERTY_TYPE_ERROR")
    return value


def convert(held: Property, property_type: int) -> Property:
    """Convert a property to another type, as MQIMPO_CONVERT_TYPE requests.

    MQRC_PROP_CONV_NOT_SUPPORTED if IBM's table has no such conversion,
    MQRC_PROP_NUMBER_FORMAT_ERROR if this value cannot be converted.
    """
    numbers = INTEGERS | {mq.MQTYPE_BOOLEAN}
    if property_type in {mq.MQTYPE_AS_SET, held.type}:
        return held
    if property_type == mq.MQTYPE_STRING and held.type != mq.MQTYPE_NULL:
        value: Value = _as_text(held)
    elif held.type == mq.MQTYPE_STRING and property_type in _PYTHON_TYPES:
        value = _from_text(str(held.value), property_type)
    elif (held.type in numbers and property_type in numbers) or {
        held.type,
        property_type,
    } <= FLOATS:
        value = held.value
    else:
        raise CallFailedError("MQRC_PROP_CONV_NOT_SUPPORTED")
    if isinstance(value, int) and not is_in_range(property_type, value):
        raise CallFailedError("MQRC_PROP_NUMBER_FORMAT_ERROR")
    return replace(held, type=property_type, value=value)


def is_in_range(property_type: int, value: int) -> bool:
    """Return whether a number fits an integer type."""
    limit: int = 1 << LENGTHS[property_type] * 8 - 1
    return -limit <= value < limit


def _as_text(held: Property) -> str:
    if held.type == mq.MQTYPE_BOOLEAN:
        return "TRUE" if held.value else "FALSE"
    return held.value.hex().upper() if isinstance(held.value, bytes) else str(held.value)


def _from_text(text: str, property_type: int) -> Value:
    try:
        if property_type == mq.MQTYPE_BOOLEAN:
            return {"TRUE": 1, "1": 1, "FALSE": 0, "0": 0}[text.upper()]
        if property_type == mq.MQTYPE_BYTE_STRING:
            return bytes.fromhex(text)
        return float(text) if property_type in FLOATS else int(text)
    except (KeyError, ValueError):
        raise CallFailedError("MQRC_PROP_NUMBER_FORMAT_ERROR") from None


def pack_properties(properties: Iterable[Property]) -> bytes | None:
    """Encode properties for the store; return None without properties."""
    rows: list[list[Any]] = []
    for held in properties:
        value = held.value.hex() if isinstance(held.value, bytes) else held.value
        rows.append([held.name, held.type, value, held.support, held.context, held.copy_options])
    return json.dumps(rows).encode() if rows else None


def unpack_properties(stored: bytes | None) -> list[Property]:
    """Decode properties from the store."""
    if stored is None:
        return []
    properties = []
    for row in json.loads(stored):
        held = Property(*row)
        if held.type == mq.MQTYPE_BYTE_STRING:
            held = replace(held, value=bytes.fromhex(str(held.value)))
        properties.append(held)
    return properties
