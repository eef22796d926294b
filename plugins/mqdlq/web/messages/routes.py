"""The row of a message in a snapshot as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from mqdlq.ledger.reading.message_keys import MessageKeyError
from mqdlq.ledger.reading.message_states import KnownSnapshot
from mqdlq.reading.filters import MessageFilter
from mqdlq.reading.find import DOWNLOADED, iterate_messages
from mqdlq.reading.find_files import FORMS, found_file
from mqdlq.reading.page_paths import dag_of
from mqdlq.web.access import HandlerDep, PersonDep, ReadableHandlers
from mqdlq.web.messages.message_view import (
    SHOWN_BYTES,
    BodyForm,
    read_message,
    related,
    reveal_body,
    show_message,
)
from mqdlq.web.messages.search_view import OTHERS, STATES, chosen_handlers, search
from mqdlq.web.rendering import ForbiddenError, render
from mqdlq.web.requests import ClockDep, LakeRoot, LedgerDep, body_connection, payload_keys
from mqdlq.web.threads import Download, PageRoute


def row_as_json(snapshot: KnownSnapshot, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row for JSON: bytes as hexadecimal digits, times in ISO 8601, and its place."""
    place = {
        "queue_manager": snapshot.queue_manager,
        "queue": snapshot.queue,
        "snapshot_id": snapshot.snapshot_id,
        "run_id": snapshot.run_id,
    }
    return {**place, **{name: _plain(value) for name, value in row.items()}}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if isinstance(value, datetime) else value


# Routes: search for messages, and one message.

router: Final = APIRouter(route_class=PageRoute)


def whole_key(message_key: str, handler: HandlerDep, ledger: LedgerDep) -> str:
    """Return the key in the path, of which the first digits are enough if they are unique."""
    try:
        return ledger.message_keys.complete([message_key], [handler.name])[0]
    except MessageKeyError as error:
        if error.error_id == "MQDLQ-904":
            raise
        return message_key.lower()  # the page says that it has no such message


KeyDep = Annotated[str, Depends(whole_key)]


@router.get("/search")
def search_messages(
    request: Request,
    handlers: ReadableHandlers,
    person: PersonDep,
    ledger: LedgerDep,
    lake_root: LakeRoot,
) -> HTMLResponse:
    """Show the messages that a filter selects, of all handlers that the person may read."""
    page = search(request.query_params.multi_items(), handlers, ledger=ledger, lake_root=lake_root)
    may_act = page.handler in handlers and person.may_act(dag_of(page.handler))
    return render(
        request,
        "messages/search.html",
        422 if page.fault else 200,
        page=page,
        handlers=sorted(handlers),
        states=STATES,
        may_act=may_act,
        downloaded=DOWNLOADED,
    )


@router.get("/search.{form}")
def search_file(
    request: Request,
    form: Literal["csv", "jsonl"],
    handlers: ReadableHandlers,
    ledger: LedgerDep,
    lake_root: LakeRoot,
) -> Response:
    """Return the messages that a filter selects as a file, up to a limit."""
    given = request.query_params
    chosen = MessageFilter.parse(given.multi_items(), OTHERS)
    among = chosen_handlers(given.get("handler", "").strip(), handlers)
    found = iterate_messages(chosen, among, ledger=ledger, lake_root=lake_root)
    return Download(
        found_file(form, found),
        media_type=FORMS[form][2],
        headers={"Content-Disposition": f'attachment; filename="messages.{form}"'},
    )


@router.get("/dags/{dag_id}/messages/{message_key}")
def message(  # noqa: PLR0917 (the parts of the path, and what a page gets)
    request: Request,
    message_key: KeyDep,
    handler: HandlerDep,
    person: PersonDep,
    ledger: LedgerDep,
    lake_root: LakeRoot,
    clock: ClockDep,
    connection: Annotated[str | None, Depends(body_connection)],
) -> HTMLResponse:
    """Show a message, without its body."""
    page = show_message(
        handler.name,
        message_key,
        may_act=handler.may_act,
        now=clock(),
        ledger=ledger,
        lake_root=lake_root,
    )
    return render(
        request,
        "messages/message.html",
        page=page,
        may_reveal=person.may_reveal(connection),
        body_forms=list(BodyForm),
    )


@router.get("/dags/{dag_id}/messages/{message_key}/related")
def related_messages(
    request: Request,
    message_key: KeyDep,
    handler: HandlerDep,
    ledger: LedgerDep,
    lake_root: LakeRoot,
) -> HTMLResponse:
    """Show how many messages are related to a message."""
    found = related(handler.name, message_key, ledger=ledger, lake_root=lake_root)
    return render(request, "messages/related.html", related=found, message_key=message_key)


@router.get("/dags/{dag_id}/messages/{message_key}/row.json")
def message_row(
    message_key: KeyDep, handler: HandlerDep, ledger: LedgerDep, lake_root: LakeRoot
) -> JSONResponse:
    """Return the row of a message in its snapshot, without its body."""
    snapshot, row = read_message(handler.name, message_key, ledger=ledger, lake_root=lake_root)
    return JSONResponse(row_as_json(snapshot, row))


@router.post("/dags/{dag_id}/messages/{message_key}/body")
def message_body(  # noqa: PLR0917 (the parts of the path, and what a page gets)
    request: Request,
    message_key: KeyDep,
    handler: HandlerDep,
    person: PersonDep,
    ledger: LedgerDep,
    lake_root: LakeRoot,
    clock: ClockDep,
    connection: Annotated[str | None, Depends(body_connection)],
    form: Annotated[BodyForm, Query(alias="as")] = BodyForm.TEXT,
) -> HTMLResponse:
    """Show the captured body of a message to a person who may see it, and record the look."""
    if not person.may_reveal(connection):
        raise ForbiddenError(
            "MQDLQ-942",
            f"You may not see message bodies of {handler.dag_id}; ask for permission to read the"
            " custom view 'mqdlq message bodies' and connections in Airflow",
        )
    snapshot, row = read_message(handler.name, message_key, ledger=ledger, lake_root=lake_root)
    body = reveal_body(
        snapshot,
        row,
        form,
        payload_keys(handler.name),
        who=person.name,
        now=clock(),
        ledger=ledger,
        lake_root=lake_root,
    )
    return render(
        request,
        "messages/body.html",
        body=body,
        form=form,
        message_key=message_key,
        snapshot=snapshot,
        limit=SHOWN_BYTES,
        body_forms=list(BodyForm),
    )
