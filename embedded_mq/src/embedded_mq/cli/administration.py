"""Commands that create queue managers, define their objects, and start and end them."""

from pathlib import Path
from typing import Annotated

import typer

import embedded_mq
from embedded_mq.cli.files import read_text

QueueManagerName = Annotated[str, typer.Argument(help="The queue manager.", metavar="NAME")]


def create(
    name: QueueManagerName,
    mqsc: Annotated[
        Path | None, typer.Option(help="MQSC commands to run on it; - reads standard input.")
    ] = None,
    check_headers: Annotated[
        bool,
        typer.Option(
            "--check-headers",
            help="Check MQ headers on MQPUT with a version 2 MQMD (ALTER QMGR HDRCHECK(YES)).",
        ),
    ] = False,
) -> None:
    """Create a queue manager.

    If one of the MQSC commands is wrong, no queue manager is created.

    For example:
      echo 'DEFINE QLOCAL(ORDERS)' | embedded-mq create QM2 --mqsc -
    """
    commands = "" if mqsc is None else read_text(mqsc)
    attributes = {"HDRCHECK": 1} if check_headers else {}
    path, done = embedded_mq.create_defined(name, commands, attributes=attributes)
    typer.echo(f"created queue manager {name} in {path}")
    for line in done:
        typer.echo(line)


def mqsc(
    name: QueueManagerName,
    file: Annotated[
        Path, typer.Argument(help="The commands; - reads standard input.", metavar="FILE")
    ] = Path("-"),
) -> None:
    """Run MQSC commands.

    Either all commands take effect or, if one is wrong, none.

    SET FAULT('VERB[QUEUE]:N:WHAT:WHEN') is for tests: it makes the Nth call of VERB fail for all
    programs that use the queue manager. N+ means the Nth and all later calls. WHAT is a reason
    code, kill, delay=SECONDS, or the name of a lie, such as commit-lost: the call then deviates
    from IBM MQ without an error. WHEN is before or after. DISPLAY FAULT shows the faults, CLEAR
    FAULT removes them.

    For example:
      echo 'DISPLAY QUEUE(*) CURDEPTH' | embedded-mq mqsc QM1
    """
    for line in embedded_mq.run_mqsc(name, read_text(file)):
        typer.echo(line)


def start(name: QueueManagerName) -> None:
    """Start a queue manager, as strmqm does.

    A new queue manager is running already. Nonpersistent messages are lost when a queue manager
    ends, except those on queues with NPMCLASS(HIGH).

    For example:
      embedded-mq end QM1
      embedded-mq start QM1
    """
    embedded_mq.start(name)
    typer.echo(f"queue manager {name} is running")


def end(name: QueueManagerName) -> None:
    """End a queue manager at once, as endmqm -i does.

    Units of work are backed out. Connected applications get MQRC_Q_MGR_STOPPING (2162) at their
    next call.

    For example:
      embedded-mq end QM1
    """
    embedded_mq.end(name)
    typer.echo(f"queue manager {name} is ended")


def quiesce(name: QueueManagerName) -> None:
    """Quiesce a queue manager, as endmqm -c does.

    No new application can connect, and the queue manager ends when the last application
    disconnects. Calls with FAIL_IF_QUIESCING options get MQRC_Q_MGR_QUIESCING (2161).

    For example:
      embedded-mq quiesce QM1
    """
    embedded_mq.quiesce(name)
    typer.echo(f"queue manager {name} is {embedded_mq.status(name).lower()}")


def status(name: QueueManagerName) -> None:
    """Show a queue manager's state, as dspmq does.

    The state is running, quiescing or ended.

    For example:
      embedded-mq status QM1
    """
    typer.echo(f"queue manager {name} is {embedded_mq.status(name).lower()}")


def depth(
    name: QueueManagerName,
    queue: Annotated[
        str | None,
        typer.Argument(help="The queue; without one, all that hold messages.", metavar="QUEUE"),
    ] = None,
) -> None:
    """Show how many messages are on each queue.

    Without QUEUE, every queue that holds messages is shown.

    For example:
      embedded-mq depth QM1
      embedded-mq depth QM1 SYSTEM.DEAD.LETTER.QUEUE
    """
    if queue is not None:
        from embedded_mq.cli.session import open_session  # noqa: PLC0415 (the engine takes long, too)

        with open_session(name) as session:
            typer.echo(session.depth(queue))
        return
    rows = [(found, str(count)) for found, count in embedded_mq.depths(name).items() if count]
    if not rows:
        typer.echo(f"queue manager {name}: every queue is empty")
        return
    from embedded_mq.cli.tables import print_table  # noqa: PLC0415 (rich takes long to import)

    print_table(f"Queue manager {name}", ["Queue", "CURDEPTH"], rows, right={"CURDEPTH"})


def faults(
    name: QueueManagerName,
    faults: Annotated[
        list[str] | None,
        typer.Argument(help="Faults to add: VERB[QUEUE]:N:WHAT:WHEN, or a lie.", metavar="FAULT"),
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Remove all faults first.")] = False,
) -> None:
    """Add, show or remove faults of MQI calls.

    A fault makes the Nth call of VERB fail for all programs that use the queue manager; `mqsc`
    describes WHAT and WHEN. The name of a lie alone stands for all calls that it applies to. Each
    fault is shown with the number of calls counted so far.

    For example:
      embedded-mq faults QM1 'MQPUT[PAYMENTS.IN]:1:2053:before' MQCMIT:2:2009:after
      embedded-mq faults QM1 commit-lost
      embedded-mq faults QM1 --clear
    """
    commands = ["CLEAR FAULT"] if clear else []
    commands += [f"SET FAULT('{fault}')" for fault in faults or ()]
    embedded_mq.run_mqsc(name, "\n".join(commands))
    for line in embedded_mq.run_mqsc(name, "DISPLAY FAULT"):
        typer.echo(line)
