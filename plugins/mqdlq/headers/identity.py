"""Identify a message by a SHA-256 digest of its descriptor and its first bytes."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from mqdlq.errors import MalformedHeaderError
from mqdlq.headers.message_description import MQFMT_DEAD_LETTER_HEADER, STRUC_IDS, require_prefix
from mqdlq.headers.records import DLH_LENGTH, MD_LENGTH
from mqdlq.headers.representation import parse_gmt
from mqdlq.structures import MQDLH, MQMD

_EXPIRY: Final = MQMD.slice_of("expiry")
_BACKOUT_COUNT: Final = MQMD.slice_of("backout_count")


def _require_descriptor(descriptor: bytes) -> None:
    if len(descriptor) != MD_LENGTH:
        raise MalformedHeaderError("MQMD", 0, f"{MD_LENGTH} bytes", f"{len(descriptor)}")


def message_key(descriptor: bytes, total_length: int, body_prefix: bytes) -> bytes:
    """Return the digest of the parts of a message that neither time nor a backout changes.

    SHA-256 over the packed MQMD with Expiry and BackoutCount zeroed, the total length (8 bytes,
    big-endian) and the first min(172, total_length) bytes, got without conversion. Equal messages
    have equal keys. Raises `MalformedHeaderError` for any other length of descriptor or prefix.
    """
    _require_descriptor(descriptor)
    needed = min(DLH_LENGTH, total_length)
    require_prefix(body_prefix, needed)
    steady = bytearray(descriptor)
    steady[_EXPIRY] = steady[_BACKOUT_COUNT] = bytes(4)
    digest = sha256(steady)
    digest.update(total_length.to_bytes(8, "big"))
    digest.update(body_prefix[:needed])
    return digest.digest()


# Identify a message by what stays the same when it is delivered and becomes a dead letter again.
#
# A queue manager, a message channel agent or an application that moves a message on keeps its
# identifiers, its context (with MQPMO_SET_ALL_CONTEXT or MQPMO_PASS_ALL_CONTEXT) and its data (IBM
# MQ docs, "Message context", "MQMD - Message descriptor"). It writes a new MQDLH, and changes
# Format, Encoding, CodedCharSetId, Expiry, BackoutCount and the like, which therefore do not count.

IDENTITY_PREFIX: Final = 8192
"""How many bytes of a body `message_identity` reads at most."""

_PAYLOAD: Final = 4096
"""How many bytes of the data behind the MQDLH count."""
_KEPT: Final = (
    MQMD.slice_of("msg_id", "correl_id"),
    MQMD.slice_of("user_identifier"),
    MQMD.slice_of("put_appl_type", "put_time"),
    MQMD.slice_of("group_id", "offset"),
)
_PUT_DATE: Final = MQMD.slice_of("put_date")
_PUT_TIME: Final = MQMD.slice_of("put_time")
_FORMAT: Final = MQDLH.slice_of("format")
_IS_DEAD_LETTER: Final = {
    MQFMT_DEAD_LETTER_HEADER.ljust(8).encode(codec) for codec in ("ascii", "cp500")
}


def message_identity(descriptor: bytes, total_length: int, body_prefix: bytes) -> bytes | None:
    """Return a digest that a message keeps over round trips, or None if it has none.

    SHA-256 over MsgId, CorrelId, UserIdentifier, PutApplType, PutApplName, PutDate, PutTime,
    GroupId, MsgSeqNumber and Offset of the packed MQMD, and over the length and the first 4096
    bytes of the data behind the MQDLH. If MQDLHs follow one another, the data are behind the last.

    `body_prefix` is the first min(8192, total_length) bytes. A message has no identity if PutDate
    and PutTime are not a date and time, as with MQPMO_NO_CONTEXT, or if so many MQDLHs follow one
    another that the data are behind these bytes. Raises `MalformedHeaderError` for any other length
    of descriptor or prefix.
    """
    _require_descriptor(descriptor)
    require_prefix(body_prefix, min(IDENTITY_PREFIX, total_length))
    date, time = (descriptor[place].decode("latin-1") for place in (_PUT_DATE, _PUT_TIME))
    start = _find_payload(body_prefix, total_length)
    if parse_gmt(date, time) is None or min(start + _PAYLOAD, total_length) > len(body_prefix):
        return None
    digest = sha256()
    for part in _KEPT:
        digest.update(descriptor[part])
    digest.update((total_length - start).to_bytes(8, "big"))
    digest.update(body_prefix[start : start + _PAYLOAD])
    return digest.digest()


def _find_payload(body: bytes, total_length: int) -> int:
    """Return where the data begin behind the MQDLHs; their fields are not checked."""
    start, is_header = 0, True
    while is_header and body[start : start + 4] in STRUC_IDS and start + DLH_LENGTH <= total_length:
        header = body[start : start + DLH_LENGTH]
        is_header = header[_FORMAT] in _IS_DEAD_LETTER
        start += DLH_LENGTH
    return start
