"""The parameters of a run: names, types and meanings; a run's values, checked.

The same schemas make Airflow's form and refuse what `mqdlq run` is given, before anything starts;
so this imports no Airflow, which reads its settings when it is imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from mqdlq.constants import MQRC
from mqdlq.controls.repair import SCHEMA as REPAIR
from mqdlq.errors import RestoreError
from mqdlq.handlers import Handler, load_handlers

if TYPE_CHECKING:
    from mqdlq.ledger.tables import Restoration

NAME: Final = r"^[A-Za-z0-9._/%]{0,48}$"


def _optional(title: str, description: str, *types: str, **limits: Any) -> dict[str, Any]:
    """Return the schema of a parameter that is unset by default: of text, or of these types."""
    kinds = ["null", *(types or ("string",))]
    return {"default": None, "type": kinds, "title": title, "description": description, **limits}


def _switch(title: str, description: str, *, default: bool = False) -> dict[str, Any]:
    return {"default": default, "type": "boolean", "title": title, "description": description}


SCHEMAS: Final[Mapping[str, dict[str, Any]]] = {
    "dry_run": _switch(
        "Dry run",
        "Only say what would be done: snapshot, evaluate and report, but move nothing. The queue is"
        " never opened for input.",
    ),
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
        "then": {"contains": {"pattern": r"\S"}},
        "title": "Only these messages",
        "description": "Act on these messages only, one message_key a line (in the report's JSON;"
        " of its 64 hex digits, the first are enough if they are unique); none means all. The run"
        " plans and reports no other message.",
    },
    "where": _optional(
        "The messages with",
        "Act on the messages that meet this condition only, such as cause=14e0cdf53d6f and"
        " application=payd*; the filters of the page of messages, joined by `and`. The run plans"
        " and reports no other message.",
        maxLength=4000,
    ),
    "as_of": _optional(
        "As of this snapshot",
        "With a condition: of the messages that met it in this snapshot, such as"
        " 20261121T024925Z-e20085a8, and not of those that arrived since. Without one the run's own"
        " snapshot counts.",
        pattern=r"^[A-Za-z0-9-]{1,100}$",
    ),
    "action": _optional(
        "This action for them",
        "What to do with these messages, in place of the table's rules: one rule without patterns,"
        " such as ACTION(FWD) FWDQ(PARKED) or ACTION(RETRY) RETRY(3). A message without a valid"
        " MQDLH can be forwarded to a named queue, discarded or ignored.",
    ),
    "repair": {
        **REPAIR,
        "default": None,
        "title": "Repair them",
        "description": "The fields that the messages get when that action puts them: Format,"
        ' CodedCharSetId or both, such as {"format": "MQSTR", "coded_char_set_id": 1208}. With {}'
        " only the destination changes. With body_sha256 and body_length of a stored replacement,"
        " one message gets another body; otherwise bodies stay. The originals go to the archive,"
        " and a person must approve the plan.",
    },
    "until_fixed": _switch(
        "When it is fixed",
        "Hold messages while their destination would refuse them, without trying one; when it takes"
        " them, one is tried first, and then more of its cause in the steps of the ramp.",
    ),
    "full_snapshot": _switch(
        "Full snapshot",
        "Read every message in full, those too that earlier runs have settled; of an empty queue"
        " the snapshot is taken as well.",
    ),
    "rules": _optional(
        "Another rules table",
        "A file beside the handler's own, for this run, such as new.rules.",
        pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$",
    ),
    "input_q": _optional(
        "Another queue",
        "The queue to handle, in place of the table's INPUTQ; empty text means the queue manager's"
        " own dead-letter queue.",
        pattern=NAME,
    ),
    "input_q_mgr": _optional(
        "Another queue manager",
        "The queue manager, in place of the table's INPUTQM and the connection's.",
        pattern=NAME,
    ),
    "wait": _optional(
        "Wait for messages",
        "In place of the table's WAIT: NO looks at the queue once, a number waits so many seconds"
        " for a message, and again after each run that acted; YES waits until the next scheduled"
        " start.",
        "string",
        "integer",
        pattern=r"^([Yy][Ee][Ss]|[Nn][Oo]|[0-9]{1,9})$",
        minimum=0,
        maximum=999_999_999,
    ),
    "follows": _optional(
        "Follows this run",
        "Leave it empty: a run with WAIT starts the next one with it, which waits for messages that"
        " arrive later.",
        maxLength=250,
    ),
    "why": _optional(
        "Why",
        "The reason for the run, or the number of a ticket. The ledger and the audit have it.",
        maxLength=1000,
    ),
    "apply": _switch(
        "Apply a backfill",
        "For backfills only, which else just report what today's rules would do otherwise: act on"
        " those messages that are proven to be still on the queue.",
    ),
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
    if not conf:
        return ""
    import jsonschema  # noqa: PLC0415 (slow, and most runs have no parameters)

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
    return tuple(key for key in value or () if key.strip())


def wait_seconds(value: str | int | None) -> tuple[int | None] | None:
    """Return a run's own WAIT as a 1-tuple of seconds (0 for NO, None for YES); None for none."""
    if value is None:
        return None
    text = str(value).upper()
    return (None if text == "YES" else 0 if text == "NO" else int(text),)


