"""The commands `mqdlq qm …`: those of the distribution embedded-mq, under our name."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib.metadata import entry_points
from typing import Any

from mqdlq.cli.on_demand import built_command
from mqdlq.mqi.connecting import transports

OURS, THEIRS = "mqdlq qm", "embedded-mq"


def commands() -> dict[str, Any]:
    """Return the commands by name; raises TransportError if the distribution is not installed.

    The entry point `qm` of group mqdlq.commands names a typer application.
    """
    with transports.embedded(f"`{OURS}`"):
        (entry_point,) = entry_points(group="mqdlq.commands", name="qm")
        return {
            (name := command.name or command.callback.__name__): built_command(
                name, _reporting(command.callback), command.help.replace(THEIRS, OURS)
            )
            for command in entry_point.load().registered_commands
        }


def _reporting(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command, whose errors become ours."""

    @wraps(command)
    def call(*arguments: Any, **options: Any) -> None:
        with transports.embedded(f"`{OURS}`"):
            command(*arguments, **options)

    return call
