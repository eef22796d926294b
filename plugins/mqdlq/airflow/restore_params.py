"""The parameters of a restoration: names, types and meanings; a run's values, parsed.

Imports no Airflow, as `params` does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from mqdlq.airflow import params
from mqdlq.constants import MQRC
from mqdlq.errors import RestoreError
from mqdlq.handlers import load_handlers

if TYPE_CHECKING:
    from mqdlq.stages.restore import RestoreRequest

_RUN: Final = r"^[A-Za-z0-9_.-]{1,250}$"
_REASON: Final = r"^(MQRC_[A-Z0-9_]{1,60}|[0-9]{1,9})$"


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
    "run": {
        "default": None,
        "type": ["null", "string"],
        "pattern": _RUN,
        "title": "Run",
        "description": "Restore what this run discarded, such as"
        " demo-manual__2026-11-21T05-12-45.514631 (in the report, and in `mqdlq restore list`);"
        " without one, name messages.",
    },
    "message_keys": params.SCHEMAS["message_keys"]
    | {
        "description": "Restore these messages only, one message_key a line (in"
        " `mqdlq restore list --format json`; of its 64 hex digits, the first are enough if they"
        " are unique); none means all of the run.",
    },
    "reason": {
        "default": None,
        "type": ["null", "string", "integer"],
        "pattern": _REASON,
        "minimum": 1,
        "title": "Only this reason",
        "description": "Restore only what was a dead letter for this reason, such as"
        " MQRC_Q_FULL or 2053.",
    },
    "to_queue": {
        "default": None,
        "type": ["null", "string"],
        "pattern": params.NAME,
        "title": "To another queue",
        "description": "Put the messages on this queue; without one, back on the dead-letter queue"
        " they were discarded from, where the next run handles them again.",
    },
    "to_queue_manager": {
        "default": None,
        "type": ["null", "string"],
        "pattern": params.NAME,
        "title": "On another queue manager",
        "description": "The queue manager of that queue, where it is another one; messages go"
        " there by its transmission queue.",
    },
    "header": {
        "default": True,
        "type": "boolean",
        "title": "With the dead-letter header",
        "description": "Keep each message's MQDLH. Without it the message is as its sender wrote"
        " it, which is for another queue only.",
    },
    "again": {
        "default": False,
        "type": "boolean",
        "title": "Again",
        "description": "Put also what was restored before, or may have been, and the originals of"
        " messages that were delivered repaired: it is then there twice, unless somebody has taken"
        " it.",
    },
    "why": params.SCHEMAS["why"]
    | {
        "description": "The reason for the restoration, or the number of a ticket. The ledger and"
        " the audit have it.",
    },
    "dry_run": {
        "default": False,
        "type": "boolean",
        "title": "Dry run",
        "description": "Only read the copies and say what would be restored; no queue is opened.",
    },
}


def request(values: Mapping[str, Any], who: str) -> RestoreRequest:
    """Return what a person asks for by a run's parameters; raises RestoreError."""
    from mqdlq.stages.restore import RestoreRequest  # noqa: PLC0415 (imports Arrow, which DAG parsing must not)

    return RestoreRequest(
        run_id=values.get("run") or "",
        message_keys=params.named_messages(values.get("message_keys")),
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
