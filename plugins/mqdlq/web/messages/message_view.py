"""The captured body of one message, for people who may see it; every look is in the audit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from mqdlq import lake
from mqdlq.causes import Cause, cause_of_row
from mqdlq.errors import LakeError, MqDlqError
from mqdlq.handlers import load_handler
from mqdlq.headers.ccsid import UTF_16, following_ccsid, text_codec
from mqdlq.lake.archive import file_in_lake, find_copy
from mqdlq.lake.schema import HEADERS
from mqdlq.ledger import Ledger
from mqdlq.ledger.archive import ArchivedCopy
from mqdlq.ledger.reading.audit import AuditFilter
from mqdlq.ledger.reading.message_history import MessageHistory
from mqdlq.ledger.reading.message_states import UNKNOWN_MESSAGE, KnownSnapshot, MessageState
from mqdlq.ledger.tables.retention import AuditEvent
from mqdlq.model import AuditKind, Outcome
from mqdlq.reading.explanations import RULES_APPLY_TO, ExplainedRule, explained_rules
from mqdlq.reading.filters import MessageFilter, ShownHeader, shown_headers
from mqdlq.reading.find import FoundMessage, Total, count_messages, find_row, found_message
from mqdlq.reading.timeline import TimelineEvent, timeline, trace_link, traceparent_of
from mqdlq.rules import RulesTable, explain, parse, with_nuls_as_blanks
from mqdlq.stages.run_options import RunOptions, read_rules
from mqdlq.stages.snapshot.capture import StoredPayload, read_payload
from mqdlq.web.rendering import NotFoundError

SHOWN_BYTES: Final = 64 << 10
_EBCDIC: Final = 500
_LINE: Final = 16
_SPACES: Final = "\n\t"


class BodyForm(StrEnum):
    """How a body is shown."""

    TEXT = "text"
    HEX = "hex"
    EBCDIC = "ebcdic"


@dataclass(frozen=True, slots=True)
class ShownBody:
    """The beginning of a body as text, and lengths in bytes: shown, stored, and of the message."""

    text: str
    note: str
    shown: int
    stored: int
    length: int

    def __repr__(self) -> str:
        """Show no content, because the body is customer data."""
        return f"<{self.shown} bytes of a body>"


def reveal_body(
    snapshot: KnownSnapshot,
    row: Mapping[str, Any],
    form: BodyForm,
    keys: Mapping[str, bytes],
    *,
    who: str,
    now: datetime,
    ledger: Ledger,
    lake_root: str,
) -> ShownBody:
    """Return a body in a form, after the look is recorded in the audit.

    If it cannot be recorded, LedgerUnavailableError is raised and nothing is shown. Raises
    NotFoundError if no body is captured, and `LakeError` if its key is missing.
    """
    directory = lake.snapshot_directory(
        lake_root, snapshot.queue_manager, snapshot.queue, snapshot.snapshot_id
    )
    payload = read_payload(directory, row["browse_seq"], keys)
    if payload is None:
        raise NotFoundError(
            "MQDLQ-945",
            f"Snapshot {snapshot.snapshot_id} has no body of this message; bodies are captured if"
            " the handler's `payload` says so",
        )
    shown = _shown(payload, row, form)
    ledger.audit.record(
        AuditEvent(
            at=now,
            what=AuditKind.BODY_SHOWN,
            who=who,
            handler=snapshot.handler,
            run_id=snapshot.run_id,
            message_key=row["message_key"].hex(),
            messages=1,
            details=f"{shown.shown} of {shown.length} bytes as {form}",
        )
    )
    return shown


def _shown(payload: StoredPayload, row: Mapping[str, Any], form: BodyForm) -> ShownBody:
    data = payload.data[:SHOWN_BYTES]
    if form is BodyForm.HEX:
        text, note = hex_dump(data), ""
    elif form is BodyForm.EBCDIC:
        text, note = _decoded(data, _EBCDIC)
    else:
        text, note = _decoded(data, _ccsid_of(row))
    return ShownBody(text, note, len(data), len(payload.data), payload.length)


def _ccsid_of(row: Mapping[str, Any]) -> int:
    """Return the CCSID that the last header in the snapshot states for the data after it."""
    outer = int(row["coded_char_set_id"] or 0)
    stated = row["dlh_coded_char_set_id"]
    return outer if stated is None else following_ccsid(int(stated), outer)


def _decoded(data: bytes, ccsid: int) -> tuple[str, str]:
    """Return text in a CCSID and a note; unknown CCSIDs give a hexadecimal dump."""
    if ccsid in UTF_16:
        return printable(data.decode("utf-16-be", "replace")), f"In CCSID {ccsid}."
    codec = text_codec(ccsid)
    if codec is None:
        return hex_dump(data), f"CCSID {ccsid} is not one that can be shown as text."
    return printable(codec.decode(data)), f"In CCSID {ccsid}."


def printable(text: str) -> str:
    """Return text in which no character acts on a page; lines and tabs stay."""
    return "".join(
        char
        if char.isprintable() or char in _SPACES
        else char.encode("unicode_escape").decode("ascii")
        for char in text.replace("\r\n", "\n")
    )


def hex_dump(data: bytes) -> str:
    """Return lines with the offset, sixteen bytes in hexadecimal digits, and their ASCII."""
    lines = []
    for start in range(0, len(data), _LINE):
        part = data[start : start + _LINE]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)  # noqa: PLR2004
        lines.append(f"{start:08x}  {part.hex(' ', -2):<39}  {letters}")
    return "\n".join(lines)


# The page of one message: its fields, rules, history, related messages and possible actions.

_EVENTS: Final = 500


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


@dataclass(frozen=True, slots=True)
class MessageAction:
    """An action on the message, its name in URLs, and why it is not possible ("" if it is)."""

    name: str
    words: str
    obstacle: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """The trace of the message: `traceparent`, its link ("" if none), and what is stored."""

    stored: str
    traceparent: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True)
class MessagePage:
    """All that the page of a message shows, without its body.

    `expires_in_s` is None for a message that never expires, and negative after its expiry.
    """

    message: FoundMessage
    cause: Cause
    snapshot: KnownSnapshot
    is_protected: bool
    may_be_cut: bool
    problem: str
    age_s: float | None
    expires_in_s: float | None
    headers: tuple[ShownHeader, ...]
    tables: tuple[ExplainedTable, ...]
    events: tuple[TimelineEvent, ...]
    history: MessageHistory
    actions: tuple[MessageAction, ...]
    trace: Trace
    payload: str
    copy: ArchivedCopy | None


@dataclass(frozen=True, slots=True)
class RelatedMessages:
    """Messages that share something with this one: what, how many, and the filter for them."""

    words: str
    total: Total
    filters: dict[str, str | int]


Row = Mapping[str, Any]


def read_message(
    handler: str, message_key: str, *, ledger: Ledger, lake_root: str
) -> tuple[KnownSnapshot, Row]:
    """Return the row of a message with all columns, and its snapshot; raise NotFoundError."""
    is_key = len(message_key) == 64 and set(message_key) <= set("0123456789abcdef")  # noqa: PLR2004
    found = None
    if is_key:
        given = {"ledger": ledger, "lake_root": lake_root}
        found = find_row(message_key, handler, columns=HEADERS.names, **given)  # type: ignore[arg-type]
    if found is None:
        raise NotFoundError(
            "MQDLQ-941",
            f"The snapshots of handler {handler} do not have the message {message_key[:80]!r}; it"
            " may be pruned, so search for it by its MsgId or a name",
        )
    return found


def show_message(
    handler: str,
    message_key: str,
    *,
    may_act: bool,
    now: datetime,
    ledger: Ledger,
    lake_root: str,
) -> MessagePage:
    """Return the page of a message; raise NotFoundError and LakeError."""
    snapshot, row = read_message(handler, message_key, ledger=ledger, lake_root=lake_root)
    key = row["message_key"]
    place = (snapshot.queue_manager, snapshot.queue)
    state = ledger.message_states.of_keys(*place, [key]).get(key, UNKNOWN_MESSAGE)
    message = found_message(snapshot, row, state)
    history = ledger.message_histories.of_key(handler, *place, key)
    audit = ledger.audit_trail.page(
        AuditFilter(message_key=message_key, handlers=[handler]), limit=_EVENTS
    )
    copies = [
        copy
        for copy in ledger.archive.copies(handler=handler, place=place, message_keys=[message_key])
        if not copy.is_provisional
    ]
    copy = copies[-1] if copies else None
    events = timeline(row, history, audit)
    return MessagePage(
        message=message,
        cause=cause_of_row(row),
        snapshot=snapshot,
        is_protected=bool(row["ams_protected"]),
        may_be_cut=bool(row["maybe_truncated"]),
        problem=row["problem"],
        age_s=(now - message.since).total_seconds() if message.since else None,
        expires_in_s=(row["expires_at"] - now).total_seconds() if row["expires_at"] else None,
        headers=tuple(shown_headers(row)),
        tables=tuple(_tables(handler, snapshot, row, ledger)),
        events=tuple(events),
        history=history,
        actions=tuple(_actions(state, copy, may_act=may_act)),
        trace=_trace(copy, lake_root),
        payload=_captured(snapshot, lake_root),
        copy=copy,
    )


def related(
    handler: str, message_key: str, *, ledger: Ledger, lake_root: str
) -> list[RelatedMessages]:
    """Return how many messages of the handler share the cause, the MsgId or the CorrelId."""
    snapshot, row = read_message(handler, message_key, ledger=ledger, lake_root=lake_root)
    message = found_message(snapshot, row, UNKNOWN_MESSAGE)
    filters = {"The same cause": MessageFilter(cause_id=message.cause_id)}
    for words, name in (("The same MsgId", "msg_id"), ("The same CorrelId", "correl_id")):
        digits = getattr(message, name)
        if digits.strip("0"):
            filters[words] = MessageFilter(**{name: digits})
    given = {"ledger": ledger, "lake_root": lake_root}
    return [
        RelatedMessages(
            words,
            count_messages(chosen, [handler], **given),  # type: ignore[arg-type]
            {"handler": handler, **chosen.parameters()},
        )
        for words, chosen in filters.items()
    ]


def _tables(
    handler: str, snapshot: KnownSnapshot, row: Row, ledger: Ledger
) -> list[ExplainedTable]:
    """Return the table of the message's last run, and today's if it differs."""
    run = ledger.runs.get(snapshot.run_id)
    shown, frozen = [], None
    if run is not None:
        frozen = (run.rules_digest, run.nul_as_blank)
        name = f"The table of run {run.run_id}"
        of_run = parse(run.rules_text, queue_kind=run.queue_kind, frozen=True)
        shown.append(_explained(name, of_run, row, nul_as_blank=run.nul_as_blank))
    try:
        configuration = load_handler(handler)
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


_ON_QUEUE: Final = {"retry": "Retry", "forward": "Forward", "discard": "Discard"}


def _actions(
    state: MessageState, copy: ArchivedCopy | None, *, may_act: bool
) -> list[MessageAction]:
    """Return the actions, each with its obstacle."""
    obstacle = "" if may_act else "you may not start runs of this handler"
    gone = obstacle or ("it has left the queue" if state.has_departed else "")
    shown = [MessageAction(name, words, gone) for name, words in _ON_QUEUE.items()]
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
    return [*shown, MessageAction("restore", "Restore", obstacle or kept)]


def _trace(copy: ArchivedCopy | None, lake_root: str) -> Trace:
    if copy is None or copy.pruned_at is not None:
        return Trace(
            "Snapshots keep no message properties, so the trace of this message is not known. Only"
            " the archive copy of a discarded message has them."
        )
    try:
        found = find_copy(file_in_lake(lake_root, copy.location), copy.message_id)
    except LakeError:
        return Trace("The archive copy, which has the message's properties, cannot be read.")
    traceparent = traceparent_of(found.descriptor, found.body) if found else ""
    if not traceparent:
        return Trace("The archive copy of the message has no valid property traceparent.")
    return Trace("The property is in the archive copy.", traceparent, trace_link(traceparent))


def _captured(snapshot: KnownSnapshot, lake_root: str) -> str:
    """Return the part of bodies that a snapshot keeps: "none", "head: N" or "full"."""
    directory = lake.snapshot_directory(
        lake_root, snapshot.queue_manager, snapshot.queue, snapshot.snapshot_id
    )
    try:
        return lake.read_manifest(directory).payload
    except LakeError:
        return "none"
