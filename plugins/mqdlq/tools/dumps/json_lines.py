"""Parse the JSON lines of `mqdlq qm dump` and `mqdlq qm browse --format json` into messages.

A line is a JSON object: the fields of the MQMD under IBM's names, at the top level or in `MQMD`,
and `body` in hexadecimal digits. A dump begins with a line that names its format, and ends with a
line that counts its messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from mqdlq.errors import PasteError
from mqdlq.structures import Kind
from mqdlq.tools.dumps.pasted import FIELDS, Draft, PastedMessage, parse_hexadecimal, shorten

SOURCE: Final = "mqdlq qm"
_EXAMPLE: Final = 'a message such as {"Format": "MQDEAD", …, "body": "444C…"}'


def is_recognised(lines: Sequence[str]) -> bool:
    """Return whether the first line that is not blank begins a JSON object."""
    return next((line for line in lines if line.strip()), "").lstrip().startswith("{")


def read(lines: Sequence[str]) -> Iterator[PastedMessage]:
    """Yield the messages; raise `PasteError`."""
    expected: int | None = None
    is_dump, count = False, 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        row = _object(line, number)
        if "format" in row:
            is_dump = True
        elif "messages" in row:
            expected = row["messages"]
        else:
            count += 1
            yield _message(row, number)
    if is_dump and expected != count:
        raise PasteError(len(lines), f"the dump is cut off: of its messages, {count} are there")


def _object(line: str, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise PasteError(number, f"expected {_EXAMPLE}")
    return row


def _message(row: dict[str, Any], number: int) -> PastedMessage:
    fields, body = row.get("MQMD", row), row.get("body")
    if not isinstance(fields, dict) or not isinstance(body, str):
        raise PasteError(number, f"expected {_EXAMPLE}")
    draft = Draft(number, SOURCE)
    for ibm_name, entry in FIELDS.items():
        if ibm_name in fields:
            value = fields[ibm_name]
            if not isinstance(value, str if entry.kind is not Kind.LONG else str | int):
                kind = "a number" if entry.kind is Kind.LONG else "text"
                found = shorten(json.dumps(value))
                raise PasteError(number, f"{ibm_name} must be {kind}, found {found}")
            written = str(value)
            draft.set(ibm_name, _text(written) if entry.kind is Kind.TEXT else written, number)
    draft.body += parse_hexadecimal(body, number, "the body")
    return draft.finish()


def _text(written: str) -> str:
    """Return text whose bytes were written as characters of ISO 8859-1."""
    try:
        return written.encode("latin-1").decode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return written
