"""Decode the message descriptor and headers into records with text, and encode them again.

`mqdlq.structures.headers` declares their fields. A header is written in the Encoding and CCSID that
the structure before it states; its own Encoding and CCSID describe the data after it. Encoding a
decoded record returns the same bytes.
"""

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any, ClassVar, Final, Literal, Self
from xml.parsers import expat

from mqdlq.errors import MalformedHeaderError
from mqdlq.headers.ccsid import UTF_16, Family, TextCodec
from mqdlq.headers.representation import NATIVE, ByteOrder, codec_of, family_of, order_of
from mqdlq.model import LONGEST_PROPERTY
from mqdlq.structures import Field, Kind, Structure, headers

UTF_8: Final = 1208


class Record(Structure[str]):
    """A structure with decoded text without trailing blanks; identifiers are bytes, NULs stay.

    The structure before it states `encoding` and `ccsid`. A CCSID of 0, -1, -2 or -3
    names no code page: decoding then detects the family by the StrucId, and encoding uses ASCII.
    The defaults are those of an MQMD that the client library packs on a connection with CCSID 1208.
    """

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


class MessageDescriptor1(Record, headers.MQMD1[str]):
    """An MQMD of version 1."""

    @property
    def following(self) -> dict[str, Any]:
        """How the data after it is written, as `describe`, `classify` and `walk` take it."""
        return {"encoding": self.encoding, "ccsid": self.coded_char_set_id, "format": self.format}


class MessageDescriptor(MessageDescriptor1, headers.MQMD[str]):
    """An MQMD of version 2. A message's MQMD is always in the CCSID of the connection."""


class DeadLetterHeader(Record, headers.MQDLH[str]):
    """An MQDLH of version 1."""


class MessageDescriptorExtension(Record, headers.MQMDE[str]):
    """An MQMDE: the five fields that only an MQMD of version 2 has."""


class CicsHeader1(Record, headers.MQCIH1[str]):
    """An MQCIH of version 1."""


class CicsHeader(Record, headers.MQCIH[str]):
    """An MQCIH of version 2."""


class ImsHeader(Record, headers.MQIIH[str]):
    """An MQIIH."""


class TriggerMessage(Record, headers.MQTM[str]):
    """An MQTM; nothing follows it."""


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


# MQRFH and MQRFH2 end with name/value data of any length, which StrucLength includes. Folders of
# an MQRFH2 keep the blanks that pad them, so that encoding returns the same bytes (IBM MQ docs,
# "MQRFH" and "MQRFH2 - Rules and formatting header 2").
#
# IBM MQ does not have these limits, because it never parses a whole chain of headers. No message
# can make that expensive: if it exceeds a limit, it keeps its class, `problem` names the limit, and
# unread bytes count as payload or as a part of their header (docs/how-to/decode-messages.md).
FOLDERS_READ: Final = 1_000
"""The maximum number of folders of an MQRFH2 whose folders are read."""
NAME_VALUE_BYTES_READ: Final = 1 << 20
"""The maximum number of bytes of name/value data of an MQRFH or MQRFH2 whose data is read."""

NAME_VALUE_LENGTH: Final = 4
"""The length in bytes of the number that states the length of the next folder."""
_ROOT: Final = re.compile(r"\s*<([^\s<>/!?]+)")
_BOOLEANS: Final = {"1": "TRUE", "0": "FALSE"}
"""Values in a folder, and what MQINQMP converts them to as text."""
_UTF_16: Final = {ByteOrder.BIG: "utf-16-be", ByteOrder.LITTLE: "utf-16-le"}


class MeasuredRecord(Record):
    """A header with data of any length after its fixed part."""

    @classmethod
    def measure(cls, data: bytes, *, encoding: int, available: int) -> int:
        """Return the StrucLength that the header at the beginning of `data` states.

        `data` is at least the fixed part; `available` is the number of bytes of the message from
        the beginning of the header. Raises `MalformedHeaderError` for an impossible length.
        """
        order = order_of(cls.structure, encoding)
        stated = order.integer(data[cls.layout["struc_length"].place])
        if not cls.length <= stated <= available:
            expected = f"StrucLength from {cls.length} to the {available} bytes there are"
            raise cls.error(8, expected, f"{stated}")
        return stated

    @classmethod
    def _parts(cls, data: bytes, encoding: int, ccsid: int) -> tuple[Self, bytes]:
        record = cls.decode_fixed_part(data, encoding=encoding, ccsid=ccsid)
        end = cls.measure(data, encoding=encoding, available=len(data))
        return record, data[cls.length : end]


