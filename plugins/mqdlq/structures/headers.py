"""Declarations of the message descriptor and of message headers.

The type parameter of a class is the type of its text fields. The defaults are IBM's initial values
with text decoded, for example MQMD_DEFAULT.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .structure import (
    Byte8,
    Byte16,
    Byte24,
    Byte32,
    Char1,
    Char4,
    Char8,
    Char12,
    Char28,
    Char32,
    Char48,
    Char64,
    Char128,
    Char256,
    Long,
    Structure,
    T,
)

BLANK: Any = ""
_SEND_AFTER_COMMIT: Any = "0"
_CHECK: Any = "C"
ENCODING, INHERIT, UTF_8 = 546, -2, 1208


@dataclass
class MQMD1(Structure[T], struc_id="MD  ", version=1, name="MQMD"):
    """The message descriptor of version 1 (IBM MQ docs, "MQMD - Message descriptor")."""

    report: Long = 0
    msg_type: Long = 8
    expiry: Long = -1
    feedback: Long = 0
    encoding: Long = ENCODING
    coded_char_set_id: Long = 0
    format: Char8[T] = BLANK
    priority: Long = -1
    persistence: Long = 2
    msg_id: Byte24 = bytes(24)
    correl_id: Byte24 = bytes(24)
    backout_count: Long = 0
    reply_to_q: Char48[T] = BLANK
    reply_to_q_mgr: Char48[T] = BLANK
    user_identifier: Char12[T] = BLANK
    accounting_token: Byte32 = bytes(32)
    appl_identity_data: Char32[T] = BLANK
    put_appl_type: Long = 0
    put_appl_name: Char28[T] = BLANK
    put_date: Char8[T] = BLANK
    put_time: Char8[T] = BLANK
    appl_origin_data: Char4[T] = BLANK


@dataclass
class MQMD(MQMD1[T], struc_id="MD  ", version=2):
    """The message descriptor of version 2, which has five more fields."""

    group_id: Byte24 = bytes(24)
    msg_seq_number: Long = 1
    offset: Long = 0
    msg_flags: Long = 0
    original_length: Long = -1


@dataclass
class MQDLH(Structure[T], struc_id="DLH ", version=1):
    """The dead-letter header (IBM MQ docs, "MQDLH - Dead-letter header")."""

    reason: Long = 0
    dest_q_name: Char48[T] = BLANK
    dest_q_mgr_name: Char48[T] = BLANK
    encoding: Long = 0
    coded_char_set_id: Long = 0
    format: Char8[T] = BLANK
    put_appl_type: Long = 0
    put_appl_name: Char28[T] = BLANK
    put_date: Char8[T] = BLANK
    put_time: Char8[T] = BLANK


@dataclass
class MQXQH(Structure[T], struc_id="XQH ", version=1):
    """The transmission-queue header without its last field, MsgDesc, an MQMD of version 1.

    IBM MQ docs, "MQXQH - Transmission-queue header".
    """

    remote_q_name: Char48[T] = BLANK
    remote_q_mgr_name: Char48[T] = BLANK


@dataclass
class MQRFH(Structure[T], struc_id="RFH ", version=1, has_struc_length=True):
    """The fixed part of the rules and formatting header (IBM MQ docs, "MQRFH")."""

    encoding: Long = ENCODING
    coded_char_set_id: Long = INHERIT
    format: Char8[T] = BLANK
    flags: Long = 0


@dataclass
class MQRFH2(MQRFH[T], struc_id="RFH ", version=2):
    """The fixed part of the MQRFH2 (IBM MQ docs, "MQRFH2 - Rules and formatting header 2")."""

    name_value_ccsid: Long = UTF_8


@dataclass
class MQMDE(Structure[T], struc_id="MDE ", version=2, has_struc_length=True):
    """The message-descriptor extension: the five fields that only a version 2 MQMD has.

    IBM MQ docs, "MQMDE - Message descriptor extension".
    """

    encoding: Long = ENCODING
    coded_char_set_id: Long = 0
    format: Char8[T] = BLANK
    flags: Long = 0
    group_id: Byte24 = bytes(24)
    msg_seq_number: Long = 1
    offset: Long = 0
    msg_flags: Long = 0
    original_length: Long = -1


@dataclass
class MQCIH1(Structure[T], struc_id="CIH ", version=1, has_struc_length=True, name="MQCIH"):
    """The CICS bridge header of version 1 (IBM MQ docs, "MQCIH - CICS bridge header").

    Its Encoding and CodedCharSetId are reserved.
    """

    encoding: Long = 0
    coded_char_set_id: Long = 0
    format: Char8[T] = BLANK
    flags: Long = 0
    return_code: Long = 0
    comp_code: Long = 0
    reason: Long = 0
    uow_control: Long = 273
    get_wait_interval: Long = -2
    link_type: Long = 1
    output_data_length: Long = -1
    facility_keep_time: Long = 0
    ads_descriptor: Long = 0
    conversational_task: Long = 0
    task_end_status: Long = 0
    facility: Byte8 = bytes(8)
    function: Char4[T] = BLANK
    abend_code: Char4[T] = BLANK
    authenticator: Char8[T] = BLANK
    reserved1: Char8[T] = BLANK
    reply_to_format: Char8[T] = BLANK
    remote_sys_id: Char4[T] = BLANK
    remote_trans_id: Char4[T] = BLANK
    transaction_id: Char4[T] = BLANK
    facility_like: Char4[T] = BLANK
    attention_id: Char4[T] = BLANK
    start_code: Char4[T] = BLANK
    cancel_code: Char4[T] = BLANK
    next_transaction_id: Char4[T] = BLANK
    reserved2: Char8[T] = BLANK
    reserved3: Char8[T] = BLANK


@dataclass
class MQCIH(MQCIH1[T], struc_id="CIH ", version=2):
    """The CICS bridge header of version 2."""

    cursor_position: Long = 0
    error_offset: Long = 0
    input_item: Long = 0
    reserved4: Long = 0


@dataclass
class MQIIH(Structure[T], struc_id="IIH ", version=1, has_struc_length=True):
    """The IMS information header (IBM MQ docs, "MQIIH - IMS information header").

    Its Encoding and CodedCharSetId are reserved.
    """

    encoding: Long = 0
    coded_char_set_id: Long = 0
    format: Char8[T] = BLANK
    flags: Long = 0
    l_term_override: Char8[T] = BLANK
    mfs_map_name: Char8[T] = BLANK
    reply_to_format: Char8[T] = BLANK
    authenticator: Char8[T] = BLANK
    tran_instance_id: Byte16 = bytes(16)
    tran_state: Char1[T] = BLANK
    commit_mode: Char1[T] = _SEND_AFTER_COMMIT
    security_scope: Char1[T] = _CHECK
    reserved: Char1[T] = BLANK


@dataclass
class MQTM(Structure[T], struc_id="TM  ", version=1):
    """The trigger message (IBM MQ docs, "MQTM - Trigger message"); nothing follows it."""

    q_name: Char48[T] = BLANK
    process_name: Char48[T] = BLANK
    trigger_data: Char64[T] = BLANK
    appl_type: Long = 0
    appl_id: Char256[T] = BLANK
    env_data: Char128[T] = BLANK
    user_data: Char128[T] = BLANK
