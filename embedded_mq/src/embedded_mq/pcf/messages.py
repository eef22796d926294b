"""Parse messages in programmable command format into a header and parameters, and write them.

IBM MQ docs, "Structures for PCF commands and responses". Wrong bytes raise `PcfError` with the
reason code of a response, and no other error.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from embedded_mq.pcf import constants as cf

MQCFH_STRUC_LENGTH = 36
DEEPEST_GROUP = 16
_START = 12
"""The length of the first fields of every parameter: Type, StrucLength, Parameter."""

Value = int | bytes | tuple[int, ...] | tuple[bytes, ...] | tuple["Parameter", ...]


class PcfError(Exception):
    """A command gets an error response.

    `reason` is the reason code's name; `detail` is the error parameter: its identifier and value.
    """

    def __init__(self, reason: str, detail: tuple[int, int] | None = None) -> None:
        """Take the reason code's name and the error parameter, if there is one."""
        super().__init__(reason)
        self.reason = reason
        self.detail = detail

    @classmethod
    def about(cls, reason: str, parameter: int) -> PcfError:
        """Return the error of the parameter with this identifier."""
        return cls(reason, (cf.MQIACF_PARAMETER_ID, parameter))


@dataclass(frozen=True, slots=True)
class Header:
    """The MQCFH: `type` is an MQCFT, `command` an MQCMD, the reason code a number."""

    type: int
    command: int
    comp_code: int = 0
    reason: int = 0
    sequence: int = 1
    control: int = cf.MQCFC_LAST
    version: int = cf.MQCFH_VERSION_1


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: `type` is an MQCFT, `identifier` its meaning.

    The value is a number, bytes (without padding), a tuple of either, or the parameters of a group.
    `operator` is an MQCFOP in filters, `ccsid` the CCSID of strings.
    """

    type: int
    identifier: int
    value: Value
    operator: int = 0
    ccsid: int = 0


def integer(identifier: int, value: int) -> Parameter:
    """Make an MQCFIN."""
    return Parameter(cf.MQCFT_INTEGER, identifier, value)


def integers(identifier: int, values: Iterable[int]) -> Parameter:
    """Make an MQCFIL."""
    return Parameter(cf.MQCFT_INTEGER_LIST, identifier, tuple(values))


def string(identifier: int, value: bytes) -> Parameter:
    """Make an MQCFST."""
    return Parameter(cf.MQCFT_STRING, identifier, value)


def strings(identifier: int, values: Iterable[bytes]) -> Parameter:
    """Make an MQCFSL of strings with equal lengths."""
    return Parameter(cf.MQCFT_STRING_LIST, identifier, tuple(values))


def read(data: bytes, order: str) -> tuple[Header, tuple[Parameter, ...]]:
    """Parse a message with integers in this byte order (``<`` or ``>``)."""
    if len(data) < MQCFH_STRUC_LENGTH:
        raise PcfError("MQRCCF_MSG_LENGTH_ERROR")
    kind, length, version, command, sequence, control, comp_code, reason, count = (
        struct.unpack_from(f"{order}9i", data)
    )
    if length != MQCFH_STRUC_LENGTH:
        raise PcfError("MQRCCF_CFH_LENGTH_ERROR")
    if version not in range(cf.MQCFH_VERSION_1, cf.MQCFH_VERSION_3 + 1):
        raise PcfError("MQRCCF_CFH_VERSION_ERROR")
    if count < 0:
        raise PcfError("MQRCCF_CFH_PARM_COUNT_ERROR")
    parameters, end = _parameters(data, order, MQCFH_STRUC_LENGTH, count)
    if end != len(data):
        raise PcfError("MQRCCF_MSG_LENGTH_ERROR")
    return Header(kind, command, comp_code, reason, sequence, control, version), parameters


def write(header: Header, parameters: Iterable[Parameter], order: str = "<") -> bytes:
    """Write a message; the default byte order is MQENC_NATIVE's."""
    parts = [_written(parameter, order) for parameter in parameters]
    return struct.pack(
        f"{order}9i",
        header.type,
        MQCFH_STRUC_LENGTH,
        header.version,
        header.command,
        header.sequence,
        header.control,
        header.comp_code,
        header.reason,
        len(parts),
    ) + b"".join(parts)


@dataclass(frozen=True, slots=True)
class StructureForm:
    """A parameter structure: the integers after Type, StrucLength and Parameter, then its tail.

    `name` is the structure's name in reason codes.
    """

    name: str
    fields: tuple[str, ...]
    tail: str = ""

    @property
    def fixed(self) -> int:
        """The length in bytes of the fields before the tail."""
        return _START + 4 * len(self.fields)

    def error(self, about: str, identifier: int) -> PcfError:
        """Return the error of a wrong structure."""
        return PcfError.about(f"MQRCCF_{self.name}_{about}", identifier)


_LONGS, _LONGS64, _LONG64, _BYTES, _STRINGS, _MEMBERS = "i", "q", "Q", "bytes", "strings", "members"

