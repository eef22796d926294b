"""Search for messages, and one message: its page, its row as JSON, and its captured body."""

from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query
from fastapi.encoders import jsonable_encoder
from fastapi.responses import HTMLResponse, JSONResponse, Response

from mqdlq import lake
from mqdlq.causes import cause_of_row
from mqdlq.errors import LakeError, MessageKeyError, MqDlqError
from mqdlq.handlers import load_handler
from mqdlq.headers.ccsid import UTF_16, following_ccsid, text_codec
from mqdlq.lake import filters
from mqdlq.lake.archive import file_in_lake, find_copy
from mqdlq.lake.filters import PARAMETERS, FilterError, MessageFilter, Presence
from mqdlq.lake.replacements import read_replacement
from mqdlq.lake.schema import HEADERS
from mqdlq.ledger.archive import ArchivedCopy
from mqdlq.ledger.reading.audit import AuditFilter
from mqdlq.ledger.reading.message_facts import (
    UNKNOWN_MESSAGE,
    KnownSnapshot,
    MessageState,
)
from mqdlq.model import Outcome
from mqdlq.reading import find
from mqdlq.reading.explanations import RULES_APPLY_TO, ExplainedRule, explained_rules
from mqdlq.reading.exports import FileForm
from mqdlq.reading.message import shown_headers, timeline, trace_link, traceparent_of
from mqdlq.reading.page_paths import Paths, dag_of
from mqdlq.rules import RulesTable, explain, parse, with_nuls_as_blanks
from mqdlq.stages.run_options import RunOptions, read_rules
from mqdlq.stages.snapshot.capture import read_payload
from mqdlq.tools.acting import Sources, Verb
from mqdlq.tools.replacing import SHOWN_BYTES, difference, hex_dump, record_look
from mqdlq.web.rendering import NotFoundError, printable
from mqdlq.web.requests import (
    FleetView,
    HandlerDep,
    HandlerView,
    LedgerDep,
    body_connection,
    connection_of,
    may_reveal,
    payload_keys,
)
from mqdlq.web.serving import PageRoute

router: Final = APIRouter(route_class=PageRoute)

# Search: one page of the messages that a filter selects, or the fault of the filter.


class ListQuery(filters.Query):
    """What the page has beside the filter: the handler to search, and which part of the list."""

    handler: str = ""
    page: filters.PageNumber = 1
    download: FileForm = ""


STATES: Final = {str(state): state.words for state in (*Presence, *Outcome)}
"""The states that can be chosen, and their words."""

_ALWAYS_OPEN: Final = ("text", "since", "until", "state")


@router.get(Paths.search)
def search_messages(view: FleetView) -> Response:
    given = dict(view.given)
    handler = given.get("handler", "").strip()
    chosen, found, fault = MessageFilter(), None, None
    try:
        chosen = MessageFilter.parse(view.given, ListQuery.model_fields)
        asked = ListQuery.parse(view.given, PARAMETERS)
        search = find.Search(chosen, _among(handler, view.handlers), view.ledger, view.lake_root)
        if asked.download:
            return view.download(find.found_messages(search.messages()), asked.download)
        found = search.page(asked.page)
    except FilterError as error:
        chosen, fault = MessageFilter(), error
    return view.render(
        "messages/search.html",
        422 if fault else 200,
        given=given,
        chosen=chosen,
        only=handler,
        query=({"handler": handler} if handler else {}) | chosen.parameters(),
        found=found,
        fault=fault,
        has_more_fields=any(given.get(name) for name in PARAMETERS if name not in _ALWAYS_OPEN),
        handlers=sorted(view.handlers),
        states=STATES,
        may_act=handler in view.handlers and view.person.may_act(dag_of(handler)),
        may_find=handler in view.handlers and view.person.may_reveal(connection_of(handler)),
        downloaded=find.DOWNLOADED,
    )


def _among(handler: str, handlers: Collection[str]) -> list[str]:
    """Return the handlers to search; raise `FilterError` for one that the person may not read."""
    if not handler:
        return sorted(handlers)
    if handler not in handlers:
        fault = "it does not exist, or you may not see it"
        raise FilterError("handler", fault, "one of the overview")
    return [handler]


# One message: its fields, rules, history, related messages and possible actions.

_EVENTS: Final = 500
_DIGITS: Final = frozenset("0123456789abcdef")

Row = Mapping[str, Any]


def whole_key(message_key: str, handler: HandlerDep, ledger: LedgerDep) -> str:
    """Return the key in the path, of which the first digits are enough if they are unique."""
    try:
        return ledger.message_facts.complete([message_key], [handler.name])[0]
    except MessageKeyError as error:
        if error.error_id == "MQDLQ-904":
            raise
        return message_key.lower()  # the page says that it has no such message


KeyDep = Annotated[str, Depends(whole_key)]