# The parameters of a restoration


def schemas(handlers: Sequence[str] | None = None) -> dict[str, dict[str, Any]]:
    """Return the schemas, with the handlers' names to choose from.

    A person has to choose where there are several.
    """
    names = [one.name for one in load_handlers()[0]] if handlers is None else list(handlers)
    handler = {
        "type": "string",
        "enum": names,
        "title": "Handler",
        "description": "The handler whose archive is restored from: its connection is used, and its"
        " state queue.",
    }
    return {"handler": handler | ({"default": names[0]} if len(names) == 1 else {}), **_OTHERS}


_OTHERS: Final[Mapping[str, dict[str, Any]]] = {
    "run": _optional(
        "Run",
        "Restore what this run discarded, such as demo-manual__2026-11-21T05-12-45.514631 (in the"
        " report, and in `mqdlq restore list`); without one, name messages.",
        pattern=r"^[A-Za-z0-9_.-]{1,250}$",
    ),
    "message_keys": SCHEMAS["message_keys"]
    | {
        "description": "Restore these messages only, one message_key a line (in"
        " `mqdlq restore list --format json`; of its 64 hex digits, the first are enough if they"
        " are unique); none means all of the run.",
    },
    "reason": _optional(
        "Only this reason",
        "Restore only what was a dead letter for this reason, such as MQRC_Q_FULL or 2053.",
        "string",
        "integer",
        pattern=r"^(MQRC_[A-Z0-9_]{1,60}|[0-9]{1,9})$",
        minimum=1,
    ),
    "to_queue": _optional(
        "To another queue",
        "Put the messages on this queue; without one, back on the dead-letter queue they were"
        " discarded from, where the next run handles them again.",
        pattern=NAME,
    ),
    "to_queue_manager": _optional(
        "On another queue manager",
        "The queue manager of that queue, where it is another one; messages go there by its"
        " transmission queue.",
        pattern=NAME,
    ),
    "header": _switch(
        "With the dead-letter header",
        "Keep each message's MQDLH. Without it the message is as its sender wrote it, which is for"
        " another queue only.",
        default=True,
    ),
    "again": _switch(
        "Again",
        "Put also what was restored before, or may have been, and the originals of messages that"
        " were delivered repaired: it is then there twice, unless somebody has taken it.",
    ),
    "why": SCHEMAS["why"]
    | {
        "description": "The reason for the restoration, or the number of a ticket. The ledger and"
        " the audit have it.",
    },
    "dry_run": _switch(
        "Dry run",
        "Only read the copies and say what would be restored; no queue is opened.",
    ),
}


def request(
    values: Mapping[str, Any], handler: Handler, name: str, who: str, now: datetime
) -> Restoration:
    """Return what a person asks for by a run's parameters; raises RestoreError."""
    from mqdlq.ledger.tables import Restoration  # noqa: PLC0415 (imports SQLAlchemy)

    return Restoration(
        restoration_id=name,
        handler=handler.name,
        state_queue=handler.state_queue,
        started_at=now,
        run_id=values.get("run") or "",
        message_keys=named_messages(values.get("message_keys")),
        reason=reason_number(values.get("reason")),
        to_queue=(values.get("to_queue") or "").strip(),
        to_queue_manager=(values.get("to_queue_manager") or "").strip(),
        header=bool(values.get("header", True)),
        again=bool(values.get("again")),
        dry_run=bool(values.get("dry_run")),
        who=who,
        why=(values.get("why") or "").strip(),
    )


def reason_number(given: str | int | None) -> int:
    """Return the number of a reason given by name or number, 0 for none; raises RestoreError."""
    if given is None or isinstance(given, int):
        return given or 0
    if given.isdecimal():
        return int(given)
    if given not in MQRC:
        raise RestoreError(
            "MQDLQ-706",
            f"{given} is not a reason code; expected a name or number such as MQRC_Q_FULL or 2053",
        )
    return MQRC[given]
