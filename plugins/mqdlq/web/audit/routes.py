"""Routes: the audit log."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from mqdlq.ledger import Ledger
from mqdlq.model import AuditKind
from mqdlq.web.access import HandlerDep, ReadableHandlers
from mqdlq.web.audit.view import PAGE, AskedPage, as_csv, as_json_lines, parse_page
from mqdlq.web.rendering import render
from mqdlq.web.requests import LedgerDep
from mqdlq.web.threads import Download, PageRoute

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
