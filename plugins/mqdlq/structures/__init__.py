"""The MQI's structures: packed bytes ↔ records whose fields bear IBM's names in snake case.

Layouts are those of a 64-bit platform with 4-byte MQLONG (IBM MQ docs, "Data types used in the
MQI"). Both clients always pass the newest layout; the Version field says how much of it counts.

`embedded_mq.structures` is a symbolic link to this package.
"""

from __future__ import annotations

import inspect
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Self, get_type_hints

Long = Annotated[int, "i"]
Long64 = Annotated[int, "q"]
Pointer = Annotated[int, "P"]
Char = Annotated[bytes, "c"]
Small = Annotated[int, "b"]
Char4 = Annotated[bytes, "4s"]
Char8 = Annotated[bytes, "8s"]
Char12 = Annotated[bytes, "12s"]
Byte16 = Annotated[bytes, "16s"]
Byte24 = Annotated[bytes, "24s"]
Char28 = Annotated[bytes, "28s"]
Byte32 = Annotated[bytes, "32s"]
Char32 = Annotated[bytes, "32s"]
Byte40 = Annotated[bytes, "40s"]
Char48 = Annotated[bytes, "48s"]
VariableString = Annotated[bytes, "24s"]  # MQCHARV, kept closed: its pointer is another's


class Structure:
    """A record with the fields its class annotates, in that order."""

    length: ClassVar[int]
    _layout: ClassVar[struct.Struct]
    layout: ClassVar[dict[str, tuple[str, int]]]
    """Each field's `struct` code and its offset in bytes, by the field's name."""
    values_of: ClassVar[Callable[[Any], tuple[Any, ...]]]

    def __init_subclass__(cls) -> None:
        own = inspect.get_annotations(cls)
        hints = get_type_hints(cls, include_extras=True)
        fields = {name: hint.__metadata__[0] for name, hint in hints.items() if name in own}
        cls._layout = struct.Struct("".join(fields.values()))
        cls.values_of = attrgetter(*fields)
        cls.length = cls._layout.size
        cls.layout, before = {}, ""
        for name, code in fields.items():
            before += code
            cls.layout[name] = code, struct.calcsize(before) - struct.calcsize(code)

    @classmethod
    def offset_of(cls, field: str) -> int:
        """Return where a field stands in the packed structure."""
        return cls.layout[field][1]

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """Read the structure from exactly `length` bytes."""
        return cls(*cls._layout.unpack(data))

    @classmethod
    def blank(cls) -> Self:
        """Return a structure of zeros and NULs."""
        return cls.unpack(bytes(cls.length))

    def pack(self) -> bytes:
        """Write the structure; shorter text is padded with NULs."""
        return self._layout.pack(*type(self).values_of(self))

    def copy(self) -> Self:
        """Return another record with the same values."""
        return type(self)(*type(self).values_of(self))


@dataclass
class MQMD(Structure):
    """The message descriptor, version 2 (IBM MQ docs, "MQMD - Message descriptor")."""

    struc_id: Char4
    version: Long
    report: Long
    msg_type: Long
    expiry: Long
    feedback: Long
    encoding: Long
    coded_char_set_id: Long
    format: Char8
    priority: Long
    persistence: Long
    msg_id: Byte24
    correl_id: Byte24
    backout_count: Long
    reply_to_q: Char48
    reply_to_q_mgr: Char48
    user_identifier: Char12
    accounting_token: Byte32
    appl_identity_data: Char32
    put_appl_type: Long
    put_appl_name: Char28
    put_date: Char8
    put_time: Char8
    appl_origin_data: Char4
    group_id: Byte24
    msg_seq_number: Long
    offset: Long
    msg_flags: Long
    original_length: Long


MQMD_LENGTH_1 = 324
"""The length of a version 1 message descriptor: what comes before GroupId."""


@dataclass
class MQGMO(Structure):
    """The get-message options (IBM MQ docs, "MQGMO - Get-message options")."""

    struc_id: Char4
    version: Long
    options: Long
    wait_interval: Long
    signal1: Long
    signal2: Long
    resolved_q_name: Char48
    match_options: Long
    group_status: Small
    segment_status: Small
    segmentation: Small
    reserved1: Char
    msg_token: Byte16
    returned_length: Long
    reserved2: Long
    msg_handle: Long64


