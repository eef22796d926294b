"""Build the command tree from declarations; import a command's module only when it is called.

One command may need Arrow, SQLAlchemy or an MQ client: importing them takes a second or two. A
command is a function: its parameters' annotations declare arguments and options, its docstring has
the help, and click parses the command line.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, BinaryIO, NamedTuple, Union, get_args, get_origin, get_type_hints

import click

from mqdlq import directories
from mqdlq.errors import MqDlqError


class Command(NamedTuple):
    """A command: its module in this package and its function, and its one-line summary.

    A command that `passes_on` gets all its arguments unread, --help too, in click's context.
    """

    place: str
    summary: str
    passes_on: bool = False


class Group(NamedTuple):
    """A command that consists of further commands."""

    summary: str
    commands: Mapping[str, Declared]


Declared = Command | Group


@dataclass(frozen=True, slots=True)
class Option:
    """An option, as in `Annotated[str, Option(help=…)]`; it has the parameter's name if unnamed.

    `type` is click's.
    """

    name: str = ""
    _: KW_ONLY
    help: str
    metavar: str | None = None
    show_default: bool = True
    type: Any = None


class Argument(Option):
    """An argument: it has no name but its metavar."""


class OnDemand(click.Group):
    """A group of declared commands, which reports their errors."""

    def __init__(self, declared: Mapping[str, Declared], **settings: Any) -> None:
        super().__init__(no_args_is_help=True, **settings)
        self._declared = declared

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        return list(self._declared)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        declared = self._declared.get(cmd_name)
        return load(cmd_name, declared) if declared else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the commands with their summaries, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.summary) for name, one in self._declared.items()])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Import the command that the arguments name; refuse an unknown one with similar names."""
        if args[0] not in self._declared and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], self._declared)
            hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, and report its error in a sentence, with exit code 1."""
        try:
            return super().invoke(ctx)
        except MqDlqError as error:
            text = str(error)
        except OSError as error:
            if not error.filename:  # a closed pipe, which click handles
                raise
            text = directories.explain(error)
        click.echo(f"mqdlq: {text}", err=True)
        raise SystemExit(1)


def load(name: str, declared: Declared) -> click.Command:
    """Import a command; a group imports none of its commands yet.

    Called without arguments, a command that needs some shows its help.
    """
    if isinstance(declared, Group):
        return OnDemand(declared.commands, name=name, help=declared.summary)
    module, _, attribute = declared.place.partition(":")
    function = getattr(import_module(f"{__package__}.{module}"), attribute)
    parameters = list(_parameters(function))
    passed_on = {"ignore_unknown_options": True, "allow_extra_args": True}
    return _Command(
        name,
        params=parameters,
        callback=_grouping(function),
        help="\n\n".join([declared.summary, *_paragraphs(function)]),
        no_args_is_help=any(one.required for one in parameters),
        add_help_option=not declared.passes_on,
        context_settings=passed_on if declared.passes_on else None,
    )


def _paragraphs(function: Callable[..., None]) -> Iterator[str]:
    """Yield a docstring's paragraphs after its first line, which names the command for readers.

    A paragraph with indented lines, such as examples, keeps its lines.
    """
    for paragraph in (inspect.getdoc(function) or "").split("\n\n")[1:]:
        is_kept = any(line.startswith(" ") for line in paragraph.splitlines())
        yield f"\b\n{paragraph}" if is_kept else paragraph


def _taken(function: Callable[..., Any]) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield name, type, declaration and default of a function's parameters."""
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        annotation, declared = get_args(hints[name])
        yield name, annotation, declared, parameter.default


def _grouping(function: Callable[..., None]) -> Callable[..., None]:
    """Return the command's function, which gets what its functions make of shared options."""

    @wraps(function)
    def call(**values: Any) -> None:
        for name, _, make, _ in _taken(function):
            if not isinstance(make, Option):
                values[name] = make(**{one: values.pop(one) for one, *_ in _taken(make)})
        function(**values)

    return call


def _parameters(function: Callable[..., Any]) -> Iterator[click.Parameter]:
    """Yield what click parses; in place of a declaration may be a function with shared options."""
    for name, annotation, declared, default in _taken(function):
        if isinstance(declared, Option):
            yield _built(name, annotation, declared, default)
        else:
            yield from _parameters(declared)


def _built(name: str, annotation: Any, declared: Option, default: Any) -> click.Parameter:
    if get_origin(annotation) in {Union, UnionType}:
        (annotation,) = set(get_args(annotation)) - {NoneType}
    is_required = default is inspect.Parameter.empty
    settings: dict[str, Any] = {"required": is_required, "metavar": declared.metavar}
    if not is_required:
        settings["default"] = default.value if isinstance(default, StrEnum) else default
    is_list = get_origin(annotation) is list
    if is_list:
        (annotation,) = get_args(annotation)
        settings["callback"] = _listed
    is_shown = declared.show_default and settings.get("default") not in {"", None}
    if isinstance(declared, Argument):
        shown = declared.metavar or name.upper()
        shown = shown if is_required else f"[{shown}]"
        settings["metavar"] = f"{shown}..." if is_list else shown
        text = f"{declared.help}  [default: {default}]" if is_shown else declared.help
        return _Argument(
            [name], text=text, type=_type(annotation), nargs=-1 if is_list else 1, **settings
        )
    names = [name, declared.name or f"--{name.replace('_', '-')}"]
    if annotation is bool:
        return click.Option(names, is_flag=True, help=declared.help, default=False)
    return click.Option(
        names,
        help=declared.help,
        multiple=is_list,
        show_default=is_shown,
        type=declared.type or _type(annotation),
        **settings,
    )


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
        return self._kind(super().convert(value, param, ctx))


class _InputFile(click.File):
    """Opens files, but no device or named pipe: reading it might never end."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        if isinstance(value, str) and value != "-":
            try:
                with suppress(FileNotFoundError):  # click reports a missing file itself
                    directories.check_input(Path(value))
            except OSError as error:
                self.fail(f"'{value}': {error.strerror}", param, ctx)
        return super().convert(value, param, ctx)


class _Argument(click.Argument):
    """An argument with a text for the help, which click has since version 8.5 only."""

    def __init__(self, names: list[str], *, text: str, **settings: Any) -> None:
        super().__init__(names, **settings)
        self._text = text

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        return self.make_metavar(ctx), self._text


class _Command(click.Command):
    """A command whose help has its arguments before its options."""

    def format_arguments(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write nothing: `format_options` writes both."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, kind in (("Arguments", click.Argument), ("Options", click.Option)):
            shown = [one for one in self.get_params(ctx) if isinstance(one, kind)]
            records = [record for one in shown if (record := one.get_help_record(ctx))]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
