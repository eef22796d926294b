"""Layouts of MQ structures: a table of fields in IBM's order in, packing and unpacking out."""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from mqdlq.errors import MalformedHeaderError
from mqdlq.headers.ccsid import TextCodec

_IDENTITY_LENGTH: Final = 8  # StrucId and Version
LENGTH_AND_FOLLOWING: Final = (
    ("StrucLength", "long"),
    ("Encoding", "long"),
    ("CodedCharSetId", "long"),
    ("Format", "8 text"),
    ("Flags", "long"),
)
"""What most headers have after their Version: how long they are, and what follows them."""


class Kind(StrEnum):
    """What a field holds: an MQLONG, text in some CCSID, or bytes that are never text."""

    LONG = "long"
    TEXT = "text"
    BYTES = "bytes"


class ByteOrder(StrEnum):
    """The order of an MQLONG's bytes, spelt as `struct` spells it."""

    BIG = ">"
    LITTLE = "<"
    NATIVE = "="

    def integer(self, data: bytes) -> int:
        """Read an MQLONG in this order; never fails."""
        little = self is ByteOrder.LITTLE or (self is ByteOrder.NATIVE and sys.byteorder != "big")
        return int.from_bytes(data, "little" if little else "big", signed=True)


@dataclass(frozen=True, slots=True)
class Field:
    """One field: IBM's name and ours, its offset and length in bytes, and what it holds."""

    ibm_name: str
    name: str
    kind: Kind
    offset: int
    length: int


@dataclass(frozen=True)
class Layout:
    """A structure with a StrucId, a Version and the fields after them.

    `table` lists IBM's names with "long", or with the length and kind of the field: "48 text".
    Our names are IBM's in snake case: ReplyToQMgr is reply_to_q_mgr, MFSMapName mfs_map_name.
    """

    structure: str
    struc_id: str
    version: int
    table: tuple[tuple[str, str], ...]
    fields: tuple[Field, ...] = field(init=False)
    length: int = field(init=False)
    _structs: dict[ByteOrder, struct.Struct] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Work out the offsets, and compile the layout for each byte order."""
        fields, offset, codes = [], _IDENTITY_LENGTH, "4si"
        for ibm_name, form in self.table:
            *length, kind = form.split()
            entry = Field(
                ibm_name, _snake_case(ibm_name), Kind(kind), offset, int(length[0]) if length else 4
            )
            fields.append(entry)
            offset += entry.length
            codes += "i" if entry.kind is Kind.LONG else f"{entry.length}s"
        object.__setattr__(self, "fields", tuple(fields))
        object.__setattr__(self, "length", offset)
        object.__setattr__(
            self, "_structs", {order: struct.Struct(order + codes) for order in ByteOrder}
        )

    def unpack(self, data: bytes, order: ByteOrder, codec: TextCodec) -> dict[str, Any]:
        """Read the fields after Version from exactly `length` bytes, under our names.

        Text loses its trailing blanks, NULs stay. Raises `MalformedHeaderError` where the length,
        the StrucId or the Version is another.
        """
        if len(data) != self.length:
            raise self._error(0, f"{self.length} bytes", f"{len(data)}")
        struc_id, version, *values = self._structs[order].unpack(data)
        if codec.decode(struc_id) != self.struc_id:
            raise self._error(0, f"StrucId {self.struc_id!r} in {codec.family}", "other bytes")
        if version != self.version:
            raise self._error(4, f"Version {self.version}", f"{version}")
        return {
            entry.name: codec.decode(value).rstrip(" ") if entry.kind is Kind.TEXT else value
            for entry, value in zip(self.fields, values, strict=True)
        }

    def pack(
        self, values: Mapping[str, int | str | bytes], order: ByteOrder, codec: TextCodec
    ) -> bytes:
        """Write the structure; what `unpack` read comes out byte for byte.

        Raises `MalformedHeaderError` where a value does not fit its field or the CCSID.
        """
        packed = [self._packable(entry, values[entry.name], codec) for entry in self.fields]
        return self._structs[order].pack(codec.encode(self.struc_id), self.version, *packed)

    def _packable(self, entry: Field, value: int | str | bytes, codec: TextCodec) -> int | bytes:
        match entry.kind, value:
            case Kind.LONG, int() if -(2**31) <= value < 2**31:
                return value
            case Kind.BYTES, bytes() if len(value) == entry.length:
                return value
            case Kind.TEXT, str():
                return self._characters(entry, value, codec)
            case Kind.LONG, _:
                raise self._error(entry.offset, f"{entry.ibm_name} as an MQLONG", f"{value!r}")
            case _:
                expected = f"{entry.ibm_name} as {entry.length} bytes"
                found = f"{len(value)}" if isinstance(value, bytes) else type(value).__name__
                raise self._error(entry.offset, expected, found)

    def _characters(self, entry: Field, text: str, codec: TextCodec) -> bytes:
        try:
            data = codec.encode(text)
        except UnicodeError:
            expected = f"{entry.ibm_name} in characters of CCSID {codec.ccsid}"
            raise self._error(entry.offset, expected, f"{text!r}") from None
        if len(data) > entry.length:
            expected = f"{entry.ibm_name} of at most {entry.length} bytes"
            raise self._error(entry.offset, expected, f"{len(data)} bytes")
        return data.ljust(entry.length, codec.encode(" "))

    def _error(self, offset: int, expected: str, found: str) -> MalformedHeaderError:
        return MalformedHeaderError(self.structure, offset, expected, found)


def _snake_case(ibm_name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", ibm_name).lower()
