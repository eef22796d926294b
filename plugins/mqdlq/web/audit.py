"""The audit log."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from mqdlq.ledger import AuditEvent, AuditFilter, Ledger
from mqdlq.model import AuditKind
from mqdlq.web.access import HandlerDep, ReadableHandlers
from mqdlq.web.rendering import InvalidRequestError, render
from mqdlq.web.requests import LedgerDep
from mqdlq.web.threads import Download, PageRoute

# The audit as pages and files.

PAGE: Final = 100
COLUMNS: Final = tuple(field.name for field in fields(AuditEvent))
_LAST_PAGE: Final = 10_000
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class AskedPage:
    """A page of the audit: its filter, and its number from 1."""

    wanted: AuditFilter
    number: int
    given: Mapping[str, str]


def parse_page(
    given: Mapping[str, str], handlers: Collection[str], ledger: Ledger, handler: str = ""
) -> AskedPage:
    """Parse the address of the audit; the person may read `handlers`.

    Raises InvalidRequestError, and MessageKeyError for a key that is not one.
    """
    texts = {name: given.get(name, "").strip() for name in NAMES}
    keys = filter(None, [texts["message_key"]])
    key = "".join(ledger.message_keys.complete(keys, handlers))
    if texts["what"] and texts["what"] not in [str(kind) for kind in AuditKind]:
        raise _invalid("what", texts["what"], f"one of {', '.join(AuditKind)}")
    number = given.get("page", "1")
    if not (number.isascii() and number.isdecimal() and 1 <= int(number) <= _LAST_PAGE):
        raise _invalid("page", number, f"1 to {_LAST_PAGE}")
    wanted = AuditFilter(
        who=texts["who"],
        what=AuditKind(texts["what"]) if texts["what"] else None,
        handler=handler or texts["handler"],
        handlers=frozenset(handlers),
        since=_moment("since", texts["since"], timedelta()),
        until=_moment("until", texts["until"], timedelta(days=1)),
        message_key=key,
        run_id=texts["run"],
    )
    return AskedPage(wanted, int(number), {name: text for name, text in texts.items() if text})


NAMES: Final = ("who", "what", "handler", "since", "until", "message_key", "run")
"""The query parameters of a filter."""


def as_csv(events: Iterable[AuditEvent]) -> Iterator[str]:
    """Yield the lines of a CSV file; a spreadsheet takes no cell for a formula."""
    yield _line(COLUMNS)
    for event in events:
        yield _line([_harmless(value) for value in _plain(event).values()])


def as_json_lines(events: Iterable[AuditEvent]) -> Iterator[str]:
    """Yield an object for each event."""
    for event in events:
        yield json.dumps(_plain(event), ensure_ascii=False) + "\n"


def _plain(event: AuditEvent) -> dict[str, Any]:
    values = {name: getattr(event, name) for name in COLUMNS}
    return values | {"at": event.at.isoformat(), "what": str(event.what)}


def _line(cells: Iterable[Any]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerow(cells)
    return file.getvalue()


def _harmless(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _moment(name: str, text: str, of_day: timedelta) -> datetime | None:
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
        return at + of_day if len(text) == len("2026-11-21") else at
    except (ValueError, OverflowError):
        expected = "a day or a time in UTC, such as 2026-11-21 or 2026-11-21T09:30"
        raise _invalid(name, text, expected) from None


def _invalid(name: str, found: str, expected: str) -> InvalidRequestError:
    return InvalidRequestError("MQDLQ-984", f"{name}: found {found[:60]!r}; expected {expected}")


# Routes: the audit log.

router: Final = APIRouter(route_class=PageRoute)


class FileForm(StrEnum):
    """The form of a file."""

    CSV = "csv"
    JSON_LINES = "jsonl"


_FILES: Final = {
    FileForm.CSV: (as_csv, "text/csv"),
    FileForm.JSON_LINES: (as_json_lines, "application/x-ndjson"),
}


@router.get("/audit")
def show_audit(request: Request, ledger: LedgerDep, handlers: ReadableHandlers) -> Response:
    """Show who did what with the handlers that the person may read."""
    return _show(request, ledger, parse_page(request.query_params, handlers, ledger), handlers)


@router.get("/audit.{form}")
def download_audit(
    request: Request, ledger: LedgerDep, handlers: ReadableHandlers, form: FileForm
) -> Response:
    """Return the same as a file, all pages."""
    return _file(ledger, parse_page(request.query_params, handlers, ledger), form)


@router.get("/dags/{dag_id}/audit")
def show_audit_of_handler(request: Request, ledger: LedgerDep, handler: HandlerDep) -> Response:
    """Show who did what with a handler."""
    asked = parse_page(request.query_params, [handler.name], ledger, handler.name)
    return _show(request, ledger, asked, ())


@router.get("/dags/{dag_id}/audit.{form}")
def download_audit_of_handler(
    request: Request, ledger: LedgerDep, handler: HandlerDep, form: FileForm
) -> Response:
    """Return the same as a file, all pages."""
    return _file(
        ledger, parse_page(request.query_params, [handler.name], ledger, handler.name), form
    )


def _show(
    request: Request, ledger: Ledger, asked: AskedPage, handlers: Collection[str]
) -> Response:
    offset = (asked.number - 1) * PAGE
    found = ledger.audit_trail.page(asked.wanted, offset=offset, limit=PAGE + 1)
    return render(
        request,
        "audit/audit.html",
        events=found[:PAGE],
        has_next=len(found) > PAGE,
        number=asked.number,
        given=asked.given,
        kinds=list(AuditKind),
        handlers=sorted(handlers),
    )


def _file(ledger: Ledger, asked: AskedPage, form: FileForm) -> Response:
    write, kind = _FILES[form]
    lines = write(ledger.audit_trail.events(asked.wanted))
    name = {"Content-Disposition": f'attachment; filename="audit.{form}"'}
    return Download(lines, media_type=f"{kind}; charset=utf-8", headers=name)
