"""Describe a message by its headers: its class, the chain of headers, and problems.

Each header states the Format, Encoding and CCSID of the next one; the MQMD states those of the
first header. The chain ends at a Format that names no supported header, at an invalid header, or at
a limit. The bytes after its end are payload, which is never read.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from mqdlq.errors import MalformedHeaderError
from mqdlq.headers.ccsid import SPECIAL_CCSIDS, UTF_16, Family, following_ccsid, text_codec
from mqdlq.headers.records import (
    DLH_LENGTH,
    NAME_VALUE_BYTES_READ,
    XQH_LENGTH,
    CicsHeader,
    CicsHeader1,
    DeadLetterHeader,
    ImsHeader,
    MeasuredRecord,
    MessageDescriptorExtension,
    Record,
    RulesHeader,
    RulesHeader2,
    TooManyFoldersError,
    TransmissionQueueHeader,
    TriggerMessage,
    kind_of_version,
)
from mqdlq.headers.representation import ByteOrder, header_codec, integer_order, parse_gmt
from mqdlq.model import MessageClass

HEADERS_READ: Final = 100
"""The number of headers that are read after an MQDLH; further headers are payload."""
AMS_HEADER: Final = "PDMQ"
_IDENTITY_LENGTH: Final = 8  # StrucId and Version
_AMS_STRUC_IDS: Final = {b"PDMQ", "PDMQ".encode("cp500")}

_KINDS: Final[dict[str, tuple[type[Record], ...]]] = {
    "MQDEAD": (DeadLetterHeader,),
    "MQHMDE": (MessageDescriptorExtension,),
    "MQIMS": (ImsHeader,),
    "MQTRIG": (TriggerMessage,),
    "MQXMIT": (TransmissionQueueHeader,),
    "MQHRF": (RulesHeader,),
    "MQHRF2": (RulesHeader2,),
    "MQCICS": (CicsHeader1, CicsHeader),
}
"""By Format: the header that begins there, in each of its versions."""

HEADER_OF_FORMAT: Final = {name: kinds[-1].structure for name, kinds in _KINDS.items()}
"""By Format: the structure of the header that a message with this Format begins with."""


@dataclass(frozen=True, slots=True)
class ChainedHeader:
    """A header with its offset and length in bytes, and the Encoding and CCSID of its fields.

    `record` is None for the header of Advanced Message Security (`structure` PDMQ), which IBM does
    not document: it is recognised, but it stays a part of the payload.
    """

    structure: str
    offset: int
    length: int
    encoding: int
    ccsid: int
    record: Record | None


Following = tuple[int, int, str]
"""A header's description of the bytes after it: their Encoding, CCSID and Format."""


@dataclass(frozen=True, slots=True)
class Chain:
    """The headers in order, the offset of the payload in bytes, and a problem, or "" without one.

    The chain `is_whole` unless it ends before a header that cannot be read. `following` has the
    Encoding, the CCSID and the Format of the payload, as far as they are known.
    """

    headers: tuple[ChainedHeader, ...]
    payload_offset: int
    problem: str = ""
    is_whole: bool = True
    following: Following | None = None

    @property
    def ams_protected(self) -> bool:
        return any(header.record is None for header in self.headers)

    @property
    def rules_headers(self) -> list[RulesHeader2] | None:
        """The MQRFH2 headers with their folders, None if not all headers and folders were read."""
        found = []
        for header in self.headers:
            if isinstance(header.record, RulesHeader2):
                if header.length > RulesHeader2.length and not header.record.folders:
                    return None
                found.append(header.record)
        return found if self.is_whole else None


@dataclass(frozen=True, slots=True)
class Description(Chain):
    """The description of a message by its headers.

    If `cls` is DEAD_LETTER, `headers` begins with the MQDLH, otherwise with the header that
    MQMD.Format names.
    """

    cls: MessageClass = MessageClass.NO_DLH
    dlh: DeadLetterHeader | None = None


class _ChainEndsError(Exception):
    """A header is not parsed although it may be valid; the text says why."""


_Look = Callable[[int], bytes]
"""Returns as many bytes from the header's offset on, or fewer if the message ends before."""


