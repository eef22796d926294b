"""Browsed messages in, the columns of their full rows out, many messages at a time.

What a row says is defined by `mqdlq.headers.header_row`. Nearly all messages on a dead-letter
queue are plain dead letters, though: an MQDLH in ASCII, then an application's data. For those the
same columns are made of all messages of a batch at once, without any work per message; the rest
goes through `header_row`. That both ways agree is what the tests of this module are about.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mqdlq.headers import DLH_LENGTH, header_row
from mqdlq.headers.ccsid import SPECIAL_CCSIDS, Family, text_codec
from mqdlq.headers.times import parse_gmt
from mqdlq.lake.schema import HEADERS
from mqdlq.model import MessageClass
from mqdlq.mqi.browse import Browsed
from mqdlq.stages.snapshot.highlights import Marks
from mqdlq.structures import MQDLH, MQMD, Kind, Packed

_PLAIN_FORMATS: Final = (b"MQSTR   ", b"        ")
"""Formats of an application's data, behind which no header follows."""
_AFTER: Final = slice(DLH_LENGTH, DLH_LENGTH + 4)
_AMS: Final = np.array([[0x50, 0x44, 0x4D, 0x51], [0xD7, 0xC4, 0xD4, 0xD8]], np.uint8)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]


class Sighted(NamedTuple):
    """A browsed message with its place in the queue and its key."""

    browse_seq: int
    message_key: bytes
    browsed: Browsed


def _record(layout: type[Packed], order: str) -> np.dtype[Any]:
    """Return a structure's fields as NumPy sees them in the packed bytes."""
    return np.dtype(
        [
            (name, f"{order}i4" if each.kind is Kind.LONG else f"V{each.length}")
            for name, each in layout.layout.items()
        ]
    )


def _text_bytes(layout: type[Packed]) -> npt.NDArray[np.intp]:
    """Return which bytes of a structure are text, its StrucId among them."""
    texts = (each for each in layout.layout.values() if each.kind is Kind.TEXT)
    return np.concatenate([np.arange(each.length) + each.offset for each in texts])


_MD: Final = _record(MQMD, "=")
_DLH: Final = {1: _record(MQDLH, ">"), 2: _record(MQDLH, "<")}
_MD_TEXT: Final = _text_bytes(MQMD)
_DLH_TEXT: Final = _text_bytes(MQDLH)
_MD_PUT_AT: Final = MQMD.slice_of("put_date", "put_time")
_DLH_PUT_AT: Final = MQDLH.slice_of("put_date", "put_time")
_HIGH: Final = 0x80
_ASCII: Final = bytes(range(_HIGH))


@cache
def _is_plain(ccsid: int) -> bool:
    """Whether text of that CCSID without high bytes is plain ASCII."""
    codec = None if ccsid in SPECIAL_CCSIDS else text_codec(ccsid)
    return (
        codec is not None
        and codec.family is Family.ASCII
        and codec.decode(_ASCII) == _ASCII.decode("ascii")
    )


