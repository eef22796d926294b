"""The command `mqdlq check`: report what a handler's user may not do."""

from __future__ import annotations

from typing import Annotated

import click

from mqdlq.cli.airflow import become
from mqdlq.cli.parameters import Argument
from mqdlq.errors import HandlerError
from mqdlq.handlers import load_handler

USAGE = 2


def check(
    handler: Annotated[str, Argument(help="The handler's name: the stem of its YAML file.")],
) -> None:
    """Implement `mqdlq check`.

    Reports stage by stage which authority the user of the handler's connection lacks on which
    object, with the command that grants it. The queues that the rules name as targets are opened
    for output; no message is browsed, got or put. A target that leads to the handler's own queue or
    state queue, also through an alias, is named: messages for it stay. It warns of a limit
    `in_flight` of a queue whose depth cannot be inquired. `mqdlq rules check` checks a handler
    without connecting.

    Exit code 0 if nothing is wrong; 1 if something is, or if the queue manager does not answer; 2
    if the handler, its rules or its connection cannot be used.

    For example:
      mqdlq check demo
    """
    try:
        load_handler(handler)
    except HandlerError as error:
        click.echo(error, err=True)
        raise SystemExit(USAGE) from None
    become("-W", "ignore", "-m", "mqdlq.local.permission_check", handler)
