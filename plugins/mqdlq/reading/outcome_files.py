"""Write messages as files, some rows at a time: to download, and all outcomes for the history.

Spark has no driver for the ledger's database. It reads Parquet, which each export replaces.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from mqdlq.lake.storage import make_directory, new_file
from mqdlq.ledger import Ledger
from mqdlq.reading.run_messages import Message, MessageList
from mqdlq.words import visible

_ROWS: Final = 10_000
_TYPES: Final = {
    **dict.fromkeys(("browse_seq", "total_length", "messages"), pa.int64()),
    **dict.fromkeys(("reason", "rule", "rule_line", "attempts", "residence"), pa.int32()),
    **dict.fromkeys(("since", "expires_at", "at"), pa.timestamp("us", tz="UTC")),
    **dict.fromkeys(("is_settled", "is_known_since", "dry_run"), pa.bool_()),
}
"""The types of columns; any other one has text."""


def _schema(*names: str, **types: pa.DataType) -> pa.Schema:
    known = _TYPES | types
    return pa.schema([(name, known.get(name, pa.string())) for name in names])


SCHEMA: Final = _schema(
    *("run_id", "browse_seq", "message_key", "msg_id", "put_appl_name", "user_identifier"),
    *("format", "total_length", "reason", "reason_text", "dest_q_name", "dest_q_mgr_name"),
    *("since", "expires_at", "outcome", "why", "why_code", "rule", "rule_line", "action"),
    *("target_q", "target_q_mgr", "attempts", "at", "is_settled", "is_known_since"),
)
"""The columns of every form: a message with its outcome, the run, and the reason in words."""

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class FileForm:
    """A form of a file: its type for browsers, and what writes rows with these names as bytes."""

    media_type: str
    write: Callable[[Sequence[str], Iterator[list[dict[str, Any]]]], Iterator[bytes]]


def outcome_file(
    form: str, run_id: str, messages: MessageList, browse_seqs: Sequence[int]
) -> Iterator[bytes]:
    """Yield the parts of a file with the outcomes of these messages; `form` is one of `FORMS`.

    Ten thousand rows are in memory at a time. The file has no bodies.
    """
    return FORMS[form].write(SCHEMA.names, _records(run_id, messages, browse_seqs))


def _records(
    run_id: str, messages: MessageList, browse_seqs: Sequence[int]
) -> Iterator[list[dict[str, Any]]]:
    for start in range(0, len(browse_seqs), _ROWS):
        rows = messages.rows(browse_seqs[start : start + _ROWS])
        yield [_record(run_id, row) for row in rows]


_UNDECIDED: Final = {
    "outcome": None,
    "rule": 0,
    "action": "",
    "target_q": "",
    "target_q_mgr": "",
    "at": None,
}
"""What a message without an outcome has in place of it."""


def _record(run_id: str, message: Message) -> dict[str, Any]:
    fact = message.fact
    found = {
        **{name: getattr(fact, name, empty) for name, empty in _UNDECIDED.items()},
        "run_id": run_id,
        "attempts": message.made,
        "is_settled": message.was_left_before,
    }
    names = (name for name in SCHEMA.names if name not in found)
    found |= {name: getattr(message, name) for name in names}
    return {name: found[name] for name in SCHEMA.names}


def _csv(names: Sequence[str], batches: Iterator[list[dict[str, Any]]]) -> Iterator[bytes]:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(names)
    for records in batches:
        writer.writerows([_csv_cell(value) for value in record.values()] for record in records)
        yield text.getvalue().encode()
        text.seek(0)
        text.truncate()
    yield text.getvalue().encode()


def _csv_cell(value: object) -> str:
    """Return a value for a cell, in which a spreadsheet sees no formula.

    Control characters are visible, as everywhere else that people read.
    """
    if value is None or value == "":
        return ""
    shown = visible(plain(value)) if isinstance(value, str) else str(plain(value))
    return f"'{shown}" if isinstance(value, str) and shown.startswith(_FORMULA) else shown


def _json_lines(_names: Sequence[str], batches: Iterator[list[dict[str, Any]]]) -> Iterator[bytes]:
    for records in batches:
        rows = ({name: plain(value) for name, value in record.items()} for record in records)
        lines = (json.dumps(row, ensure_ascii=False) for row in rows)
        yield "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace")


def plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _parquet(_names: Sequence[str], batches: Iterator[list[dict[str, Any]]]) -> Iterator[bytes]:
    sink = _Sink()
    with pq.ParquetWriter(pa.PythonFile(sink, "w"), SCHEMA) as writer:
        for records in batches:
            writer.write_table(pa.Table.from_pylist(records, schema=SCHEMA))
            yield sink.taken()
    yield sink.taken()


class _Sink(io.RawIOBase):
    """A file whose bytes are taken while it is written."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._written = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, data: Any) -> int:
        self._held += data
        self._written += len(data)
        return len(data)

    def taken(self) -> bytes:
        taken = bytes(self._held)
        self._held.clear()
        return taken


FORMS: Final[Mapping[str, FileForm]] = {
    "csv": FileForm("text/csv; charset=utf-8", _csv),
    "jsonl": FileForm("application/x-ndjson", _json_lines),
    "parquet": FileForm("application/vnd.apache.parquet", _parquet),
}


# The outcomes of all runs.

OUTCOMES: Final = _schema(
    *("run_id", "queue_manager", "queue", "message_key", "residence", "rules_digest", "dry_run"),
    *("rule", "action", "outcome", "at"),
    message_key=pa.binary(),
)
PRUNED: Final = _schema(
    *("run_id", "queue_manager", "queue", "rules_digest", "dry_run", "rule", "action", "outcome"),
    "messages",
)


def export_outcomes(ledger: Ledger, directory: str) -> int:
    """Write all outcomes to `outcomes.parquet` in a directory; return how many there are.

    An outcome that a later run found out replaces the booked one. The numbers of pruned runs are
    written to `pruned.parquet` first: a run that is pruned in between is missing, not counted
    twice. The rows are read and written a few thousand at a time; each file appears whole or not
    at all.
    """
    make_directory(directory)
    totals = ledger.prunes.history(PRUNED.names, _ROWS)
    _write_list(f"{directory}/pruned.parquet", PRUNED, totals)
    rows = ledger.outcomes.history(OUTCOMES.names, _ROWS)
    return _write_list(f"{directory}/outcomes.parquet", OUTCOMES, rows)


def _write_list(place: str, schema: pa.Schema, batches: Iterable[Sequence[Any]]) -> int:
    rows = 0
    with new_file(place) as file, pq.ParquetWriter(file, schema) as parquet:
        for batch in batches:
            columns = dict(zip(schema.names, zip(*batch, strict=True), strict=True))
            table = pa.Table.from_pydict(columns, schema=schema)
            parquet.write_table(table)
            rows += table.num_rows
    return rows
