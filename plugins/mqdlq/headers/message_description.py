"""Describe a message by its headers: its class, the chain of headers, and problems."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mqdlq.errors import MalformedHeaderError
from mqdlq.headers.ccsid import SPECIAL_CCSIDS, UTF_16, Family, following_ccsid, text_codec
from mqdlq.headers.chain import Chain, ChainedHeader, walk
from mqdlq.headers.records import DLH_LENGTH, DeadLetterHeader, MessageDescriptorExtension
from mqdlq.headers.representation import ByteOrder, header_codec, integer_order, parse_gmt
from mqdlq.headers.rfh import RulesHeader2
from mqdlq.model import MessageClass

_SEGMENT: Final = 2 | 4  # MQMF_SEGMENT, MQMF_LAST_SEGMENT
_GROUP: Final = 8 | 16  # MQMF_MSG_IN_GROUP, MQMF_LAST_MSG_IN_GROUP


@dataclass(frozen=True, slots=True)
class Description:
    """The description of a message by its headers.

    If `cls` is DEAD_LETTER, `headers` begins with the MQDLH, otherwise with the header that
    MQMD.Format names. `problem` is "" without a problem. `payload_offset` is in bytes. The chain
    `is_whole` unless it ends before a header that cannot be read.
    """

    cls: MessageClass
    problem: str
    headers: tuple[ChainedHeader, ...]
    payload_offset: int
    dlh: DeadLetterHeader | None
    ams_protected: bool
    is_whole: bool = True

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
    found = classify(body, total_length, encoding=encoding, ccsid=ccsid, format=format)
    dlh = found.dlh
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
    elif found.cls is MessageClass.NO_DLH and not is_format_mqdead(format):
        chain = walk(body, total_length, encoding=encoding, ccsid=ccsid, format=format)
    else:
        chain = Chain((), 0)
    headers += chain.headers
    problem = found.problem
    if chain.problem or msg_flags or chain.headers:
        parts = (problem, chain.problem, *_flag_notes(msg_flags, chain.headers))
        problem = "; ".join(filter(None, parts))
    return Description(
        found.cls,
        problem,
        headers,
        chain.payload_offset,
        dlh,
        chain.ams_protected,
        chain.is_whole,
    )


def _flag_notes(msg_flags: int, headers: tuple[ChainedHeader, ...]) -> Iterator[str]:
    """Return notes on segments and group members, each of which is handled as one message."""
    for header in headers:
        if isinstance(header.record, MessageDescriptorExtension):
            msg_flags |= header.record.msg_flags
    if msg_flags & _SEGMENT:
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


@dataclass(frozen=True, slots=True)
class Classified:
    """A message's class, with a problem ("" without one) and its MQDLH (None without one)."""

    cls: MessageClass
    problem: str
    dlh: DeadLetterHeader | None


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
) -> Classified:
    """Classify a message. `encoding`, `ccsid` and `format` are those of its MQMD.

    Like IBM's handler, this accepts an MQDLH with StrucId `DLH `, Version 1 and at least 172
    bytes, whatever MQMD.Format is. `body_prefix` must have at least the first
    min(172, total_length) bytes, else `MalformedHeaderError` is raised.
    """
    prefix = body_prefix[:DLH_LENGTH]
    require_prefix(prefix, min(DLH_LENGTH, total_length))
    if prefix[:4] not in STRUC_IDS:
        because = ", although MQMD.Format is MQDEAD" if is_format_mqdead(format) else ""
        return Classified(MessageClass.NO_DLH, f"no MQDLH{because}", None)
    undecodable = _undecodable(prefix, ccsid)
    if undecodable:
        return Classified(MessageClass.UNDECODABLE, undecodable, None)
    if total_length < DLH_LENGTH:
        problem = f"MQDLH needs {DLH_LENGTH} bytes, the message has {total_length}"
        return Classified(MessageClass.TRUNCATED_DLH, problem, None)
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


def _by_version(prefix: bytes, encoding: int, ccsid: int, md_format: str) -> Classified:
    order = integer_order(encoding)
    if order is None:
        problem = f"MQMD.Encoding {encoding} states no byte order for integers"
        return Classified(MessageClass.UNDECODABLE, problem, None)
    version = order.integer(prefix[_VERSION])
    if version != DeadLetterHeader.version:
        other = ByteOrder.LITTLE if order is ByteOrder.BIG else ByteOrder.BIG
        swapped = other.integer(prefix[_VERSION]) == DeadLetterHeader.version
        hint = ", it would be 1 in the other byte order" if swapped else ""
        problem = f"MQDLH.Version is {version} in MQMD.Encoding {encoding}{hint}; only 1 exists"
        return Classified(MessageClass.UNSUPPORTED_DLH_VERSION, problem, None)
    dlh = DeadLetterHeader.decode(prefix, encoding=encoding, ccsid=ccsid)
    problem = "; ".join(_notes(dlh, ccsid, md_format))
    return Classified(MessageClass.DEAD_LETTER, problem, dlh)


def _notes(dlh: DeadLetterHeader, ccsid: int, md_format: str) -> Iterator[str]:
    """Return what is unusual about a valid dead letter."""
    if not is_format_mqdead(md_format):
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


def is_format_mqdead(md_format: str) -> bool:
    """Return whether MQMD.Format says that the message begins with an MQDLH."""
    return md_format.rstrip(" \0") == MQFMT_DEAD_LETTER_HEADER
