"""Report which authorities the user of a handler's connection has, and which are missing.

``mqdlq check`` runs it as ``python -m mqdlq.local.permission_check HANDLER``. The connection is
looked up as in a task of this Airflow. The exit codes are those of ``mqdlq check``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

import typer

from mqdlq.errors import ClientNotFoundError, MqDlqError, QueueManagerError
from mqdlq.handlers import load_handler
from mqdlq.local.connection_store import read_settings
from mqdlq.model import Action, PutAuthority
from mqdlq.mqi import permissions
from mqdlq.mqi.connect import connect
from mqdlq.rules import Rule, parse
from mqdlq.stages.sense.start_run import select_queue_manager

USAGE = 2


def check(name: str) -> int:
    """Say what the user of the handler's connection may do; return the exit code."""
    handler = load_handler(name)
    source, text = handler.rules_text()
    table = parse(text, source, frozen=True)
    settings = select_queue_manager(read_settings(handler.connection), table.control.input_q_mgr)
    try:
        with connect(settings) as queue_manager:
            as_others = [rule for rule in table.rules if rule.put_authority is PutAuthority.CTX]
            own = [rule for rule in table.rules if rule not in as_others]
            targets = fixed_targets(own, settings.queue_manager)
            found = permissions.find_missing(
                queue_manager,
                settings.user,
                handler.state_queue,
                queue=table.control.input_q.strip(),
                targets=targets,
            )
            where = f"queue manager {queue_manager.name} through {queue_manager.client.name}"
            typer.echo(permissions.describe_stages(found, where, settings.user))
    except QueueManagerError as error:
        typer.echo(permissions.advice(error, settings.user))
        return 1
    named = ", ".join(targets) or "none"
    typer.echo(
        f"queues the rules put to by name: {named}; queues that only messages name are not checked"
    )
    if any(rule.action in {Action.FWD, Action.RETRY} for rule in as_others):
        where = ", ".join(fixed_targets(as_others, settings.queue_manager))
        typer.echo(
            "rules with PUTAUT(CTX) need +altusr on the queue manager, +passall on their targets"
            f"{f' ({where})' if where else ''}, and +put there of each message's user: not tried"
        )
    return int(bool(found))


def fixed_targets(rules: Iterable[Rule], queue_manager: str) -> tuple[str, ...]:
    """Return the queues of that queue manager which the rules put to, whatever the messages."""
    found: dict[str, None] = {}
    for rule in rules:
        patterns = {pattern.keyword: str(pattern.value) for pattern in rule.patterns}
        if rule.action is Action.FWD:
            name, place = rule.fwd_q, rule.fwd_q_mgr
        elif rule.action is Action.RETRY:
            name, place = patterns.get("DESTQ", ""), patterns.get("DESTQM", "")
        else:
            continue
        is_named = name and not name.startswith("&") and not set(name) & set("*?")
        if is_named and place in {"", queue_manager}:
            found.setdefault(name)
    return tuple(found)


if __name__ == "__main__":
    # Airflow's own remarks go to where the answer goes.
    os.environ["AIRFLOW__LOGGING__LOGGING_LEVEL"] = "ERROR"
    try:
        sys.exit(check(sys.argv[1]))
    except (ClientNotFoundError, MqDlqError) as error:
        typer.echo(str(error), err=True)
        sys.exit(USAGE)
