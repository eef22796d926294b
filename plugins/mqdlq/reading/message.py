"""One message: the fields of its headers, what happened to it over all runs, and its trace."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote, urlsplit

from mqdlq import constants
from mqdlq.constants import reason_text
from mqdlq.errors import HomeError, MalformedHeaderError
from mqdlq.headers import MessageDescriptor
from mqdlq.headers.chain import walk
from mqdlq.headers.records import RulesHeader2
from mqdlq.ledger.reading.message_facts import MessageHistory
from mqdlq.ledger.tables import AuditEvent
from mqdlq.model import Action, AuditKind
from mqdlq.reasons import words_of
from mqdlq.structures import MQDLH, MQMD, Kind
from mqdlq.words import target, visible

# Show the fields of a message in a snapshot under IBM's names, with names for their numbers.

_WORDS: Final = {
    ("Expiry", -1): "MQEI_UNLIMITED (-1)",
    ("CodedCharSetId", 0): "MQCCSI_UNDEFINED (0)",
    ("CodedCharSetId", -1): "MQCCSI_EMBEDDED (-1)",
    ("CodedCharSetId", -2): "MQCCSI_INHERIT (-2)",
    ("OriginalLength", -1): "MQOL_UNDEFINED (-1)",
}


ShownField = tuple[str, str, bool]
"""A field: IBM's name, its value in words, and whether the value is the digits of an identifier."""


def shown_headers(row: Mapping[str, Any]) -> list[tuple[str, list[ShownField]]]:
    """Return the MQMD, then the chain of headers, of a row with all columns of a snapshot.

    A header has its fields, or none if the snapshot keeps only its name.
    """
    shown = [("MQMD", _fields(row, MQMD.fields, ""))]
    chain: Sequence[str] = row["header_chain"] or ()
    shown += [
        (name, _fields(row, MQDLH.fields, "dlh_") if name == "MQDLH" else []) for name in chain
    ]
    return shown


def _fields(row: Mapping[str, Any], fields: Sequence[Any], prefix: str) -> list[ShownField]:
    return [
        (one.ibm_name, _value(one.ibm_name, row[prefix + one.name]), one.kind is Kind.BYTES)
        for one in fields
    ]


