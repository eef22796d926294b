"""MQRFH2 headers: their bytes in, folders and the properties in them out, and the reverse.

IBM MQ docs, "MQRFH2 - Rules and formatting header 2", "Properties specified as MQRFH2 elements"
and the topics below it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from html import unescape
from xml.sax.saxutils import escape

from mqdlq.mqi.embedded import mqi_constants as mq
from mqdlq.mqi.embedded.property_values import FLOATS, Property, Value, in_range

STRUC_ID, VERSION_2 = b"RFH ", 2
UTF_8 = 1208
_CODECS = {UTF_8: "utf-8", 1200: "utf-16", 13488: "utf-16", 17584: "utf-16"}

PROPERTY_FOLDERS = frozenset(
    {"usr", "mcd", "jms", "mqext", "mq", "mq_usr", "mqps", "sib", "sib_usr", "sib_context"}
)
"""The folders that hold properties by their name; others do by ``content='properties'``."""

_DATA_TYPES = {
    "string": mq.MQTYPE_STRING,
    "boolean": mq.MQTYPE_BOOLEAN,
    "bin.hex": mq.MQTYPE_BYTE_STRING,
    "i1": mq.MQTYPE_INT8,
    "i2": mq.MQTYPE_INT16,
    "i4": mq.MQTYPE_INT32,
    "i8": mq.MQTYPE_INT64,
    "int": mq.MQTYPE_INT64,
    "r4": mq.MQTYPE_FLOAT32,
    "r8": mq.MQTYPE_FLOAT64,
}
_TYPE_NAMES = {number: name for name, number in _DATA_TYPES.items() if name != "int"}
_COPY_OPTIONS = {
    "all": mq.MQCOPY_ALL,
    "forward": mq.MQCOPY_FORWARD,
    "publish": mq.MQCOPY_PUBLISH,
    "reply": mq.MQCOPY_REPLY,
    "report": mq.MQCOPY_REPORT,
}
_TAG = re.compile(
    r"<(?P<closing>/?)(?P<name>[A-Za-z_$][\w.:$-]*)"
    r"(?P<attributes>(?:\s+[\w:.-]+\s*=\s*(?:'[^']*'|\"[^\"]*\"))*)\s*(?P<empty>/?)>"
)
_ATTRIBUTE = re.compile(r"([\w:.-]+)\s*=\s*(?:'([^']*)'|\"([^\"]*)\")")


@dataclass(frozen=True, slots=True)
class Description:
    """What an MQMD and every header says of the data behind it; 16 bytes in all of them."""

    encoding: int
    coded_char_set_id: int
    format: bytes

    @property
    def order(self) -> str:
        """The byte order of the integers, as `struct` has it."""
        return ">" if self.encoding & INTEGER_MASK == INTEGER_NORMAL else "<"

    def packed(self, order: str) -> bytes:
        """Write it into a header with integers in this order."""
        return DESCRIPTION[order].pack(self.encoding, self.coded_char_set_id, self.format)


INTEGER_MASK, INTEGER_NORMAL = 0xF, 1
DESCRIPTION = {order: struct.Struct(f"{order}ii8s") for order in "<>"}
MQFMT_RF_HEADER_2 = b"MQHRF2  "
GENERATED = Description(mq.MQENC_NATIVE, UTF_8, MQFMT_RF_HEADER_2)
"""Describes a header written here."""


@dataclass(frozen=True, slots=True)
class Folder:
    """One NameValueData as it stands in the header, and the properties read from it.

    `properties` is None where it holds other things, or cannot be read: then it is message data.
    """

    data: bytes
    properties: tuple[Property, ...] | None


@dataclass(frozen=True, slots=True)
class Header:
    """An MQRFH2: how its integers and folders are written, and what comes behind it."""

    order: str
    length: int
    following: Description
    flags: int
    name_value_ccsid: int
    folders: tuple[Folder, ...]

    def without_properties(self, following: Description) -> bytes:
        """Write the header with what is no property; nothing where nothing is left."""
        kept = [folder.data for folder in self.folders if folder.properties is None]
        if not kept and self.folders:
            return b""
        return _assembled(self.order, self.flags, self.name_value_ccsid, kept, following)


def read(data: bytes, start: int, order: str) -> Header | None:
    """Read the header at a position; None where none is that is valid."""
    fixed = FIXED[order]
    if len(data) < start + fixed.size:
        return None
    struc_id, version, length, *following, flags, ccsid = fixed.unpack_from(data, start)
    end = start + length
    if (struc_id, version) != (STRUC_ID, VERSION_2) or ccsid not in _CODECS:
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
        folders.append(_folder(data[position - size : position], codec))
    return Header(order, length, Description(*following), flags, ccsid, tuple(folders))


FIXED = {order: struct.Struct(f"{order}4siiii8sii") for order in "<>"}
LONG = {order: struct.Struct(f"{order}i") for order in "<>"}


def _folder(data: bytes, codec: str) -> Folder:
    try:
        text = data.decode(codec).rstrip("\0 ")
        tag = _TAG.match(text)
        is_of_properties = tag is not None and (
            tag["name"] in PROPERTY_FOLDERS or _attributes(tag).get("content") == "properties"
        )
        return Folder(data, tuple(_elements(text)) if is_of_properties else None)
    except ValueError:
        return Folder(data, None)


def _attributes(tag: re.Match[str]) -> dict[str, str]:
    return {name: one or two for name, one, two in _ATTRIBUTE.findall(tag["attributes"])}


@dataclass(slots=True)
class _Element:
    name: str
    attributes: dict[str, str]
    is_group: bool = False


def _elements(text: str) -> Iterator[Property]:
    """Yield the properties of a folder; ValueError where it is not well formed."""
    opened: list[_Element] = []
    position = 0
    while position < len(text):
        tag = _TAG.search(text, position)
        if tag is None or (position and not opened):
            raise ValueError("not well formed")
        between = text[position : tag.start()]
        position = tag.end()
        if tag["closing"]:
            yield from _closed(opened, tag["name"], between)
            continue
        if between.strip():
            raise ValueError("text beside elements")
        if opened:
            opened[-1].is_group = True
        opened.append(_Element(tag["name"], _attributes(tag)))
        if tag["empty"]:
            yield from _closed(opened, tag["name"], "")
    if opened:
        raise ValueError("an element is not closed")


def _closed(opened: list[_Element], name: str, content: str) -> Iterator[Property]:
    if not opened or opened[-1].name != name:
        raise ValueError("elements overlap")
    path = [element.name for element in opened]
    element = opened.pop()
    if element.is_group or not opened:
        if content.strip():
            raise ValueError("text beside elements")
        return
    plain = path[1:] if path[0] == "usr" else path
    attributes = element.attributes
    kind, value = _value(attributes, unescape(content))
    copying = attributes.get("copy")
    yield Property(
        ".".join(plain),
        kind,
        value,
        context=int(attributes.get("context") == "user"),
        copy_options=mq.MQCOPY_DEFAULT
        if copying is None
        else sum(_COPY_OPTIONS.get(word.strip(), 0) for word in copying.split(",")),
    )


def _value(attributes: dict[str, str], content: str) -> tuple[int, Value]:
    if attributes.get("xsi:nil") == "true":
        return mq.MQTYPE_NULL, None
    kind = _DATA_TYPES.get(attributes.get("dt", "string"), mq.MQTYPE_STRING)
    if kind == mq.MQTYPE_STRING:
        return kind, content
    if kind == mq.MQTYPE_BYTE_STRING:
        return kind, bytes.fromhex(content)
    if kind in FLOATS:
        return kind, float(content)
    number = int(content)
    if not in_range(kind, number):
        raise ValueError("a number too large for its type")
    return kind, number


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


def write(properties: Iterable[Property], following: Description) -> bytes:
    """Return a header in the native encoding and UTF-8 whose folders hold the properties."""
    folders = _Group()
    for held in properties:
        *groups, name = held.path
        reduce(_Group.group, groups, folders).members.append((name, held))
    written = [_written(name, folder, marks=True).encode() for name, folder in folders.members]
    return _assembled("<", 0, UTF_8, written, following)


def _assembled(
    order: str, flags: int, ccsid: int, folders: Iterable[bytes], following: Description
) -> bytes:
    """Write a header; a folder's length is a multiple of four."""
    padded = [data + b" " * (-len(data) % 4) for data in folders]
    values = b"".join(LONG[order].pack(len(data)) + data for data in padded)
    fixed = FIXED[order]
    length = fixed.size + len(values)
    behind = (following.encoding, following.coded_char_set_id, following.format)
    return fixed.pack(STRUC_ID, VERSION_2, length, *behind, flags, ccsid) + values


def _written(name: str, member: _Group | Property, *, marks: bool = False) -> str:
    if isinstance(member, Property):
        return f"<{name}{_written_attributes(member)}>{escape(_text(member))}</{name}>"
    inner = "".join(_written(*part) for part in member.members)
    mark = " content='properties'" if marks and name not in PROPERTY_FOLDERS else ""
    return f"<{name}{mark}>{inner}</{name}>"


def _written_attributes(held: Property) -> str:
    attributes = ""
    if held.type == mq.MQTYPE_NULL:
        attributes += " xsi:nil='true'"
    elif held.type != mq.MQTYPE_STRING:
        attributes += f" dt='{_TYPE_NAMES[held.type]}'"
    if held.context == mq.MQPD_USER_CONTEXT:
        attributes += " context='user'"
    if held.copy_options != mq.MQCOPY_DEFAULT:
        words = [word for word, bit in _COPY_OPTIONS.items() if bit & held.copy_options]
        attributes += f" copy='{','.join(words) or 'none'}'"
    return attributes


def _text(held: Property) -> str:
    if held.value is None:
        return ""
    if held.type == mq.MQTYPE_BOOLEAN:
        return str(int(bool(held.value)))
    return held.value.hex() if isinstance(held.value, bytes) else str(held.value)
