"""Faster MQMD, MQGMO, MQPMO and MQOD classes for the client libraries.

Both libraries keep the fields of a structure as attributes, and pack and unpack all of them one by
one at every call, which takes most of the time for small messages. These subclasses of the
libraries' classes keep the packed bytes instead and access a field in place; `pack` and `unpack` do
almost nothing. The unmodified libraries accept them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

from mqdlq.structures import MQGMO, MQMD, MQOD, MQPMO, Packed

DEFAULT_VERSIONS = {"MD": 2, "GMO": 4, "PMO": 3}  # lower versions lack fields that are used here


@dataclass(frozen=True, slots=True)
class PackedStructures:
    """The four classes of one library; calling one returns a structure with its defaults.

    MD has version 2, GMO version 4, PMO version 3. Fields have IBM's names, as in the library.
    Text is bytes, padded to the length of the field. An OD has no object strings.
    """

    MD: Any
    GMO: Any
    PMO: Any
    OD: Any


@cache
def packed_structures(module: Any) -> PackedStructures:
    made = zip(
        (module.MD, module.GMO, module.PMO, module.OD), (MQMD, MQGMO, MQPMO, MQOD), strict=True
    )
    return PackedStructures(*(_packed(kind, structure) for kind, structure in made))


class _Field:
    """One field: its position and format in the packed bytes."""

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
    """Base of the classes; `packed` is the structure as the MQI takes it."""

    packed: bytearray
    default: bytes
    names: tuple[str, ...]

    def __init__(self, **fields: Any) -> None:
        """Start with the library's defaults (AttributeError for an unknown field)."""
        self.packed = bytearray(self.default)
        for name, value in fields.items():
            getattr(self, name)
            setattr(self, name, value)

    def pack(self) -> bytes:
        return bytes(self.packed)

    def unpack(self, data: bytes) -> Self:
        self.packed[:] = data
        return self

    def get(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.names}

    def get_length(self) -> int:
        return len(self.default)

    def __repr__(self) -> str:
        """Show no content, because it includes names of users and queues."""
        return f"<{type(self).__name__}, {len(self.default)} bytes>"

    __str__ = __repr__


def _packed(kind: type, structure: type[Packed]) -> type:
    """Create a subclass of one of the library's classes that keeps its fields packed."""
    template: Any = kind()
    if kind.__name__ in DEFAULT_VERSIONS:
        template.Version = DEFAULT_VERSIONS[kind.__name__]
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