class RulesHeader(MeasuredRecord, headers.MQRFH[str]):
    """An MQRFH; `name_value_string` is text in the header's own CCSID, without trailing blanks.

    `padding` counts those blanks.
    """

    name_value_string: str = ""
    padding: int = 0

    @classmethod
    def decode(cls, data: bytes, *, encoding: int = NATIVE, ccsid: int = UTF_8) -> Self:
        record, rest = cls._parts(data, encoding, ccsid)
        text = codec_of(cls.structure, ccsid, family_of(data, cls.struc_id)).decode(rest)
        record.name_value_string = text.rstrip(" ")
        record.padding = len(text) - len(record.name_value_string)
        return record

    def encode(self, *, encoding: int = NATIVE, ccsid: int = UTF_8) -> bytes:
        codec = codec_of(self.structure, ccsid, Family.ASCII)
        try:
            rest = codec.encode(self.name_value_string + " " * self.padding)
        except UnicodeError:
            expected = f"NameValueString in characters of CCSID {ccsid}"
            raise self.error(self.length, expected, "others") from None
        order = order_of(self.structure, encoding)
        return self.encode_fixed_part(order, codec, len(rest)) + rest


class RulesHeader2(MeasuredRecord, headers.MQRFH2[str]):
    """An MQRFH2 with its folders (each a NameValueData), complete and in order.

    A folder is text if NameValueCCSID is one of the four allowed values (1208, 1200, 13488, 17584)
    and the bytes can be decoded; otherwise it is bytes. An undecodable byte of a UTF-8 folder
    becomes a lone surrogate, as with Python's "surrogateescape", and is encoded as that byte again.
    """

    folders: tuple[str | bytes, ...] = ()

    def find_property(self, path: Sequence[str]) -> str | None:
        """Return the value of a property as text, None if no folder has it.

        `path` is its folder and the further parts of its name. Raises `UnreadablePropertyError` if
        a folder that may have it was not decoded or is not well-formed, or if the value is longer
        than `LONGEST_PROPERTY`.
        """
        for folder in self.folders:
            value = _find_in_folder(folder, path)
            if value is not None:
                if len(value.encode("utf-8", "surrogateescape")) > LONGEST_PROPERTY:
                    raise UnreadablePropertyError
                return value
        return None

    def folder_places(self) -> Iterator[tuple[int, int]]:
        """Yield the offset in the header and the length of each folder, in bytes."""
        offset = self.length
        for folder in self.folders:
            offset += NAME_VALUE_LENGTH
            length = len(_folder_bytes(folder, self.name_value_ccsid, ByteOrder.BIG, offset))
            yield offset, length
            offset += length

    @classmethod
    def decode(cls, data: bytes, *, encoding: int = NATIVE, ccsid: int = UTF_8) -> Self:
        """Decode the header at the beginning of `data`; raise `MalformedHeaderError`.

        If it has more folders than the limit, that is a `TooManyFoldersError`.
        """
        record, rest = cls._parts(data, encoding, ccsid)
        order = order_of(cls.structure, encoding)
        record.folders = tuple(
            _folder(folder, record.name_value_ccsid, order)
            for folder in _name_value_data(rest, order)
        )
        return record

    def encode(self, *, encoding: int = NATIVE, ccsid: int = UTF_8) -> bytes:
        """Encode the header; raise `MalformedHeaderError`.

        A folder is written unchanged: the caller pads it to a multiple of four bytes.
        """
        order = order_of(self.structure, encoding)
        endian: Literal["big", "little"] = "big" if order is ByteOrder.BIG else "little"
        rest = bytearray()
        for folder in self.folders:
            data = _folder_bytes(folder, self.name_value_ccsid, order, self.length + len(rest))
            rest += len(data).to_bytes(NAME_VALUE_LENGTH, endian) + data
        codec = codec_of(self.structure, ccsid, Family.ASCII)
        return self.encode_fixed_part(order, codec, len(rest)) + rest


