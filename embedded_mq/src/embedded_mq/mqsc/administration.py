"""Run MQSC commands on a queue manager, all or none."""

from collections.abc import Callable, Mapping
from pathlib import Path

from embedded_mq import mqi_constants as mq
from embedded_mq.engine.connection import Connection
from embedded_mq.engine.failures import CallFailedError
from embedded_mq.engine.objects.attributes import Value
from embedded_mq.engine.objects.queue_objects import CommandRefusedError
from embedded_mq.errors import EmbeddedQueueManagerError, MqscError
from embedded_mq.mqsc import authority as mqsc_authority
from embedded_mq.mqsc import channels as mqsc_channels
from embedded_mq.mqsc import display as mqsc_display
from embedded_mq.mqsc import faults as mqsc_faults
from embedded_mq.mqsc import queues as mqsc_queues
from embedded_mq.mqsc.syntax import Command, Problem, ProblemError, parse_commands
from embedded_mq.storage import directories

Handler = Callable[[Connection, Command], list[str]]

QUEUE_VERBS: Mapping[str, Handler] = {
    "DEFINE": mqsc_queues.define,
    "ALTER": mqsc_queues.alter,
    "DELETE": mqsc_queues.delete,
    "CLEAR": mqsc_queues.clear,
    "DISPLAY": mqsc_display.display,
}
OTHER_COMMANDS: Mapping[tuple[str, str], Handler] = {
    ("SET", "AUTHREC"): mqsc_authority.set_record,
    ("DELETE", "AUTHREC"): mqsc_authority.delete_record,
    ("DISPLAY", "AUTHREC"): mqsc_authority.display,
    ("DEFINE", "CHANNEL"): mqsc_channels.define,
    ("ALTER", "CHANNEL"): mqsc_channels.alter,
    ("DELETE", "CHANNEL"): mqsc_channels.delete,
    ("DISPLAY", "CHANNEL"): mqsc_channels.display,
    ("DISPLAY", "CHSTATUS"): mqsc_channels.display_status,
    ("START", "CHANNEL"): mqsc_channels.start,
    ("STOP", "CHANNEL"): mqsc_channels.stop,
    ("SET", "FAULT"): mqsc_faults.set_fault,
    ("CLEAR", "FAULT"): mqsc_faults.clear,
    ("DISPLAY", "FAULT"): mqsc_faults.display,
}


def run_mqsc(name: str, text: str, directory: Path | None = None) -> list[str]:
    """Run MQSC commands; return a line for each change and for each displayed object.

    If one of the commands is wrong, none of them takes effect, and MqscError lists every problem
    with its line.
    """
    read = list(parse_commands(text))
    problems = [part for part in read if isinstance(part, Problem)]
    done: list[str] = []
    connection = connect(name, directory)
    try:
        with connection.store.transaction(durable=True):
            connection.recover_dead_connections()
            for command in read:
                if isinstance(command, Command):
                    done += _run_command(connection, command, problems)
            if problems:
                problems.sort(key=lambda problem: problem.line)
                raise MqscError("\n".join(map(str, problems)))
    finally:
        connection.disconnect()
    return done


def create_defined(
    name: str,
    text: str,
    directory: Path | None = None,
    attributes: Mapping[str, Value] = directories.NO_ATTRIBUTES,
) -> tuple[Path, list[str]]:
    """Create a queue manager and run MQSC commands; return its directory and the output lines.

    `attributes` are the queue manager's attributes that are not defaults. If a command is wrong, no
    queue manager is created (MqscError).
    """
    done: list[str] = []
    path = directories.create(
        name, directory, lambda building: done.extend(run_mqsc(name, text, building)), attributes
    )
    return path, done


def depths(name: str, directory: Path | None = None) -> dict[str, int]:
    """Return CURDEPTH of every local queue, by name."""
    connection = connect(name, directory)
    try:
        queues = connection.store.catalogue().by_name.values()
        return {
            queue.name: connection.depth(queue.queue_id)
            for queue in queues
            if queue.type == mq.MQQT_LOCAL
        }
    finally:
        connection.disconnect()


def connect(name: str, directory: Path | None = None) -> Connection:
    """Connect to a queue manager with every authority.

    Raises EmbeddedQueueManagerError if the queue manager does not exist or has ended.
    """
    try:
        return Connection(directories.find_existing(name, directory), is_administrative=True)
    except CallFailedError:
        raise EmbeddedQueueManagerError(
            f"queue manager {name} is ended; `embedded-mq start {name}` starts it"
        ) from None


def _run_command(connection: Connection, command: Command, problems: list[Problem]) -> list[str]:
    work = OTHER_COMMANDS.get((command.verb, command.kind)) or QUEUE_VERBS.get(
        command.verb, _refuse_command
    )
    try:
        return work(connection, command)
    except ProblemError as error:
        problems.append(error.problem)
    except CommandRefusedError as error:
        problems.append(Problem(command.line, str(error)))
    return []


def _refuse_command(_: Connection, command: Command) -> list[str]:
    known = ", ".join(kind for verb, kind in OTHER_COMMANDS if verb == command.verb)
    raise ProblemError(
        command.line,
        f"{command.verb} {command.kind} is not supported; {command.verb} takes {known}",
    )
