"""The declared names that must have an effect, by kind, and how to change what is read of each.

A name is hidden by reading its default, whatever it was given: as if nobody had wired it. A test
that shows the effect of a name fails while the name is hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from types import NoneType
from typing import Any, Final, get_args, get_origin, get_type_hints

import click
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from mqdlq.airflow.params import SCHEMAS
from mqdlq.handlers.configuration import Handler
from mqdlq.reading.report.records import Report
from mqdlq.stages.run_options import RunOptions
from tests.support.declared_commands import all_commands

Change = Callable[[Any, Any], Any]
"""Returns what is read of a name, for its value and its default."""

Intercept = Callable[[Change], None]
"""Has each reading of a name go through a change, for the rest of the process."""

LONG_AGO: Final = datetime(2000, 1, 1, tzinfo=UTC)
NO_KEYS: Final = {"name", "directory"}
"""What a handler's file does not say, but its place."""


def handler_keys() -> Mapping[str, Intercept]:
    """Return the keys of a handler's file, such as limits.burst."""
    return {name: intercept for name, intercept in _keys(Handler) if name not in NO_KEYS}


def run_parameters() -> Mapping[str, Intercept]:
    """Return the parameters of a run."""
    return {name: partial(_intercept_parameter, name) for name in SCHEMAS}


def report_fields() -> Mapping[str, Intercept]:
    """Return the fields of a report and of the records in it, such as Account.settled."""
    return {
        f"{record.__name__}.{field}": partial(_intercept_attribute, record, field, value)
        for record in sorted(_records(Report, set()), key=lambda one: one.__name__)
        for field, value in _defaults(record)
    }


def command_options() -> Mapping[str, Intercept]:
    """Return the options of the commands, such as run --conf."""
    return {
        f"{' '.join(path)} {option.opts[-1]}": partial(_intercept_option, path, option)
        for path, command in all_commands().items()
        for option in command.params
        if isinstance(option, click.Option) and path[0] != "qm"
    }


KINDS: Final[Mapping[str, Callable[[], Mapping[str, Intercept]]]] = {
    "handler keys": handler_keys,
    "run parameters": run_parameters,
    "report fields": report_fields,
    "command options": command_options,
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


def _records(record: type, known: set[type]) -> set[type]:
    known.add(record)
    for annotation in get_type_hints(record).values():
        for one in _types(annotation, is_dataclass):
            if one not in known:
                _records(one, known)
    return known


def _defaults(record: type[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the fields without a record in them, with the value that says nothing."""
    hints = get_type_hints(record)
    for field in fields(record):
        if any(_types(hints[field.name], is_dataclass)):
            continue
        yield field.name, _nothing(hints[field.name], field.default)


def _nothing(annotation: Any, default: Any) -> Any:
    kind = get_origin(annotation) or annotation
    if default is not MISSING:
        return default
    if NoneType in get_args(annotation):
        return None
    if isinstance(kind, type) and issubclass(kind, Enum):
        return list(kind)[-1]
    if kind is datetime:
        return LONG_AGO
    return kind() if kind in {str, int, float, bool, tuple} else {}


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


def _intercept_parameter(name: str, change: Change) -> None:
    from airflow.sdk.definitions.param import ParamsDict  # noqa: PLC0415 (slow to import)

    field = {"wait": "wait_s"}.get(name, name)
    if field in RunOptions.__dataclass_fields__:
        default = RunOptions.__dataclass_fields__[field].default
        _intercept_attribute(RunOptions, field, default, change)
    read = ParamsDict.__getitem__

    def get(params: Any, key: str) -> Any:
        value = read(params, key)
        return change(value, SCHEMAS[name].get("default")) if key == name else value

    setattr(ParamsDict, "__getitem__", get)  # noqa: B010 (mypy refuses an assignment)


def _intercept_option(path: tuple[str, ...], option: click.Option, change: Change) -> None:
    consume = click.Option.consume_value

    def read(self: click.Option, ctx: click.Context, opts: Any) -> Any:
        is_meant = self.name == option.name and tuple(ctx.command_path.split()[1:]) == path
        given = change(opts, {}) if is_meant and self.name in opts else opts
        return consume(self, ctx, given)

    setattr(click.Option, "consume_value", read)  # noqa: B010 (mypy refuses an assignment)
