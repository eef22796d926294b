"""The commands `mqdlq qm …`: those of the distribution embedded-mq, under our name."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib.metadata import entry_points
from typing import Any

import click

from mqdlq.mqi import transports

OURS, THEIRS = "mqdlq qm", "embedded-mq"


def qm() -> None:
    """Implement `mqdlq qm`."""
    context = click.get_current_context()
    application()(context.args, prog_name=OURS, terminal_width=context.terminal_width)


def application() -> Any:
    """Return the typer application; raises TransportError if the distribution is not installed.

    The entry point `qm` of group mqdlq.commands names theirs.
    """
    with transports.embedded(f"`{OURS}`"):
        (entry_point,) = entry_points(group="mqdlq.commands", name="qm")
        theirs = entry_point.load()
    import typer  # noqa: PLC0415 (the commands are theirs, and need it)

    ours = typer.Typer(
        help=theirs.info.help,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"max_content_width": 100},
    )
    for command in theirs.registered_commands:
        text = command.help.replace(THEIRS, OURS)
        ours.command(command.name, help=text, no_args_is_help=True)(_reporting(command.callback))
    return ours


def _reporting(command: Callable[..., None]) -> Callable[..., None]:
    @wraps(command)
    def call(*arguments: Any, **options: Any) -> None:
        with transports.embedded(f"`{OURS}`"):
            command(*arguments, **options)

    return call
