"""The command `mqdlq backout-advice`: which queues have no working backout queue.

An application that follows IBM's conventions moves a message to BOQNAME when MQMD.BackoutCount has
reached BOTHRESH. With BOTHRESH(0) it backs the message out again and again; with a blank BOQNAME it
uses the dead-letter queue (IBM MQ docs, "Handling poison messages in IBM MQ classes for JMS").
Queues are only inquired.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mqdlq.cli.connections import ConnectionId
from mqdlq.cli.output import Output, console, refusing, write_json
from mqdlq.constants import MQRC
from mqdlq.errors import ClientNotFoundError, ConnectionSettingsError, MqDlqError, QueueManagerError
from mqdlq.handlers import Handler, load_handlers
from mqdlq.local.environment import find_settings
from mqdlq.model import QueueKind
from mqdlq.mqi.connect import QueueManager, connect, name_bytes
from mqdlq.mqi.inquiries import run_command
from mqdlq.rules import ControlData
from mqdlq.words import count

EVERY: Final = "*"
SYSTEM: Final = "SYSTEM."
THRESHOLD: Final = 3
"""BOTHRESH in commands for queues that have none; the owner of the application chooses it."""
_LONGEST_NAME: Final = 48


@dataclass(frozen=True, slots=True)
class _Queue:
    """Attributes of a queue; of a queue that is not local, the name only."""

    name: str
    is_local: bool = False
    threshold: int = 0
    backout_queue: str = ""
    max_length: int = 0
    is_inhibited: bool = False
    is_of_applications: bool = False


def advise_on_backout(
    queue_manager: QueueManager,
    pattern: str,
    handlers: Mapping[str, Collection[str]],
    state_queues: Collection[str] = (),
) -> list[dict[str, Any]]:
    """Return advice on each local queue that matches a generic name, such as ``ORDERS*``, by name.

    It has the backout settings of a `queue`, `bothresh` and `boqname`, what is wrong with them, as
    `findings`, the MQSC `commands` that correct it, and the names of the `handlers` that serve the
    backout queue.

    These queues are left out: transmission queues, dynamic queues, the dead-letter queue, backout
    queues, the `state_queues` of handlers, and queues of IBM MQ unless the pattern begins with
    SYSTEM. `handlers` has the names of the handlers by the backout queue that they serve. Raises
    QueueManagerError, for example if the user may not run the PCF command Inquire Queue.
    """
    mq = queue_manager.client.CMQC
    dead_letter_queue = str(queue_manager.inquire(mq.MQCA_DEAD_LETTER_Q_NAME))
    # A queue outside the pattern may name a queue inside it as its BOQNAME, or be one itself.
    known = {queue.name: queue for queue in _inquire(queue_manager, EVERY)}
    found = known.values() if pattern == EVERY else _inquire(queue_manager, pattern)
    targets = {one.backout_queue for one in known.values() if one.backout_queue != one.name}
    left_out = {dead_letter_queue, *targets, *handlers, *state_queues}
    is_of_system = pattern.startswith(SYSTEM)
    # A queue that the user may not display is not among them: to ask for it by its name fails.
    ask = cache(lambda name: known.get(name) or next(iter(_inquire(queue_manager, name)), None))
    advice = []
    for queue in sorted(found, key=lambda queue: queue.name):
        is_asked = is_of_system or not queue.name.startswith(SYSTEM)
        if queue.is_of_applications and is_asked and queue.name not in left_out:
            faults = list(_find_faults(queue, ask, dead_letter_queue))
            one = {
                "queue": queue.name,
                "bothresh": queue.threshold,
                "boqname": queue.backout_queue,
                "handlers": sorted(handlers.get(queue.backout_queue, ())),
                "findings": [text for text, *_ in faults],
                "commands": [command for _, *commands in faults for command in commands],
            }
            advice.append(one)
    return advice


def _find_faults(
    queue: _Queue, ask: Callable[[str], _Queue | None], dead_letter_queue: str
) -> Iterator[tuple[str, ...]]:
    """Yield each fault of a queue, and the MQSC commands that correct it.

    `ask` returns a queue of any type, None if it is not defined.
    """
    name = queue.backout_queue
    if not name and not queue.threshold:
        text = (
            "BOTHRESH is 0 and BOQNAME is blank: a message that cannot be processed is backed"
            " out without end"
        )
    elif not name:
        text = (
            f"BOQNAME is blank: after {queue.threshold} backouts, messages go to the"
            " dead-letter queue"
        )
    elif name == queue.name:
        text = "BOQNAME is the queue itself"
    elif name == dead_letter_queue:
        text = (
            f"BOQNAME {name} is the dead-letter queue (DEADQ), where no rule matches messages"
            " without an MQDLH"
        )
    else:
        yield from _find_faults_of_target(queue, ask(name))
        return
    own, commands = f"{queue.name}.BACKOUT", list[str]()
    if len(own) <= _LONGEST_NAME:
        threshold = queue.threshold or THRESHOLD
        commands = [] if ask(own) else [_define(own, queue)]
        commands.append(f"ALTER QLOCAL('{queue.name}') BOTHRESH({threshold}) BOQNAME('{own}')")
    yield text, *commands


def _find_faults_of_target(queue: _Queue, target: _Queue | None) -> Iterator[tuple[str, ...]]:
    name = queue.backout_queue
    if not queue.threshold:
        command = f"ALTER QLOCAL('{queue.name}') BOTHRESH({THRESHOLD})"
        yield "BOTHRESH is 0, so that BOQNAME has no effect", command
    if target is None:
        yield f"BOQNAME {name} is not defined", _define(name, queue)
    elif not target.is_local:
        yield (f"BOQNAME {name} is not a local queue, so that no handler can serve it",)
    else:
        if target.is_inhibited:
            command = f"ALTER QLOCAL('{name}') PUT(ENABLED)"
            yield f"puts to BOQNAME {name} are inhibited", command
        if target.max_length < queue.max_length:
            taken = f"BOQNAME {name} takes messages of {target.max_length:,} bytes"
            command = f"ALTER QLOCAL('{name}') MAXMSGL({queue.max_length})"
            yield f"{taken}, the queue of {queue.max_length:,}", command


def _define(name: str, queue: _Queue) -> str:
    return f"DEFINE QLOCAL('{name}') DEFPSIST(YES) MAXMSGL({queue.max_length})"


def _inquire(queue_manager: QueueManager, name: str) -> list[_Queue]:
    mq, cf = queue_manager.client.CMQC, queue_manager.client.module.CMQCFC
    attributes = [
        mq.MQCA_Q_NAME,
        mq.MQIA_BACKOUT_THRESHOLD,
        mq.MQCA_BACKOUT_REQ_Q_NAME,
        mq.MQIA_MAX_MSG_LENGTH,
        mq.MQIA_INHIBIT_PUT,
        mq.MQIA_DEFINITION_TYPE,
        mq.MQIA_USAGE,
    ]
    asked = {mq.MQCA_Q_NAME: name_bytes(name), cf.MQIACF_Q_ATTRS: attributes}
    try:
        responses = run_command(queue_manager, "MQCMD_INQUIRE_Q", asked)
    except QueueManagerError as error:
        if error.reason == MQRC["MQRC_UNKNOWN_OBJECT_NAME"]:
            return []
        raise
    return [_queue(mq, response) for response in responses]


def _queue(mq: Any, response: Mapping[int, Any]) -> _Queue:
    name = _text(response[mq.MQCA_Q_NAME])
    if response[mq.MQIA_Q_TYPE] != mq.MQQT_LOCAL:
        return _Queue(name)
    is_predefined = response[mq.MQIA_DEFINITION_TYPE] == mq.MQQDT_PREDEFINED
    return _Queue(
        name,
        is_local=True,
        threshold=int(response[mq.MQIA_BACKOUT_THRESHOLD]),
        backout_queue=_text(response[mq.MQCA_BACKOUT_REQ_Q_NAME]),
        max_length=int(response[mq.MQIA_MAX_MSG_LENGTH]),
        is_inhibited=response[mq.MQIA_INHIBIT_PUT] == mq.MQQA_PUT_INHIBITED,
        is_of_applications=is_predefined and response[mq.MQIA_USAGE] == mq.MQUS_NORMAL,
    )


def _text(value: Any) -> str:
    return bytes(value).decode("ascii", "replace").rstrip(" \0")


# The command.


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
        control = handler.control_data() or ControlData()
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
