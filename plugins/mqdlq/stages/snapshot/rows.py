"""Build the columns of full rows from browsed messages, many messages at a time.

`mqdlq.headers.header_row` defines the content of a row. Nearly all messages on a dead-letter queue
are plain dead letters: an MQDLH in ASCII, followed by an application's data. Their columns are
built for a whole batch at once, without any work per message; all other messages go through
`header_row`. The tests of this module prove that both ways agree.
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
from mqdlq.lake.schema import FILLED_FOR_RULES, HEADERS
from mqdlq.model import MessageClass
from mqdlq.mqi.browse import BrowsedMessage
from mqdlq.stages.snapshot.highlights import Highlighter
from mqdlq.structures import MQDLH, MQMD, Kind, Packed

_PLAIN_FORMATS: Final = (b"MQSTR   ", b"        ")
"""Formats of application data, after which no header follows."""
_AFTER_DLH: Final = slice(DLH_LENGTH, DLH_LENGTH + 4)
_AMS_STRUC_IDS: Final = np.array([[0x50, 0x44, 0x4D, 0x51], [0xD7, 0xC4, 0xD4, 0xD8]], np.uint8)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]


class NumberedMessage(NamedTuple):
    """A browsed message with its number in the browse and its key."""

    browse_seq: int
    message_key: bytes
    browsed: BrowsedMessage


def _make_numpy_record(layout: type[Packed], order: str) -> np.dtype[Any]:
    """Return a structure's fields as a NumPy type over the packed bytes."""
    return np.dtype(
        [
            (name, f"{order}i4" if each.kind is Kind.LONG else f"V{each.length}")
            for name, each in layout.layout.items()
        ]
    )


def _find_text_bytes(layout: type[Packed]) -> npt.NDArray[np.intp]:
    """Return the positions of a structure's text bytes, including its StrucId."""
    texts = (each for each in layout.layout.values() if each.kind is Kind.TEXT)
    return np.concatenate([np.arange(each.length) + each.offset for each in texts])


_MD: Final = _make_numpy_record(MQMD, "=")
_DLH: Final = {1: _make_numpy_record(MQDLH, ">"), 2: _make_numpy_record(MQDLH, "<")}
_MD_TEXT: Final = _find_text_bytes(MQMD)
_DLH_TEXT: Final = _find_text_bytes(MQDLH)
_MD_PUT_AT: Final = MQMD.slice_of("put_date", "put_time")
_DLH_PUT_AT: Final = MQDLH.slice_of("put_date", "put_time")
_HIGH: Final = 0x80
_ASCII: Final = bytes(range(_HIGH))


@cache
def _is_ascii_compatible(ccsid: int) -> bool:
    """Return whether text of a CCSID that has no high bytes is plain ASCII."""
    codec = None if ccsid in SPECIAL_CCSIDS else text_codec(ccsid)
    return (
        codec is not None
        and codec.family is Family.ASCII
        and codec.decode(_ASCII) == _ASCII.decode("ascii")
    )


