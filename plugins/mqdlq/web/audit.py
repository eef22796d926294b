"""The audit log."""

from collections.abc import Collection
from dataclasses import fields
from typing import Annotated, Final

from fastapi import APIRouter
from fastapi.responses import Response

from mqdlq.lake.filters import MessageKey, Period, Text, choice, longest, number
from mqdlq.ledger.reading.audit import AuditFilter
from mqdlq.ledger.tables import AuditEvent
from mqdlq.model import AuditKind
from mqdlq.reading.exports import Export, FileForm, schema_of
from mqdlq.reading.page_paths import Paths
from mqdlq.web.requests import FleetView, HandlerView, View
from mqdlq.web.serving import PageRoute

PAGE: Final = 100
SCHEMA: Final = schema_of(*(field.name for field in fields(AuditEvent)))
_LAST_PAGE: Final = 10_000
_LONGEST_RUN: Final = 250


class AuditQuery(Period):
    """The events to list, by what they say, and the page of the list."""

    who: Text = ""
    what: Annotated[AuditKind | None, choice(AuditKind)] = None
    handler: Text = ""
    run: Annotated[str, longest(_LONGEST_RUN)] = ""
    message_key: MessageKey = ""
    page: Annotated[int, number(1, _LAST_PAGE)] = 1
    download: FileForm = ""

    def among(self, handlers: Collection[str], handler: str) -> AuditFilter:
        """Return the filter for a person who may read these handlers, on the page of `handler`."""
        given = self.model_dump(exclude={"page", "run", "download"})
        if handler:
            given["handler"] = handler
        return AuditFilter(**given, run_id=self.run, handlers=frozenset(handlers))


# Routes: the audit log of all handlers that a person may read, or of one.

router: Final = APIRouter(route_class=PageRoute)


@router.get(Paths.audit)
def show_audit(view: FleetView) -> Response:
    return _show(view)


@router.get(Paths.handler_audit)
def show_audit_of_handler(view: HandlerView) -> Response:
    return _show(view)


def _show(view: View) -> Response:
    asked = view.parse(AuditQuery)
    wanted, start = asked.among(view.handlers, view.handler), (asked.page - 1) * PAGE
    if asked.download:
        events = view.ledger.audit_trail.events(wanted)
        rows = ({name: getattr(event, name) for name in SCHEMA.names} for event in events)
        return view.download(Export("audit", SCHEMA, rows), asked.download)
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
