"""Build a shared object for x86-64 Linux without a compiler.

Each function is one instruction that jumps to the address in its slot of a table; the program that
loads the object fills the table. The layout and the structures follow the System V ABI, "Object
Files" and "Program Loading and Dynamic Linking", and its AMD64 supplement.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

PAGE = 0x1000
STUB = 16
SLOT = 8

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC = struct.Struct("<qQ")
_JUMP = struct.Struct("<2si")  # jmp *distance(%rip)
_IDENT = b"\x7fELF" + bytes([2, 1, 1])  # 64 bits, little-endian, version 1
_SHARED_OBJECT, _AMD64 = 3, 62
_LOAD, _DYNAMIC_SEGMENT, _GNU_STACK = 1, 2, 0x6474E551
_READ, _WRITE, _EXECUTE = 4, 2, 1
_HASH, _STRTAB, _SYMTAB, _STRSZ, _SYMENT, _SONAME = 4, 5, 6, 10, 11, 14
_GLOBAL_OBJECT, _GLOBAL_FUNCTION = 0x11, 0x12
_ANY_SECTION = 1  # there are no sections, but a symbol must not look undefined
_SEGMENTS = 4


@dataclass(frozen=True, slots=True)
class Names:
    """A string table with the offset of each name."""

    data: bytes
    offsets: dict[str, int]

    @classmethod
    def of(cls, names: Sequence[str]) -> Names:
        """Lay out names one after the other; offset 0 is the empty name."""
        data, offsets = b"\0", {}
        for name in names:
            offsets[name] = len(data)
            data += name.encode() + b"\0"
        return cls(data, offsets)


def shared_object(soname: str, functions: Sequence[str], table: str) -> bytes:
    """Return a shared object that exports the functions, and the table of their slots."""
    names = Names.of([*functions, table, soname])
    symbols = len(functions) + 2  # the first is the one that means none
    hash_at = _HEADER.size + _SEGMENTS * _SEGMENT.size
    symbols_at = _aligned(hash_at + 4 * (3 + symbols), 8)
    names_at = symbols_at + _SYMBOL.size * symbols
    code_at = _aligned(names_at + len(names.data), STUB)
    code_end = code_at + STUB * len(functions)
    dynamic_at = _aligned(code_end, PAGE)  # what is written to begins a page
    dynamic = _dynamic(names, soname, hash_at, symbols_at, names_at)
    table_at = dynamic_at + len(dynamic)
    end = table_at + SLOT * len(functions)

    image = bytearray(end)
    for at, part in (
        (0, _headers(code_end, dynamic_at, len(dynamic), end)),
        (hash_at, _one_bucket(symbols)),
        (symbols_at, _symbols(names, functions, table, code_at, table_at)),
        (names_at, names.data),
        (code_at, _stubs(len(functions), code_at, table_at)),
        (dynamic_at, dynamic),
    ):
        image[at : at + len(part)] = part
    return bytes(image)


def _aligned(offset: int, to: int) -> int:
    return -(-offset // to) * to


def _headers(code_end: int, dynamic_at: int, dynamic_length: int, end: int) -> bytes:
    """Return the file header and the program headers; everything is mapped at its file offset."""
    header = _HEADER.pack(
        _IDENT, _SHARED_OBJECT, _AMD64, 1, 0, _HEADER.size, 0, 0, _HEADER.size, _SEGMENT.size,
        _SEGMENTS, 0, 0, 0,
    )  # fmt: skip
    data = end - dynamic_at
    segments = (
        (_LOAD, _READ | _EXECUTE, 0, code_end, PAGE),
        (_LOAD, _READ | _WRITE, dynamic_at, data, PAGE),
        (_DYNAMIC_SEGMENT, _READ | _WRITE, dynamic_at, dynamic_length, 8),
        (_GNU_STACK, _READ | _WRITE, 0, 0, 16),
    )
    return header + b"".join(
        _SEGMENT.pack(kind, flags, at, at, at, length, length, alignment)
        for kind, flags, at, length, alignment in segments
    )


def _one_bucket(symbols: int) -> bytes:
    """Return a hash table with one bucket, which chains all symbols."""
    chain = [0, *range(2, symbols), 0]
    return struct.pack(f"<3I{symbols}I", 1, symbols, 1, *chain)


def _symbols(
    names: Names, functions: Sequence[str], table: str, code_at: int, table_at: int
) -> bytes:
    rows = [
        (name, _GLOBAL_FUNCTION, code_at + STUB * number, STUB)
        for number, name in enumerate(functions)
    ]
    rows.append((table, _GLOBAL_OBJECT, table_at, SLOT * len(functions)))
    return bytes(_SYMBOL.size) + b"".join(
        _SYMBOL.pack(names.offsets[name], kind, 0, _ANY_SECTION, at, length)
        for name, kind, at, length in rows
    )


def _stubs(count: int, code_at: int, table_at: int) -> bytes:
    stubs = b""
    for number in range(count):
        behind = code_at + STUB * number + _JUMP.size
        distance = table_at + SLOT * number - behind
        stubs += _JUMP.pack(b"\xff\x25", distance).ljust(STUB, b"\xcc")
    return stubs


def _dynamic(names: Names, soname: str, hash_at: int, symbols_at: int, names_at: int) -> bytes:
    entries = (
        (_SONAME, names.offsets[soname]),
        (_HASH, hash_at),
        (_STRTAB, names_at),
        (_SYMTAB, symbols_at),
        (_STRSZ, len(names.data)),
        (_SYMENT, _SYMBOL.size),
        (0, 0),
    )
    data = b"".join(_DYNAMIC.pack(*entry) for entry in entries)
    return data + bytes(len(data) % SLOT)
