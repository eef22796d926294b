"""Read event and statistics messages, which are in programmable command format.

The clients' own reader, `PCFExecute.unpack`, takes every event for a failed command, because its
completion code is MQCC_WARNING, and reads a wrong message without end. IBM MQ docs, "Structures for
PCF commands and responses", "Event message MQCFH (PCF header)".
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

MQCFT_EVENT: Final = 7
MQCFT_STATISTICS: Final = 21

_INTEGER, _STRING, _GROUP = 3, 4, 20
_LISTS: Final = {5: "i", 25: "q"}
"""MQCFT_INTEGER_LIST and MQCFT_INTEGER64_LIST."""
_HEADER: Final = struct.Struct("=9i")
_START: Final = struct.Struct("=4i")
_MAX_PARAMETERS: Final = 10_000

Value = int | bytes | tuple[int, ...] | list["Parameters"]
Parameters = Mapping[int, Value]


@dataclass(frozen=True, slots=True)
class PcfMessage:
    """A message: its type (an MQCFT), command (an MQCMD), reason code and parameters.

    Parameters are by identifier: numbers, text as bytes without trailing blanks and NULs, lists of
    numbers, and the list of the groups with one identifier. Other kinds are left out.
    """

    type: int
    command: int
    reason: int
    parameters: Parameters


def read_pcf(body: bytes) -> PcfMessage | None:
    """Return a message in this machine's byte order, or None if its bytes are not PCF.

    A message got with MQGMO_CONVERT is in this byte order.
    """
    try:
        kind, length, _, command, _, _, _, reason, count = _HEADER.unpack_from(body)
        if length != _HEADER.size or not 0 <= count <= _MAX_PARAMETERS:
            return None
        parameters, _ = _read_parameters(body, length, count, is_group=False)
    except (struct.error, ValueError):
        return None
    return PcfMessage(kind, command, reason, parameters)


def _read_parameters(
    body: bytes, at: int, count: int, *, is_group: bool
) -> tuple[dict[int, Value], int]:
    """Return `count` parameters from an offset, and the offset of their end.

    Raises struct.error or ValueError for bytes that are not parameters.
    """
    found: dict[int, Value] = {}
    for _ in range(count):
        kind, length, identifier, number = _START.unpack_from(body, at)
        if length < _START.size or at + length > len(body):
            raise ValueError(length)
        end = at + length
        if kind == _GROUP:
            if is_group or not 0 <= number <= _MAX_PARAMETERS:
                raise ValueError(number)
            members, end = _read_parameters(body, end, number, is_group=True)
            groups = found.setdefault(identifier, [])
            if isinstance(groups, list):
                groups.append(members)
        elif (value := _read_value(kind, number, body[at : at + length])) is not None:
            found[identifier] = value
        at = end
    return found, at


def _read_value(kind: int, number: int, data: bytes) -> Value | None:
    """Return the value of one parameter; `number` is its first field after the identifier."""
    if kind == _INTEGER:
        return number
    if kind == _STRING:
        (size,) = struct.unpack_from("=i", data, 16)
        return data[20 : 20 + max(0, size)].rstrip(b" \0")
    if kind in _LISTS:
        if not 0 <= number <= len(data):
            raise ValueError(number)
        return struct.unpack_from(f"={number}{_LISTS[kind]}", data, 16)
    return None