class RowBuilder:
    """Makes full rows of messages of one queue; `ccsid` is the connection's.

    `longest` is the length of a message that may have been cut to fit the queue.
    """

    def __init__(self, marks: Marks, *, longest: int, ccsid: int) -> None:
        self._marks, self._longest, self._ccsid = marks, longest, ccsid

    def rows(self, messages: Sequence[Sighted], browsed_at: datetime) -> pa.RecordBatch:
        """Return the messages' rows in the schema `HEADERS`, in their order.

        Raises `MalformedHeaderError`.
        """
        plain = self._plain(messages) if messages else []
        parts = []
        for order in (1, 2):
            of_order = [m for m, kind in zip(messages, plain, strict=True) if kind == order]
            if of_order:
                parts.append(self._fast(of_order, order, browsed_at))
        others = [m for m, kind in zip(messages, plain, strict=True) if not kind]
        if others or not parts:
            rows = [self._slow(message, browsed_at) for message in others]
            parts.append(pa.RecordBatch.from_pylist(rows, schema=HEADERS))
        if len(parts) == 1:
            return parts[0]
        whole = pa.Table.from_batches(parts).combine_chunks().sort_by("browse_seq")
        return whole.to_batches()[0]

    def _slow(self, message: Sighted, browsed_at: datetime) -> dict[str, Any]:
        browsed = message.browsed
        row: dict[str, Any] = header_row(
            message.browse_seq,
            browsed.descriptor,
            browsed.prefix,
            browsed.total_length,
            browsed_at=browsed_at,
            maybe_truncated=browsed.total_length >= self._longest,
            ccsid=self._ccsid,
        )
        return row | self._marks.of_row(row)

    def _plain(self, messages: Sequence[Sighted]) -> list[int]:
        """Return for each message the integer order of a plain dead letter (1, 2), else 0."""
        if not _is_plain(self._ccsid):
            return [0] * len(messages)
        md = _matrix([m.browsed.descriptor for m in messages], MQMD.length)
        dlh = _matrix([m.browsed.prefix for m in messages], DLH_LENGTH + 4)
        long = np.array([m.browsed.total_length >= _AFTER.stop for m in messages])
        fields = md.view(_MD)[:, 0]
        order = fields["encoding"] & 0xF
        ccsids, which = np.unique(fields["coded_char_set_id"], return_inverse=True)
        is_plain: Flags = (
            long
            & np.isin(order, (1, 2))
            & np.array([_is_plain(int(ccsid)) for ccsid in ccsids])[which]
            & (md[:, _MD_TEXT] < _HIGH).all(axis=1)
            & (dlh[:, _DLH_TEXT] < _HIGH).all(axis=1)
            & _holds(md, MQMD, "struc_id", MQMD.struc_id)
            & (fields["version"] == MQMD.version)
            & (fields["msg_flags"] == 0)
            & _holds(md, MQMD, "format", b"MQDEAD  ")
            & _holds(dlh, MQDLH, "struc_id", MQDLH.struc_id)
            & ~(dlh[:, _AFTER, None] == _AMS.T[None]).all(axis=1).any(axis=1)
            & np.any([_holds(dlh, MQDLH, "format", name) for name in _PLAIN_FORMATS], axis=0)
            & _micros(dlh[:, _DLH_PUT_AT])[1]
        )
        for number, record in _DLH.items():
            mine = np.flatnonzero(is_plain & (order == number))
            if mine.size:
                letters = dlh[mine, : MQDLH.length].copy().view(record)[:, 0]
                known, which = np.unique(letters["coded_char_set_id"], return_inverse=True)
                plain = np.array([_is_plain(int(ccsid)) for ccsid in known])[which]
                is_plain[mine] &= plain & (letters["version"] == MQDLH.version)
        return np.where(is_plain, order, 0).tolist()  # type: ignore[no-any-return]

    def _fast(self, messages: Sequence[Sighted], order: int, at: datetime) -> pa.RecordBatch:
        md = _matrix([m.browsed.descriptor for m in messages], MQMD.length)
        dlh = _matrix([m.browsed.prefix for m in messages], DLH_LENGTH)
        head, letter = md.view(_MD)[:, 0], dlh.view(_DLH[order])[:, 0]
        many, lengths = len(messages), np.array([m.browsed.total_length for m in messages])
        columns: dict[str, Any] = {
            "browse_seq": np.array([m.browse_seq for m in messages]),
            "message_key": [m.message_key for m in messages],
            "class": [MessageClass.DEAD_LETTER.value] * many,
            "problem": [""] * many,
            **_columns(MQMD, head, md, ""),
            **_columns(MQDLH, letter, dlh, "dlh_"),
            "header_chain": [["MQDLH"]] * many,
            "payload_offset": np.full(many, DLH_LENGTH),
            "total_length": lengths,
            "ams_protected": np.zeros(many, bool),
            "maybe_truncated": lengths >= self._longest,
            "expires_at": expiries(head["expiry"], at),
            "put_at": _times(md[:, _MD_PUT_AT]),
            "dead_lettered_at": _times(dlh[:, _DLH_PUT_AT]),
        }
        columns |= self._marks.of_columns(columns, head["expiry"], head["backout_count"])
        arrays = [as_array(columns[field.name], field.type) for field in HEADERS]
        return pa.RecordBatch.from_arrays(arrays, schema=HEADERS)


