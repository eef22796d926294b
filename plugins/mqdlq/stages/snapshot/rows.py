"""Build the rows of a snapshot from browsed messages, with all that rules compare."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mqdlq.constants import MQRC
from mqdlq.controls.key_index import key_of
from mqdlq.errors import QueueManagerError
from mqdlq.headers import DLH_LENGTH, header_row
from mqdlq.headers.ccsid import SPECIAL_CCSIDS, Family, text_codec
from mqdlq.headers.representation import parse_gmt
from mqdlq.lake.schema import FILLED_LATER, HEADERS
from mqdlq.ledger import Ledger
from mqdlq.ledger.tables import Run
from mqdlq.model import MessageClass
from mqdlq.mqi.browse import BrowseCursor, BrowsedMessage
from mqdlq.mqi.connect import QueueManager
from mqdlq.rules import table_with
from mqdlq.stages.snapshot.properties import PROPERTY_COLUMNS, PropertyMatches
from mqdlq.structures import MQDLH, MQMD, Kind, Packed

_COLUMN = "attempts_made"


class AttemptNumbers:
    """The attempts that the ledger knows of the messages on a run's queue.

    The ledger is asked only if the run's rules compare attempts, with a few queries for a thousand
    messages. Otherwise the column stays null, and a snapshot costs the same as without it.

    Attempts of all runs count, whatever their rules, from the time when the message came to this
    queue: a message that comes back begins with 0. Such a table settles no message, so that every
    message of the queue passes through here, in browse order.
    """

    def __init__(self, run: Run, ledger: Ledger) -> None:
        self._run, self._ledger = run, ledger
        self._is_used = table_with(run.rules_text, "ATTEMPTS") is not None
        self._sighted = Counter[bytes]()

    def add_to(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with their attempts; the k-th of equal messages has those of the k-th."""
        if not self._is_used:
            return rows
        run, keys = self._run, rows.column("message_key").to_pylist()
        known = self._ledger.attempts.of_residents(run.queue_manager, run.queue, set(keys))
        numbers = [self._number_of(key, known.get(key, ())) for key in keys]
        return _fill(rows, _COLUMN, numbers)

    def _number_of(self, key: bytes, numbers: list[int] | tuple[int, ...]) -> int:
        if not numbers:
            return 0
        place = self._sighted[key]
        self._sighted[key] += 1
        return numbers[place] if place < len(numbers) else 0


def _fill(rows: pa.RecordBatch, name: str, values: Any) -> pa.RecordBatch:
    """Return the rows with the values of a column that is null so far."""
    column = HEADERS.field(name)
    return rows.set_column(HEADERS.get_field_index(name), column, pa.array(values, column.type))


def add_properties(
    rows: pa.RecordBatch, matches: PropertyMatches, messages: Sequence[BrowsedMessage]
) -> pa.RecordBatch:
    """Return the rows with the conditions on properties that their messages meet or not."""
    found = [matches.compare(message) for message in messages] if matches.names else []
    for name in PROPERTY_COLUMNS if found else ():
        rows = _fill(rows, name, [one[name] for one in found])
    return rows


# Build the columns of full rows from browsed messages, many messages at a time.
#
# `mqdlq.headers.header_row` defines the content of a row. Nearly all messages are plain dead
# letters: an MQDLH in ASCII, followed by an application's data. Their columns are built for a whole
# batch at once, without any work per message; all other messages go through `header_row`. The tests
# of this module prove that both ways agree.

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


def number_messages(cursor: BrowseCursor) -> Iterator[NumberedMessage]:
    for number, met in enumerate(cursor.messages(), start=1):
        yield NumberedMessage(number, key_of(met), met)


def inquire_lengths(queue_manager: QueueManager, queue: str) -> tuple[int, int]:
    """Return the MAXMSGL of a queue and of its queue manager."""
    selector = queue_manager.client.CMQC.MQIA_MAX_MSG_LENGTH
    return int(queue_manager.inquire_queue(queue, selector)), int(queue_manager.inquire(selector))