def read_message(message_key: str, sources: Sources) -> tuple[KnownSnapshot, Row]:
    """Return the row of a message with all columns, and its snapshot; raise NotFoundError."""
    found, handler = None, sources.handler
    if len(message_key) == 64 and set(message_key) <= _DIGITS:  # noqa: PLR2004
        stored: dict[str, Any] = {"ledger": sources.ledger, "lake_root": sources.lake_root}
        found = find.find_row(message_key, handler, columns=HEADERS.names, **stored)
    if found is None:
        raise NotFoundError(
            "MQDLQ-941",
            f"The snapshots of handler {handler} do not have the message"
            f" {message_key[:80]!r}; it may be pruned, so search for it by its MsgId or a name",
        )
    return found


@router.get(Paths.message)
def message(
    view: HandlerView,
    message_key: KeyDep,
    connection: Annotated[str | None, Depends(body_connection)],
) -> HTMLResponse:
    snapshot, row = read_message(message_key, view)
    ledger, now = view.ledger, view.clock()
    key, place = row["message_key"], (snapshot.queue_manager, snapshot.queue)
    state = ledger.message_facts.states(*place, [key]).get(key, UNKNOWN_MESSAGE)
    shown = find.found_message(snapshot, row, state)
    history = ledger.message_facts.history(view.handler, *place, key)
    looks = AuditFilter(message_key=message_key, handlers=[view.handler])
    audit = ledger.audit_trail.page(looks, limit=_EVENTS)
    keys = [message_key]
    copies = ledger.archive.copies(handler=view.handler, place=place, message_keys=keys)
    copy = next((one for one in reversed(list(copies)) if not one.is_provisional), None)
    try:
        payload = lake.read_manifest(_directory(snapshot, view.lake_root)).payload
    except LakeError:
        payload = "none"
    return view.render(
        "messages/message.html",
        one=shown,
        row=row,
        cause=cause_of_row(row),
        snapshot=snapshot,
        age_s=(now - shown.since).total_seconds() if shown.since else None,
        # Negative after the expiry, and None for a message that never expires.
        expires_in_s=(row["expires_at"] - now).total_seconds() if row["expires_at"] else None,
        headers=shown_headers(row),
        tables=_tables(snapshot, row, view),
        events=timeline(row, history, audit),
        history=history,
        actions=_actions(state, copy, may_act=view.asked.may_act),
        trace=_trace(copy, view.lake_root),
        payload=payload,
        may_reveal=view.person.may_reveal(connection),
        body_forms=list(BodyForm),
    )


@router.get(Paths.related_messages)
def related_messages(view: HandlerView, message_key: KeyDep) -> HTMLResponse:
    """Show how many messages of the handler share the cause, the MsgId or the CorrelId."""
    one = find.found_message(*read_message(message_key, view), UNKNOWN_MESSAGE)
    filters = {"The same cause": MessageFilter(cause_id=one.cause_id)}
    if one.msg_id.strip("0"):
        filters["The same MsgId"] = MessageFilter(msg_id=one.msg_id)
    if one.correl_id.strip("0"):
        filters["The same CorrelId"] = MessageFilter(correl_id=one.correl_id)
    related = [
        (words, chosen, find.Search(chosen, [view.handler], view.ledger, view.lake_root).count())
        for words, chosen in filters.items()
    ]
    return view.render("messages/related.html", related=related, message_key=message_key)


@router.get(Paths.message_row)
def message_row(view: HandlerView, message_key: KeyDep) -> JSONResponse:
    """Return the row of a message in its snapshot, without its body.

    Bytes are hexadecimal digits, times are in ISO 8601.
    """
    snapshot, row = read_message(message_key, view)
    names = ("queue_manager", "queue", "snapshot_id", "run_id")
    place = {name: getattr(snapshot, name) for name in names}
    return JSONResponse(jsonable_encoder(place | {**row}, custom_encoder={bytes: bytes.hex}))


Explained = tuple[str, list[ExplainedRule], str]
"""The name of a rules table, its rules as the message meets them, and why there are none."""


def _tables(snapshot: KnownSnapshot, row: Row, sources: Sources) -> Iterator[Explained]:
    """Yield the table of the message's last run, and today's if it differs."""
    run, configuration = sources.ledger.runs.get(snapshot.run_id), None
    frozen, today, fault = None, None, ""
    try:
        configuration = load_handler(sources.handler)
        _, _, today = read_rules(configuration, RunOptions())
    except (MqDlqError, OSError) as error:
        fault = f"It cannot be read: {getattr(error, 'text', error)}"
    is_blank = configuration is not None and configuration.nul_as_blank
    if run is not None:
        frozen = (run.rules_digest, run.nul_as_blank)
        of_run = parse(run.rules_text, queue_kind=run.queue_kind, frozen=True)
        is_todays = today is not None and frozen == (today.digest, is_blank)
        name = f"The table of run {run.run_id}" + (", also today's" if is_todays else "")
        yield _explained(name, of_run, row, nul_as_blank=run.nul_as_blank)
        if is_todays:
            return
    if today is None:
        yield "Today's table", [], fault
    else:
        yield _explained("Today's table", today, row, nul_as_blank=is_blank)


def _explained(name: str, table: RulesTable, row: Row, *, nul_as_blank: bool) -> Explained:
    if not table.acts_on(row["class"]):
        return name, [], f"Rules apply to {RULES_APPLY_TO[table.queue_kind]} only"
    values = with_nuls_as_blanks(row) if nul_as_blank else row
    return name, explained_rules(explain(table, values)), ""


