"""Render a report as JSON for programs, a document of a fixed structure.

Its keys, and those of its records, are in `KEYS`; `format`, `version` and `failed` come first.
`needs_attention` and `without_outcome` are numbers, `stages` maps names to states and `attempts`
states to numbers. Times are ISO 8601 in UTC; verdict, outcomes, actions, states and phases are the
ledger's values; an unknown value is null or "". A new key may appear within a version; no key
changes its meaning.
`attention_messages` and `unaccounted` list at most 1,000 messages in the same trouble, and 10,000
in all; the groups count all of them.
`failures` say why stages failed (`task`, `why`, `error_id`, `next_step`); a run that failed before
it began a unit of work has no `account`. Version 4 has `failures` in place of `error`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from io import StringIO
from typing import Any, Final

from mqdlq.causes import CountedCause
from mqdlq.ledger.reading.run_messages import AttemptCount
from mqdlq.ledger.tables import AuditEvent, KnownDiagnosis, Run, Sighting, TakenSnapshot
from mqdlq.reading.report.building import Expiry, Report
from mqdlq.reading.report.groups import MessageGroup
from mqdlq.reading.run import Account, FailedRule, RuleRow
from mqdlq.reading.run_messages import Message, Tried
from mqdlq.words import cause_in_words

FORMAT = "mqdlq-report"
VERSION = 4
RUN: Final[Mapping[str, Any]] = {
    "run_id": "",
    "handler": "",
    "dag_run_id": "",
    "run_type": "",
    "dry_run": False,
    "queue_manager": "",
    "queue": "",
    "rules_source": "",
    "rules_digest": "",
    "retry_interval_s": 0,
    "wait_s": None,
    "started_by": "",
    "why": "",
    "started_at": None,
    "ended_at": None,
    "message_keys": (),
    "condition": "",
    "as_of": "",
}
"""The keys of a run, with their values where the ledger has no such run."""

_RULE: Final = ("rule", "line", "text", "action", "target_q", "target_q_mgr")

KEYS: Final[Mapping[type, Sequence[str]]] = {
    Report: (
        *("verdict", "headline", "why", "account", "rules", "failed_rules", "learned", "timeline"),
        *(
            "attempts",
            "ramps",
            "returns",
            "repairs",
            "evidence",
            "diagnoses",
            "stopped",
            "run",
            "stages",
            "failures",
        ),
        *("troubles", "snapshot", "plan", "causes", "needs_attention", "attention_groups"),
        *("attention_messages", "without_outcome", "unaccounted_groups", "unaccounted", "more"),
        *("oldest_left", "written_at", "expiry"),
    ),
    Run: [name for name in RUN if name != "ended_at"],
    Account: (
        *("messages", "outcomes", "last_browse", "differences", "settled", "not_selected"),
        *("booked", "adds_up"),
    ),
    Sighting: ("depth", "seen", "returned", "arrived", "at"),
    RuleRow: (*_RULE, "outcome", "messages"),
    FailedRule: (*_RULE, "messages", "attempts", "reasons"),
    CountedCause: (
        *("cause_id", "reason", "reason_text", "meaning", "kind", "dest_q_name"),
        *("dest_q_mgr_name", "queues", "messages", "outcomes", "first_at", "last_at"),
    ),
    Message: (
        *("browse_seq", "message_key", "msg_id", "cls", "problem", "reason", "dest_q_name"),
        *("dest_q_mgr_name", "dead_lettered_at", "since", "put_appl_name", "user_identifier"),
        *("format", "total_length", "outcome", "reason_text", "cause", "cause_id", "why"),
        *("why_code", "next_step", "tried", "command"),
    ),
    MessageGroup: (*("first", "messages", "browse_seqs", "rows", "tried", "is_mixed", "command"),),
    Tried: ("rule", "line", *_RULE[3:], "state", "reason", "reason_text", "at"),
    AttemptCount: ("at", "rule", *_RULE[3:], "state", "reason", "attempts"),
    TakenSnapshot: ("snapshot_id", "location", "messages", "taken_at", "absent"),
    AuditEvent: ("at", "who", "why"),
    KnownDiagnosis: ("cause_id", "first_at", "last_at", "record"),
    Expiry: ("until", "has_schedule", "messages", "first_at", "causes", "expired", "new"),
}
"""The keys of the records that have other fields, or have them in another order."""

_ACTING: Final = re.compile("[\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""Characters that JSON does not escape: C1 controls, and controls of the text direction."""


def render_json(report: Report) -> str:
    """Return the document as text, in which no character acts on a terminal."""
    document = {"format": FORMAT, "version": VERSION, "failed": report.failed, **shown(report)}
    # Piece by piece: a deep copy of thousands of messages takes much more.
    encoder = json.JSONEncoder(indent=2, ensure_ascii=False, default=_plain)
    text = StringIO()
    for piece in encoder.iterencode(document):
        text.write(_harmless(piece))
    text.write("\n")
    return text.getvalue()


def _run(report: Report) -> dict[str, Any]:
    known = {} if report.run is None else _shallow(report.run)
    found = {**RUN, **known, "run_id": report.run_id, "ended_at": report.ended_at}
    return {**{name: found[name] for name in RUN}, "duration_s": report.duration_s}


def render_row(row: Message) -> str:
    """Return one message as one line of JSON, with the keys that it has in the document."""
    return _harmless(json.dumps(row, ensure_ascii=False, default=_plain))


def _harmless(text: str) -> str:
    return text if text.isprintable() else _ACTING.sub(lambda one: f"\\u{ord(one[0]):04x}", text)


def keys_of(record: type[Any]) -> Sequence[str]:
    """Return the names of the values that the document has of a record."""
    return KEYS.get(record) or [field.name for field in fields(record)]


def _shallow(record: Any, *others: Any) -> dict[str, Any]:
    """Return the values of a record by key; the first of these that has a name gives its value."""
    found = {}
    for name in keys_of(type(record)):
        of = next(one for one in (record, *others) if hasattr(one, name))
        found[name] = getattr(of, name)
    return found


def shown(record: Any) -> dict[str, Any]:
    match record:
        case Report():
            return _shallow(record, record.sources) | {"run": _run(record)}
        case MessageGroup():  # its rows are among the listed messages
            return _shallow(record) | {"rows": len(record.rows)}
        case CountedCause():
            return _shallow(record, record.cause) | {"queues": record.queues or 0}
        case Expiry():
            return _shallow(record) | {"causes": list(map(_expiring, record.causes))}
    return _shallow(record)


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if is_dataclass(value):
        return shown(value)
    raise TypeError(f"a report holds no {type(value).__name__}")


def _expiring(one: CountedCause) -> dict[str, Any]:
    return {
        "cause_id": one.cause.cause_id,
        "cause": cause_in_words(one.cause, one.queues),
        "messages": one.messages,
        "first_at": one.first_at,
    }
