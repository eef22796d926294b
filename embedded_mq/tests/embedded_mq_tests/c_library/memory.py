"""Read and write structures, names and property values in C memory.

IBM MQ docs, "MQCHARV - Variable length string", "MQCNO - Connect options", "MQCSP - Security
parameters" and "Data types used in the MQI".
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any

from embedded_mq import mqi_constants as mq
from embedded_mq.engine.messages.property_values import Value

Long, Pointer = ctypes.c_int32, ctypes.c_void_p
Longs, Int64s = ctypes.POINTER(ctypes.c_int32), ctypes.POINTER(ctypes.c_int64)

NULL_TERMINATED = -1  # MQVS_NULL_TERMINATED, MQVL_NULL_TERMINATED
_CHARV = struct.Struct("<Qiiii")  # pointer, offset, buffer size, length, CCSID
_NUMBERS = {
    mq.MQTYPE_BOOLEAN: struct.Struct("<i"),
    mq.MQTYPE_INT8: struct.Struct("<b"),
    mq.MQTYPE_INT16: struct.Struct("<h"),
    mq.MQTYPE_INT32: struct.Struct("<i"),
    mq.MQTYPE_INT64: struct.Struct("<q"),
    mq.MQTYPE_FLOAT32: struct.Struct("<f"),
    mq.MQTYPE_FLOAT64: struct.Struct("<d"),
}
_RETURNED_NAME_IN_IMPO = 32
_POINTERS_OF_MQCNO = struct.Struct("<16xQ168xQ")  # ClientConnPtr, SecurityParmsPtr
MQCNO_LENGTH_5, MQCSP_LENGTH_1 = 200, 56
MQCD_BEGINNING = 28  # its name and version are enough


def read(address: int | None, length: int) -> bytes:
    """Return the bytes at an address, b"" for a null pointer."""
    return ctypes.string_at(address, length) if address else b""


def write(address: int | None, data: bytes) -> None:
    """Write bytes to an address."""
    if address and data:
        ctypes.memmove(address, data, len(data))


def read_connect_options(cno: int | None) -> tuple[bytes, bytes, bytes]:
    """Return an MQCNO, and the beginning of the MQCD and of the MQCSP it points to."""
    data = read(cno, MQCNO_LENGTH_5)
    if not data:
        return b"", b"", b""
    client_connection, security = _POINTERS_OF_MQCNO.unpack_from(data)
    return data, read(client_connection, MQCD_BEGINNING), read(security, MQCSP_LENGTH_1)


def read_name(charv: int) -> bytes:
    """Return the text an MQCHARV points to."""
    pointer, offset, _, length, _ = _CHARV.unpack(read(charv, _CHARV.size))
    address = pointer or charv + offset
    if length == NULL_TERMINATED:
        return ctypes.string_at(address)
    return read(address, length)


def write_returned_name(impo: int, name: str) -> None:
    """Write the name of an inquired property to the buffer in the MQIMPO."""
    charv = impo + _RETURNED_NAME_IN_IMPO
    pointer, offset, size, _, ccsid = _CHARV.unpack(read(charv, _CHARV.size))
    data = name.encode()[: max(0, size)]
    write(pointer, data)
    write(charv, _CHARV.pack(pointer, offset, size, len(data) if pointer else 0, ccsid))


def read_value(kind: int, address: int, length: int) -> Value:
    """Return a property's value, as bytes if the type is unknown."""
    if kind == mq.MQTYPE_NULL:
        return None
    if kind in _NUMBERS:
        number: Any = _NUMBERS[kind].unpack(read(address, _NUMBERS[kind].size))[0]
        return bool(number) if kind == mq.MQTYPE_BOOLEAN else number
    data = ctypes.string_at(address) if length == NULL_TERMINATED else read(address, length)
    return data.decode() if kind == mq.MQTYPE_STRING else data


def write_value(kind: int, value: Value, address: int) -> None:
    """Write a property's value to a buffer that is long enough."""
    if kind in _NUMBERS:
        write(address, _NUMBERS[kind].pack(value))
    elif value is not None:
        write(address, value.encode() if isinstance(value, str) else bytes(value))  # type: ignore[arg-type]
