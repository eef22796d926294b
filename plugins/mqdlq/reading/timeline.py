"""Find the trace of a message by its property `traceparent`, and the link to a tracing tool.

Snapshots keep no message properties. Only an archive copy has them, in an MQRFH2 of its body. The
form of `traceparent` is that of the W3C recommendation "Trace Context".
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit

from mqdlq.constants import reason_text
from mqdlq.errors import HomeError, MalformedHeaderError
from mqdlq.headers import MessageDescriptor
from mqdlq.headers.chain import walk
from mqdlq.headers.rfh import RulesHeader2
from mqdlq.ledger.reading.message_history import MessageHistory
from mqdlq.ledger.tables.retention import AuditEvent
from mqdlq.model import Action, AuditKind
from mqdlq.reasons import words_of
from mqdlq.words import STATES, target, visible

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
        chain = walk(
            body, len(body), encoding=md.encoding, ccsid=md.coded_char_set_id, format=md.format
        )
    except MalformedHeaderError:
        return ""
    for header in chain.headers:
        if isinstance(header.record, RulesHeader2):
            for folder in header.record.folders:
                found = _of_folder(folder) if isinstance(folder, str) else ""
                if found:
                    return found
    return ""


def _of_folder(folder: str) -> str:
    usr = _USR.search(folder)
    found = _PROPERTY.search(usr.group(1)) if usr else None
    return found.group(1) if found and _FORM.fullmatch(found.group(1)) else ""


def trace_link(traceparent: str) -> str:
    """Return the address of a trace in the tracing tool, "" if none is configured.

    `MQDLQ_TRACE_URL` is its address, with `{trace_id}` where the id belongs. Raises HomeError if
    it is not such an address.
    """
    template = os.environ.get(VARIABLE, "")
    found = _FORM.fullmatch(traceparent)
    if not template or found is None:
        return ""
    parts = urlsplit(template)
    rest = template.replace(PLACEHOLDER, "", 1)
    if parts.scheme not in {"http", "https"} or not parts.hostname or set("{}") & set(rest):
        raise _not_an_address()
    if PLACEHOLDER not in template or PLACEHOLDER in parts.netloc:
        raise _not_an_address()
    return template.replace(PLACEHOLDER, found.group(1))


def _not_an_address() -> HomeError:
    return HomeError(
        "MQDLQ-976",
        "MQDLQ_TRACE_URL is not the address of a tracing tool; expected http or https, and"
        " {trace_id} once after the host, such as https://traces.example.com/trace/{trace_id}",
    )


# Tell what happened to a message, over all runs, as one list of events in order.

_OF_PEOPLE = frozenset(AuditKind) - {AuditKind.RUN_STARTED, AuditKind.DISCARDED}


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


def timeline(
    row: Mapping[str, Any], history: MessageHistory, audit: Iterable[AuditEvent]
) -> list[TimelineEvent]:
    """Return the events of a message, oldest first.

    `row` is its row in a snapshot, with its times; `audit` are the events of the audit about it.
    """
    events = [*_of_row(row), *_of_listings(history), *_of_attempts(history)]
    events += [*_of_outcomes(history), *_of_copies(history), *_of_people(audit)]
    return sorted(events, key=lambda event: event.at)


def _of_row(row: Mapping[str, Any]) -> Iterator[TimelineEvent]:
    if at := row.get("put_at"):
        who = row.get("put_appl_name") or ""
        yield TimelineEvent(at, "", "The message was put", who=who)
    if at := row.get("dead_lettered_at"):
        who = row.get("dlh_put_appl_name") or ""
        reason = reason_text(row.get("dlh_reason") or 0)
        yield TimelineEvent(at, "", f"Put on the dead-letter queue: {reason}", who=who)


def _of_listings(history: MessageHistory) -> Iterator[TimelineEvent]:
    place = {one.message_id: one for one in history.residents}
    seen: set[int] = set()
    for listing in history.listings:
        resident = place[listing.message_id]
        if listing.message_id in seen:
            text = "Seen on the queue again, not settled"
        elif resident.residence:
            text = "Came back to the queue"
        else:
            text = "First seen on the queue"
        seen.add(listing.message_id)
        dry = ", by a dry run" if listing.dry_run else ""
        yield TimelineEvent(
            listing.seen_at,
            "",
            f"{text}{dry}: message {listing.browse_seq} of its snapshot",
            listing.run_id,
            listing.started_by,
            resident.residence,
            resident.occurrence,
        )


def _of_attempts(history: MessageHistory) -> Iterator[TimelineEvent]:
    place = {one.message_id: one for one in history.residents}
    for attempt in history.attempts:
        where = target(attempt.target_q, attempt.target_q_mgr)
        action = f"{attempt.action} to {where}" if where else str(attempt.action)
        by = f"rule {attempt.rule}" if attempt.rule else "no rule"
        why = f", {reason_text(attempt.mqrc)}" if attempt.mqrc else ""
        text = f"Attempt {attempt.attempt_no} of {by}, {action}: {STATES[attempt.state]}{why}"
        resident = place[attempt.message_id]
        yield TimelineEvent(
            attempt.at,
            str(attempt.state),
            text,
            attempt.run_id,
            "",
            resident.residence,
            resident.occurrence,
        )


def _of_outcomes(history: MessageHistory) -> Iterator[TimelineEvent]:
    place = {one.message_id: one for one in history.residents}
    for run_id, fact in history.outcomes:
        resident = place[fact.message_id]
        where = target(fact.target_q, fact.target_q_mgr)
        to = f" to {where}" if where and fact.action in {Action.RETRY, Action.FWD} else ""
        text = f"Outcome: {fact.outcome.words}{to} ({visible(fact.why.words)})"
        yield TimelineEvent(
            fact.at, str(fact.outcome), text, run_id, "", resident.residence, resident.occurrence
        )
    for news in history.learned:
        resident = place[news.message_id]
        where = target(news.target_q, news.target_q_mgr)
        text = f"Known since: {news.outcome.words}{f' to {where}' if where else ''}"
        yield TimelineEvent(
            news.at,
            str(news.outcome),
            f"{text}, in run {visible(news.of_run)}",
            news.run_id,
            "",
            resident.residence,
            resident.occurrence,
        )


def _of_copies(history: MessageHistory) -> Iterator[TimelineEvent]:
    place = {one.message_id: one for one in history.residents}
    for one in history.restored:
        resident = place[one.copy.message_id]
        where = target(one.to_queue, one.to_queue_manager)
        state = str(one.copy.state).replace("_", " ")
        why = words_of(one.copy.why) or (reason_text(one.copy.mqrc) if one.copy.mqrc else "")
        text = f"Archive copy {state} to {where}{f' ({visible(why)})' if why else ''}"
        yield TimelineEvent(
            one.copy.at,
            "",
            text,
            one.copy.run_id,
            one.who,
            resident.residence,
            resident.occurrence,
        )


def _of_people(audit: Iterable[AuditEvent]) -> Iterator[TimelineEvent]:
    for event in audit:
        if event.what in _OF_PEOPLE:
            words = event.what.words.capitalize()
            more = "; ".join(filter(None, [event.why, event.details]))
            text = f"{words}: {visible(more)}" if more else words
            yield TimelineEvent(event.at, "", text, event.run_id, event.who)