@dataclass
class MQPMO(Structure):
    """The put-message options (IBM MQ docs, "MQPMO - Put-message options")."""

    struc_id: Char4
    version: Long
    options: Long
    timeout: Long
    context: Long
    known_dest_count: Long
    unknown_dest_count: Long
    invalid_dest_count: Long
    resolved_q_name: Char48
    resolved_q_mgr_name: Char48
    recs_present: Long
    put_msg_rec_fields: Long
    put_msg_rec_offset: Long
    response_rec_offset: Long
    put_msg_rec_ptr: Pointer
    response_rec_ptr: Pointer
    original_msg_handle: Long64
    new_msg_handle: Long64
    action: Long
    pub_level: Long


@dataclass
class MQOD(Structure):
    """The object descriptor (IBM MQ docs, "MQOD - Object descriptor")."""

    struc_id: Char4
    version: Long
    object_type: Long
    object_name: Char48
    object_q_mgr_name: Char48
    dynamic_q_name: Char48
    alternate_user_id: Char12
    recs_present: Long
    known_dest_count: Long
    unknown_dest_count: Long
    invalid_dest_count: Long
    object_rec_offset: Long
    response_rec_offset: Long
    object_rec_ptr: Pointer
    response_rec_ptr: Pointer
    alternate_security_id: Byte40
    resolved_q_name: Char48
    resolved_q_mgr_name: Char48
    object_string: VariableString
    selection_string: VariableString
    res_object_string: VariableString
    resolved_type: Long
    reserved: Char4


@dataclass
class MQXQH(Structure):
    """The transmission-queue header without its MQMD (IBM MQ docs, "MQXQH")."""

    struc_id: Char4
    version: Long
    remote_q_name: Char48
    remote_q_mgr_name: Char48


@dataclass
class MQPD(Structure):
    """The property descriptor (IBM MQ docs, "MQPD - Property descriptor")."""

    struc_id: Char4
    version: Long
    options: Long
    support: Long
    context: Long
    copy_options: Long


@dataclass
class MQSMPO(Structure):
    """The set-property options (IBM MQ docs, "MQSMPO - Set message property options")."""

    struc_id: Char4
    version: Long
    options: Long
    value_encoding: Long
    value_ccsid: Long


@dataclass
class MQDMPO(Structure):
    """The delete-property options (IBM MQ docs, "MQDMPO - Delete message property options")."""

    struc_id: Char4
    version: Long
    options: Long


@dataclass
class MQCMHO(Structure):
    """The create-handle options (IBM MQ docs, "MQCMHO - Create message handle options")."""

    struc_id: Char4
    version: Long
    options: Long


@dataclass
class MQIMPO(Structure):
    """The inquire-property options (IBM MQ docs, "MQIMPO - Inquire message property options")."""

    struc_id: Char4
    version: Long
    options: Long
    requested_encoding: Long
    requested_ccsid: Long
    returned_encoding: Long
    returned_ccsid: Long
    reserved1: Long
    returned_name: VariableString
    type_string: Char8


@lru_cache(4096)
def text(field: bytes) -> str:
    """Read a character field: up to the first NUL, trailing blanks removed."""
    return field.partition(b"\0")[0].decode("latin-1").rstrip(" ")


def blank_padded(value: str | bytes, length: int) -> bytes:
    """Write a character field as MQ returns it: cut or padded with blanks to its length."""
    data = value if isinstance(value, bytes) else value.encode("latin-1")
    return data[:length].ljust(length)


def normalised(field: bytes) -> bytes:
    """Turn the first NUL and all after it into blanks, as MQ does with text on input."""
    kept, nul, _ = field.partition(b"\0")
    return kept.ljust(len(field)) if nul else field


@cache
def object_name(value: str) -> bytes:
    """Write a queue's or queue manager's name."""
    return blank_padded(value, 48)
