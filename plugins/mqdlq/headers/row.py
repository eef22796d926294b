"""Convert a browsed message into a row of a snapshot, and identify it."""

from datetime import datetime
from hashlib import sha256
from operator import attrgetter
from typing import Final

from mqdlq.errors import MalformedHeaderError
from mqdlq.headers.ccsid import replace_undecodable
from mqdlq.headers.chain import (
    MQFMT_DEAD_LETTER_HEADER,
    STRUC_IDS,
    Description,
    describe,
    require_prefix,
)
from mqdlq.headers.records import (
    DLH_LENGTH,
    MD_LENGTH,
    XQH_LENGTH,
    MessageDescriptor,
    RulesHeader2,
)
from mqdlq.headers.representation import expires_at, parse_gmt
from mqdlq.structures import MQDLH, MQMD, MQMDE, MQRFH2

PREFIX_LENGTH: Final = DLH_LENGTH + XQH_LENGTH + MQMDE.length + MQRFH2.length
"""The number of body bytes that `header_row` reads: enough for the longest common chain."""

COLUMNS: Final = {
    "browse_seq": "int64",
    "message_key": "bytes",
    "class": "text",
    "problem": "text",
    **{field.name: field.kind.value for field in MQMD.fields},
    **{f"dlh_{field.name}": field.kind.value for field in MQDLH.fields},
    "header_chain": "texts",
    "payload_offset": "long",
    "total_length": "long",
    "ams_protected": "bool",
    "maybe_truncated": "bool",
    **dict.fromkeys(("expires_at", "put_at", "dead_lettered_at", "browsed_at"), "time"),
    "chain_is_whole": "bool",
    "expires_before_next_pass": "bool",
    "came_from_backout": "bool",
    "dest_backout_threshold": "long",
    "dest_backout_requeue_q": "text",
    "attempts_made": "long",
    "properties_met": "texts",
    "properties_unmet": "texts",
}
"""The columns of a snapshot, in their order, and the kind of their values."""

_MD_COLUMNS: Final = tuple(field.name for field in MQMD.fields)
_md_values: Final = attrgetter(*_MD_COLUMNS)
_DLH_COLUMNS: Final = tuple(f"dlh_{field.name}" for field in MQDLH.fields)
_dlh_values: Final = attrgetter(*(field.name for field in MQDLH.fields))
_NO_DLH_COLUMNS: Final[dict[str, object]] = dict.fromkeys(_DLH_COLUMNS)


def header_row(
    browse_seq: int,
    descriptor: bytes,
    body_prefix: bytes,
    total_length: int,
    *,
    browsed_at: datetime,
    maybe_truncated: bool = False,
    ccsid: int = 1208,
) -> dict[str, object]:
    """Return one message under the column names of the snapshot's `headers`.

    `descriptor` is the packed MQMD, `body_prefix` the first `PREFIX_LENGTH` bytes or fewer if the
    message is shorter, `ccsid` the CCSID of the connection. Raises `MalformedHeaderError`.
    """
    md = MessageDescriptor.decode(descriptor, ccsid=ccsid)
    found = describe(body_prefix, total_length, **md.following, msg_flags=md.msg_flags)
    dlh = found.dlh
    row: dict[str, object] = {
        "browse_seq": browse_seq,
        "message_key": message_key(descriptor, total_length, body_prefix),
        "class": found.cls.value,
        "problem": found.problem,
        **dict(zip(_MD_COLUMNS, _md_values(md), strict=True)),
        **(dict(zip(_DLH_COLUMNS, _dlh_values(dlh), strict=True)) if dlh else _NO_DLH_COLUMNS),
        "header_chain": [header.structure for header in found.headers],
        "payload_offset": found.payload_offset,
        "total_length": total_length,
        "ams_protected": found.ams_protected,
        "maybe_truncated": maybe_truncated,
        "expires_at": expires_at(md.expiry, browsed_at),
        "put_at": parse_gmt(md.put_date, md.put_time),
        "dead_lettered_at": parse_gmt(dlh.put_date, dlh.put_time) if dlh else None,
        "browsed_at": browsed_at,
        "chain_is_whole": found.is_whole,
    }
    return {
        name: replace_undecodable(value) if isinstance(value, str) else value
        for name, value in row.items()
    }


def describe_browsed(
    descriptor: bytes, body_prefix: bytes, total_length: int
) -> Description | None:
    """Return the headers of a message as far as they were browsed, None if they cannot be read."""
    md = MessageDescriptor.decode(descriptor)
    try:
        return describe(body_prefix, total_length, **md.following)
    except MalformedHeaderError:
        return None


def read_rules_headers(
    descriptor: bytes, body_prefix: bytes, total_length: int
) -> list[RulesHeader2] | None:
    """Return the MQRFH2s of a message, None if its headers cannot all be read."""
    found = describe_browsed(descriptor, body_prefix, total_length)
    return None if found is None else found.rules_headers


# Identify a message by a SHA-256 digest of its descriptor and its first bytes.

_EXPIRY: Final = MQMD.slice_of("expiry")
_BACKOUT_COUNT: Final = MQMD.slice_of("backout_count")
_ZERO: Final = bytes(4)


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
    steady[_EXPIRY] = steady[_BACKOUT_COUNT] = _ZERO
    length = total_length.to_bytes(8, "big")
    return sha256(b"".join((steady, length, body_prefix[:needed]))).digest()


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
