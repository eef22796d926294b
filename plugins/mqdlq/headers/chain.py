"""Parse the chain of headers at the beginning of a message.

Each header states the Format, Encoding and CCSID of the next one; the MQMD states those of the
first header. The chain ends at a Format that names no supported header, at an invalid header, or at
a limit. The bytes after its end are payload, which is never read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from mqdlq.errors import MalformedHeaderError
from mqdlq.headers.ccsid import following_ccsid
from mqdlq.headers.records import (
    XQH_LENGTH,
    CicsHeader,
    CicsHeader1,
    DeadLetterHeader,
    ImsHeader,
    MessageDescriptorExtension,
    Record,
    TransmissionQueueHeader,
    TriggerMessage,
    kind_of_version,
)
from mqdlq.headers.rfh import NAME_VALUE_BYTES_READ, RulesHeader, RulesHeader2, TooManyFoldersError

HEADERS_READ: Final = 100
"""The number of headers that are read after an MQDLH; further headers are payload."""
AMS_HEADER: Final = "PDMQ"
_IDENTITY_LENGTH: Final = 8  # StrucId and Version
_AMS_STRUC_IDS: Final = {b"PDMQ", "PDMQ".encode("cp500")}


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


@dataclass(frozen=True, slots=True)
class Chain:
    """The headers in order, the offset of the payload, and a problem, or "" without one.

    The chain `is_whole` unless it ends before a header that cannot be read.
    """

    headers: tuple[ChainedHeader, ...]
    payload_offset: int
    problem: str = ""
    is_whole: bool = True

    @property
    def ams_protected(self) -> bool:
        return any(header.record is None for header in self.headers)


_Following = tuple[int, int, str]
"""A header's description of the bytes after it: their Encoding, CCSID and Format."""


@dataclass(frozen=True, slots=True)
class _Position:
    """The position of a header in the available bytes, with its Encoding and CCSID."""

    body: bytes
    offset: int
    total_length: int
    encoding: int
    ccsid: int

    @property
    def representation(self) -> dict[str, int]:
        return {"encoding": self.encoding, "ccsid": self.ccsid}

    @property
    def available(self) -> int:
        """Return the number of bytes of the message from here, whether `body` has them or not."""
        return self.total_length - self.offset

    def leading_bytes(self, length: int) -> bytes:
        """Return the first `length` bytes from here, or fewer if the message ends before."""
        data = self.body[self.offset : self.offset + length]
        if len(data) < min(length, self.available):
            seen = f"only the first {len(self.body)} bytes of the message were looked at"
            raise _OutOfSightError(seen)
        return data


class _ChainEndsError(Exception):
    """A header is not parsed although it may be valid; the text says why."""


class _OutOfSightError(_ChainEndsError):
    """The available bytes end within a header of a longer message."""


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
    following: _Following | None = (encoding, ccsid, format)
    while following and (reader := _READERS.get(following[2].rstrip(" \0"))):
        structure, read = reader
        place = _Position(body, offset, total_length, *following[:2])
        try:
            length, record, problem = _read(read, place, len(headers))
        except MalformedHeaderError as error:
            problem = beyond + _problem_text(error, offset)
            return Chain(tuple(headers), offset, problem, is_whole=False)
        except _ChainEndsError as end:
            problem = f"{beyond}{structure} at offset {offset}: {end}"
            return Chain(tuple(headers), offset, problem, is_whole=False)
        if problem and not beyond:
            beyond = f"{structure} at offset {offset}: {problem}; "
        headers.append(
            ChainedHeader(structure, offset, length, **place.representation, record=record)
        )
        following = _following(record, place)
        offset += length
    if body[offset : offset + 4] in _AMS_STRUC_IDS:
        written, in_ccsid, _ = following or (encoding, ccsid, format)
        headers.append(ChainedHeader(AMS_HEADER, offset, 0, written, in_ccsid, None))
    return Chain(tuple(headers), offset, beyond.removesuffix("; "))


def _read(read: _Reader, place: _Position, before: int) -> tuple[int, Record, str]:
    if before == HEADERS_READ:
        raise _ChainEndsError(
            f"{HEADERS_READ} headers were read, which is the limit;"
            f" from offset {place.offset} on all is payload"
        )
    return read(place)


def _problem_text(error: MalformedHeaderError, offset: int) -> str:
    at = MalformedHeaderError(error.structure, offset + error.offset, error.expected, error.found)
    return f"{at}; from offset {offset} on all is payload"


def _following(record: Record, place: _Position) -> _Following | None:
    """Return a header's description of the bytes after it, or None if nothing follows."""
    if isinstance(record, TriggerMessage):
        return None
    if isinstance(record, CicsHeader1 | CicsHeader | ImsHeader):
        # Their Encoding and CodedCharSetId are reserved: what follows is as they are themselves
        # (IBM MQ docs, "MQCIH - CICS bridge header", "MQIIH - IMS information header").
        return place.encoding, place.ccsid, record.format
    says: Any = record.msg_desc if isinstance(record, TransmissionQueueHeader) else record
    ccsid = following_ccsid(says.coded_char_set_id, place.ccsid)
    return says.encoding, ccsid, says.format


_Reader = Callable[[_Position], tuple[int, Record, str]]
"""Reads a header; returns its length, its record, and the limit that it exceeds, or ""."""


def _fixed(kind: type[Record], length: int) -> _Reader:
    return lambda place: (
        length,
        kind.decode(place.leading_bytes(length), **place.representation),
        "",
    )


def _cih(place: _Position) -> tuple[int, Record, str]:
    start = place.leading_bytes(_IDENTITY_LENGTH)
    kind = kind_of_version((CicsHeader1, CicsHeader), start, place.encoding)
    return kind.length, kind.decode(place.leading_bytes(kind.length), **place.representation), ""


def _measured(kind: type[RulesHeader | RulesHeader2]) -> _Reader:
    def read(place: _Position) -> tuple[int, Record, str]:
        start = place.leading_bytes(kind.length)
        fixed = kind.decode_fixed_part(start, **place.representation)
        length = kind.measure(start, encoding=place.encoding, available=place.available)
        data = length - kind.length
        if data > NAME_VALUE_BYTES_READ:
            limit = f"more than the limit of {NAME_VALUE_BYTES_READ}"
            return length, fixed, f"its {data} bytes of name/value data, {limit}, are not read"
        try:
            return length, kind.decode(place.leading_bytes(length), **place.representation), ""
        except _OutOfSightError:
            return length, fixed, ""
        except TooManyFoldersError as error:
            return length, fixed, f"its folders are not read, there are {error.found}"

    return read


_FIXED: Final[dict[str, type[Record]]] = {
    "MQDEAD": DeadLetterHeader,
    "MQHMDE": MessageDescriptorExtension,
    "MQIMS": ImsHeader,
    "MQTRIG": TriggerMessage,
}
_READERS: Final[dict[str, tuple[str, _Reader]]] = {
    **{name: (kind.structure, _fixed(kind, kind.length)) for name, kind in _FIXED.items()},
    "MQXMIT": ("MQXQH", _fixed(TransmissionQueueHeader, XQH_LENGTH)),
    "MQHRF": ("MQRFH", _measured(RulesHeader)),
    "MQHRF2": ("MQRFH2", _measured(RulesHeader2)),
    "MQCICS": ("MQCIH", _cih),
}

HEADER_OF_FORMAT: Final = {name: structure for name, (structure, _) in _READERS.items()}
"""By Format: the structure of the header that a message with this Format begins with."""
