"""Faster MQMD, MQGMO, MQPMO and MQOD classes for the client libraries.

Both libraries keep the fields of a structure as attributes, and pack and unpack all of them one by
one at every call, which takes most of the time for small messages. These subclasses of the
libraries' classes keep the packed bytes instead and access a field in place; `pack` and `unpack` do
almost nothing. The unmodified libraries accept them.
"""

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


def _field(code: str, offset: int) -> property:
    """Return the attribute for one field, by its format and its position in the packed bytes."""
    layout = struct.Struct(code)

    def read(owner: Any) -> Any:
        return layout.unpack_from(owner.packed, offset)[0]

    def write(owner: Any, value: int | bytes) -> None:
        layout.pack_into(owner.packed, offset, value)

    return property(read, write)


class _Packed:
    """Base of the classes; `packed` is the structure as the MQI takes it."""

    packed: bytearray
    default: bytes

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
        field.ibm_name: _field(field.code, field.offset)
        for field in structure.layout.values()
        if hasattr(template, field.ibm_name)
    }
    default = template.pack()
    if len(default) != structure.length:
        raise TypeError(f"{kind} has {len(default)} bytes, {structure.length} are known")
    return type(f"Packed{kind.__name__}", (_Packed, kind), {"default": default, **fields})