def _actions(
    state: MessageState, copy: ArchivedCopy | None, *, may_act: bool
) -> Iterator[tuple[str, str, str]]:
    """Yield the actions: name in URLs, words, and why it is not possible ("" if it is)."""
    obstacle = "" if may_act else "you may not start runs of this handler"
    gone = obstacle or ("it has left the queue" if state.has_departed else "")
    for verb in (Verb.RETRY, Verb.FORWARD, Verb.DISCARD):
        yield verb.value, verb.words, gone
    kept = ""
    if copy is None and state.outcome in {Outcome.FORWARDED, Outcome.DELIVERED}:
        kept = (
            "it cannot be undone: no copy is made of a message that is put on another queue, where"
            " an application may have read it; to take it back, move it from that queue"
        )
    elif copy is None:
        kept = "the archive has no copy: only a discarded or repaired message has one"
    elif copy.pruned_at is not None:
        kept = "its archive copy is pruned"
    elif copy.repair is not None:
        kept = (
            "it was delivered repaired, so that its original would be a second message; mqdlq"
            " restore run --again restores the original"
        )
    yield Verb.RESTORE.value, Verb.RESTORE.words, obstacle or kept


def _trace(copy: ArchivedCopy | None, lake_root: str) -> tuple[str, str, str]:
    """Return the `traceparent` of the message, its link ("" if none), and what is stored."""
    if copy is None or copy.pruned_at is not None:
        stored = "No archive copy has the message's properties, so its trace is not known."
        return "", "", stored
    try:
        found = find_copy(file_in_lake(lake_root, copy.location), copy.message_id)
    except LakeError:
        return "", "", "The archive copy, which has the message's properties, cannot be read."
    traceparent = traceparent_of(found.descriptor, found.body) if found else ""
    if not traceparent:
        return "", "", "The archive copy of the message has no valid property traceparent."
    return traceparent, trace_link(traceparent), "The property is in the archive copy."


def _directory(snapshot: KnownSnapshot, lake_root: str) -> str:
    place = (snapshot.queue_manager, snapshot.queue)
    return lake.snapshot_directory(lake_root, *place, snapshot.snapshot_id)


# The captured body of one message, for people who may see it; every look is in the audit.

_EBCDIC: Final = 500


class BodyForm(StrEnum):
    """How a body is shown."""

    TEXT = "text"
    HEX = "hex"
    EBCDIC = "ebcdic"


@router.post(Paths.message_body, dependencies=[Depends(may_reveal)])
def message_body(
    view: HandlerView,
    message_key: KeyDep,
    form: Annotated[BodyForm, Query(alias="as")] = BodyForm.TEXT,
    replacement: str = "",
) -> HTMLResponse:
    """Show the captured body of a message to a person who may see it, and record the look.

    With the digest of a replacement, it shows how that differs. If the look cannot be recorded,
    LedgerUnavailableError is raised and nothing is shown. Raises NotFoundError if no body is
    captured, and `LakeError` if its key or the replacement is missing.
    """
    snapshot, row = read_message(message_key, view)
    directory = _directory(snapshot, view.lake_root)
    payload = read_payload(directory, row["browse_seq"], payload_keys(view.handler))
    if payload is None:
        raise NotFoundError(
            "MQDLQ-945",
            f"Snapshot {snapshot.snapshot_id} has no body of this message; bodies are captured if"
            " the handler's `payload` says so",
        )
    data = payload.data[:SHOWN_BYTES]
    if replacement:
        new = read_replacement(view.lake_root, view.handler, replacement)
        lines, note = difference(payload.data, new, row)
        text = printable("\n".join(lines))
    else:
        text, note = _readable(data, row, form)
    shown = f"how {replacement} differs" if replacement else form
    details = f"{len(data)} of {payload.length} bytes as {shown}"
    record_look(view, view.person.name, snapshot, row, details)
    return view.render(
        "messages/body.html",
        text=text,
        note=note,
        shown=len(data),
        stored=len(payload.data),
        length=payload.length,
        message_key=message_key,
        replacement=replacement,
        limit=SHOWN_BYTES,
        body_forms=list(BodyForm),
    )


def _readable(data: bytes, row: Row, form: BodyForm) -> tuple[str, str]:
    """Return the data in a form, and a note; unknown CCSIDs give a hexadecimal dump."""
    if form is BodyForm.HEX:
        return hex_dump(data), ""
    # The last header in the snapshot states the CCSID of the data after it.
    ccsid, stated = int(row["coded_char_set_id"] or 0), row["dlh_coded_char_set_id"]
    if form is BodyForm.EBCDIC:
        ccsid = _EBCDIC
    elif stated is not None:
        ccsid = following_ccsid(int(stated), ccsid)
    if ccsid in UTF_16:
        return printable(data.decode("utf-16-be", "replace")), f"In CCSID {ccsid}."
    codec = text_codec(ccsid)
    if codec is None:
        return hex_dump(data), f"CCSID {ccsid} is not one that can be shown as text."
    return printable(codec.decode(data)), f"In CCSID {ccsid}."