def _matrix(data: list[bytes], width: int) -> Bytes:
    """Return byte strings as rows of one width, cut or filled up with zeros."""
    joined = b"".join([entry[:width].ljust(width, b"\0") for entry in data])
    return np.frombuffer(joined, np.uint8).reshape(len(data), width)


def _holds(matrix: Bytes, layout: type[Packed], field: str, expected: bytes) -> Flags:
    part = matrix[:, layout.slice_of(field)]
    return (part == np.frombuffer(expected, np.uint8)).all(axis=1)  # type: ignore[no-any-return]


def _columns(layout: type[Packed], fields: Any, matrix: Bytes, prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for entry in layout.fields:
        if entry.kind is Kind.LONG:
            found[prefix + entry.name] = fields[entry.name].astype(np.int32)
            continue
        data = matrix[:, entry.place].tobytes()
        held = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(entry.length), len(matrix), [None, pa.py_buffer(data)]
        ).cast(pa.binary())
        if entry.kind is Kind.TEXT:
            held = pc.ascii_rtrim(held.cast(pa.string()), " ")
        found[prefix + entry.name] = held
    return found


def as_array(values: Any, kind: pa.DataType) -> pa.Array:
    """Return values as an Arrow array of this type."""
    array = values if isinstance(values, pa.Array) else pa.array(values)
    return array if array.type == kind else array.cast(kind)


def _micros(characters: Bytes) -> tuple[npt.NDArray[np.int64], Flags]:
    """Read PutDate and PutTime side by side: microseconds since 1970, and where they are valid."""
    digits = characters.astype(np.int64) - ord("0")
    valid = ((digits >= 0) & (digits <= 9)).all(axis=1)  # noqa: PLR2004
    hours, minutes, seconds, hundredths = (
        digits[:, at] * 10 + digits[:, at + 1] for at in (8, 10, 12, 14)
    )
    valid &= (hours < 24) & (minutes < 60) & (seconds < 60)  # noqa: PLR2004
    dates, which = np.unique(digits[:, :8] @ (10 ** np.arange(7, -1, -1)), return_inverse=True)
    days = [_day(int(date)) for date in dates]
    valid &= np.array([day is not None for day in days])[which]
    midnight = np.array([day or 0 for day in days])[which]
    since = ((hours * 60 + minutes) * 60 + seconds) * 100 + hundredths
    return midnight + since * 10_000, valid


@cache
def _day(date: int) -> int | None:
    """Return the microseconds from 1970 to the beginning of a day YYYYMMDD, None for no day."""
    at = parse_gmt(f"{date:08d}", "00000000") if 0 <= date < 10**8 else None
    return None if at is None else round((at - _EPOCH).total_seconds()) * 10**6


def _times(characters: Bytes) -> pa.Array:
    micros, valid = _micros(characters)
    return pa.array(micros, mask=~valid).cast(pa.timestamp("us", tz="UTC"))


def expiries(expiry: Any, browsed_at: datetime) -> pa.Array:
    """Return when messages expire whose MQMD.Expiry was left at a browse; null for never."""
    since = browsed_at - _EPOCH
    start = (since.days * 86_400 + since.seconds) * 10**6 + since.microseconds
    ends = start + expiry.astype(np.int64) * 100_000
    return pa.array(ends, mask=expiry < 0).cast(pa.timestamp("us", tz="UTC"))
