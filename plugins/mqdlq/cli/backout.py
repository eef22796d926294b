"""The command `mqdlq backout-advice`: which queues have no working backout queue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mqdlq.cli.connections import ConnectionId
from mqdlq.cli.output import Output, console, refusing, write_json
from mqdlq.errors import ClientNotFoundError, ConnectionSettingsError, MqDlqError
from mqdlq.handlers import Handler, load_handlers
from mqdlq.local.environment import find_settings
from mqdlq.model import QueueKind
from mqdlq.mqi.connect import connect
from mqdlq.rules import ControlData
from mqdlq.stages.run_options import read_control_data
from mqdlq.tools.backout_advice import advise_on_backout
from mqdlq.words import count


def backout_advice(
    connection: ConnectionId, pattern: str = "*", *, output: Output = "text"
) -> None:
    """Implement `mqdlq backout-advice`.

    Reads BOTHRESH and BOQNAME of the local queues of a queue manager, and the attributes of their
    backout queues, by the PCF command Inquire Queue. Nothing changes. Reports each queue without a
    backout queue that works, and the MQSC commands that correct it. Choose BOTHRESH yourself: the
    commands have 3 for queues that have none.

    Left out are transmission queues, dynamic queues, the dead-letter queue, backout queues, state
    queues of handlers, and the queues of IBM MQ, unless the pattern begins with SYSTEM. The column
    Handler has the handlers of the rules directory that serve the backout queue. Handlers of other
    queue managers, by INPUTQM or their connection, do not count.

    Exit code 0 if nothing is missing; 1 if a queue has a finding, or if the queue manager does not
    answer; 2 if the connection cannot be used.

    Takes:
      QUEUE-PATTERN: A queue's name, or the beginning of names and an asterisk.

    For example:
      mqdlq backout-advice mq_demo 'PAYMENTS.IN*'
      mqdlq backout-advice mq_demo 'PAYMENTS.IN*' --format json
    """
    with refusing(ConnectionSettingsError, ClientNotFoundError):
        settings = find_settings(connection)
        with connect(settings) as queue_manager:
            served, state_queues = _find_queues_of_handlers(
                load_handlers()[0], connection, queue_manager.name
            )
            found = advise_on_backout(queue_manager, pattern.strip(), served, state_queues)
    if output == "json":
        write_json({"queue_manager": queue_manager.name, "pattern": pattern, "queues": found})
    else:
        console().print(Group(*_parts(queue_manager.name, pattern, found)))
    raise SystemExit(int(any(one["findings"] for one in found)))


def _find_queues_of_handlers(
    handlers: Iterable[Handler], connection: str, queue_manager: str
) -> tuple[dict[str, set[str]], set[str]]:
    """Return the handlers of backout queues by their queue, and the state queues of all handlers.

    Only handlers of this queue manager count: INPUTQM names it, or their connection does. A handler
    without a usable connection does not count; its runs report the fault.
    """
    names = {connection: queue_manager}  # of queue managers, by connection
    served: dict[str, set[str]] = defaultdict(set)
    state_queues = set()
    for handler in handlers:
        control = read_control_data(handler) or ControlData()
        name = control.input_q_mgr.strip()
        if not name and handler.connection not in names:
            names[handler.connection] = ""
            with suppress(MqDlqError):
                names[handler.connection] = find_settings(handler.connection).queue_manager
        name = name or names[handler.connection]
        if name == queue_manager:
            state_queues.add(handler.state_queue)
            if handler.queue_kind is QueueKind.BACKOUT and control.input_q:
                served[control.input_q].add(handler.name)
    return served, state_queues


def _parts(
    queue_manager: str, pattern: str, found: Sequence[Mapping[str, Any]]
) -> Iterator[RenderableType]:
    faulty = [one for one in found if one["findings"]]
    yield Text.assemble(
        ("BACKOUT ADVICE", "bold"),
        f"  {pattern} @ {queue_manager}: {count(len(found), 'queue')}, {len(faulty)} with findings",
    )
    if not found:
        return
    yield Text("")
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("Queue", no_wrap=True)
    table.add_column("BOTHRESH", justify="right")
    table.add_column("BOQNAME", overflow="fold")
    table.add_column("Handler", overflow="fold")
    table.add_column("Finding", overflow="fold")
    for one in found:
        table.add_row(
            Text(one["queue"]),
            str(one["bothresh"]),
            Text(one["boqname"] or "-"),
            Text(", ".join(one["handlers"]) or "-"),
            Text("; ".join(one["findings"]) or "ok"),
        )
    yield table
    commands = [command for one in faulty for command in one["commands"]]
    if commands:
        yield Text("\nMQSC commands that correct this:")
        yield from (Text(f"  {command}") for command in commands)
