"""Write found messages as CSV or JSON Lines, some at a time."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from itertools import islice
from typing import Final

from mqdlq.reading.find import FoundMessage
from mqdlq.reading.outcome_files import csv_cell

_ROWS: Final = 500
_NAMES: Final = [field.name for field in fields(FoundMessage)]


def found_file(form: str, messages: Iterable[FoundMessage]) -> Iterator[bytes]:
    """Yield the parts of a file of messages; `form` is one of `FORMS`. It has no bodies."""
    rest = iter(messages)
    header, write, _ = FORMS[form]
    yield header()
    while some := list(islice(rest, _ROWS)):
        yield write(some)


def _csv_header() -> bytes:
    return _csv_lines([_NAMES])


def _csv(messages: list[FoundMessage]) -> bytes:
    records = (message.as_record() for message in messages)
    return _csv_lines([csv_cell(value) for value in record.values()] for record in records)


def _csv_lines(rows: Iterable[list[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def _json_lines(messages: list[FoundMessage]) -> bytes:
    lines = (json.dumps(message.as_record(), ensure_ascii=False) for message in messages)
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace")


FORMS: Final[dict[str, tuple[Callable[[], bytes], Callable[[list[FoundMessage]], bytes], str]]] = {
    "csv": (_csv_header, _csv, "text/csv; charset=utf-8"),
    "jsonl": (bytes, _json_lines, "application/x-ndjson"),
}
"""By the ending of a file: what begins it, what writes some messages, and its type for browsers."""
