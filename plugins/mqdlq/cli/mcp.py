"""The command `mqdlq mcp`: tools for a person's assistant, over standard input and output."""

import os
import sys

import anyio
import click
from anyio import to_thread

from mqdlq import directories
from mqdlq.agents.answers import Caller
from mqdlq.agents.serving import Door, Rates
from mqdlq.cli.output import now
from mqdlq.handlers import handler_names
from mqdlq.ledger import Ledger, open_ledger
from mqdlq.local.environment import quieten_airflow, read_settings
from mqdlq.reading.page_paths import Paths
from mqdlq.tools.acting import Sources


def mcp() -> None:
    """Implement `mqdlq mcp`.

    Serves tools that look, explain and propose to the assistant of the user of this computer, by
    the Model Context Protocol over standard input and output. No tool moves a message, approves a
    plan, or shows a body. The assistant's program starts the command; it ends with its input.

    Exit code 0 when the input ends.

    For example:
      mqdlq mcp
    """
    quieten_airflow()
    with open_ledger(create=False) as ledger:
        anyio.run(_serve, ledger)


async def _serve(ledger: Ledger) -> None:
    from mcp.server.stdio import stdio_server  # noqa: PLC0415 (diverts standard output)

    reading, lake = ledger.reading(), directories.lake()
    known = frozenset({*handler_names(), *(one.handler for one in ledger.run_lists.queues())})
    caller = Caller(
        person=directories.account(),
        handlers=known,
        may_act=lambda _: True,
        sources=lambda handler: Sources(handler, reading, lake, now),
        paths=Paths(os.environ.get("AIRFLOW__API__BASE_URL", "").rstrip("/")),
        settings=read_settings,
    )
    door = Door(
        person=caller.person,
        caller=lambda: caller,
        token="",
        rates=Rates(now),
        record=ledger.audit.record,
        clock=now,
        apart=to_thread.run_sync,
    )
    server = door.server()
    async with stdio_server() as (read, write):
        if sys.stdin.isatty():
            click.echo("mqdlq: this waits for an assistant's program on standard input", err=True)
        await server.run(read, write, server.create_initialization_options())
