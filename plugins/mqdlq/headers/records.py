"""Decode the message descriptor and headers into records with text, and encode them again.

`mqdlq.structures.headers` declares their fields. A header is written in the Encoding and CCSID that
the structure before it states; its own Encoding and CCSID describe the data after it. Encoding a
decoded record returns the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Self

from mqdlq.errors import MalformedHeaderError
from mqdlq.headers.ccsid import Family, TextCodec
from mqdlq.headers.representation import NATIVE, ByteOrder, codec_of, family_of, order_of
from mqdlq.structures import Field, Kind, Structure, headers

UTF_8: Final = 1208


class Record(Structure[str]):
    """A structure with decoded text without trailing blanks; identifiers are bytes, NULs stay.

    The structure before it states `encoding` and `ccsid`. A CCSID of 0, -1, -2 or -3
    names no code page: decoding then detects the family by the StrucId, and encoding uses ASCII.
    The defaults are those of an MQMD that the client library packs on a connection with CCSID 1208.
    """

    struc_id: str
    _packers: ClassVar[dict[ByteOrder, struct.Struct]]
    _is_text: ClassVar[tuple[bool, ...]]

    def __init_subclass__(cls, **identity: Any) -> None:
        super().__init_subclass__(**identity)
        cls._packers = {order: struct.Struct(order + cls.codes) for order in ByteOrder}
        cls._is_text = tuple(each.kind is Kind.TEXT for each in cls.fields)

    @classmethod
    def decode(cls, data: bytes, *, encoding: int = NATIVE, ccsid: int = UTF_8) -> Self:
        """Decode the structure at the beginning of `data`; raise `MalformedHeaderError`."""
        record = cls.decode_fixed_part(data, encoding=encoding, ccsid=ccsid)
        if record.struc_length != cls.length:
            raise cls.error(8, f"StrucLength {cls.length}", f"{record.struc_length}")
        return record

    @classmethod
    def decode_fixed_part(cls, data: bytes, *, encoding: int, ccsid: int) -> Self:
        """Decode the declared fields only, whatever StrucLength is."""
        codec = codec_of(cls.structure, ccsid, family_of(data, cls.struc_id))
        order = order_of(cls.structure, encoding)
        if len(data) < cls.length:
            raise cls.error(0, f"{cls.length} bytes", f"{len(data)}")
        struc_id, version, *values = cls._packers[order].unpack_from(data)
        if codec.decode(struc_id) != cls.struc_id:
            raise cls.error(0, f"StrucId {cls.struc_id!r} in {codec.family}", "other bytes")
        if version != cls.version:
            raise cls.error(4, f"Version {cls.version}", f"{version}")
        return cls.from_values(
            [
                cls.struc_id,
                version,
                *(
                    codec.decode(value).rstrip(" ") if is_text else value
                    for is_text, value in zip(cls._is_text, values, strict=True)
                ),
            ]
        )

    def encode(self, *, encoding: int = NATIVE, ccsid: int = UTF_8) -> bytes:
        """Encode the structure; raise `MalformedHeaderError` for an unsuitable value or CCSID."""
        codec = codec_of(self.structure, ccsid, Family.ASCII)
        return self.encode_fixed_part(order_of(self.structure, encoding), codec)

    def encode_fixed_part(self, order: ByteOrder, codec: TextCodec, more: int = 0) -> bytes:
        """Encode the declared fields; `more` is the number of header bytes after them."""
        values = [
            self.length + more
            if each.name == "struc_length"
            else self._packed_value(each, getattr(self, each.name), codec)
            for each in self.fields
        ]
        return self._packers[order].pack(codec.encode(self.struc_id), self.version, *values)

    def _packed_value(self, entry: Field, value: object, codec: TextCodec) -> int | bytes:
        match entry.kind, value:
            case Kind.LONG, int() if -(2**31) <= value < 2**31:
                return value
            case Kind.BYTES, bytes() if len(value) == entry.length:
                return value
            case Kind.TEXT, str():
                return self._characters(entry, value, codec)
            case Kind.LONG, _:
                raise self.error(entry.offset, f"{entry.ibm_name} as an MQLONG", f"{value!r}")
            case _:
                expected = f"{entry.ibm_name} as {entry.length} bytes"
                found = f"{len(value)}" if isinstance(value, bytes) else type(value).__name__
                raise self.error(entry.offset, expected, found)

    def _characters(self, entry: Field, text: str, codec: TextCodec) -> bytes:
        try:
            data = codec.encode(text)
        except UnicodeError:
            expected = f"{entry.ibm_name} in characters of CCSID {codec.ccsid}"
            raise self.error(entry.offset, expected, f"{text!r}") from None
        if len(data) > entry.length:
            expected = f"{entry.ibm_name} of at most {entry.length} bytes"
            raise self.error(entry.offset, expected, f"{len(data)} bytes")
        return data.ljust(entry.length, codec.encode(" "))

    @classmethod
    def error(cls, offset: int, expected: str, found: str) -> MalformedHeaderError:
        return MalformedHeaderError(cls.structure, offset, expected, found)


@dataclass
class MessageDescriptor1(Record, headers.MQMD1[str]):
    """An MQMD of version 1."""


@dataclass
class MessageDescriptor(MessageDescriptor1, headers.MQMD[str]):
    """An MQMD of version 2. A message's MQMD is always in the CCSID of the connection."""


