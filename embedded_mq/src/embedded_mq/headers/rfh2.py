"""Read MQRFH2 headers with their folders and properties, and write them.

IBM MQ docs, "MQRFH2 - Rules and formatting header 2", "Properties specified as MQRFH2 elements"
and the topics below it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from xml.sax.saxutils import escape

from embedded_mq import mqi_constants as mq
from embedded_mq.engine.messages.property_values import Property
from embedded_mq.headers.rfh2_folders import (
    COPY_OPTIONS,
    DATA_TYPES,
    PROPERTY_FOLDERS,
    PropertyBudget,
    properties,
)
from embedded_mq.structures import MQRFH2

UTF_8 = 1208
_CODECS = {UTF_8: "utf-8", 1200: "utf-16", 13488: "utf-16", 17584: "utf-16"}
_TYPE_NAMES = {number: name for name, number in DATA_TYPES.items() if name != "int"}


@dataclass(frozen=True, slots=True)
class Description:
    """The 16 bytes with which an MQMD and every header describe the data after them."""

    encoding: int
    coded_char_set_id: int
    format: bytes

    @property
    def order(self) -> str:
        """The byte order of integers, as a character of `struct`."""
        return ">" if self.encoding & INTEGER_MASK == INTEGER_NORMAL else "<"

    def packed(self, order: str) -> bytes:
        """Pack it for a header with integers in this order."""
        return DESCRIPTION[order].pack(self.encoding, self.coded_char_set_id, self.format)


INTEGER_MASK, INTEGER_NORMAL = 0xF, 1
DESCRIPTION = {order: struct.Struct(f"{order}ii8s") for order in "<>"}
MQFMT_RF_HEADER_2 = b"MQHRF2  "
GENERATED = Description(mq.MQENC_NATIVE, UTF_8, MQFMT_RF_HEADER_2)
"""The description of a header that this module writes."""


@dataclass(frozen=True, slots=True)
class Folder:
    """One NameValueData of the header, with the properties read from it.

    If `properties` is None, the folder has other content or cannot be read, and is message data.
    """

    data: bytes
    properties: tuple[Property, ...] | None


@dataclass(frozen=True, slots=True)
class Header:
    """An MQRFH2: its byte order, CCSID and folders, and the description of the data after it."""

    order: str
    length: int
    following: Description
    flags: int
    name_value_ccsid: int
    folders: tuple[Folder, ...]

    def without_properties(self, following: Description) -> bytes:
        """Write the header without properties, or nothing if no folder remains."""
        kept = [folder.data for folder in self.folders if folder.properties is None]
        if not kept and self.folders:
            return b""
        return _assemble(self.order, self.flags, self.name_value_ccsid, kept, following)


def read(data: bytes, start: int, order: str, budget: PropertyBudget) -> Header | None:
    """Read the header at a position; return None if there is no valid one.

    `budget` is what the message may still have of properties; a folder beyond it is message data.
    """
    fixed = FIXED[order]
    if len(data) < start + fixed.size:
        return None
    struc_id, version, length, *following, flags, ccsid = fixed.unpack_from(data, start)
    end = start + length
    if (struc_id, version) != (MQRFH2.struc_id, MQRFH2.version) or ccsid not in _CODECS:
        return None
    if not fixed.size <= length <= len(data) - start:
        return None
    codec = _CODECS[ccsid] + ("" if ccsid == UTF_8 else "-le" if order == "<" else "-be")
    folders, position = [], start + fixed.size
    while position < end:
        (size,) = LONG[order].unpack(data[position : position + 4].ljust(4, b"\xff"))
        position += 4 + size
        if size < 0 or position > end:
            return None
        folders.append(_folder(data[position - size : position], codec, budget))
    return Header(order, length, Description(*following), flags, ccsid, tuple(folders))


FIXED = {order: struct.Struct(order + MQRFH2.codes) for order in "<>"}
LONG = {order: struct.Struct(f"{order}i") for order in "<>"}


def _folder(data: bytes, codec: str, budget: PropertyBudget) -> Folder:
    try:
        return Folder(data, properties(data.decode(codec).rstrip("\0 "), budget))
    except ValueError:
        return Folder(data, None)


# Writing


@dataclass(slots=True)
class _Group:
    """A folder or group: its elements in order, and the groups among them by name."""

    members: list[tuple[str, _Group | Property]] = field(default_factory=list)
    groups: dict[str, _Group] = field(default_factory=dict)

    def group(self, name: str) -> _Group:
        if name not in self.groups:
            self.groups[name] = _Group()
            self.members.append((name, self.groups[name]))
        return self.groups[name]


def write(held: Iterable[Property], following: Description) -> bytes:
    """Return a header in the native encoding and UTF-8 with folders for the properties."""
    folders = _Group()
    for each in held:
        *groups, name = each.path
        reduce(_Group.group, groups, folders).members.append((name, each))
    written = ["".join(_write_folder(name, folder)).encode() for name, folder in folders.members]
    return _assemble("<", 0, UTF_8, written, following)


def _assemble(
    order: str, flags: int, ccsid: int, folders: Iterable[bytes], following: Description
) -> bytes:
    """Write a header; a folder's length is a multiple of four."""
    padded = [data + b" " * (-len(data) % 4) for data in folders]
    values = b"".join(LONG[order].pack(len(data)) + data for data in padded)
    fixed = FIXED[order]
    length = fixed.size + len(values)
    behind = (following.encoding, following.coded_char_set_id, following.format)
    return fixed.pack(MQRFH2.struc_id, MQRFH2.version, length, *behind, flags, ccsid) + values


def _write_folder(name: str, folder: _Group | Property) -> Iterator[str]:
    """Yield the parts of a folder, whose groups may be nested to any depth."""
    mark = "" if name in PROPERTY_FOLDERS else " content='properties'"
    waiting: list[str | tuple[str, _Group | Property]] = [(name, folder)]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            yield part
            continue
        name, member = part
        if isinstance(member, Property):
            yield f"<{name}{_write_attributes(member)}>{escape(_text(member))}</{name}>"
        else:
            yield f"<{name}{mark}>"
            waiting += [f"</{name}>", *reversed(member.members)]
            mark = ""


def _write_attributes(held: Property) -> str:
    attributes = ""
    if held.type == mq.MQTYPE_NULL:
        attributes += " xsi:nil='true'"
    elif held.type != mq.MQTYPE_STRING:
        attributes += f" dt='{_TYPE_NAMES[held.type]}'"
    if held.context == mq.MQPD_USER_CONTEXT:
        attributes += " context='user'"
    if held.copy_options != mq.MQCOPY_DEFAULT:
        words = [word for word, bit in COPY_OPTIONS.items() if bit & held.copy_options]
        attributes += f" copy='{','.join(words) or 'none'}'"
    return attributes


def _text(held: Property) -> str:
    if held.value is None:
        return ""
    if held.type == mq.MQTYPE_BOOLEAN:
        return str(int(bool(held.value)))
    return held.value.hex() if isinstance(held.value, bytes) else str(held.value)
