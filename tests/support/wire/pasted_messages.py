"""Messages in the output formats of amqsbcg and dmpmqmsg."""

from __future__ import annotations

from collections.abc import Iterable

from mqdlq.headers import MessageDescriptor

Message = tuple[MessageDescriptor, bytes]


def print_amqsbcg(messages: Iterable[Message], queue: str = "SYSTEM.DEAD.LETTER.QUEUE") -> str:
    """Return messages as amqsbcg of IBM MQ 9 prints them."""
    lines = ["", "AMQSBCG0 - starts here", "**********************", " ", f" MQOPEN - '{queue}'"]
    for number, (md, body) in enumerate(messages, start=1):
        lines += [" ", " ", f" MQGET of message number {number}, CompCode:0 Reason:0"]
        lines += [*_descriptor(md), "", "****   Message      ****", " "]
        lines += [f" length - {len(body)} of {len(body)} bytes", " ", *_dump(body), " "]
    return "\n".join([*lines, " No more messages ", " MQCLOSE", " MQDISC", ""])


def _descriptor(md: MessageDescriptor) -> list[str]:
    return [
        "****Message descriptor****",
        "",
        "  StrucId  : 'MD  '  Version : 2",
        f"  Report   : {md.report}  MsgType : {md.msg_type}",
        f"  Expiry   : {md.expiry}  Feedback : {md.feedback}",
        f"  Encoding : {md.encoding}  CodedCharSetId : {md.coded_char_set_id}",
        f"  Format : '{md.format:<8}'",
        f"  Priority : {md.priority}  Persistence : {md.persistence}",
        f"  MsgId : X'{md.msg_id.hex().upper()}'",
        f"  CorrelId : X'{md.correl_id.hex().upper()}'",
        f"  BackoutCount : {md.backout_count}",
        f"  ReplyToQ       : '{md.reply_to_q:<48}'",
        f"  ReplyToQMgr    : '{md.reply_to_q_mgr:<48}'",
        "  ** Identity Context",
        f"  UserIdentifier : '{md.user_identifier:<12}'",
        "  AccountingToken :",
        f"   X'{md.accounting_token.hex().upper()}'",
        f"  ApplIdentityData : '{md.appl_identity_data:<32}'",
        "  ** Origin Context",
        f"  PutApplType    : '{md.put_appl_type}'",
        f"  PutApplName    : '{md.put_appl_name:<28}'",
        f"  PutDate  : '{md.put_date:<8}'    PutTime  : '{md.put_time:<8}'",
        f"  ApplOriginData : '{md.appl_origin_data:<4}'",
        "",
        f"  GroupId : X'{md.group_id.hex().upper()}'",
        f"  MsgSeqNumber   : '{md.msg_seq_number}'",
        f"  Offset         : '{md.offset}'",
        f"  MsgFlags       : '{md.msg_flags}'",
        f"  OriginalLength : '{md.original_length}'",
    ]


def _dump(body: bytes) -> list[str]:
    lines = []
    for start in range(0, len(body), 16):
        data = body[start : start + 16]
        characters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data)
        lines.append(f"{start:08X}:  {data.hex(' ', -2).upper():<39} '{characters:<16}'")
    return lines


def print_dmpmqmsg(messages: Iterable[Message], queue: str = "SYSTEM.DEAD.LETTER.QUEUE") -> str:
    """Return messages as dmpmqmsg writes them to a file, 25 bytes a line."""
    lines = [
        "* Queue Load and Unload",
        "* Queue Manager Name: QM1",
        f"* Queue             : {queue}",
    ]
    for md, body in messages:
        lines += ["", *_attributes(md)]
        lines += [
            f"X {body[start : start + 25].hex().upper()}" for start in range(0, len(body), 25)
        ]
    return "\n".join([*lines, ""])


def _attributes(md: MessageDescriptor) -> list[str]:
    return [
        "A VER 2",
        f"A RPT {md.report}",
        f"A MST {md.msg_type}",
        f"A EXP {md.expiry}",
        f"A FDB {md.feedback}",
        f"A ENC {md.encoding}",
        f"A CCS {md.coded_char_set_id}",
        f"A FMT {md.format:<8}",
        f"A PRI {md.priority}",
        f"A PER {md.persistence}",
        f"A MSI {md.msg_id.hex().upper()}",
        f"A COI {md.correl_id.hex().upper()}",
        f"A BOC {md.backout_count}",
        f"A RTQ {md.reply_to_q:<48}",
        f"A RTM {md.reply_to_q_mgr:<48}",
        f"A USR {md.user_identifier:<12}",
        f"A ACC {md.accounting_token.hex().upper()}",
        f"A AIX {md.appl_identity_data:<32}",
        f"A PAT {md.put_appl_type}",
        f"A PAN {md.put_appl_name:<28}",
        f"A PTD {md.put_date:<8}",
        f"A PTT {md.put_time:<8}",
        f"A AOX {md.appl_origin_data:<4}",
        f"A GRP {md.group_id.hex().upper()}",
        f"A MSQ {md.msg_seq_number}",
        f"A OFF {md.offset}",
        f"A MSF {md.msg_flags}",
        f"A ORL {md.original_length}",
    ]
