"""The declared names that must have an effect, by kind, and how to change what is read of each.

A name is hidden by reading its default, whatever it was given: as if nobody had wired it. A test
that shows the effect of a name fails while the name is hidden.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, get_args

import click
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from mqdlq.airflow.params import SCHEMAS
from mqdlq.cli import commands
from mqdlq.handlers.configuration import Handler
from mqdlq.stages.run_options import RunOptions
from mqdlq.stages.sense import SenseResources
from tests.support.declared_commands import own_commands

Change = Callable[[Any, Any], Any]
"""Returns what is read of a name, for its value and its default."""

Intercept = Callable[[Change], None]
"""Has each reading of a name go through a change, for the rest of the process."""

READ_AS: Final[Mapping[str, tuple[type, str]]] = {
    "wait": (RunOptions, "given_wait"),
    "full_snapshot": (SenseResources, "full_snapshot"),
}
"""What a task reads a parameter as; the others have their name in `RunOptions`."""

NO_KEYS: Final = {"name", "directory"}
"""What a handler's file does not say, but its place."""


def handler_keys() -> Mapping[str, Intercept]:
    """Return the keys of a handler's file, such as limits.burst."""
    return {name: intercept for name, intercept in _keys(Handler) if name not in NO_KEYS}


def run_parameters() -> Mapping[str, Intercept]:
    """Return the parameters of a run; `apply` is read by backfills alone, which take minutes."""
    return {
        name: partial(_intercept_attribute, *READ_AS.get(name, (RunOptions, name)), default)
        for name, default in ((one, SCHEMAS[one].get("default")) for one in SCHEMAS)
        if name != "apply"
    }


def command_options() -> Mapping[str, Intercept]:
    """Return the options of commands, such as `rules diff --since`; without `backfill --apply`."""
    return {
        name: partial(_intercept_option, path, option)
        for path, command in own_commands().items()
        for option in command.params
        if isinstance(option, click.Option)
        and (name := f"{path} {option.opts[0]}") != "backfill --apply"
    }


KINDS: Final[Mapping[str, Callable[[], Mapping[str, Intercept]]]] = {
    "handler keys": handler_keys,
    "run parameters": run_parameters,
    "options": command_options,
}


def _keys(model: type[BaseModel], above: str = "") -> Iterator[tuple[str, Intercept]]:
    for name, field in model.model_fields.items():
        path = above + (field.alias or name)
        inner = list(_types(field.annotation, lambda one: issubclass(one, BaseModel)))
        for one in inner:
            yield from _keys(one, f"{path}.")
        if not inner:
            is_required = field.default is PydanticUndefined
            value = "HIDDEN" if is_required else field.default
            yield path, partial(_intercept_attribute, model, name, value)


def _types(annotation: Any, is_meant: Callable[[type], bool]) -> Iterator[type]:
    if isinstance(annotation, type) and is_meant(annotation):
        yield annotation
    for argument in get_args(annotation):
        yield from _types(argument, is_meant)


def _intercept_attribute(owner: type[Any], name: str, default: Any, change: Change) -> None:
    slot: Any = getattr(owner, name, None)  # of slots; other records have a mapping

    def read(record: Any) -> Any:
        value = slot.__get__(record) if hasattr(slot, "__set__") else vars(record)[name]
        return change(value, default)

    def write(record: Any, value: Any) -> None:
        if hasattr(slot, "__set__"):
            slot.__set__(record, value)
        else:
            vars(record)[name] = value

    setattr(owner, name, property(read, write))


_CHANGES: Final[dict[str, list[tuple[click.Option, Change]]]] = defaultdict(list)
"""The options that are read through a change, by the path of their command."""


def _intercept_option(path: str, option: click.Option, change: Change) -> None:
    _CHANGES[path].append((option, change))
    commands.OwnCommand.invoke = _change_and_invoke  # type: ignore[method-assign]


def _change_and_invoke(self: click.Command, ctx: click.Context) -> Any:
    for option, change in _CHANGES[ctx.command_path.partition(" ")[2]]:
        default = "HIDDEN"
        if not option.required:
            default = option.type_cast_value(ctx, option.get_default(ctx))
        name = str(option.name)
        ctx.params[name] = change(ctx.params[name], default)
    return click.Command.invoke(self, ctx)