def _make_numpy_record(layout: type[Packed], order: str) -> np.dtype[Any]:
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

    The columns of `AttemptNumbers`, `PropertyMatches` and `Highlighter` are null.
    A message of at least `max_length` bytes may have been truncated to fit the queue.
    """

    def __init__(self, *, max_length: int, ccsid: int) -> None:
        self._max_length, self._ccsid = max_length, ccsid

    @classmethod
    def of(cls, queue_manager: QueueManager, max_length: int) -> Self:
        selector = queue_manager.client.CMQC.MQIA_CODED_CHAR_SET_ID
        return cls(max_length=max_length, ccsid=int(queue_manager.inquire(selector)))

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
        return header_row(
            message.browse_seq,
            browsed.descriptor,
            browsed.prefix,
            browsed.total_length,
            browsed_at=browsed_at,
            maybe_truncated=browsed.total_length >= self._max_length,
            ccsid=self._ccsid,
        )

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
            **{name: pa.nulls(many) for name in FILLED_LATER},
        }
        arrays = [to_array(columns[field.name], field.type) for field in HEADERS]
        return pa.RecordBatch.from_arrays(arrays, schema=HEADERS)


def _make_matrix(data: list[bytes], width: int) -> Bytes:
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


# Highlight messages that will soon expire or came from a backout, in columns of their rows.

BACKED_OUT: Final = MQRC["MQRC_BACKOUT_THRESHOLD_REACHED"]
"""The reason that IBM's classes for Java put into the MQDLH."""
MAX_INQUIRED_DESTINATIONS: Final = 1_000
"""How many destinations one snapshot inquires at most; the attributes of others are unknown."""


BackoutRule = tuple[int, str]
"""BOTHRESH and BOQNAME of a queue."""
InquireBackoutRule = Callable[[str], BackoutRule | None]


class Highlighter:
    """Highlights the messages of one queue.

    A message came from a backout if its MQDLH says so, if its BackoutCount has reached its
    destination's BOTHRESH, or if this queue is its destination's BOQNAME. A message is about to
    expire if no more than RETRYINT of its Expiry remains: the next pass would not meet it. `ask`
    returns a local queue's backout rule, None if it cannot be inquired.
    """

    def __init__(
        self, queue_manager: str, queue: str, retry_interval_s: int, ask: InquireBackoutRule
    ) -> None:
        self._queue_manager, self._queue, self._inquire = queue_manager, queue, ask
        self._retry_interval_tenths = retry_interval_s * 10
        self._backout_rules: dict[str, BackoutRule | None] = {}

    def add_to(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        names = ("dlh_dest_q_name", "dlh_dest_q_mgr_name", "backout_count", "dlh_reason")
        queues, managers, counts, reasons = (rows.column(name).to_pylist() for name in names)
        rules = list(map(self._find_backout_rule, queues, managers))
        expiry = rows.column("expiry").to_numpy()
        highlights = {
            "expires_before_next_pass": (expiry >= 0) & (expiry <= self._retry_interval_tenths),
            "came_from_backout": [
                reason == BACKED_OUT or self._is_backout(rule, count)
                for rule, count, reason in zip(rules, counts, reasons, strict=True)
            ],
            "dest_backout_threshold": [rule and rule[0] for rule in rules],
            "dest_backout_requeue_q": [rule and rule[1] for rule in rules],
        }
        for name, values in highlights.items():
            rows = _fill(rows, name, values)
        return rows

    def _is_backout(self, rule: BackoutRule | None, backout_count: int) -> bool:
        if rule is None:
            return False
        threshold, requeue_q = rule
        return 0 < threshold <= backout_count or requeue_q == self._queue

    def _find_backout_rule(self, queue: str | None, place: str | None) -> BackoutRule | None:
        if not queue or place not in {"", self._queue_manager}:
            return None
        if queue not in self._backout_rules:
            if len(self._backout_rules) >= MAX_INQUIRED_DESTINATIONS:
                return None
            self._backout_rules[queue] = self._inquire(queue)
        return self._backout_rules[queue]


def make_backout_inquiry(queue_manager: QueueManager) -> InquireBackoutRule:
    """Return a function that inquires the backout rule of a queue, None if it is unknown."""
    constants = queue_manager.client.CMQC
    selectors = constants.MQIA_BACKOUT_THRESHOLD, constants.MQCA_BACKOUT_REQ_Q_NAME

    def ask(queue: str) -> BackoutRule | None:
        try:
            threshold, requeue_q = queue_manager.inquire_attributes(queue, *selectors)
        except QueueManagerError:
            return None  # no local queue, or no authority to inquire: nothing depends on it
        return int(threshold), str(requeue_q)

    return ask
