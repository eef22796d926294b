"""Declarations of the descriptors and options of MQI calls, in the newest version of each.

Layouts are those of a 64-bit platform with 4-byte MQLONG (IBM MQ docs, "Data types used in the
MQI"). Both clients always pass the newest layout; the Version field says which fields are used.
"""

from __future__ import annotations

from dataclasses import dataclass

from .structure import (
    Byte1,
    Byte16,
    Byte40,
    Char4,
    Char8,
    Char12,
    Char48,
    Long,
    Long64,
    Packed,
    Pointer,
    Small,
    VariableString,
)


@dataclass
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


@dataclass
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


@dataclass
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


@dataclass
class MQPD(Packed, struc_id="PD  ", version=1):
    """The property descriptor (IBM MQ docs, "MQPD - Property descriptor")."""

    options: Long
    support: Long
    context: Long
    copy_options: Long


@dataclass
class MQSMPO(Packed, struc_id="SMPO", version=1):
    """The set-property options (IBM MQ docs, "MQSMPO - Set message property options")."""

    options: Long
    value_encoding: Long
    value_ccsid: Long


@dataclass
class MQDMPO(Packed, struc_id="DMPO", version=1):
    """The delete-property options (IBM MQ docs, "MQDMPO - Delete message property options")."""

    options: Long


@dataclass
class MQCMHO(Packed, struc_id="CMHO", version=1):
    """The create-handle options (IBM MQ docs, "MQCMHO - Create message handle options")."""

    options: Long


@dataclass
class MQIMPO(Packed, struc_id="IMPO", version=1):
    """The inquire-property options (IBM MQ docs, "MQIMPO - Inquire message property options")."""

    options: Long
    requested_encoding: Long
    requested_ccsid: Long
    returned_encoding: Long
    returned_ccsid: Long
    reserved1: Long
    returned_name: VariableString
    type_string: Char8[bytes]
