"""The chain of headers a message begins with: bytes, Format, Encoding and CCSID in, records out.

Each header says in which Format, Encoding and CCSID the next one is; the MQMD says it of the first.
The chain ends at a Format that names no header known here, where a header is broken, or at the
limit (`mqdlq.headers.limits`). The bytes behind its end are payload, which is never looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from mqdlq.errors import MalformedHeaderError
from mqdlq.headers.ccsid import following_ccsid
from mqdlq.headers.limits import HEADERS_READ, NAME_VALUE_BYTES_READ
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
    versioned,
)
from mqdlq.headers.rfh import RulesHeader, RulesHeader2, TooManyFoldersError

AMS_HEADER: Final = "PDMQ"
_IDENTITY_LENGTH: Final = 8  # StrucId and Version
_AMS_STRUC_IDS: Final = {b"PDMQ", "PDMQ".encode("cp500")}


@dataclass(frozen=True, slots=True)
class ChainedHeader:
    """A header, where in the message it stands, and in which Encoding and CCSID it is written.

    `record` is None for the header of Advanced Message Security (`structure` PDMQ), which IBM does
    not document: it is recognised and left as it is, a part of the payload.
    """

    structure: str
    offset: int
    length: int
    encoding: int
    ccsid: int
    record: Record | None


@dataclass(frozen=True, slots=True)
class Chain:
    """The headers in order, where the payload begins, and what was wrong ("" where nothing)."""

    headers: tuple[ChainedHeader, ...]
    payload_offset: int
    problem: str = ""

    @property
    def ams_protected(self) -> bool:
        """Whether the payload is protected by Advanced Message Security."""
        return any(header.record is None for header in self.headers)


@dataclass(frozen=True, slots=True)
class _Following:
    """What a header says of the bytes after it."""

    encoding: int
    ccsid: int
    format: str


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a header begins in the bytes at hand, and how it is written."""

    body: bytes
    offset: int
    total_length: int
    encoding: int
    ccsid: int

    @property
    def how(self) -> dict[str, int]:
        """Return the Encoding and CCSID as the decoders take them."""
        return {"encoding": self.encoding, "ccsid": self.ccsid}

    @property
    def available(self) -> int:
        """Return how much of the message there is from here, at hand or not."""
        return self.total_length - self.offset

    def first(self, length: int) -> bytes:
        """Return so many bytes, or all there are of a message that ends before."""
        data = self.body[self.offset : self.offset + length]
        if len(data) < min(length, self.available):
            seen = f"only the first {len(self.body)} bytes of the message were looked at"
            raise _OutOfSightError(seen)
        return data


class _ChainEndsError(Exception):
    """A header is not read, although nothing is wrong with it; the text says why."""


class _OutOfSightError(_ChainEndsError):
    """The message goes on, but the bytes at hand end within a header."""


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

    `body` is the message's beginning, as much as is at hand: where it ends within a header that
    the message goes on with, the chain ends before it and `problem` says so. Of an MQRFH or MQRFH2
    the fixed part suffices, its StrucLength is believed; the same holds for one whose name/value
    data exceeds a limit.
    """
    headers: list[ChainedHeader] = []
    beyond = ""  # the first limit that a header exceeds
    following: _Following | None = _Following(encoding, ccsid, format)
    while following and (reader := _READERS.get(following.format.rstrip(" \0"))):
        structure, read = reader
        place = _Place(body, offset, total_length, following.encoding, following.ccsid)
        try:
            length, record, problem = _read(read, place, len(headers))
        except MalformedHeaderError as error:
            return Chain(tuple(headers), offset, beyond + _told(error, offset))
        except _ChainEndsError as end:
            return Chain(tuple(headers), offset, f"{beyond}{structure} at offset {offset}: {end}")
        if problem and not beyond:
            beyond = f"{structure} at offset {offset}: {problem}; "
        headers.append(ChainedHeader(structure, offset, length, **place.how, record=record))
        following = _following(record, place)
        offset += length
    if body[offset : offset + 4] in _AMS_STRUC_IDS:
        how = following or _Following(encoding, ccsid, format)
        headers.append(ChainedHeader(AMS_HEADER, offset, 0, how.encoding, how.ccsid, None))
    return Chain(tuple(headers), offset, beyond.removesuffix("; "))


def _read(read: _Reader, place: _Place, before: int) -> tuple[int, Record, str]:
    if before == HEADERS_READ:
        raise _ChainEndsError(
            f"{HEADERS_READ} headers were read, which is the limit;"
            f" from offset {place.offset} on all is payload"
        )
    return read(place)


def _told(error: MalformedHeaderError, offset: int) -> str:
    at = MalformedHeaderError(error.structure, offset + error.offset, error.expected, error.found)
    return f"{at}; from offset {offset} on all is payload"


def _following(record: Record, place: _Place) -> _Following | None:
    """Return what a header says of the bytes after it, None where nothing follows."""
    if isinstance(record, TriggerMessage):
        return None
    if isinstance(record, CicsHeader1 | CicsHeader | ImsHeader):
        # Their Encoding and CodedCharSetId are reserved: what follows is as they are themselves
        # (IBM MQ docs, "MQCIH - CICS bridge header", "MQIIH - IMS information header").
        return _Following(place.encoding, place.ccsid, record.format)
    says: Any = record.msg_desc if isinstance(record, TransmissionQueueHeader) else record
    ccsid = following_ccsid(says.coded_char_set_id, place.ccsid)
    return _Following(says.encoding, ccsid, says.format)


_Reader = Callable[[_Place], tuple[int, Record, str]]
"""Reads a header at a place; returns its length, its fields, and which limit it exceeds or ""."""


def _fixed(kind: type[Record], length: int) -> _Reader:
    return lambda place: (length, kind.decode(place.first(length), **place.how), "")


def _cih(place: _Place) -> tuple[int, Record, str]:
    start = place.first(_IDENTITY_LENGTH)
    kind = versioned((CicsHeader1, CicsHeader), start, place.encoding)
    return kind.length, kind.decode(place.first(kind.length), **place.how), ""


def _measured(kind: type[RulesHeader | RulesHeader2]) -> _Reader:
    def read(place: _Place) -> tuple[int, Record, str]:
        start = place.first(kind.length)
        fixed = kind.decode_fixed_part(start, **place.how)
        length = kind.measure(start, encoding=place.encoding, available=place.available)
        data = length - kind.length
        if data > NAME_VALUE_BYTES_READ:
            limit = f"more than the limit of {NAME_VALUE_BYTES_READ}"
            return length, fixed, f"its {data} bytes of name/value data, {limit}, are not read"
        try:
            return length, kind.decode(place.first(length), **place.how), ""
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