class RowBuilder:
    """Builds full rows for messages of one queue; `ccsid` is the connection's.

    A message of at least `max_length` bytes may have been truncated to fit the queue.
    """

    def __init__(self, highlighter: Highlighter, *, max_length: int, ccsid: int) -> None:
        self._highlighter, self._max_length, self._ccsid = highlighter, max_length, ccsid

    def rows(self, messages: Sequence[NumberedMessage], browsed_at: datetime) -> pa.RecordBatch:
        """Return the messages' rows in the schema `HEADERS`, in their order.

        Raises `MalformedHeaderError`.
        """
        plain = self._find_plain_orders(messages) if messages else []
        parts = []
        for order in (1, 2):
            of_order = [m for m, kind in zip(messages, plain, strict=True) if kind == order]
            if of_order:
                parts.append(self._build_plain_rows(of_order, order, browsed_at))
        others = [m for m, kind in zip(messages, plain, strict=True) if not kind]
        if others or not parts:
            rows = [self._build_row(message, browsed_at) for message in others]
            parts.append(pa.RecordBatch.from_pylist(rows, schema=HEADERS))
        if len(parts) == 1:
            return parts[0]
        whole = pa.Table.from_batches(parts).combine_chunks().sort_by("browse_seq")
        return whole.to_batches()[0]

    def _build_row(self, message: NumberedMessage, browsed_at: datetime) -> dict[str, Any]:
        browsed = message.browsed
        row: dict[str, Any] = header_row(
            message.browse_seq,
            browsed.descriptor,
            browsed.prefix,
            browsed.total_length,
            browsed_at=browsed_at,
            maybe_truncated=browsed.total_length >= self._max_length,
            ccsid=self._ccsid,
        )
        return row | self._highlighter.highlight_row(row)

    def _find_plain_orders(self, messages: Sequence[NumberedMessage]) -> list[int]:
        """Return for each message the integer order of a plain dead letter (1 or 2), else 0."""
        if not _is_ascii_compatible(self._ccsid):
            return [0] * len(messages)
        md = _make_matrix([m.browsed.descriptor for m in messages], MQMD.length)
        dlh = _make_matrix([m.browsed.prefix for m in messages], DLH_LENGTH + 4)
        long = np.array([m.browsed.total_length >= _AFTER_DLH.stop for m in messages])
        fields = md.view(_MD)[:, 0]
        order = fields["encoding"] & 0xF
        ccsids, which = np.unique(fields["coded_char_set_id"], return_inverse=True)
        is_plain: Flags = (
            long
            & np.isin(order, (1, 2))
            & np.array([_is_ascii_compatible(int(ccsid)) for ccsid in ccsids])[which]
            & (md[:, _MD_TEXT] < _HIGH).all(axis=1)
            & (dlh[:, _DLH_TEXT] < _HIGH).all(axis=1)
            & _field_equals(md, MQMD, "struc_id", MQMD.struc_id)
            & (fields["version"] == MQMD.version)
            & (fields["msg_flags"] == 0)
            & _field_equals(md, MQMD, "format", b"MQDEAD  ")
            & _field_equals(dlh, MQDLH, "struc_id", MQDLH.struc_id)
            & ~(dlh[:, _AFTER_DLH, None] == _AMS_STRUC_IDS.T[None]).all(axis=1).any(axis=1)
            & np.any([_field_equals(dlh, MQDLH, "format", name) for name in _PLAIN_FORMATS], axis=0)
            & _parse_times(dlh[:, _DLH_PUT_AT])[1]
        )
        for number, record in _DLH.items():
            mine = np.flatnonzero(is_plain & (order == number))
            if mine.size:
                letters = dlh[mine, : MQDLH.length].copy().view(record)[:, 0]
                known, which = np.unique(letters["coded_char_set_id"], return_inverse=True)
                plain = np.array([_is_ascii_compatible(int(ccsid)) for ccsid in known])[which]
                is_plain[mine] &= plain & (letters["version"] == MQDLH.version)
        return np.where(is_plain, order, 0).tolist()  # type: ignore[no-any-return]

    def _build_plain_rows(
        self, messages: Sequence[NumberedMessage], order: int, at: datetime
    ) -> pa.RecordBatch:
        md = _make_matrix([m.browsed.descriptor for m in messages], MQMD.length)
        dlh = _make_matrix([m.browsed.prefix for m in messages], DLH_LENGTH)
        head, letter = md.view(_MD)[:, 0], dlh.view(_DLH[order])[:, 0]
        many, lengths = len(messages), np.array([m.browsed.total_length for m in messages])
        columns: dict[str, Any] = {
            "browse_seq": np.array([m.browse_seq for m in messages]),
            "message_key": [m.message_key for m in messages],
            "class": [MessageClass.DEAD_LETTER.value] * many,
            "problem": [""] * many,
            **_structure_columns(MQMD, head, md, ""),
            **_structure_columns(MQDLH, letter, dlh, "dlh_"),
            "header_chain": [["MQDLH"]] * many,
            "payload_offset": np.full(many, DLH_LENGTH),
            "total_length": lengths,
            "ams_protected": np.zeros(many, bool),
            "maybe_truncated": lengths >= self._max_length,
            "expires_at": compute_expiries(head["expiry"], at),
            "put_at": _make_timestamps(md[:, _MD_PUT_AT]),
            "dead_lettered_at": _make_timestamps(dlh[:, _DLH_PUT_AT]),
            "browsed_at": [at] * many,
            "chain_is_whole": np.ones(many, bool),
            **{name: pa.nulls(many) for name in FILLED_FOR_RULES},
        }
        columns |= self._highlighter.highlight_columns(
            columns, head["expiry"], head["backout_count"]
        )
        arrays = [to_array(columns[field.name], field.type) for field in HEADERS]
        return pa.RecordBatch.from_arrays(arrays, schema=HEADERS)