def _value(ibm_name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.hex() if any(value) else f"{len(value)} zeros"
    if isinstance(value, str):
        return visible(value)
    if words := _WORDS.get((ibm_name, value)):
        return words
    return constants.value_text(value, constants.FAMILIES_OF_FIELDS.get(ibm_name, ()))


# Tell what happened to a message, over all runs, as one list of events in order.

_OF_PEOPLE: Final = frozenset(AuditKind) - {AuditKind.RUN_STARTED, AuditKind.DISCARDED}


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """One event: its time, its words, its run and its user.

    `kind` is an outcome or the state of an attempt, "" for other events. `residence` counts how
    often the message had come back to the queue, and `occurrence` equal messages; both are None for
    an event of the message wherever it was.
    """

    at: datetime
    kind: str
    text: str
    run_id: str = ""
    who: str = ""
    residence: int | None = None
    occurrence: int | None = None


_Placed = Iterator[tuple[int, TimelineEvent]]
"""Events, each with the id of the message that says where on the queue it was."""


def timeline(
    row: Mapping[str, Any], history: MessageHistory, audit: Iterable[AuditEvent]
) -> list[TimelineEvent]:
    """Return the events of a message, oldest first.

    `row` is its row in a snapshot, with its times; `audit` are the events of the audit about it.
    """
    events = list(_of_row(row))
    for of_kind in (_of_listings, _of_attempts, _of_outcomes, _of_copies):
        for message_id, event in of_kind(history):
            residence, occurrence = history.places[message_id]
            events.append(replace(event, residence=residence, occurrence=occurrence))
    events += _of_people(audit)
    return sorted(events, key=lambda event: event.at)


def _of_row(row: Mapping[str, Any]) -> Iterator[TimelineEvent]:
    if at := row.get("put_at"):
        who = row.get("put_appl_name") or ""
        yield TimelineEvent(at, "", "The message was put", who=who)
    if at := row.get("dead_lettered_at"):
        who = row.get("dlh_put_appl_name") or ""
        reason = reason_text(row.get("dlh_reason") or 0)
        yield TimelineEvent(at, "", f"Put on the dead-letter queue: {reason}", who=who)


def _of_listings(history: MessageHistory) -> _Placed:
    seen: set[int] = set()
    for one in history.listings:
        residence, _ = history.places[one.message_id]
        if one.message_id in seen:
            text = "Seen on the queue again, not settled"
        else:
            text = "Came back to the queue" if residence else "First seen on the queue"
        seen.add(one.message_id)
        dry = ", by a dry run" if one.dry_run else ""
        text += f"{dry}: message {one.browse_seq} of its snapshot"
        yield one.message_id, TimelineEvent(one.seen_at, "", text, one.run_id, one.started_by)


def _of_attempts(history: MessageHistory) -> _Placed:
    for attempt in history.attempts:
        where = target(attempt.target_q, attempt.target_q_mgr)
        action = f"{attempt.action} to {where}" if where else str(attempt.action)
        by = f"rule {attempt.rule}" if attempt.rule else "no rule"
        why = f", {reason_text(attempt.mqrc)}" if attempt.mqrc else ""
        text = f"Attempt {attempt.attempt_no} of {by}, {action}: {attempt.state.words}{why}"
        event = TimelineEvent(attempt.at, str(attempt.state), text, attempt.run_id)
        yield attempt.message_id, event


def _of_outcomes(history: MessageHistory) -> _Placed:
    for run_id, fact in history.outcomes:
        where = target(fact.target_q, fact.target_q_mgr)
        to = f" to {where}" if where and fact.action in {Action.RETRY, Action.FWD} else ""
        text = f"Outcome: {fact.outcome.words}{to} ({visible(fact.why.words)})"
        yield fact.message_id, TimelineEvent(fact.at, str(fact.outcome), text, run_id)
    for news in history.learned:
        where = target(news.target_q, news.target_q_mgr)
        text = f"Known since: {news.outcome.words}{f' to {where}' if where else ''}"
        text += f", in run {visible(news.of_run)}"
        yield news.message_id, TimelineEvent(news.at, str(news.outcome), text, news.run_id)


def _of_copies(history: MessageHistory) -> _Placed:
    for asked, copy in history.restored:
        where = target(asked.to_queue, asked.to_queue_manager)
        state = str(copy.state).replace("_", " ")
        why = words_of(copy.why) or (reason_text(copy.mqrc) if copy.mqrc else "")
        text = f"Archive copy {state} to {where}{f' ({visible(why)})' if why else ''}"
        yield copy.message_id, TimelineEvent(copy.at, "", text, copy.run_id, asked.who)


def _of_people(audit: Iterable[AuditEvent]) -> Iterator[TimelineEvent]:
    for event in audit:
        if event.what in _OF_PEOPLE:
            words = event.what.words.capitalize()
            more = "; ".join(filter(None, [event.why, event.details]))
            text = f"{words}: {visible(more)}" if more else words
            yield TimelineEvent(event.at, "", text, event.run_id, event.who)


# Find the trace of a message by its property `traceparent`, and the link to a tracing tool.
#
# Only an archive copy has all message properties in clear, in an MQRFH2 of its body. The
# form of `traceparent` is that of the W3C recommendation "Trace Context".

VARIABLE: Final = "MQDLQ_TRACE_URL"
PLACEHOLDER: Final = "{trace_id}"
_USR: Final = re.compile(r"<usr(?:\s[^<>]*)?>(.*)</usr>", re.DOTALL)
_PROPERTY: Final = re.compile(r"<traceparent(?:\s[^<>]*)?>\s*([^<>]{55})\s*</traceparent>")
_FORM: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)


def traceparent_of(descriptor: bytes, body: bytes) -> str:
    """Return the `traceparent` in the folder `usr` of a message, "" if it has no valid one."""
    try:
        md = MessageDescriptor.decode(descriptor)
        chain = walk(body, len(body), **md.following)
    except MalformedHeaderError:
        return ""
    for header in chain.headers:
        if isinstance(header.record, RulesHeader2):
            for folder in header.record.folders:
                usr = _USR.search(folder) if isinstance(folder, str) else None
                found = _PROPERTY.search(usr.group(1)) if usr else None
                if found and _FORM.fullmatch(found.group(1)):
                    return found.group(1)
    return ""


def trace_link(traceparent: str) -> str:
    """Return the address of a trace in the tracing tool, "" if none is configured.

    `MQDLQ_TRACE_URL` is its address, with `{trace_id}` where the id belongs. Raises HomeError if
    it is not such an address.
    """
    found = _FORM.fullmatch(traceparent)
    return configured_link(VARIABLE, PLACEHOLDER, found.group(1)) if found else ""


def ticket_link(number: str) -> str:
    """Return the address of a ticket, "" if `MQDLQ_TICKET_URL` has none with `{ticket}`.

    Raises HomeError if it is not such an address.
    """
    return configured_link("MQDLQ_TICKET_URL", "{ticket}", number)


def configured_link(variable: str, placeholder: str, value: str) -> str:
    """Return the address in a variable of the environment with a value in it, "" without any."""
    template = os.environ.get(variable, "")
    if not template:
        return ""
    parts = urlsplit(template)
    rest = template.replace(placeholder, "", 1)
    is_address = parts.scheme in {"http", "https"} and parts.hostname and not set("{}") & set(rest)
    if not is_address or placeholder not in template or placeholder in parts.netloc:
        raise HomeError(
            "MQDLQ-976",
            f"{variable} is not the address of a tool; expected http or https, and {placeholder}"
            f" once after the host, such as https://tools.example.com/{placeholder}",
        )
    return template.replace(placeholder, quote(value, safe=""))
