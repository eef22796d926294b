"""The command `mqdlq check`: report what a handler's user may and may not do."""

from collections.abc import Iterable
from contextlib import suppress

import click

from mqdlq import directories
from mqdlq.cli.output import refusing
from mqdlq.cli.run import HandlerName
from mqdlq.controls.evidence import Evidence
from mqdlq.controls.evidence.checks import inquire_stream_queue
from mqdlq.controls.limits import Limits
from mqdlq.controls.limits.control import NO_DEPTH
from mqdlq.errors import LedgerUnavailableError, MqDlqError, OlderLedgerError, QueueManagerError
from mqdlq.handlers import Handler, load_handler
from mqdlq.ledger import open_ledger
from mqdlq.local.environment import quieten_airflow, read_connection
from mqdlq.model import Action, PutAuthority
from mqdlq.mqi import permissions
from mqdlq.mqi.client import printable_name
from mqdlq.mqi.connect import QueueManager, connect
from mqdlq.mqi.evidence import describe_disabled_events
from mqdlq.mqi.state_queue import browse_markers
from mqdlq.rules import Rule, RulesTable, parse
from mqdlq.stages.older_ledger import require_known_markers, require_newest_ledger
from mqdlq.stages.sense import select_queue_manager
from mqdlq.stages.units.destinations import Destinations


def check(handler: HandlerName) -> None:
    """Implement `mqdlq check`.

    Reports stage by stage which authority the user of the handler's connection lacks on which
    object, with the command that grants it. The queues that the rules name as targets are opened
    for output; no message is browsed, got or put. A target that leads to the handler's own queue or
    state queue, also through an alias, is named: messages for it stay. It warns of a limit
    `in_flight` of a queue whose depth cannot be inquired, and compares `connections` with what the
    channel allows. `mqdlq rules check` checks a handler
    without connecting.

    Exit code 0 if nothing is wrong; 1 if something is, or if the queue manager does not answer; 2
    if the handler, its rules or its connection cannot be used.

    For example:
      mqdlq check demo
    """
    quieten_airflow()
    with refusing(MqDlqError, prefix=""):
        raise SystemExit(check_permissions(handler))


def check_permissions(name: str) -> int:
    """Say what the user of the handler's connection may do; return the exit code."""
    handler = load_handler(name)
    source, text = handler.rules_text()
    table = parse(text, source, frozen=True)
    connection = read_connection(handler.connection)
    settings = select_queue_manager(connection.settings(), table.control.input_q_mgr)
    click.echo(connection.remark, nl=bool(connection.remark))
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
            click.echo(permissions.describe_stages(found, where, settings.user))
            if older := find_older_ledger(handler, queue_manager):
                click.echo(older)
            own_targets = find_own_targets(handler, table, queue_manager, targets)
            faults = []
            if handler.evidence != Evidence():
                faults = check_evidence(handler.evidence, table, queue_manager, settings.user)
            is_enough = check_connections(handler, queue_manager, settings.channel)
            for queue in find_queues_without_depth(handler.limits, targets, queue_manager):
                click.echo(NO_DEPTH % printable_name(queue))
    except QueueManagerError as error:
        click.echo(permissions.advice(error, settings.user))
        return 1
    named = ", ".join(targets) or "none"
    click.echo(
        f"queues the rules put to by name: {named}; queues that only messages name are not checked"
    )
    if any(rule.action in {Action.FWD, Action.RETRY} for rule in as_others):
        where = ", ".join(fixed_targets(as_others, settings.queue_manager))
        click.echo(
            "rules with PUTAUT(CTX) need +altusr on the queue manager, +passall on their targets"
            f"{f' ({where})' if where else ''}, and +put there of each message's user: not tried"
        )
    for fault in faults:
        click.echo(f"evidence: {fault}")
    for fault in own_targets:
        click.echo(fault)
    return int(bool(found or faults or older or own_targets or not is_enough))


def check_connections(handler: Handler, queue_manager: QueueManager, channel: str) -> bool:
    """Say what a client's channel allows; return whether that may be enough for the handler."""
    if handler.connections == 1 or not channel:
        return True
    needed = handler.connections + 1  # one browses
    is_enough, words = permissions.check_channel(queue_manager, channel, needed)
    click.echo(words)
    return is_enough


def find_older_ledger(handler: Handler, queue_manager: QueueManager) -> str:
    """Return what the ledger misses that the lake or the state queue has, "" if it is the newest.

    Markers are browsed, so that handlers may run meanwhile. Without the authority to browse them,
    which is reported apart, only the lake is compared; without a ledger, nothing is.
    """
    lake_root, where = directories.lake(), (handler.state_queue, queue_manager.name)
    try:
        with open_ledger() as ledger:
            require_newest_ledger(ledger, lake_root)
            standing = browse_markers(queue_manager, handler.state_queue)
            require_known_markers(standing, ledger, lake_root, where)
    except OlderLedgerError as error:
        return str(error)
    except (QueueManagerError, LedgerUnavailableError):
        pass
    return ""


def find_own_targets(
    handler: Handler, table: RulesTable, queue_manager: QueueManager, targets: Iterable[str]
) -> list[str]:
    """Return which targets lead to a queue of the handler, so that no message is put there."""
    queues = [table.control.input_q.strip(), handler.state_queue]
    with suppress(MqDlqError):  # the check of authorities has reported it
        queues[0] = queues[0] or queue_manager.dead_letter_q_name()
    known = Destinations(queue_manager, 1)
    found = {name: known.find_own((name, ""), tuple(queues)) for name in targets}
    return [
        f"{name} leads to {own}, a queue of this very handler: messages for it stay;"
        " name another target"
        for name, own in found.items()
        if own
    ]


def check_evidence(
    evidence: Evidence, table: RulesTable, queue_manager: QueueManager, user: str
) -> list[str]:
    """Return what keeps the handler from its evidence; a run needs none of it."""
    faults: list[str] = []
    try:
        queue = table.control.input_q.strip() or queue_manager.dead_letter_q_name()
        stream = inquire_stream_queue(queue_manager, queue) if evidence.stream else ""
        if evidence.depth_events and (commands := describe_disabled_events(queue_manager, queue)):
            faults.append(f"queue {queue} has no depth events; to enable them: {commands}")
    except MqDlqError as error:
        return [error.text]
    if evidence.stream and not stream:
        faults.append(f"queue {queue} has no STREAMQ")
    sources = tuple(filter(None, (evidence.depth_events, evidence.statistics, stream)))
    missing = permissions.find_unreadable(queue_manager, user, sources)
    return [fault for _, fault in missing] + faults


def find_queues_without_depth(
    limits: Limits, targets: Iterable[str], queue_manager: QueueManager
) -> list[str]:
    """Return the queues with a limit `in_flight` whose depth cannot be inquired.

    They are queues that the limits name without wildcards, and targets of the rules.
    """
    known, own = Destinations(queue_manager, 1), queue_manager.name
    named = [item.queue for item in limits.destinations if not set(item.queue) & set("*?")]
    found = []
    for name in dict.fromkeys([*named, *targets]):
        item = limits.of_destination((name, ""), own)
        is_limited = item is not None and item.in_flight is not None
        if is_limited and known.inquire_depth((name, "")) is None:
            found.append(name)
    return found


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
