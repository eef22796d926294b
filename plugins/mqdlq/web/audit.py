"""The audit log."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import fields
from itertools import chain
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter
from fastapi.responses import Response

from mqdlq.ledger.reading.audit import AuditFilter
from mqdlq.ledger.tables import AuditEvent
from mqdlq.model import AuditKind
from mqdlq.reading.filters import MessageKey, Period, Text, choice, longest, number
from mqdlq.reading.page_paths import Paths
from mqdlq.web.requests import FleetView, HandlerView, View
from mqdlq.web.serving import Download, PageRoute

# The audit as pages and files.

PAGE: Final = 100
COLUMNS: Final = tuple(field.name for field in fields(AuditEvent))
_LAST_PAGE: Final = 10_000
_LONGEST_RUN: Final = 250
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


class AuditQuery(Period):
    """The events to list, by what they say, and the page of the list."""

    who: Text = ""
    what: Annotated[AuditKind | None, choice(AuditKind)] = None
    handler: Text = ""
    run: Annotated[str, longest(_LONGEST_RUN)] = ""
    message_key: MessageKey = ""
    page: Annotated[int, number(1, _LAST_PAGE)] = 1

    def among(self, handlers: Collection[str], handler: str) -> AuditFilter:
        """Return the filter for a person who may read these handlers, on the page of `handler`."""
        given = self.model_dump(exclude={"page", "run"})
        if handler:
            given["handler"] = handler
        return AuditFilter(**given, run_id=self.run, handlers=frozenset(handlers))


def as_csv(events: Iterable[AuditEvent]) -> Iterator[str]:
    """Yield the lines of a CSV file; a spreadsheet takes no cell for a formula."""
    rows = (map(_harmless, _plain(event).values()) for event in events)
    for cells in chain([COLUMNS], rows):
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(cells)
        yield line.getvalue()


def as_json_lines(events: Iterable[AuditEvent]) -> Iterator[str]:
    for event in events:
        yield json.dumps(_plain(event), ensure_ascii=False) + "\n"


def _plain(event: AuditEvent) -> dict[str, Any]:
    values = {name: getattr(event, name) for name in COLUMNS}
    return values | {"at": event.at.isoformat(), "what": str(event.what)}


def _harmless(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


FORMS: Final = {
    "csv": (as_csv, "text/csv; charset=utf-8"),
    "jsonl": (as_json_lines, "application/x-ndjson; charset=utf-8"),
}
Form = Literal["csv", "jsonl"]

# Routes: the audit log of all handlers that a person may read, or of one, with all pages as a file.

router: Final = APIRouter(route_class=PageRoute)


@router.get(Paths.audit)
def show_audit(view: FleetView) -> Response:
    return _show(view)


@router.get(Paths.audit_file)
def download_audit(view: FleetView, form: Form) -> Response:
    return _file(view, form)


@router.get(Paths.handler_audit)
def show_audit_of_handler(view: HandlerView) -> Response:
    return _show(view)


@router.get(Paths.handler_audit_file)
def download_audit_of_handler(view: HandlerView, form: Form) -> Response:
    return _file(view, form)


def _show(view: View) -> Response:
    asked = view.parse(AuditQuery)
    wanted, start = asked.among(view.handlers, view.handler), (asked.page - 1) * PAGE
    found = view.ledger.audit_trail.page(wanted, offset=start, limit=PAGE + 1)
    return view.render(
        "audit/audit.html",
        events=found[:PAGE],
        has_next=len(found) > PAGE,
        number=asked.page,
        given=asked.parameters(),
        kinds=list(AuditKind),
        handlers=sorted(view.handlers),
    )


def _file(view: View, form: Form) -> Response:
    write, media_type = FORMS[form]
    wanted = view.parse(AuditQuery).among(view.handlers, view.handler)
    events = view.ledger.audit_trail.events(wanted)
    return Download(write(events), f"audit.{form}", media_type)