def walk(
    body: bytes,
    total_length: int,
    *,
    encoding: int,
    ccsid: int,
    format: str,  # noqa: A002 - the Format stated before the first header
    offset: int = 0,
) -> Chain:
    """Follow the chain from `offset` on; never fails.

    `body` is the available beginning of the message. If it ends within a header of a longer
    message, the chain ends before that header and `problem` says so. For an MQRFH or MQRFH2 the
    fixed part is enough, and its StrucLength is trusted; this also applies if its name/value data
    exceeds a limit.
    """
    headers: list[ChainedHeader] = []
    beyond = ""  # the first limit that a header exceeds
    following: Following | None = (encoding, ccsid, format)

    def look(length: int) -> bytes:
        if len(headers) == HEADERS_READ:
            raise _ChainEndsError(
                f"{HEADERS_READ} headers were read, which is the limit;"
                f" from offset {offset} on all is payload"
            )
        data = body[offset : offset + length]
        if len(data) < min(length, total_length - offset):
            seen = f"only the first {len(body)} bytes of the message were looked at"
            raise _ChainEndsError(seen)
        return data

    while following and (kinds := _KINDS.get(following[2].rstrip(" \0"))):
        encoding, ccsid, _ = following
        structure = kinds[-1].structure
        try:
            length, record, problem = _read(kinds, look, total_length - offset, encoding, ccsid)
        except (MalformedHeaderError, _ChainEndsError) as end:
            problem = beyond + _problem_text(end, structure, offset)
            return Chain(tuple(headers), offset, problem, is_whole=False, following=following)
        if problem and not beyond:
            beyond = f"{structure} at offset {offset}: {problem}; "
        headers.append(ChainedHeader(structure, offset, length, encoding, ccsid, record))
        following = _following(record, encoding, ccsid)
        offset += length
    if body[offset : offset + 4] in _AMS_STRUC_IDS:
        encoding, ccsid, _ = following or (encoding, ccsid, format)
        headers.append(ChainedHeader(AMS_HEADER, offset, 0, encoding, ccsid, None))
    return Chain(tuple(headers), offset, beyond.removesuffix("; "), following=following)


def _read(
    kinds: tuple[type[Record], ...], look: _Look, available: int, encoding: int, ccsid: int
) -> tuple[int, Record, str]:
    """Return the length of a header, its record, and the limit that it exceeds, or ""."""
    kind = kinds[-1]
    if len(kinds) > 1:
        kind = kind_of_version(kinds, look(_IDENTITY_LENGTH), encoding)
    if not issubclass(kind, MeasuredRecord):
        length = XQH_LENGTH if kind is TransmissionQueueHeader else kind.length
        return length, kind.decode(look(length), encoding=encoding, ccsid=ccsid), ""
    start = look(kind.length)
    fixed = kind.decode_fixed_part(start, encoding=encoding, ccsid=ccsid)
    length = kind.measure(start, encoding=encoding, available=available)
    data = length - kind.length
    if data > NAME_VALUE_BYTES_READ:
        limit = f"more than the limit of {NAME_VALUE_BYTES_READ}"
        return length, fixed, f"its {data} bytes of name/value data, {limit}, are not read"
    try:
        return length, kind.decode(look(length), encoding=encoding, ccsid=ccsid), ""
    except _ChainEndsError:
        return length, fixed, ""
    except TooManyFoldersError as error:
        return length, fixed, f"its folders are not read, there are {error.found}"


def _problem_text(end: Exception, structure: str, offset: int) -> str:
    if not isinstance(end, MalformedHeaderError):
        return f"{structure} at offset {offset}: {end}"
    at = MalformedHeaderError(end.structure, offset + end.offset, end.expected, end.found)
    return f"{at}; from offset {offset} on all is payload"


def _following(record: Record, encoding: int, ccsid: int) -> Following | None:
    """Return a header's description of the bytes after it, or None if nothing follows."""
    if isinstance(record, TriggerMessage):
        return None
    if isinstance(record, CicsHeader1 | CicsHeader | ImsHeader):
        # Their Encoding and CodedCharSetId are reserved: what follows is as they are themselves
        # (IBM MQ docs, "MQCIH - CICS bridge header", "MQIIH - IMS information header").
        return encoding, ccsid, record.format
    says: Any = record.msg_desc if isinstance(record, TransmissionQueueHeader) else record
    return says.encoding, following_ccsid(says.coded_char_set_id, ccsid), says.format


