"""Describe a message by its headers: its class, the chain of headers, and problems."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mqdlq.headers.ccsid import following_ccsid
from mqdlq.headers.chain import Chain, ChainedHeader, walk
from mqdlq.headers.classify import classify, is_format_mqdead
from mqdlq.headers.records import DLH_LENGTH, DeadLetterHeader, MessageDescriptorExtension
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
