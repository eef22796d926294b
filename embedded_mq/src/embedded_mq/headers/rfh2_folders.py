"""Parse the properties in a folder of an MQRFH2.

IBM MQ docs, "NameValueData (MQCHARn)", "Properties specified as MQRFH2 elements", "Property names".
The time is proportional to the length of any text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from embedded_mq import mqi_constants as mq
from embedded_mq.engine.messages.property_values import FLOATS, Property, Value, is_in_range

PROPERTY_FOLDERS = frozenset(
    {"usr", "mcd", "jms", "mqext", "mq", "mq_usr", "mqps", "sib", "sib_usr", "sib_context"}
)
"""The folders that always have properties; other folders need ``content='properties'``."""

DATA_TYPES = {
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
COPY_OPTIONS = {
    "all": mq.MQCOPY_ALL,
    "forward": mq.MQCOPY_FORWARD,
    "publish": mq.MQCOPY_PUBLISH,
    "reply": mq.MQCOPY_REPLY,
    "report": mq.MQCOPY_REPORT,
}
_TAG = re.compile(
    r"<(?P<closing>/?)(?P<name>(?:[^\W\d]|\$)[\w.:$-]*)"
    r"(?P<attributes>(?:\s+[\w:.-]+\s*=\s*(?:'[^']*'|\"[^\"]*\"))*)\s*(?P<empty>/?)>"
)
_REFERENCE = re.compile(r"&(?:(\w+)|#(\d{1,7})|#x([0-9A-Fa-f]{1,6}));", re.ASCII)
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "apos": "'", "quot": '"'}
_ATTRIBUTE = re.compile(r"([\w:.-]+)\s*=\s*(?:'([^']*)'|\"([^\"]*)\")")


@dataclass(slots=True)
class PropertyBudget:
    """The remaining bytes of names and values that the properties of a message may have."""

    remaining: int = mq.MAX_PROPERTIES_LENGTH


def properties(text: str, budget: PropertyBudget) -> tuple[Property, ...] | None:
    """Return the properties of a folder, or None if the folder has other content.

    Raises ValueError if the folder is not well formed, if a name in it exceeds
    MQ_MAX_PROPERTY_NAME_LENGTH, or if its properties exceed the budget. (IBM MQ truncates such a
    name; here the folder stays message data, so that nothing is lost.)
    """
    tag = _TAG.match(text)
    if tag is None:
        return None
    if tag["name"] not in PROPERTY_FOLDERS and _attributes(tag).get("content") != "properties":
        return None
    found, left = [], budget.remaining
    for held in _elements(text):
        left -= len(held.name) + held.length
        if left < 0:
            raise ValueError("more properties than MAXPROPL can allow")
        found.append(held)
    budget.remaining = left
    return tuple(found)


def _attributes(tag: re.Match[str]) -> dict[str, str]:
    written = tag["attributes"]
    return {name: one or two for name, one, two in _ATTRIBUTE.findall(written)} if written else {}


@dataclass(slots=True)
class _Element:
    """An open element; `path` is its property name if it is a property."""

    name: str
    path: str
    tag: re.Match[str]
    is_group: bool = False


def _elements(text: str) -> Iterator[Property]:
    """Yield the properties of a folder; raise ValueError if it is not well formed."""
    opened: list[_Element] = []
    position = 0
    while position < len(text):
        start = text.find("<", position)
        tag = _TAG.match(text, start) if start >= 0 else None
        if tag is None or (position and not opened):
            raise ValueError("not well formed")
        between = text[position:start]
        position = tag.end()
        if tag["closing"]:
            yield from _close_element(opened, tag["name"], between)
            continue
        if between.strip():
            raise ValueError("text beside elements")
        opened.append(_open_element(opened, tag))
        if tag["empty"]:
            yield from _close_element(opened, tag["name"], "")
    if opened:
        raise ValueError("an element is not closed")


def _open_element(opened: list[_Element], tag: re.Match[str]) -> _Element:
    name = path = tag["name"]
    if opened:
        above = opened[-1]
        above.is_group = True
        path = f"{above.path}.{name}" if above.path else name
    elif name == "usr":
        path = ""
    if len(path) > mq.MQ_MAX_PROPERTY_NAME_LENGTH:
        raise ValueError("a name that is too long")
    return _Element(name, path, tag)


def _close_element(opened: list[_Element], name: str, content: str) -> Iterator[Property]:
    if not opened or opened[-1].name != name:
        raise ValueError("elements overlap")
    element = opened.pop()
    if element.is_group or not opened:
        if content.strip():
            raise ValueError("text beside elements")
        return
    attributes = _attributes(element.tag)
    kind, value = _value(attributes, _REFERENCE.sub(_resolve_reference, content))
    copying = attributes.get("copy")
    yield Property(
        element.path,
        kind,
        value,
        context=int(attributes.get("context") == "user"),
        copy_options=mq.MQCOPY_DEFAULT
        if copying is None
        else sum(COPY_OPTIONS.get(word.strip(), 0) for word in copying.split(",")),
    )


def _resolve_reference(reference: re.Match[str]) -> str:
    """Return the text of an XML reference; a reference to an unknown entity is kept."""
    name, decimal, hexadecimal = reference.groups()
    if name:
        return _ENTITIES.get(name, reference[0])
    return chr(int(decimal) if decimal else int(hexadecimal, 16))


def _value(attributes: dict[str, str], content: str) -> tuple[int, Value]:
    if attributes.get("xsi:nil") == "true":
        return mq.MQTYPE_NULL, None
    kind = DATA_TYPES.get(attributes.get("dt", "string"), mq.MQTYPE_STRING)
    if kind == mq.MQTYPE_STRING:
        return kind, content
    if kind == mq.MQTYPE_BYTE_STRING:
        return kind, bytes.fromhex(content)
    if kind in FLOATS:
        return kind, float(content)
    number = int(content)
    if not is_in_range(kind, number):
        raise ValueError("a number too large for its type")
    return kind, number