SEGMENT: Final = 2 | 4  # MQMF_SEGMENT, MQMF_LAST_SEGMENT
_GROUP: Final = 8 | 16  # MQMF_MSG_IN_GROUP, MQMF_LAST_MSG_IN_GROUP


def describe(
    body: bytes,
    total_length: int,
    *,
    encoding: int,
    ccsid: int,
    format: str,  # noqa: A002 - MQMD.Format
    msg_flags: int = 0,
) -> Description:
    """Classify a message and follow its chain of headers.

    `encoding`, `ccsid`, `format` and `msg_flags` are those of the MQMD. An invalid header after an
    MQDLH does not change the class: `problem` names it, and the payload begins with it. `body` must
    have at least the first min(172, total_length) bytes, else `MalformedHeaderError` is raised; if
    it is not the whole message, the chain is followed as far as possible.

    >>> from mqdlq.headers import DeadLetterHeader
    >>> header = DeadLetterHeader(2053, "PAYMENTS", "QM1", 546, 1208, "MQSTR")
    >>> body = header.encode(encoding=546, ccsid=819) + b"hello"
    >>> found = describe(body, len(body), encoding=546, ccsid=819, format="MQDEAD")
    >>> found.cls, found.dlh.dest_q_name, body[found.payload_offset :]
    (<MessageClass.DEAD_LETTER: 'dead_letter'>, 'PAYMENTS', b'hello')
    >>> describe(b"hello", 5, encoding=546, ccsid=819, format="MQSTR").cls
    <MessageClass.NO_DLH: 'no_dlh'>
    """
    cls, problem, dlh = classify(body, total_length, encoding=encoding, ccsid=ccsid, format=format)
    headers: tuple[ChainedHeader, ...] = ()
    if dlh is not None:
        headers = (ChainedHeader("MQDLH", 0, DLH_LENGTH, encoding, ccsid, dlh),)
        chain = walk(
            body,
            total_length,
            encoding=dlh.encoding,
            ccsid=following_ccsid(dlh.coded_char_set_id, ccsid),
            format=dlh.format,
            offset=DLH_LENGTH,
        )
    elif cls is MessageClass.NO_DLH and not _is_mqdead(format):
        chain = walk(body, total_length, encoding=encoding, ccsid=ccsid, format=format)
    else:
        chain = Chain((), 0)
    parts = (problem, chain.problem, *_flag_notes(msg_flags, chain.headers))
    return Description(
        headers + chain.headers,
        chain.payload_offset,
        "; ".join(filter(None, parts)),
        chain.is_whole,
        chain.following,
        cls,
        dlh,
    )


def _flag_notes(msg_flags: int, headers: tuple[ChainedHeader, ...]) -> Iterator[str]:
    """Return notes on segments and group members, each of which is handled as one message."""
    for header in headers:
        if isinstance(header.record, MessageDescriptorExtension):
            msg_flags |= header.record.msg_flags
    if msg_flags & SEGMENT:
        yield "a segment of a logical message"
    if msg_flags & _GROUP:
        yield "a message of a group"


# Classify a message on a dead-letter queue by its first bytes.

MQFMT_DEAD_LETTER_HEADER: Final = "MQDEAD"
STRUC_IDS: Final = {
    DeadLetterHeader.struc_id.encode("ascii"): Family.ASCII,
    DeadLetterHeader.struc_id.encode("cp500"): Family.EBCDIC,
}
_VERSION: Final = DeadLetterHeader.layout["version"].place
_UNREMARKABLE: Final = SPECIAL_CCSIDS | UTF_16
_Class = tuple[MessageClass, str, DeadLetterHeader | None]
"""A message's class, with a problem ("" without one) and its MQDLH (None without one)."""


