"""Read the MQMDE of a message that is put, and write MQMDEs for messages with a version 1 MQMD.

IBM MQ docs, "MQMDE - Message descriptor extension": "MQMDE specified on MQPUT and MQPUT1 calls",
"MQMDE returned by MQGET call", "MQMDE in messages on transmission queues".
"""

from embedded_mq import mqi_constants as mq
from embedded_mq.engine.failures import CallFailedError
from embedded_mq.headers.mq_headers import MQFMT_MD_EXTENSION
from embedded_mq.headers.rfh2 import DESCRIPTION, Description
from embedded_mq.structures import MQDLH, MQMD, MQMDE

_DESCRIBED = MQDLH.slice_of("encoding", "format")


def _fields(md: MQMD | MQMDE) -> tuple[bytes, int, int, int, int]:
    return md.group_id, md.msg_seq_number, md.offset, md.msg_flags, md.original_length


DEFAULTS = _fields(MQMDE())


def has_defaults(md: MQMD | MQMDE) -> bool:
    """Return whether the fields that only a version 2 MQMD has have their defaults."""
    return _fields(md) == DEFAULTS


def set_defaults(md: MQMD) -> None:
    """Set the fields that only a version 2 MQMD has to their defaults."""
    _set(md, DEFAULTS)


def _set(md: MQMD, values: tuple[bytes, int, int, int, int]) -> None:
    md.group_id, md.msg_seq_number, md.offset, md.msg_flags, md.original_length = values


def find_extension(md: MQMD, body: bytes, ccsid: int) -> MQMDE | None:
    """Return the MQMDE at the beginning of a message that is put; None if it is message data.

    It is data if its character set or encoding is not the queue manager's, and if its version is
    not known. Raises CallFailedError (MQRC_MDE_ERROR) for an invalid MQMDE.
    """
    is_ours = (md.encoding, md.coded_char_set_id) == (mq.MQENC_NATIVE, ccsid)
    if md.format != MQFMT_MD_EXTENSION or not is_ours:
        return None
    if len(body) < MQMDE.length:
        raise CallFailedError("MQRC_MDE_ERROR")
    mde = MQMDE.unpack(body[: MQMDE.length])
    if mde.struc_id == MQMDE.struc_id and mde.version > MQMDE.version:
        return None
    if (mde.struc_id, mde.version, mde.struc_length) != (
        MQMDE.struc_id,
        MQMDE.version,
        MQMDE.length,
    ):
        raise CallFailedError("MQRC_MDE_ERROR")
    if mde.coded_char_set_id < 1 and mde.coded_char_set_id != mq.MQCCSI_INHERIT:
        raise CallFailedError("MQRC_MDE_ERROR")
    return mde


def apply_extension(md: MQMD, mde: MQMDE, ccsid: int) -> None:
    """Copy the fields of an MQMDE into the message's MQMD, which then describes the data."""
    _set(md, _fields(mde))
    md.version = mq.MQMD_VERSION_2
    md.encoding, md.format = mde.encoding, mde.format
    inherits = mde.coded_char_set_id == mq.MQCCSI_INHERIT
    md.coded_char_set_id = ccsid if inherits else mde.coded_char_set_id


def make_extension(md: MQMD, ccsid: int) -> bytes:
    """Return an MQMDE with the fields of an MQMD, which then describes the MQMDE."""
    described = Description(md.encoding, md.coded_char_set_id, md.format)
    md.encoding, md.coded_char_set_id = mq.MQENC_NATIVE, ccsid
    md.format = MQFMT_MD_EXTENSION
    return _pack_extension(md, described)


def insert_after_dead_letter_header(md: MQMD, body: bytes, ccsid: int) -> bytes:
    """Return a dead letter with an MQMDE after its MQDLH, and set the MQMD's fields to defaults.

    A queue manager stores a segment with an MQDLH like this (IBM MQ docs, "MQMDE specified on MQPUT
    and MQPUT1 calls"). A body without an MQDLH at its beginning is returned unchanged.
    """
    if not body.startswith(b"DLH ") or len(body) < MQDLH.length:
        return body
    order = Description(md.encoding, md.coded_char_set_id, md.format).order
    described = Description(*DESCRIPTION[order].unpack(body[_DESCRIBED]))
    header = bytearray(body[: MQDLH.length])
    own = Description(mq.MQENC_NATIVE, ccsid, MQFMT_MD_EXTENSION)
    header[_DESCRIBED] = own.packed(order)
    extension = _pack_extension(md, described)
    set_defaults(md)
    return bytes(header) + extension + body[MQDLH.length :]


def _pack_extension(md: MQMD, described: Description) -> bytes:
    return MQMDE(
        described.encoding,
        described.coded_char_set_id,
        described.format,
        0,
        *_fields(md),
    ).pack()
