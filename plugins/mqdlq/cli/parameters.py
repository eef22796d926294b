"""Declare a command's arguments and options in its signature; click parses them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, BinaryIO, Union, get_args, get_origin, get_type_hints

import click

from mqdlq.directories import check_input


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument, as the annotation of a parameter: `Annotated[str, Argument(help=…)]`."""

    _: KW_ONLY
    help: str
    metavar: str | None = None
    show_default: bool = True


@dataclass(frozen=True, slots=True)
class Option:
    """An option, whose name is that of the parameter unless it has one; `type` is click's."""

    name: str = ""
    _: KW_ONLY
    help: str
    metavar: str | None = None
    show_default: bool = True
    type: Any = None


def build_command(
    name: str,
    function: Callable[..., None],
    text: str,
    *,
    needs_arguments: bool = True,
    passes_on: bool = False,
) -> click.Command:
    """Return the command that a function implements, with `text` for its help.

    One that `passes_on` leaves all arguments, --help too, in click's context.
    """
    passed_on = {"ignore_unknown_options": True, "allow_extra_args": True}
    return _Command(
        name,
        params=list(_parameters(function)),
        callback=function,
        help=text,
        no_args_is_help=needs_arguments,
        add_help_option=not passes_on,
        context_settings=passed_on if passes_on else None,
    )


def _parameters(function: Callable[..., None]) -> Iterator[click.Parameter]:
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        annotation, declared = get_args(hints[name])
        is_required = parameter.default is parameter.empty
        settings: dict[str, Any] = {"required": is_required, "metavar": declared.metavar}
        if not is_required:
            chosen = parameter.default
            settings["default"] = chosen.value if isinstance(chosen, StrEnum) else chosen
        yield _built(name, annotation, declared, settings)


def _built(
    name: str, annotation: Any, declared: Argument | Option, settings: dict[str, Any]
) -> click.Parameter:
    if get_origin(annotation) in {Union, UnionType}:
        (annotation,) = set(get_args(annotation)) - {NoneType}
    is_list = get_origin(annotation) is list
    if is_list:
        (annotation,) = get_args(annotation)
        settings["callback"] = _listed
    if isinstance(declared, Argument):
        shown = declared.metavar or name.upper()
        shown = shown if settings["required"] else f"[{shown}]"
        settings["metavar"] = f"{shown}..." if is_list else shown
        settings |= {"type": _type(annotation), "nargs": -1 if is_list else 1}
        default = f"  [default: {settings['default']}]" if _is_shown(declared, settings) else ""
        return _Argument([name], text=f"{declared.help}{default}", **settings)
    names = [name, declared.name or f"--{name.replace('_', '-')}"]
    if annotation is bool:
        return click.Option(names, is_flag=True, help=declared.help, default=False)
    return click.Option(
        names,
        help=declared.help,
        multiple=is_list,
        show_default=_is_shown(declared, settings),
        type=declared.type or _type(annotation),
        **settings,
    )


def _is_shown(declared: Argument | Option, settings: dict[str, Any]) -> bool:
    return declared.show_default and settings.get("default") not in {"", None}


def _listed(context: click.Context, parameter: click.Parameter, value: Any) -> list[Any] | None:  # noqa: ARG001 (click's signature)
    return list(value) or None


def _type(annotation: Any) -> Any:
    if annotation is BinaryIO:
        return _InputFile("rb")
    if issubclass(annotation, StrEnum):
        return _Choice(annotation)
    return click.Path(path_type=Path) if annotation is Path else annotation


class _Choice(click.Choice):  # type: ignore[type-arg]  # (before 8.2 it has no parameter)
    """The values of an enumeration."""

    def __init__(self, kind: type[StrEnum]) -> None:
        super().__init__([str(one) for one in kind])
        self._kind = kind

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the member that has a value."""
        return self._kind(super().convert(value, param, ctx))


class _InputFile(click.File):
    """Opens files, but no device or named pipe: reading it might never end."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Open a file; - is standard input."""
        if isinstance(value, str) and value != "-":
            try:
                with suppress(FileNotFoundError):  # click reports a missing file itself
                    check_input(Path(value))
            except OSError as error:
                self.fail(f"'{value}': {error.strerror}", param, ctx)
        return super().convert(value, param, ctx)


class _Argument(click.Argument):
    """An argument with a text for the help, which click has since version 8.5 only."""

    def __init__(self, names: list[str], *, text: str, **settings: Any) -> None:
        super().__init__(names, **settings)
        self._text = text

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        """Return name and text."""
        return self.make_metavar(ctx), self._text


class _Command(click.Command):
    """A command whose help has its arguments before its options."""

    def format_arguments(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write nothing: `format_options` writes both."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write arguments and options."""
        for title, kind in (("Arguments", click.Argument), ("Options", click.Option)):
            shown = [one for one in self.get_params(ctx) if isinstance(one, kind)]
            records = [record for one in shown if (record := one.get_help_record(ctx))]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
