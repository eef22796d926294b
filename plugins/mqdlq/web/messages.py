"""Search for messages, and one message: its page, its row as JSON, and its captured body."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from mqdlq import lake
from mqdlq.causes import cause_of_row
from mqdlq.errors import LakeError, MqDlqError
from mqdlq.handlers import load_handler
from mqdlq.headers.ccsid import UTF_16, following_ccsid, text_codec
from mqdlq.lake.archive import file_in_lake, find_copy
from mqdlq.lake.schema import HEADERS
from mqdlq.ledger.archive import ArchivedCopy
from mqdlq.ledger.reading.audit import AuditFilter
from mqdlq.ledger.reading.message_facts import (
    UNKNOWN_MESSAGE,
    KnownSnapshot,
    MessageKeyError,
    MessageState,
)
from mqdlq.ledger.tables import AuditEvent
from mqdlq.model import AuditKind, Outcome
from mqdlq.reading.explanations import RULES_APPLY_TO, ExplainedRule, explained_rules
from mqdlq.reading.filters import (
    PARAMETERS,
    PRESENCE_WORDS,
    FilterError,
    MessageFilter,
)
from mqdlq.reading.find import (
    DOWNLOADED,
    Search,
    find_row,
    found_file,
    found_message,
)
from mqdlq.reading.message import shown_headers, timeline, trace_link, traceparent_of
from mqdlq.reading.outcome_files import FORMS
from mqdlq.reading.page_paths import dag_of
from mqdlq.rules import RulesTable, explain, parse, with_nuls_as_blanks
from mqdlq.stages.run_options import RunOptions, read_rules
from mqdlq.stages.snapshot.capture import read_payload
from mqdlq.tools.acting import Sources, Verb
from mqdlq.web.access import HandlerDep, PersonDep, ReadableHandlers
from mqdlq.web.rendering import ForbiddenError, NotFoundError, printable, render
from mqdlq.web.requests import (
    LakeRoot,
    LedgerDep,
    SourcesDep,
    body_connection,
    payload_keys,
)
from mqdlq.web.serving import Download, PageRoute

router: Final = APIRouter(route_class=PageRoute)

# Search: one page of the messages that a filter selects, or the fault of the filter.

OTHERS: Final = ("handler", "page")
"""Parameters of the page that are not part of the filter."""

STATES: Final = {
    **{str(state): words for state, words in PRESENCE_WORDS.items()},
    **{str(outcome): outcome.words for outcome in Outcome},
}
"""The states that can be chosen, and their words."""

_ALWAYS_OPEN: Final = ("text", "since", "until", "state")


@router.get("/search")
def search_messages(
    request: Request,
    handlers: ReadableHandlers,
    person: PersonDep,
    ledger: LedgerDep,
    lake_root: LakeRoot,
) -> HTMLResponse:
    """Show the messages that a filter selects, of all handlers that the person may read."""
    pairs = request.query_params.multi_items()
    given = dict(pairs)
    handler = given.get("handler", "").strip()
    chosen, found, fault = MessageFilter(), None, None
    try:
        chosen = MessageFilter.parse(pairs, OTHERS)
        number = _page_number(given.get("page", ""))
        found = Search(chosen, _among(handler, handlers), ledger, lake_root).page(number)
    except FilterError as error:
        chosen, fault = MessageFilter(), error
    return render(
        request,
        "messages/search.html",
        422 if fault else 200,
        given=given,
        chosen=chosen,
        only=handler,
        query=({"handler": handler} if handler else {}) | chosen.parameters(),
        found=found,
        fault=fault,
        has_more_fields=any(given.get(name) for name in PARAMETERS if name not in _ALWAYS_OPEN),
        handlers=sorted(handlers),
        states=STATES,
        may_act=handler in handlers and person.may_act(dag_of(handler)),
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
    among = _among(given.get("handler", "").strip(), handlers)
    found = Search(chosen, among, ledger, lake_root).messages()
    return Download(found_file(form, found), f"messages.{form}", FORMS[form].media_type)


def _among(handler: str, handlers: Collection[str]) -> list[str]:
    """Return the handlers to search; raise `FilterError` for one that the person may not read."""
    if not handler:
        return sorted(handlers)
    if handler not in handlers:
        raise FilterError(
            "handler", "it does not exist, or you may not see it", "one of the overview"
        )
    return [handler]


def _page_number(text: str) -> int:
    value = text.strip() or "1"
    if not (value.isascii() and value.isdecimal() and len(value) < 10):  # noqa: PLR2004
        raise FilterError("page", f"found {value[:20]!r}", "a number from 1")
    return int(value)


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
    found = None
    if len(message_key) == 64 and set(message_key) <= _DIGITS:  # noqa: PLR2004
        found = find_row(
            message_key,
            sources.handler,
            ledger=sources.ledger,
            lake_root=sources.lake_root,
            columns=HEADERS.names,
        )
    if found is None:
        raise NotFoundError(
            "MQDLQ-941",
            f"The snapshots of handler {sources.handler} do not have the message"
            f" {message_key[:80]!r}; it may be pruned, so search for it by its MsgId or a name",
        )
    return found


@router.get("/dags/{dag_id}/messages/{message_key}")
def message(  # noqa: PLR0917 (the parts of the path, and what a page gets)
    request: Request,
    message_key: KeyDep,
    handler: HandlerDep,
    person: PersonDep,
    sources: SourcesDep,
    connection: Annotated[str | None, Depends(body_connection)],
) -> HTMLResponse:
    """Show a message, without its body."""
    snapshot, row = read_message(message_key, sources)
    ledger, now = sources.ledger, sources.clock()
    key, place = row["message_key"], (snapshot.queue_manager, snapshot.queue)
    state = ledger.message_facts.states(*place, [key]).get(key, UNKNOWN_MESSAGE)
    shown = found_message(snapshot, row, state)
    history = ledger.message_facts.history(handler.name, *place, key)
    looks = AuditFilter(message_key=message_key, handlers=[handler.name])
    audit = ledger.audit_trail.page(looks, limit=_EVENTS)
    keys = [message_key]
    copies = ledger.archive.copies(handler=handler.name, place=place, message_keys=keys)
    copy = next((one for one in reversed(list(copies)) if not one.is_provisional), None)
    return render(
        request,
        "messages/message.html",
        one=shown,
        row=row,
        cause=cause_of_row(row),
        snapshot=snapshot,
        age_s=(now - shown.since).total_seconds() if shown.since else None,
        # Negative after the expiry, and None for a message that never expires.
        expires_in_s=(row["expires_at"] - now).total_seconds() if row["expires_at"] else None,
        headers=shown_headers(row),
        tables=_tables(snapshot, row, sources),
        events=timeline(row, history, audit),
        history=history,
        actions=_actions(state, copy, may_act=handler.may_act),
        trace=_trace(copy, sources.lake_root),
        payload=_captured(snapshot, sources.lake_root),
        may_reveal=person.may_reveal(connection),
        body_forms=list(BodyForm),
    )


@router.get("/dags/{dag_id}/messages/{message_key}/related")
def related_messages(request: Request, message_key: KeyDep, sources: SourcesDep) -> HTMLResponse:
    """Show how many messages of the handler share the cause, the MsgId or the CorrelId."""
    one = found_message(*read_message(message_key, sources), UNKNOWN_MESSAGE)
    filters = {"The same cause": MessageFilter(cause_id=one.cause_id)}
    if one.msg_id.strip("0"):
        filters["The same MsgId"] = MessageFilter(msg_id=one.msg_id)
    if one.correl_id.strip("0"):
        filters["The same CorrelId"] = MessageFilter(correl_id=one.correl_id)
    handlers, ledger, lake_root = [sources.handler], sources.ledger, sources.lake_root
    related = [
        (words, chosen, Search(chosen, handlers, ledger, lake_root).count())
        for words, chosen in filters.items()
    ]
    return render(request, "messages/related.html", related=related, message_key=message_key)


@router.get("/dags/{dag_id}/messages/{message_key}/row.json")
def message_row(message_key: KeyDep, sources: SourcesDep) -> JSONResponse:
    """Return the row of a message in its snapshot, without its body.

    Bytes are hexadecimal digits, times are in ISO 8601.
    """
    snapshot, row = read_message(message_key, sources)
    place = {
        "queue_manager": snapshot.queue_manager,
        "queue": snapshot.queue,
        "snapshot_id": snapshot.snapshot_id,
        "run_id": snapshot.run_id,
    }
    return JSONResponse({**place, **{name: _plain(value) for name, value in row.items()}})


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if isinstance(value, datetime) else value


@dataclass(frozen=True, slots=True)
class ExplainedTable:
    """A rules table with the trace of the message; `fault` says why there is none."""

    name: str
    rules: tuple[ExplainedRule, ...] = ()
    fault: str = ""

    @property
    def tried(self) -> str:
        """The lines of the rules that a run tries, in order, "" if no rule matches."""
        return ", ".join(str(rule.line) for rule in self.rules if rule.is_tried)


def _tables(snapshot: KnownSnapshot, row: Row, sources: Sources) -> list[ExplainedTable]:
    """Return the table of the message's last run, and today's if it differs."""
    run = sources.ledger.runs.get(snapshot.run_id)
    shown, frozen = [], None
    if run is not None:
        frozen = (run.rules_digest, run.nul_as_blank)
        name = f"The table of run {run.run_id}"
        of_run = parse(run.rules_text, queue_kind=run.queue_kind, frozen=True)
        shown.append(_explained(name, of_run, row, nul_as_blank=run.nul_as_blank))
    try:
        configuration = load_handler(sources.handler)
        _, _, table = read_rules(configuration, RunOptions())
    except (MqDlqError, OSError) as error:
        fault = getattr(error, "text", str(error))
        return [*shown, ExplainedTable("Today's table", fault=f"It cannot be read: {fault}")]
    is_blank = configuration.nul_as_blank
    if frozen == (table.digest, is_blank):
        return [replace(shown[0], name=f"{shown[0].name}, also today's")]
    return [*shown, _explained("Today's table", table, row, nul_as_blank=is_blank)]


def _explained(name: str, table: RulesTable, row: Row, *, nul_as_blank: bool) -> ExplainedTable:
    if not table.acts_on(row["class"]):
        return ExplainedTable(name, fault=f"Rules apply to {RULES_APPLY_TO[table.queue_kind]} only")
    values = with_nuls_as_blanks(row) if nul_as_blank else row
    return ExplainedTable(name, tuple(explained_rules(explain(table, values))))


def _actions(
    state: MessageState, copy: ArchivedCopy | None, *, may_act: bool
) -> Iterator[tuple[str, str, str]]:
    """Yield the actions: name in URLs, words, and why it is not possible ("" if it is)."""
    obstacle = "" if may_act else "you may not start runs of this handler"
    gone = obstacle or ("it has left the queue" if state.has_departed else "")
    for verb in (Verb.RETRY, Verb.FORWARD, Verb.DISCARD):
        yield verb.value, verb.words, gone
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
    else:
        kept = ""
    yield Verb.RESTORE.value, Verb.RESTORE.words, obstacle or kept


def _trace(copy: ArchivedCopy | None, lake_root: str) -> tuple[str, str, str]:
    """Return the `traceparent` of the message, its link ("" if none), and what is stored."""
    if copy is None or copy.pruned_at is not None:
        stored = (
            "Snapshots keep no message properties, so the trace of this message is not known. Only"
            " the archive copy of a discarded message has them."
        )
        return "", "", stored
    try:
        found = find_copy(file_in_lake(lake_root, copy.location), copy.message_id)
    except LakeError:
        return "", "", "The archive copy, which has the message's properties, cannot be read."
    traceparent = traceparent_of(found.descriptor, found.body) if found else ""
    if not traceparent:
        return "", "", "The archive copy of the message has no valid property traceparent."
    return traceparent, trace_link(traceparent), "The property is in the archive copy."


def _captured(snapshot: KnownSnapshot, lake_root: str) -> str:
    """Return the part of bodies that a snapshot keeps: "none", "head: N" or "full"."""
    try:
        return lake.read_manifest(_directory(snapshot, lake_root)).payload
    except LakeError:
        return "none"


def _directory(snapshot: KnownSnapshot, lake_root: str) -> str:
    place = (snapshot.queue_manager, snapshot.queue)
    return lake.snapshot_directory(lake_root, *place, snapshot.snapshot_id)


# The captured body of one message, for people who may see it; every look is in the audit.

SHOWN_BYTES: Final = 64 << 10
_EBCDIC: Final = 500
_LINE: Final = 16


class BodyForm(StrEnum):
    """How a body is shown."""

    TEXT = "text"
    HEX = "hex"
    EBCDIC = "ebcdic"


@router.post("/dags/{dag_id}/messages/{message_key}/body")
def message_body(  # noqa: PLR0917 (the parts of the path, and what a page gets)
    request: Request,
    message_key: KeyDep,
    handler: HandlerDep,
    person: PersonDep,
    sources: SourcesDep,
    connection: Annotated[str | None, Depends(body_connection)],
    form: Annotated[BodyForm, Query(alias="as")] = BodyForm.TEXT,
) -> HTMLResponse:
    """Show the captured body of a message to a person who may see it, and record the look.

    If the look cannot be recorded, LedgerUnavailableError is raised and nothing is shown. Raises
    NotFoundError if no body is captured, and `LakeError` if its key is missing.
    """
    if not person.may_reveal(connection):
        raise ForbiddenError(
            "MQDLQ-942",
            f"You may not see message bodies of {handler.dag_id}; ask for permission to read the"
            " custom view 'mqdlq message bodies' and connections in Airflow",
        )
    snapshot, row = read_message(message_key, sources)
    directory = _directory(snapshot, sources.lake_root)
    payload = read_payload(directory, row["browse_seq"], payload_keys(handler.name))
    if payload is None:
        raise NotFoundError(
            "MQDLQ-945",
            f"Snapshot {snapshot.snapshot_id} has no body of this message; bodies are captured if"
            " the handler's `payload` says so",
        )
    data = payload.data[:SHOWN_BYTES]
    text, note = _readable(data, row, form)
    sources.ledger.audit.record(
        AuditEvent(
            at=sources.clock(),
            what=AuditKind.BODY_SHOWN,
            who=person.name,
            handler=snapshot.handler,
            run_id=snapshot.run_id,
            message_key=row["message_key"].hex(),
            messages=1,
            details=f"{len(data)} of {payload.length} bytes as {form}",
        )
    )
    return render(
        request,
        "messages/body.html",
        text=text,
        note=note,
        shown=len(data),
        stored=len(payload.data),
        length=payload.length,
        message_key=message_key,
        limit=SHOWN_BYTES,
        body_forms=list(BodyForm),
    )


def _readable(data: bytes, row: Row, form: BodyForm) -> tuple[str, str]:
    """Return the data in a form, and a note; unknown CCSIDs give a hexadecimal dump."""
    if form is BodyForm.HEX:
        return hex_dump(data), ""
    ccsid = _EBCDIC if form is BodyForm.EBCDIC else _ccsid_of(row)
    if ccsid in UTF_16:
        return printable(data.decode("utf-16-be", "replace")), f"In CCSID {ccsid}."
    codec = text_codec(ccsid)
    if codec is None:
        return hex_dump(data), f"CCSID {ccsid} is not one that can be shown as text."
    return printable(codec.decode(data)), f"In CCSID {ccsid}."


def _ccsid_of(row: Row) -> int:
    """Return the CCSID that the last header in the snapshot states for the data after it."""
    outer = int(row["coded_char_set_id"] or 0)
    stated = row["dlh_coded_char_set_id"]
    return outer if stated is None else following_ccsid(int(stated), outer)


def hex_dump(data: bytes) -> str:
    """Return lines with the offset, sixteen bytes in hexadecimal digits, and their ASCII."""
    lines = []
    for start in range(0, len(data), _LINE):
        part = data[start : start + _LINE]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)  # noqa: PLR2004
        lines.append(f"{start:08x}  {part.hex(' ', -2):<39}  {letters}")
    return "\n".join(lines)