class UnreadablePropertyError(Exception):
    """A property cannot be read; there is no text, because a folder is customers' data."""


class TooManyFoldersError(MalformedHeaderError):
    """An MQRFH2 has more folders than the limit, although it may be valid."""

    def __init__(self, offset: int) -> None:
        found = f"more than the limit of {FOLDERS_READ}"
        super().__init__("MQRFH2", offset, f"at most {FOLDERS_READ} folders", found)


def _name_value_data(rest: bytes, order: ByteOrder) -> Iterator[bytes]:
    at = count = 0
    while at < len(rest):
        if count == FOLDERS_READ:
            raise TooManyFoldersError(RulesHeader2.length + at)
        count += 1
        length = order.integer(rest[at : at + NAME_VALUE_LENGTH])
        left = len(rest) - at - NAME_VALUE_LENGTH
        if not 0 <= length <= left:
            expected = f"NameValueLength from 0 to the {max(left, 0)} bytes left of the header"
            found = f"{length}" if left >= 0 else f"{len(rest) - at} bytes"
            raise MalformedHeaderError("MQRFH2", RulesHeader2.length + at, expected, found)
        yield rest[at + NAME_VALUE_LENGTH : at + NAME_VALUE_LENGTH + length]
        at += NAME_VALUE_LENGTH + length


def _folder(data: bytes, ccsid: int, order: ByteOrder) -> str | bytes:
    if ccsid == UTF_8:
        return data.decode("utf-8", "surrogateescape")
    if ccsid not in UTF_16:
        return data
    try:
        return data.decode(_UTF_16[order])
    except UnicodeError:
        return data


def _find_in_folder(folder: str | bytes, path: Sequence[str]) -> str | None:
    root = _ROOT.match(folder) if isinstance(folder, str) else None
    if isinstance(folder, bytes) or root is None:
        raise UnreadablePropertyError
    if root[1] != path[0]:
        return None
    if "<!" in folder:  # an entity could make the text as long as it likes
        raise UnreadablePropertyError
    search = _ElementSearch(path)
    try:
        search.parse(folder.rstrip(" \0"))
    except (expat.ExpatError, UnicodeError):
        raise UnreadablePropertyError from None
    return search.text


class _ElementSearch:
    """Search of a folder for the text of the first element with a path."""

    def __init__(self, path: Sequence[str]) -> None:
        self._path = list(path)
        self._here: list[str] = []
        self._type = ""
        self._parts: list[str] | None = None
        self.text: str | None = None

    def parse(self, folder: str) -> None:
        """Set `text`; raises `ExpatError`, UnicodeError and `UnreadablePropertyError`."""
        parser = expat.ParserCreate("utf-8")
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._add
        parser.Parse(folder.encode("utf-8"), True)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._here.append(name)
        if self.text is None and self._here == self._path:
            if attributes.get("xsi:nil") in {"true", "1"}:  # a null has no text
                raise UnreadablePropertyError
            self._type, self._parts = attributes.get("dt", ""), []

    def _add(self, text: str) -> None:
        if self._parts is not None and self._here == self._path:
            self._parts.append(text)

    def _end(self, _name: str) -> None:
        if self._parts is not None and self._here == self._path:
            text = "".join(self._parts)
            self.text = _BOOLEANS.get(text, text) if self._type == "boolean" else text
            self._parts = None
        self._here.pop()


def _folder_bytes(folder: str | bytes, ccsid: int, order: ByteOrder, offset: int) -> bytes:
    if isinstance(folder, bytes):
        return folder
    try:
        if ccsid == UTF_8:
            return folder.encode("utf-8", "surrogateescape")
        if ccsid in UTF_16:
            return folder.encode(_UTF_16[order])
    except UnicodeError:
        pass
    expected = f"NameValueData in characters of NameValueCCSID {ccsid}"
    raise MalformedHeaderError("MQRFH2", offset, expected, "others")