def _make_matrix(data: list[bytes], width: int) -> Bytes:
    """Return byte strings as rows of equal width, truncated or padded with zeros."""
    joined = b"".join([entry[:width].ljust(width, b"\0") for entry in data])
    return np.frombuffer(joined, np.uint8).reshape(len(data), width)


def _field_equals(matrix: Bytes, layout: type[Packed], field: str, expected: bytes) -> Flags:
    part = matrix[:, layout.slice_of(field)]
    return (part == np.frombuffer(expected, np.uint8)).all(axis=1)  # type: ignore[no-any-return]


def _structure_columns(
    layout: type[Packed], fields: Any, matrix: Bytes, prefix: str
) -> dict[str, Any]:
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


def to_array(values: Any, kind: pa.DataType) -> pa.Array:
    """Return values as an Arrow array of this type."""
    array = values if isinstance(values, pa.Array) else pa.array(values)
    return array if array.type == kind else array.cast(kind)


def _parse_times(characters: Bytes) -> tuple[npt.NDArray[np.int64], Flags]:
    """Parse adjacent PutDate and PutTime; return microseconds since 1970, and which are valid."""
    digits = characters.astype(np.int64) - ord("0")
    valid = ((digits >= 0) & (digits <= 9)).all(axis=1)  # noqa: PLR2004
    hours, minutes, seconds, hundredths = (
        digits[:, at] * 10 + digits[:, at + 1] for at in (8, 10, 12, 14)
    )
    valid &= (hours < 24) & (minutes < 60) & (seconds < 60)  # noqa: PLR2004
    dates, which = np.unique(digits[:, :8] @ (10 ** np.arange(7, -1, -1)), return_inverse=True)
    days = [_find_day_start(int(date)) for date in dates]
    valid &= np.array([day is not None for day in days])[which]
    midnight = np.array([day or 0 for day in days])[which]
    since = ((hours * 60 + minutes) * 60 + seconds) * 100 + hundredths
    return midnight + since * 10_000, valid


@cache
def _find_day_start(date: int) -> int | None:
    """Return the microseconds from 1970 to the start of a day YYYYMMDD, None for an invalid day."""
    at = parse_gmt(f"{date:08d}", "00000000") if 0 <= date < 10**8 else None
    return None if at is None else round((at - _EPOCH).total_seconds()) * 10**6


def _make_timestamps(characters: Bytes) -> pa.Array:
    micros, valid = _parse_times(characters)
    return pa.array(micros, mask=~valid).cast(pa.timestamp("us", tz="UTC"))


def compute_expiries(expiry: Any, browsed_at: datetime) -> pa.Array:
    """Return when messages with these MQMD.Expiry values at a browse expire; null means never."""
    since = browsed_at - _EPOCH
    start = (since.days * 86_400 + since.seconds) * 10**6 + since.microseconds
    ends = start + expiry.astype(np.int64) * 100_000
    return pa.array(ends, mask=expiry < 0).cast(pa.timestamp("us", tz="UTC"))
