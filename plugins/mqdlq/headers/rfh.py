"""Decode MQRFH and MQRFH2 headers into records with their name/value data, and encode them.

Both begin like other headers and end with data of any length, which StrucLength includes. Folders
of an MQRFH2 keep the blanks that pad them, so that encoding returns the same bytes (IBM MQ docs,
"MQRFH" and "MQRFH2 - Rules and formatting header 2").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Self
from xml.sax.saxutils import unescape

from mqdlq.errors import MalformedHeaderError
from mqdlq.headers.ccsid import UTF_16, Family
from mqdlq.headers.limits import FOLDERS_READ
from mqdlq.headers.records import UTF_8, Record
from mqdlq.headers.representation import NATIVE, ByteOrder, codec_of, family_of, order_of
from mqdlq.structures import headers

NAME_VALUE_LENGTH: Final = 4
"""The length in bytes of the number that states the length of the next folder."""
_TAG: Final = re.compile(r"<(/?)([^\s<>/]+)[^<>]*?(/?)>")
_ENTITIES: Final = {"&quot;": '"', "&apos;": "'"}
_UTF_16: Final = {ByteOrder.BIG: "utf-16-be", ByteOrder.LITTLE: "utf-16-le"}


class _Measured(Record):
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
        """Return the fixed part and the bytes of the header after it."""
        record = cls.decode_fixed_part(data, encoding=encoding, ccsid=ccsid)
        end = cls.measure(data, encoding=encoding, available=len(data))
        return record, data[cls.length : end]


@dataclass
class RulesHeader(_Measured, headers.MQRFH[str]):
    """An MQRFH; `name_value_string` is text in the header's own CCSID, without trailing blanks.

    `padding` counts those blanks.
    """

    name_value_string: str = ""
    padding: int = 0

    @classmethod
    def decode(cls, data: bytes, *, encoding: int = NATIVE, ccsid: int = UTF_8) -> Self:
        """Decode the header at the beginning of `data`; raise `MalformedHeaderError`."""
        record, rest = cls._parts(data, encoding, ccsid)
        text = codec_of(cls.structure, ccsid, family_of(data, cls.struc_id)).decode(rest)
        record.name_value_string = text.rstrip(" ")
        record.padding = len(text) - len(record.name_value_string)
        return record

    def encode(self, *, encoding: int = NATIVE, ccsid: int = UTF_8) -> bytes:
        """Encode the header; raise `MalformedHeaderError`."""
        codec = codec_of(self.structure, ccsid, Family.ASCII)
        try:
            rest = codec.encode(self.name_value_string + " " * self.padding)
        except UnicodeError:
            expected = f"NameValueString in characters of CCSID {ccsid}"
            raise self.error(self.length, expected, "others") from None
        order = order_of(self.structure, encoding)
        return self.encode_fixed_part(order, codec, len(rest)) + rest


@dataclass
class RulesHeader2(_Measured, headers.MQRFH2[str]):
    """An MQRFH2 with its folders (each a NameValueData), complete and in order.

    A folder is text if NameValueCCSID is one of the four allowed values (1208, 1200, 13488, 17584)
    and the bytes can be decoded; otherwise it is bytes. An undecodable byte of a UTF-8 folder
    becomes a lone surrogate, as with Python's "surrogateescape", and is encoded as that byte again.
    """

    folders: tuple[str | bytes, ...] = ()

    def find_field(self, path: Sequence[str]) -> str | None:
        """Return the text of a field, such as ("usr", "orderId"), None if no folder has it.

        Folders that are bytes are not looked at.
        """
        texts = (_find_text(each, [*path]) for each in self.folders if isinstance(each, str))
        return next((text for text in texts if text is not None), None)

    def folder_offsets(self) -> Iterator[int]:
        """Yield the offset of each folder in the header."""
        offset = self.length
        for folder in self.folders:
            offset += NAME_VALUE_LENGTH
            yield offset
            offset += len(_folder_bytes(folder, self.name_value_ccsid, ByteOrder.BIG, offset))

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


class TooManyFoldersError(MalformedHeaderError):
    """An MQRFH2 has more folders than the limit, although it may be valid."""

    def __init__(self, offset: int) -> None:
        """Take the offset in the header of the first folder beyond the limit."""
        found = f"more than the limit of {FOLDERS_READ}"
        super().__init__("MQRFH2", offset, f"at most {FOLDERS_READ} folders", found)


def _find_text(folder: str, path: list[str]) -> str | None:
    """Return the text before the first tag within the element at a path, None without one."""
    opened: list[str] = []
    for tag in _TAG.finditer(folder):
        closes, name, is_empty = tag.groups()
        if closes:
            del opened[-1:]
            continue
        if [*opened, name] == path:
            text = "" if is_empty else folder[tag.end() :].partition("<")[0]
            return unescape(text, _ENTITIES)
        if not is_empty:
            opened.append(name)
    return None


def _name_value_data(rest: bytes, order: ByteOrder) -> Iterator[bytes]:
    """Yield the folder after each NameValueLength."""
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
        text = data.decode(_UTF_16[order])
    except UnicodeError:
        return data
    return text


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