FORMS: Mapping[int, StructureForm] = {
    cf.MQCFT_INTEGER: StructureForm("CFIN", ("value",)),
    cf.MQCFT_INTEGER64: StructureForm("CFIN", ("reserved",), _LONG64),
    cf.MQCFT_INTEGER_LIST: StructureForm("CFIL", ("count",), _LONGS),
    cf.MQCFT_INTEGER64_LIST: StructureForm("CFIL", ("count",), _LONGS64),
    cf.MQCFT_STRING: StructureForm("CFST", ("ccsid", "length"), _BYTES),
    cf.MQCFT_STRING_LIST: StructureForm("CFSL", ("ccsid", "count", "length"), _STRINGS),
    cf.MQCFT_BYTE_STRING: StructureForm("CFBS", ("length",), _BYTES),
    cf.MQCFT_INTEGER_FILTER: StructureForm("CFIF", ("operator", "value")),
    cf.MQCFT_STRING_FILTER: StructureForm("CFSF", ("operator", "ccsid", "length"), _BYTES),
    cf.MQCFT_BYTE_STRING_FILTER: StructureForm("CFBF", ("operator", "length"), _BYTES),
    cf.MQCFT_GROUP: StructureForm("CFGR", ("count",), _MEMBERS),
}
FILTERS = frozenset({cf.MQCFT_INTEGER_FILTER, cf.MQCFT_STRING_FILTER, cf.MQCFT_BYTE_STRING_FILTER})


def _parameters(
    data: bytes, order: str, at: int, count: int, depth: int = 0
) -> tuple[tuple[Parameter, ...], int]:
    """Parse `count` parameters; return them with the offset of the end of the last one.

    The length of the message bounds the work for any count.
    """
    found: list[Parameter] = []
    for _ in range(count):
        kind, length, identifier, form = _start(data, order, at)
        numbers = struct.unpack_from(f"{order}{len(form.fields)}i", data, at + _START)
        fields = dict(zip(form.fields, numbers, strict=True))
        end = at + length
        value: Value
        if form.tail == _MEMBERS:
            if fields["count"] < 0 or depth == DEEPEST_GROUP:
                raise form.error("PARM_COUNT_ERROR", identifier)
            value, end = _parameters(data, order, end, fields["count"], depth + 1)
        elif form.tail:
            value = _tail(form, fields, data[at + form.fixed : end], order, identifier)
        else:
            value = fields["value"]
        other = fields.get("operator", 0), fields.get("ccsid", 0)
        found.append(Parameter(kind, identifier, value, *other))
        at = end
    return tuple(found), at


def _start(data: bytes, order: str, at: int) -> tuple[int, int, int, StructureForm]:
    """Return type, length, identifier and form of the complete structure at an offset."""
    if len(data) - at < _START:
        raise PcfError("MQRCCF_MSG_LENGTH_ERROR")
    kind, length, identifier = struct.unpack_from(f"{order}3i", data, at)
    form = FORMS.get(kind)
    if form is None:
        raise PcfError.about("MQRCCF_STRUCTURE_TYPE_ERROR", identifier)
    longest = {"": form.fixed, _MEMBERS: form.fixed, _LONG64: form.fixed + 8}
    if length < form.fixed or length > longest.get(form.tail, length):
        raise form.error("LENGTH_ERROR", identifier)
    if length > len(data) - at:
        raise PcfError("MQRCCF_MSG_LENGTH_ERROR")
    return kind, length, identifier, form


def _tail(
    form: StructureForm, fields: Mapping[str, int], tail: bytes, order: str, identifier: int
) -> Value:
    if form.tail == _BYTES:
        length = fields["length"]
        if not 0 <= length <= len(tail):
            is_filter = "operator" in fields
            raise form.error("FILTER_VAL_LEN_ERR" if is_filter else "STRING_LENGTH_ERR", identifier)
        return tail[:length]
    count = fields.get("count", 1)
    if count < 0:
        raise form.error("COUNT_ERROR", identifier)
    if form.tail == _STRINGS:
        return _strings(form, fields, tail, identifier)
    code = form.tail.lower()
    if len(tail) != count * struct.calcsize(code):
        raise form.error("LENGTH_ERROR", identifier)
    values: tuple[int, ...] = struct.unpack(f"{order}{count}{code}", tail)
    return values[0] if form.tail == _LONG64 else values


def _strings(
    form: StructureForm, fields: Mapping[str, int], tail: bytes, identifier: int
) -> tuple[bytes, ...]:
    count, length = fields["count"], fields["length"]
    if length < 0 or (not length and count):
        raise form.error("STRING_LENGTH_ERR", identifier)
    if count * length > len(tail):
        raise form.error("LENGTH_ERROR", identifier)
    return tuple(tail[place * length : (place + 1) * length] for place in range(count))


def _written(parameter: Parameter, order: str) -> bytes:
    form, value = FORMS[parameter.type], parameter.value
    members, tail = b"", b""
    fields = {"operator": parameter.operator, "ccsid": parameter.ccsid, "reserved": 0, "count": 1}
    if isinstance(value, int):
        fields["value"] = value
        tail = struct.pack(f"{order}q", value) if form.tail else b""
    elif isinstance(value, bytes):
        fields["length"], tail = len(value), value
    else:
        numbers = [each for each in value if isinstance(each, int)]
        texts = [each for each in value if isinstance(each, bytes)]
        members = b"".join(_written(each, order) for each in value if isinstance(each, Parameter))
        fields |= {"count": len(value), "length": len(texts[0]) if texts else 0}
        tail = b"".join(texts)
        if numbers:
            tail = struct.pack(f"{order}{len(numbers)}{form.tail}", *numbers)
    tail += bytes(-len(tail) % 4)
    start = [parameter.type, form.fixed + len(tail), parameter.identifier]
    start += [fields[name] for name in form.fields]
    return struct.pack(f"{order}{len(start)}i", *start) + tail + members
