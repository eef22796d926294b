"""MQRFH and MQRFH2: bytes in, records with their name/value data out, and back byte for byte.

Both begin like other headers and end with data of any length, which StrucLength counts in. Folders
of an MQRFH2 are kept as they stand, with the blanks that pad them (IBM MQ docs, "MQRFH" and
"MQRFH2 - Rules and formatting header 2").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from mqdlq.errors import MalformedHeaderError
from mqdlq.headers.ccsid import UTF_16, Family
from mqdlq.headers.layout import LENGTH_AND_FOLLOWING, ByteOrder, Layout
from mqdlq.headers.limits import FOLDERS_READ
from mqdlq.headers.representation import codec_of, family_of, order_of

MQRFH: Final = Layout("MQRFH", "RFH ", 1, LENGTH_AND_FOLLOWING)
MQRFH2: Final = Layout("MQRFH2", "RFH ", 2, (*LENGTH_AND_FOLLOWING, ("NameValueCCSID", "long")))
"""The fixed parts: 32 bytes (MQRFH_STRUC_LENGTH_FIXED) and 36 (…_FIXED_2)."""

NAME_VALUE_LENGTH: Final = 4
"""The length of the number that says how long the folder after it is."""
_UTF_16: Final = {ByteOrder.BIG: "utf-16-be", ByteOrder.LITTLE: "utf-16-le"}
_UTF_8: Final = 1208


@dataclass(frozen=True, slots=True)
class RulesHeader:
    """An MQRFH; `name_value_string` is text in the header's own CCSID, without trailing blanks.

    `padding` counts those blanks.
    """

    encoding: int = 546
    coded_char_set_id: int = -2
    format: str = ""
    flags: int = 0
    name_value_string: str = ""
    padding: int = 0


@dataclass(frozen=True, slots=True)
class RulesHeader2:
    """An MQRFH2 with its folders (each a NameValueData), whole and in order.

    A folder is text where NameValueCCSID names one of the four it may (1208, 1200, 13488, 17584)
    and the bytes are such text; else it is bytes. A byte of a UTF-8 folder that is no character
    becomes a lone surrogate, as Python's "surrogateescape" has it, and turns into that byte again.
    """

    encoding: int = 546
    coded_char_set_id: int = -2
    format: str = ""
    flags: int = 0
    name_value_ccsid: int = _UTF_8
    folders: tuple[str | bytes, ...] = ()

    def folder_offsets(self) -> Iterator[int]:
        """Yield where in the header each folder begins."""
        offset = MQRFH2.length
        for folder in self.folders:
            offset += NAME_VALUE_LENGTH
            yield offset
            offset += len(_folder_bytes(folder, self.name_value_ccsid, ByteOrder.BIG, offset))


Record = RulesHeader | RulesHeader2


class TooManyFoldersError(MalformedHeaderError):
    """An MQRFH2 has more folders than are read; nothing need be wrong with it."""

    def __init__(self, offset: int) -> None:
        """Say at which offset of the header the first folder beyond the limit begins."""
        found = f"more than the limit of {FOLDERS_READ}"
        super().__init__("MQRFH2", offset, f"at most {FOLDERS_READ} folders", found)


def struc_length(data: bytes, layout: Layout, *, encoding: int, available: int) -> int:
    """Return the StrucLength that an MQRFH or MQRFH2 states.

    `available` is how much of the message there is from its beginning. Raises
    `MalformedHeaderError` where that is too little, or the length cannot be.
    """
    if available < layout.length or len(data) < layout.length:
        found = f"{min(available, len(data))}"
        raise MalformedHeaderError(layout.structure, 0, f"{layout.length} bytes", found)
    stated = order_of(layout.structure, encoding).integer(data[8:12])
    if not layout.length <= stated <= available:
        expected = f"StrucLength from {layout.length} to the {available} bytes there are"
        raise MalformedHeaderError(layout.structure, 8, expected, f"{stated}")
    return stated


def decode_rfh(data: bytes, *, encoding: int, ccsid: int) -> RulesHeader:
    """Read the MQRFH that `data` begins with; raise `MalformedHeaderError`."""
    values, rest = _fixed_part_and_rest(MQRFH, data, encoding, ccsid)
    text = codec_of("MQRFH", ccsid, family_of(data, MQRFH.struc_id)).decode(rest)
    string = text.rstrip(" ")
    return RulesHeader(**values, name_value_string=string, padding=len(text) - len(string))


def encode_rfh(header: RulesHeader, *, encoding: int, ccsid: int) -> bytes:
    """Write what `decode_rfh` reads; raise `MalformedHeaderError`."""
    codec = codec_of("MQRFH", ccsid, Family.ASCII)
    try:
        rest = codec.encode(header.name_value_string + " " * header.padding)
    except UnicodeError:
        expected = f"NameValueString in characters of CCSID {ccsid}"
        raise MalformedHeaderError("MQRFH", MQRFH.length, expected, "others") from None
    values = {
        name: getattr(header, name) for name in ("encoding", "coded_char_set_id", "format", "flags")
    }
    values["struc_length"] = MQRFH.length + len(rest)
    return MQRFH.pack(values, order_of("MQRFH", encoding), codec) + rest


def decode_rfh2(data: bytes, *, encoding: int, ccsid: int) -> RulesHeader2:
    """Read the MQRFH2 that `data` begins with.

    Raises `MalformedHeaderError`, and `TooManyFoldersError` for more than `FOLDERS_READ` folders.
    """
    values, rest = _fixed_part_and_rest(MQRFH2, data, encoding, ccsid)
    order = order_of("MQRFH2", encoding)
    named = values["name_value_ccsid"]
    folders = tuple(_folder(each, named, order) for each in _name_value_data(rest, order))
    return RulesHeader2(**values, folders=folders)


def encode_rfh2(header: RulesHeader2, *, encoding: int, ccsid: int) -> bytes:
    """Write what `decode_rfh2` reads; raise `MalformedHeaderError`.

    A folder is written as it stands: who makes one pads it to a multiple of four bytes.
    """
    order = order_of("MQRFH2", encoding)
    endian: Literal["big", "little"] = "big" if order is ByteOrder.BIG else "little"
    rest = bytearray()
    for folder in header.folders:
        data = _folder_bytes(folder, header.name_value_ccsid, order, MQRFH2.length + len(rest))
        rest += len(data).to_bytes(NAME_VALUE_LENGTH, endian) + data
    values = {name: getattr(header, name) for name in header.__slots__ if name != "folders"}
    values["struc_length"] = MQRFH2.length + len(rest)
    return MQRFH2.pack(values, order, codec_of("MQRFH2", ccsid, Family.ASCII)) + rest


def decode_fixed_part(data: bytes, layout: Layout, *, encoding: int, ccsid: int) -> Record:
    """Read the fixed part of an MQRFH or MQRFH2 whose name/value data is not at hand."""
    values = _fixed_part(layout, data, encoding, ccsid)
    return RulesHeader2(**values) if layout is MQRFH2 else RulesHeader(**values)


def _fixed_part(layout: Layout, data: bytes, encoding: int, ccsid: int) -> dict[str, Any]:
    codec = codec_of(layout.structure, ccsid, family_of(data, layout.struc_id))
    order = order_of(layout.structure, encoding)
    values = layout.unpack(data[: layout.length], order, codec)
    del values["struc_length"]
    return values


def _fixed_part_and_rest(
    layout: Layout, data: bytes, encoding: int, ccsid: int
) -> tuple[dict[str, Any], bytes]:
    values = _fixed_part(layout, data, encoding, ccsid)
    length = struc_length(data, layout, encoding=encoding, available=len(data))
    return values, data[layout.length : length]


def _name_value_data(rest: bytes, order: ByteOrder) -> Iterator[bytes]:
    """Yield the folder that each NameValueLength measures out."""
    at = count = 0
    while at < len(rest):
        if count == FOLDERS_READ:
            raise TooManyFoldersError(MQRFH2.length + at)
        count += 1
        length = order.integer(rest[at : at + NAME_VALUE_LENGTH])
        left = len(rest) - at - NAME_VALUE_LENGTH
        if not 0 <= length <= left:
            expected = f"NameValueLength from 0 to the {max(left, 0)} bytes left of the header"
            found = f"{length}" if left >= 0 else f"{len(rest) - at} bytes"
            raise MalformedHeaderError("MQRFH2", MQRFH2.length + at, expected, found)
        yield rest[at + NAME_VALUE_LENGTH : at + NAME_VALUE_LENGTH + length]
        at += NAME_VALUE_LENGTH + length


def _folder(data: bytes, ccsid: int, order: ByteOrder) -> str | bytes:
    if ccsid == _UTF_8:
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
        if ccsid == _UTF_8:
            return folder.encode("utf-8", "surrogateescape")
        if ccsid in UTF_16:
            return folder.encode(_UTF_16[order])
    except UnicodeError:
        pass
    expected = f"NameValueData in characters of NameValueCCSID {ccsid}"
    raise MalformedHeaderError("MQRFH2", offset, expected, "others")
