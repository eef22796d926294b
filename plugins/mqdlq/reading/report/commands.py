"""Write the commands that act on the messages of a report.

A command is for a POSIX shell. It names the messages by their keys, because a run for named
messages touches no other message.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from mqdlq.causes import find_cause
from mqdlq.ledger.tables import Run
from mqdlq.model import MessageClass, Outcome
from mqdlq.reading.page_paths import Paths
from mqdlq.reading.report.records import MessageGroup
from mqdlq.rules import check

MOST_KEYS: Final = 100
"""How many messages a command names; a shell takes several thousand, a person reads fewer."""

MOST_KEYS_IN_TEXT: Final = 3
MOST_KEYS_IN_AN_ADDRESS: Final = 50
"""Proxies take addresses of 8 KB, half of which these keys need."""
_WIDTH: Final = 84
_BETWEEN_KEYS: Final = re.compile(r"""(?<=\[)(?=")|(?<=[0-9a-f]",) (?=")|(?<="\],) """)

DELIVER: Final = "ACTION(RETRY)"
"""Put a message to the destination that its MQDLH names."""

FORWARD: Final = "ACTION(FWD) FWDQ(<queue>)"
"""A message without a valid MQDLH has no destination. A run rejects this until a queue is named."""


def command_for(
    run: Run | None, outcome: Outcome | None, cls: MessageClass | None, keys: Sequence[str]
) -> str:
    """Return the command that acts on messages with the same outcome and class, "" if none helps.

    An unknown outcome has no command: the message may be on another queue already. That of a run
    with a repair is a dry run with the same repair, because nobody can approve a repair in the
    foreground, and without it the messages would be delivered as they are.
    """
    if run is None or outcome is Outcome.UNKNOWN:
        return ""
    if outcome is None:
        return "" if run.repair else f"mqdlq run {shlex.quote(run.handler)}"
    if not all(keys) or len(keys) > MOST_KEYS:
        return ""
    conf = {"message_keys": list(keys), **_action(run, outcome, cls)}
    if run.repair:
        conf = {"dry_run": True, **conf, "repair": json.loads(run.repair)}
    if run.has_given_action or _named_queue(run.rules_text) != run.queue:
        conf["input_q"] = run.queue
    return f"mqdlq run {shlex.quote(run.handler)} --conf {shlex.quote(json.dumps(conf))}"


def with_commands(groups: Sequence[MessageGroup], run: Run | None) -> tuple[MessageGroup, ...]:
    return tuple(replace(group, command=_command_for_group(group, run)) for group in groups)


def act_address(paths: Paths, handler: str, group: MessageGroup) -> str:
    """Return the address of the form that acts on a group, "" if the page cannot act on it.

    A group with too many messages for an address is that of its cause, with the other messages of
    this cause.
    """
    first = group.first
    if first.outcome in (None, Outcome.UNKNOWN) or first.cls is None:
        return ""
    keys = [row.message_key for row in group.rows]
    if len(keys) == group.messages <= MOST_KEYS_IN_AN_ADDRESS and all(keys):
        return paths.act_on(handler, keys)
    if group.is_mixed:
        return paths.causes(handler)
    cause = find_cause(first.cls, first.reason, first.dest_q_name, first.dest_q_mgr_name)
    return paths.act_on(handler, cause_id=cause.cause_id)


def text_command(group: MessageGroup) -> str:
    """Return the command of a group for a text report, "" if it is too long for it.

    It has line breaks where JSON allows them, so that it can be pasted.
    """
    lines = _BETWEEN_KEYS.sub("\n", group.command).splitlines()
    fits = group.messages <= MOST_KEYS_IN_TEXT and all(len(line) <= _WIDTH for line in lines)
    return "\n".join(lines) if fits else ""


def _command_for_group(group: MessageGroup, run: Run | None) -> str:
    first = group.first
    if first.outcome is not None and (group.is_mixed or len(group.rows) < group.messages):
        return ""
    return command_for(run, first.outcome, first.cls, [row.message_key for row in group.rows])


def _action(run: Run, outcome: Outcome, cls: MessageClass | None) -> dict[str, Any]:
    """Return the parameter `action`; the rules decide again about a message that matches one.

    A control holds a quarantined message from every rule, but from no given action.
    """
    if run.has_given_action:
        return {"action": run.rules_text.strip()}
    if outcome is Outcome.UNPROCESSABLE or (cls and cls is not run.queue_kind.acts_on):
        return {"action": FORWARD}
    if outcome not in {Outcome.UNMATCHED, Outcome.QUARANTINED}:
        return {}
    return {"action": DELIVER if cls in (None, MessageClass.DEAD_LETTER) else FORWARD}


@lru_cache(maxsize=8)
def _named_queue(rules_text: str) -> str:
    """Return the queue that a table names, "" for none."""
    table = check(rules_text, frozen=True).table
    return "" if table is None else table.control.input_q.strip()
