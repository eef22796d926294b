"""Names of commands and where they are in, a group that imports a command when it is called out.

What one command needs (Arrow, SQLAlchemy, an MQ client) would otherwise be paid for by all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup


class Place(NamedTuple):
    """Where a command is: a function of a module, or its `app` of further commands.

    `asks` is whether the command called without arguments shows its help.
    """

    module: str
    name: str = "app"
    asks: bool = True


def on_demand(places: Mapping[str, Place]) -> type[TyperGroup]:
    """Return the class of a group with these commands beside those registered with it."""

    class Group(TyperGroup):
        def list_commands(self, ctx: Any) -> list[str]:
            return [*super().list_commands(ctx), *places]

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            known = super().get_command(ctx, cmd_name)
            if known is not None:
                return known
            # For a name that is none, all: what comes near it is told.
            for name in [cmd_name] if cmd_name in places else places:
                self.commands.setdefault(name, _command(name, places[name]))
            return super().get_command(ctx, cmd_name)

    return Group


def _command(name: str, place: Place) -> Any:
    found: typer.Typer | Callable[..., None] = getattr(import_module(place.module), place.name)
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(add_completion=False)
        alone.command(name, no_args_is_help=place.asks)(found)
        found = alone
    command = typer.main.get_command(found)
    command.name = name
    return command