def require_prefix(prefix: bytes, needed: int) -> None:
    """Raise `MalformedHeaderError` unless the first `needed` bytes of a message are there."""
    if len(prefix) < needed:
        expected = f"the first {needed} bytes of the message"
        raise MalformedHeaderError("MQDLH", len(prefix), expected, f"{len(prefix)}")


def classify(
    body_prefix: bytes,
    total_length: int,
    *,
    encoding: int,
    ccsid: int,
    format: str,  # noqa: A002 - MQMD.Format
) -> _Class:
    """Classify a message. `encoding`, `ccsid` and `format` are those of its MQMD.

    Like IBM's handler, this accepts an MQDLH with StrucId `DLH `, Version 1 and at least 172
    bytes, whatever MQMD.Format is. `body_prefix` must have at least the first
    min(172, total_length) bytes, else `MalformedHeaderError` is raised.
    """
    prefix = body_prefix[:DLH_LENGTH]
    require_prefix(prefix, min(DLH_LENGTH, total_length))
    if prefix[:4] not in STRUC_IDS:
        because = ", although MQMD.Format is MQDEAD" if _is_mqdead(format) else ""
        return MessageClass.NO_DLH, f"no MQDLH{because}", None
    undecodable = _undecodable(prefix, ccsid)
    if undecodable:
        return MessageClass.UNDECODABLE, undecodable, None
    if total_length < DLH_LENGTH:
        problem = f"MQDLH needs {DLH_LENGTH} bytes, the message has {total_length}"
        return MessageClass.TRUNCATED_DLH, problem, None
    return _by_version(prefix, encoding, ccsid, format)


def _undecodable(prefix: bytes, ccsid: int) -> str:
    """Return why text cannot be decoded with the MQMD's CCSID, or "" if it can."""
    family = STRUC_IDS[prefix[:4]]
    codec = header_codec(ccsid, family)
    if codec is None:
        return f"MQMD.CodedCharSetId {ccsid} is not a CCSID known here for headers"
    if codec.family is not family:
        return f"StrucId is {family}, but MQMD.CodedCharSetId {ccsid} is {codec.family}"
    return ""


def _by_version(prefix: bytes, encoding: int, ccsid: int, md_format: str) -> _Class:
    order = integer_order(encoding)
    if order is None:
        problem = f"MQMD.Encoding {encoding} states no byte order for integers"
        return MessageClass.UNDECODABLE, problem, None
    version = order.integer(prefix[_VERSION])
    if version != DeadLetterHeader.version:
        other = ByteOrder.LITTLE if order is ByteOrder.BIG else ByteOrder.BIG
        swapped = other.integer(prefix[_VERSION]) == DeadLetterHeader.version
        hint = ", it would be 1 in the other byte order" if swapped else ""
        problem = f"MQDLH.Version is {version} in MQMD.Encoding {encoding}{hint}; only 1 exists"
        return MessageClass.UNSUPPORTED_DLH_VERSION, problem, None
    dlh = DeadLetterHeader.decode(prefix, encoding=encoding, ccsid=ccsid)
    problem = "; ".join(_notes(dlh, ccsid, md_format))
    return MessageClass.DEAD_LETTER, problem, dlh


def _notes(dlh: DeadLetterHeader, ccsid: int, md_format: str) -> Iterator[str]:
    if not _is_mqdead(md_format):
        yield f"MQMD.Format is {md_format!r}, not MQDEAD"
    if ccsid in SPECIAL_CCSIDS:
        yield f"MQMD.CodedCharSetId {ccsid} names no code page; the MQDLH was read by its StrucId"
    if parse_gmt(dlh.put_date, dlh.put_time) is None:
        yield (
            f"MQDLH.PutDate {dlh.put_date!r} and PutTime {dlh.put_time!r} are not a date and time "
            "(YYYYMMDD, HHMMSSTH)"
        )
    following = dlh.coded_char_set_id
    if following not in _UNREMARKABLE and text_codec(following) is None:
        yield f"MQDLH.CodedCharSetId {dlh.coded_char_set_id} is not a CCSID known here"


def _is_mqdead(md_format: str) -> bool:
    return md_format.rstrip(" \0") == MQFMT_DEAD_LETTER_HEADER
