"""The parameters of a run: names, types and meanings; a run's values, checked.

The same schemas make Airflow's form and refuse what `mqdlq run` is given, before anything starts;
so this imports no Airflow, which reads its settings when it is imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import jsonschema

from mqdlq.stages.repairing.repair import SCHEMA as REPAIR

NAME: Final = r"^[A-Za-z0-9._/%]{0,48}$"

SCHEMAS: Final[Mapping[str, dict[str, Any]]] = {
    "dry_run": {
        "default": False,
        "type": "boolean",
        "title": "Dry run",
        "description": "Only say what would be done: snapshot, evaluate and report, but move"
        " nothing. The queue is never opened for input.",
    },
    "message_keys": {
        "default": [],
        "type": ["null", "array"],
        "items": {
            "type": "string",
            # Airflow's form makes an item of each line, of the blank one at the end, too.
            "pattern": r"^([0-9a-f]{1,64}|[ \t]*)$",
            "maxLength": 64,  # in Python's patterns, `$` lets a line's end pass
            "$comment": "a message_key is 64 hex digits; the first are enough if they are unique",
        },
        # Nothing but blank lines must not come to mean all messages.
        "if": {"minItems": 1},
        "then": {"contains": {"pattern": "[0-9a-f]"}},
        "title": "Only these messages",
        "description": "Act on these messages only, one message_key a line (in the report's JSON;"
        " of its 64 hex digits, the first are enough if they are unique); none means all. The run"
        " plans and reports no other message.",
    },
    "action": {
        "default": None,
        "type": ["null", "string"],
        "title": "This action for them",
        "description": "What to do with these messages, in place of the table's rules: one rule"
        " without patterns, such as ACTION(FWD) FWDQ(PARKED) or ACTION(RETRY) RETRY(3). A message"
        " without a valid MQDLH can be forwarded to a named queue, discarded or ignored.",
    },
    "repair": {
        **REPAIR,
        "default": None,
        "title": "Repair them",
        "description": "The fields that the messages get when that action puts them: Format,"
        ' CodedCharSetId or both, such as {"format": "MQSTR", "coded_char_set_id": 1208}. With {}'
        " only the destination changes. The body never changes. The originals go to the archive,"
        " and a person must approve the plan.",
    },
    "full_snapshot": {
        "default": False,
        "type": "boolean",
        "title": "Full snapshot",
        "description": "Read every message in full, those too that earlier runs have settled; of an"
        " empty queue the snapshot is taken as well.",
    },
    "rules": {
        "default": None,
        "type": ["null", "string"],
        "pattern": r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$",
        "title": "Another rules table",
        "description": "A file beside the handler's own, for this run, such as new.rules.",
    },
    "input_q": {
        "default": None,
        "type": ["null", "string"],
        "pattern": NAME,
        "title": "Another queue",
        "description": "The queue to handle, in place of the table's INPUTQ; empty text means the"
        " queue manager's own dead-letter queue.",
    },
    "input_q_mgr": {
        "default": None,
        "type": ["null", "string"],
        "pattern": NAME,
        "title": "Another queue manager",
        "description": "The queue manager, in place of the table's INPUTQM and the connection's.",
    },
    "wait": {
        "default": None,
        "type": ["null", "string", "integer"],
        "pattern": r"^([Yy][Ee][Ss]|[Nn][Oo]|[0-9]{1,9})$",
        "minimum": 0,
        "maximum": 999_999_999,
        "title": "Wait for messages",
        "description": "In place of the table's WAIT: NO looks at the queue once, a number waits"
        " so many seconds for a message, and again after each run that acted; YES waits until the"
        " next scheduled start.",
    },
    "follows": {
        "default": None,
        "type": ["null", "string"],
        "maxLength": 250,
        "title": "Follows this run",
        "description": "Leave it empty: a run with WAIT starts the next one with it, which waits"
        " for messages that arrive later.",
    },
    "why": {
        "default": None,
        "type": ["null", "string"],
        "maxLength": 1000,
        "title": "Why",
        "description": "The reason for the run, or the number of a ticket. The ledger and the audit"
        " have it.",
    },
    "apply": {
        "default": False,
        "type": "boolean",
        "title": "Apply a backfill",
        "description": "For backfills only, which else just report what today's rules would do"
        " otherwise: act on those messages that are proven to be still on the queue.",
    },
}


def form(schemas: Mapping[str, dict[str, Any]] = SCHEMAS) -> dict[str, dict[str, Any]]:
    """Return the schemas as a DAG's params take them.

    Airflow refuses a value that is not valid in its own words and with the schema, from which it
    has taken the description: a comment stays in it, and says what would be right.
    """
    return {
        name: {**schema, "$comment": str(schema["description"])} for name, schema in schemas.items()
    }


def fault(conf: Mapping[str, Any], schemas: Mapping[str, dict[str, Any]] = SCHEMAS) -> str:
    """Return in one sentence what is wrong with a run's parameters, or ""."""
    unknown = sorted(set(conf) - set(schemas))
    if unknown:
        known = ", ".join(sorted(schemas))
        return f"parameter {', '.join(unknown)}: not known; known are {known}"
    for name, value in conf.items():
        for error in jsonschema.Draft202012Validator(schemas[name]).iter_errors(value):
            says = schemas[name]["description"]
            return f"parameter {name}: {error.message}; {says[0].lower()}{says[1:]}"
    return ""


def named_messages(value: Sequence[str] | None) -> tuple[str, ...]:
    """Return the keys that `message_keys` names; blank lines name none."""
    return tuple(key for key in value or () if key.strip())


def wait_seconds(value: str | int | None) -> tuple[int | None] | None:
    """Return a run's own WAIT as a 1-tuple of seconds (0 for NO, None for YES); None for none."""
    if value is None:
        return None
    text = str(value).upper()
    return (None if text == "YES" else 0 if text == "NO" else int(text),)
