"""The clients' MQMD, MQGMO, MQPMO and MQOD kept packed: a client library in, four fast classes out.

Both libraries hold a structure as attributes, and pack and unpack all of them, one by one, at every
call: with small messages that takes most of the time. These subclasses of the library's own classes
hold the packed bytes instead. A field is read and written in its place in them; `pack` and `unpack`
do next to nothing. The libraries, unmodified, take them for their own.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

from mqdlq.structures import MQGMO, MQMD, MQOD, MQPMO, Packed

NEWEST = {"MD": 2, "GMO": 4, "PMO": 3}
"""The versions set at the start: a lesser one hides fields that are used here."""


@dataclass(frozen=True, slots=True)
class PackedStructures:
    """The four classes of one library; calling one gives a structure with the library's defaults.

    MD is of version 2, GMO of version 4, PMO of version 3. Fields bear IBM's names, as in the
    library. Text is bytes, and comes back as long as the field. An OD has no object strings.
    """

    MD: Any
    GMO: Any
    PMO: Any
    OD: Any


@cache
def packed_structures(module: Any) -> PackedStructures:
    """Return the classes for a client library, `pymqi` or `ibmmq`."""
    return PackedStructures(
        _packed(module.MD, MQMD),
        _packed(module.GMO, MQGMO),
        _packed(module.PMO, MQPMO),
        _packed(module.OD, MQOD),
    )


class _Field:
    """One field: where it is in the packed bytes, and how."""

    __slots__ = ("_layout", "_offset")

    def __init__(self, code: str, offset: int) -> None:
        self._layout = struct.Struct(code)
        self._offset = offset

    def __get__(self, owner: Any, _kind: type) -> Any:
        if owner is None:
            return self
        return self._layout.unpack_from(owner.packed, self._offset)[0]

    def __set__(self, owner: Any, value: int | bytes) -> None:
        self._layout.pack_into(owner.packed, self._offset, value)


class _Packed:
    """What the classes have in common; `packed` is the structure, as the MQI takes it."""

    packed: bytearray
    default: bytes
    names: tuple[str, ...]

    def __init__(self, **fields: Any) -> None:
        """Begin with the library's defaults; a field that does not exist is an AttributeError."""
        self.packed = bytearray(self.default)
        for name, value in fields.items():
            getattr(self, name)
            setattr(self, name, value)

    def pack(self) -> bytes:
        """Return the bytes."""
        return bytes(self.packed)

    def unpack(self, data: bytes) -> Self:
        """Hold these bytes from now on."""
        self.packed[:] = data
        return self

    def get(self) -> dict[str, Any]:
        """Return the fields by name."""
        return {name: getattr(self, name) for name in self.names}

    def get_length(self) -> int:
        """Return how many bytes there are."""
        return len(self.default)

    def __repr__(self) -> str:
        """Show no content: names of users and queues are in it."""
        return f"<{type(self).__name__}, {len(self.default)} bytes>"

    __str__ = __repr__


def _packed(kind: type, structure: type[Packed]) -> type:
    """Make a subclass of one of the library's classes that keeps its fields packed."""
    template: Any = kind()
    if kind.__name__ in NEWEST:
        template.Version = NEWEST[kind.__name__]
    fields = {
        field.ibm_name: _Field(field.code, field.offset)
        for field in structure.layout.values()
        if hasattr(template, field.ibm_name)
    }
    default = template.pack()
    if len(default) != structure.length:
        raise TypeError(f"{kind} has {len(default)} bytes, {structure.length} are known")
    body = {"default": default, "names": tuple(fields), **fields}
    return type(f"Packed{kind.__name__}", (_Packed, kind), body)
