"""Pack and unpack the structures of the MQI, whose fields have IBM's names in snake case.

These are the structures as the MQI takes them: text is bytes of the field's length, and numbers are
in the machine's byte order; for another byte order, use the layout in `codes`. Layouts are those of
a 64-bit platform with 4-byte MQLONG (IBM MQ docs, "Data types used in the MQI"). Both clients
always pass the newest layout; the Version field says which fields are used.

`embedded_mq.structures` is a symbolic link to this package. Its modules import one another
relatively, since their absolute names differ between the two.
"""

import struct
from typing import Any, ClassVar, Self

from . import headers
from .headers import (
    Byte1,
    Byte16,
    Byte40,
    Char4,
    Char12,
    Char48,
    Field,
    Kind,
    Long,
    Long64,
    Pointer,
    Small,
    Structure,
    VariableString,
)


class Packed(Structure[bytes]):
    """A structure as the MQI takes it: text as bytes, numbers in the machine's byte order."""

    _native: ClassVar[struct.Struct]

    def __init_subclass__(cls, *, struc_id: str = "", **identity: Any) -> None:
        super().__init_subclass__(struc_id=struc_id, **identity)
        declared: Any = cls.struc_id
        cls.struc_id = declared if isinstance(declared, bytes) else declared.encode()
        cls._native = struct.Struct(cls.codes)

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        return cls.from_values(cls._native.unpack(data))

    @classmethod
    def blank(cls) -> Self:
        """Return a structure of zeros and NULs."""
        return cls.unpack(bytes(cls.length))

    def pack(self) -> bytes:
        """Pack the structure; shorter text is padded with NULs."""
        return self._native.pack(*type(self).values_of(self))


class MQMD(Packed, headers.MQMD[bytes]):
    """The message descriptor, version 2."""


class MQXQH(Packed, headers.MQXQH[bytes]):
    """The transmission-queue header without its MQMD."""


class MQDLH(Packed, headers.MQDLH[bytes]):
    """The dead-letter header."""


class MQMDE(Packed, headers.MQMDE[bytes]):
    """The message-descriptor extension."""


class MQRFH(Packed, headers.MQRFH[bytes]):
    """The fixed part of the rules and formatting header."""


class MQRFH2(Packed, headers.MQRFH2[bytes]):
    """The fixed part of the rules and formatting header 2."""


MQMD_LENGTH_1 = headers.MQMD1.length
"""The length of a version 1 message descriptor, which ends before GroupId."""


DEFAULTS_OF_VERSION_2 = MQMDE(format=b"").pack()[MQMDE.offset_of("group_id") :]
"""Packed GroupId, MsgSeqNumber, Offset, MsgFlags and OriginalLength of a message in no group."""


class MQGMO(Packed, struc_id="GMO ", version=4):
    """The get-message options (IBM MQ docs, "MQGMO - Get-message options")."""

    options: Long
    wait_interval: Long
    signal1: Long
    signal2: Long
    resolved_q_name: Char48[bytes]
    match_options: Long
    group_status: Small
    segment_status: Small
    segmentation: Small
    reserved1: Byte1
    msg_token: Byte16
    returned_length: Long
    reserved2: Long
    msg_handle: Long64


class MQPMO(Packed, struc_id="PMO ", version=3):
    """The put-message options (IBM MQ docs, "MQPMO - Put-message options")."""

    options: Long
    timeout: Long
    context: Long
    known_dest_count: Long
    unknown_dest_count: Long
    invalid_dest_count: Long
    resolved_q_name: Char48[bytes]
    resolved_q_mgr_name: Char48[bytes]
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


class MQOD(Packed, struc_id="OD  ", version=4):
    """The object descriptor (IBM MQ docs, "MQOD - Object descriptor")."""

    object_type: Long
    object_name: Char48[bytes]
    object_q_mgr_name: Char48[bytes]
    dynamic_q_name: Char48[bytes]
    alternate_user_id: Char12[bytes]
    recs_present: Long
    known_dest_count: Long
    unknown_dest_count: Long
    invalid_dest_count: Long
    object_rec_offset: Long
    response_rec_offset: Long
    object_rec_ptr: Pointer
    response_rec_ptr: Pointer
    alternate_security_id: Byte40
    resolved_q_name: Char48[bytes]
    resolved_q_mgr_name: Char48[bytes]
    object_string: VariableString
    selection_string: VariableString
    res_object_string: VariableString
    resolved_type: Long
    reserved: Char4[bytes]
