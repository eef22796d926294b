"""Lists as files: all that a list has, in each form that people and programs read."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Annotated, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from mqdlq.lake.filters import choice
from mqdlq.words import visible

ROWS: Final = 10_000
"""How many rows of a file are in memory at a time."""
_NUMBERS: Final = (
    *("browse_seq", "total_length", "messages", "attention", "expiring", "depth", "max_depth"),
    *("equals", "without_outcome"),
)
_SMALL_NUMBERS: Final = ("reason", "rule", "rule_line", "attempts", "residence", "persistence")
_TIMES: Final = (
    *("since", "put_at", "dead_lettered_at", "expires_at", "outcome_at", "at", "oldest_at"),
    *("first_at", "last_at", "started_at", "ended_at", "looked_at"),
)
_TRUTHS: Final = (
    *("is_settled", "is_known_since", "dry_run", "has_departed", "is_arriving", "adds_up"),
)
_TYPES: Final = {
    **dict.fromkeys(_NUMBERS, pa.int64()),
    **dict.fromkeys(_SMALL_NUMBERS, pa.int32()),
    **dict.fromkeys(_TIMES, pa.timestamp("us", tz="UTC")),
    **dict.fromkeys(_TRUTHS, pa.bool_()),
}
"""The types of columns by their names; any other one has text."""

Record = Mapping[str, Any]


def schema_of(*names: str, **types: pa.DataType) -> pa.Schema:
    """Return columns with the type that each name has in all files, or the given one."""
    known = _TYPES | types
    return pa.schema([(name, known.get(name, pa.string())) for name in names])


@dataclass(frozen=True, slots=True)
class Export:
    """A list to be written as a file: its name without the form, its columns, and its rows.

    A row has a value for each column, None where there is none. No row has a body.
    """

    name: str
    schema: pa.Schema
    rows: Iterable[Record]

    def parts(self, form: str) -> Iterator[bytes]:
        """Yield the parts of a file, of `ROWS` rows each; `form` is one of `FORMS`."""
        rest = iter(self.rows)
        batches = iter(lambda: list(islice(rest, ROWS)), [])
        return FORMS[form].write(self.schema, batches)


@dataclass(frozen=True, slots=True)
class Form:
    """A form of a file: its name for people, its type for browsers, and what writes it."""

    words: str
    media_type: str
    write: Callable[[pa.Schema, Iterator[list[Record]]], Iterator[bytes]]


# CSV

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def _csv(schema: pa.Schema, batches: Iterator[list[Record]]) -> Iterator[bytes]:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(schema.names)
    for records in batches:
        rows = ([_csv_cell(record[name]) for name in schema.names] for record in records)
        writer.writerows(rows)
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
    shown = visible(_plain(value)) if isinstance(value, str) else str(_plain(value))
    return f"'{shown}" if isinstance(value, str) and shown.startswith(_FORMULA) else shown


# JSON, a line for each row


def _json_lines(schema: pa.Schema, batches: Iterator[list[Record]]) -> Iterator[bytes]:
    for records in batches:
        rows = ({name: _plain(record[name]) for name in schema.names} for record in records)
        lines = (json.dumps(row, ensure_ascii=False) for row in rows)
        yield "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace")


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


# Parquet


def _parquet(schema: pa.Schema, batches: Iterator[list[Record]]) -> Iterator[bytes]:
    sink = _Sink()
    with pq.ParquetWriter(pa.PythonFile(sink, "w"), schema) as writer:
        for records in batches:
            writer.write_table(pa.Table.from_pylist(records, schema=schema))
            yield sink.taken()
    yield sink.taken()


class _Sink(io.BytesIO):
    """A file whose bytes are taken while it is written."""

    _before = 0

    def tell(self) -> int:
        return self._before + super().tell()

    def taken(self) -> bytes:
        taken = self.getvalue()
        self._before += len(taken)
        self.seek(0)
        self.truncate()
        return taken


FORMS: Final[Mapping[str, Form]] = {
    "csv": Form("CSV", "text/csv; charset=utf-8", _csv),
    "jsonl": Form("JSON Lines", "application/x-ndjson; charset=utf-8", _json_lines),
    "parquet": Form("Parquet", "application/vnd.apache.parquet", _parquet),
}
FileForm = Annotated[str, choice(FORMS)]
"""The query parameter of a list's page that asks for the list as a file."""
