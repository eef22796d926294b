"""Render a report as JSON for programs, a document of a fixed structure.

The keys are those of the records (`mqdlq.reading.report.records`), with `format`, `version`
and `failed` before them: `verdict` (ok, empty, settled, attention, unfinished, failed), `headline`,
`why`, `run`, `stages` (name to state), `failures`, `troubles`, `snapshot`, `plan`, `account` (with
`booked` and `adds_up`), `rules`, `failed_rules`, `causes`, `needs_attention` (a number),
`attention_groups`, `attention_messages`, `without_outcome` (a number), `unaccounted_groups`,
`unaccounted`, `more`, `learned`, `timeline`, `attempts` (state to number), `oldest_left`,
`written_at`, `resolution`, `expiry`, `ramps`, `returns`, `repairs`, `evidence`. Times are ISO 8601
in UTC; outcomes, actions, states and phases are the ledger's values; an unknown value is null or
"". A new key may appear within a version; no key changes its meaning.
`attention_messages` and `unaccounted` list at most 1,000 messages in the same trouble, and 10,000
in all; the groups count all of them.
`failures` say why stages failed (`task`, `why`, `error_id`, `next_step`); a run that failed before
it began a unit of work has no `account`. Version 4 has `failures` in place of `error`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from io import StringIO
from typing import Any, Final

from mqdlq.ledger.reading.run_messages import AttemptCount
from mqdlq.ledger.tables import Run, Sighting, TakenSnapshot
from mqdlq.reading.report.records import (
    FailedRule,
    MessageGroup,
    MessageRow,
    Report,
    RuleRow,
    Tried,
)

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
}
"""The keys of a run, with their values where the ledger has no such run."""

_RULE: Final = ("rule", "line", "text", "action", "target_q", "target_q_mgr")

KEYS: Final[Mapping[type, Sequence[str]]] = {
    Report: [one.name for one in fields(Report) if one.name not in {"run_id", "ended_at"}],
    Run: [name for name in RUN if name != "ended_at"],
    Sighting: ("depth", "seen", "returned", "arrived", "at"),
    RuleRow: (*_RULE, "outcome", "messages"),
    FailedRule: (*_RULE, "messages", "attempts", "reasons"),
    Tried: ("rule", "line", *_RULE[3:], "state", "reason", "reason_text", "at"),
    AttemptCount: ("at", "rule", *_RULE[3:], "state", "reason", "attempts"),
    TakenSnapshot: ("snapshot_id", "location", "messages", "taken_at"),
}
"""The keys of the records that have more fields, or have them in another order."""

_ACTING: Final = re.compile("[\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""Characters that JSON does not escape: C1 controls, and controls of the text direction."""


def render_json(report: Report) -> str:
    """Return the document as text, in which no character acts on a terminal."""
    document = {"format": FORMAT, "version": VERSION, "failed": report.failed, **_shallow(report)}
    document["run"] = _run(report)
    if report.account is not None:
        account = {"booked": report.account.booked, "adds_up": report.account.adds_up}
        document["account"] = {**_shallow(report.account), **account}
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


def render_row(row: MessageRow) -> str:
    """Return one message as one line of JSON, with the keys that it has in the document."""
    return _harmless(json.dumps(row, ensure_ascii=False, default=_plain))


def _harmless(text: str) -> str:
    return text if text.isprintable() else _ACTING.sub(_escaped, text)


def _shallow(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in keys_of(type(record))}


def keys_of(record: type[Any]) -> Sequence[str]:
    """Return the names of the fields that the document has of a record."""
    return KEYS.get(record) or [field.name for field in fields(record)]


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, MessageGroup):  # its rows are among the listed messages
        return {**_shallow(value), "rows": len(value.rows)}
    if is_dataclass(value):
        return _shallow(value)
    raise TypeError(f"a report holds no {type(value).__name__}")
