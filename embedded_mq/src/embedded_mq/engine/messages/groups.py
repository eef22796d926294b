"""Check and complete the group and segment fields of a message that is put.

IBM MQ docs, the fields "GroupId", "MsgSeqNumber", "Offset", "MsgFlags" and "OriginalLength" of
MQMD, and "Structure of the message-flags field".
"""

from embedded_mq import mqi_constants as mq
from embedded_mq.engine.connection import Connection, ResolvedQueue
from embedded_mq.engine.failures import CallFailedError
from embedded_mq.headers import mqmde
from embedded_mq.headers.mq_headers import (
    MQFMT_DEAD_LETTER_HEADER,
    MQFMT_MD_EXTENSION,
    length_of_headers,
)
from embedded_mq.headers.rfh2 import Description
from embedded_mq.structures import MQMD, MQMDE

SEGMENTS = mq.MQMF_SEGMENT | mq.MQMF_LAST_SEGMENT
IN_GROUP = mq.MQMF_MSG_IN_GROUP | mq.MQMF_LAST_MSG_IN_GROUP
KNOWN_FLAGS = mq.MQMF_SEGMENTATION_ALLOWED | SEGMENTS | IN_GROUP
IMPLIED = {
    mq.MQMF_LAST_SEGMENT: mq.MQMF_SEGMENT,
    mq.MQMF_LAST_MSG_IN_GROUP: mq.MQMF_MSG_IN_GROUP,
}
LARGEST = 999_999_999


def prepare_group_fields(
    connection: Connection, resolved: ResolvedQueue, md: MQMD, body: bytes
) -> tuple[MQMD, bytes]:
    """Return the MQMD and the data to store for a message that is put.

    `md` is the caller's MQMD, which gets the fields that the queue manager fills in. Implied flags
    are set only in the stored MQMD, and an honoured MQMDE does not change the caller's MQMD.
    """
    if mqmde.has_defaults(md) and md.format != MQFMT_MD_EXTENSION:
        return md, body
    stored = md.copy()
    mde = mqmde.find_extension(md, body, resolved.ccsid)
    is_honoured = mde is not None and mqmde.has_defaults(md)
    if mde is not None:
        _check(mde, resolved)
        if is_honoured:
            mqmde.apply_extension(stored, mde, resolved.ccsid)
            body = body[MQMDE.length :]
    _check(stored, resolved)
    _complete(connection, stored, body)
    if md.version == mq.MQMD_VERSION_2 and not is_honoured:
        md.group_id, md.msg_seq_number, md.offset = (
            stored.group_id,
            stored.msg_seq_number,
            stored.offset,
        )
    if stored.msg_flags & SEGMENTS and stored.format == MQFMT_DEAD_LETTER_HEADER:
        body = mqmde.insert_after_dead_letter_header(stored, body, resolved.ccsid)
    return stored, body


def _check(fields: MQMD | MQMDE, resolved: ResolvedQueue) -> None:
    unknown = fields.msg_flags & ~KNOWN_FLAGS
    rejected = mq.MQMF_REJECT_UNSUP_MASK
    if resolved.remote is None:
        rejected |= mq.MQMF_ACCEPT_UNSUP_IF_XMIT_MASK
    if unknown & rejected:
        raise CallFailedError("MQRC_MSG_FLAGS_ERROR")
    if not 1 <= fields.msg_seq_number <= LARGEST:
        raise CallFailedError("MQRC_MSG_SEQ_NUMBER_ERROR")
    if not 0 <= fields.offset <= LARGEST:
        raise CallFailedError("MQRC_OFFSET_ERROR")


def _complete(connection: Connection, md: MQMD, body: bytes) -> None:
    """Set implied flags, and the fields that depend on the flags."""
    flags = md.msg_flags
    for flag, implied in IMPLIED.items():
        if flags & flag:
            md.msg_flags |= implied
    if not flags & KNOWN_FLAGS:
        md.group_id = mq.MQGI_NONE
    elif md.group_id == mq.MQGI_NONE:
        md.group_id = connection.new_id()
    if not flags & IN_GROUP:
        md.msg_seq_number = 1
    if flags & SEGMENTS:
        _complete_segment(md, body)
    else:
        md.offset, md.original_length = 0, mq.MQOL_UNDEFINED


def _complete_segment(md: MQMD, body: bytes) -> None:
    described = Description(md.encoding, md.coded_char_set_id, md.format)
    length = len(body) - length_of_headers(described, body)
    shortest = 0 if md.msg_flags & mq.MQMF_LAST_SEGMENT else 1
    if length < shortest:
        raise CallFailedError("MQRC_SEGMENT_LENGTH_ZERO")
    if md.msg_type != mq.MQMT_REPORT:
        md.original_length = length
    elif md.original_length < max(shortest, length):
        raise CallFailedError("MQRC_ORIGINAL_LENGTH_ERROR")


def group_statuses(flags: int) -> bytes:
    """Return GroupStatus, SegmentStatus and Segmentation as the MQGMO has them after a get."""
    group = b"L" if flags & mq.MQMF_LAST_MSG_IN_GROUP else b"G" if flags & IN_GROUP else b" "
    segment = b"L" if flags & mq.MQMF_LAST_SEGMENT else b"S" if flags & SEGMENTS else b" "
    return group + segment + (b"A" if flags & mq.MQMF_SEGMENTATION_ALLOWED else b" ")
