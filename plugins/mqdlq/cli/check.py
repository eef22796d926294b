"""`mqdlq check`: a handler's name in; what its user may do, and what is missing, out."""

from __future__ import annotations

import os
import sys

import typer

from mqdlq.errors import HandlerError
from mqdlq.handlers import load_handler

USAGE = 2


def check(
    handler: str = typer.Argument(help="The handler's name: the stem of its YAML file."),
) -> None:
    """Say stage by stage what the user of a handler's connection may do with its queues.

    Which authority is missing on which object is said with the command that grants it; the queues
    that the rules name as targets are tried, too. Nothing is browsed, got or put.

    Exit code 0 if nothing is missing, 1 if something is or nobody answers, 2 for a handler, rules
    or a connection that cannot be used.

    Example: mqdlq check demo
    """
    try:
        load_handler(handler)
    except HandlerError as error:
        typer.echo(error, err=True)
        raise typer.Exit(USAGE) from None
    # The command line does not import Airflow's side of the project: it becomes that side.
    sys.stdout.flush()
    os.execv(  # noqa: S606 (this very Python, no shell)
        sys.executable, [sys.executable, "-W", "ignore", "-m", "mqdlq.airflow.check", handler]
    )