@dataclass
class DeadLetterHeader(Record, headers.MQDLH[str]):
    """An MQDLH of version 1."""


@dataclass
class MessageDescriptorExtension(Record, headers.MQMDE[str]):
    """An MQMDE: the five fields that only an MQMD of version 2 has."""


@dataclass
class CicsHeader1(Record, headers.MQCIH1[str]):
    """An MQCIH of version 1."""


@dataclass
class CicsHeader(Record, headers.MQCIH[str]):
    """An MQCIH of version 2."""


@dataclass
class ImsHeader(Record, headers.MQIIH[str]):
    """An MQIIH."""


@dataclass
class TriggerMessage(Record, headers.MQTM[str]):
    """An MQTM; nothing follows it."""


@dataclass
class TransmissionQueueHeader(Record, headers.MQXQH[str]):
    """An MQXQH; `msg_desc` is the MQMD of its message and describes the data after the header."""

    msg_desc: MessageDescriptor1 = field(default_factory=MessageDescriptor1)

    @classmethod
    def decode(cls, data: bytes, *, encoding: int = NATIVE, ccsid: int = UTF_8) -> Self:
        if len(data) < XQH_LENGTH:
            raise cls.error(0, f"{XQH_LENGTH} bytes", f"{len(data)}")
        record = super().decode(data, encoding=encoding, ccsid=ccsid)
        try:
            md = MessageDescriptor1.decode(data[cls.length :], encoding=encoding, ccsid=ccsid)
        except MalformedHeaderError as error:
            raise cls.error(cls.length + error.offset, error.expected, error.found) from error
        record.msg_desc = md
        return record

    def encode(self, *, encoding: int = NATIVE, ccsid: int = UTF_8) -> bytes:
        if self.msg_desc.version != MessageDescriptor1.version:
            found = f"version {self.msg_desc.version}"
            raise self.error(self.length, "an MQMD of version 1", found)
        start = super().encode(encoding=encoding, ccsid=ccsid)
        return start + self.msg_desc.encode(encoding=encoding, ccsid=ccsid)


MD_LENGTH: Final = MessageDescriptor.length
DLH_LENGTH: Final = DeadLetterHeader.length
XQH_LENGTH: Final = TransmissionQueueHeader.length + MessageDescriptor1.length


def kind_of_version(kinds: Sequence[type[Record]], data: bytes, encoding: int) -> type[Record]:
    """Return the class for the Version that `data` states, or the last, newest class."""
    newest = kinds[-1]
    order = order_of(newest.structure, encoding)
    version = order.integer(data[newest.layout["version"].place])
    return next((kind for kind in kinds if kind.version == version), newest)
