"""Build the command tree from declarations; import a command's module only when it is called.

One command may need Arrow, SQLAlchemy or an MQ client: importing them takes a second or two.

A command is a function. Its docstring has the help, and under "Takes:" a line for each parameter,
in their order: `NAME: …` for an argument, `--name METAVAR: …` for an option. What several commands
take is declared once, as `Annotated[str, "--name METAVAR: …"]`. Types and defaults say how click
reads the values; `Annotated` may also have a type of click's.
"""

import difflib
import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, BinaryIO, Final, Literal, NamedTuple, get_args, get_origin

import click

from mqdlq import directories
from mqdlq.errors import MqDlqError, PackageMissingError

_TAKES: Final = "Takes:\n"
_EXTRAS: Final = {
    "airflow.providers.apache": "spark",
    "pyspark": "spark",
    "mcp": "mcp",
    "pygls": "lsp",
    "lsprotocol": "lsp",
    "anyio": "mcp",
    "embedded_mq": "embedded",
}
"""The extras that bring a module; all others come with the workflow's."""


class Command(NamedTuple):
    """What a command is for, and its place: its module in this package and its function.

    A group has no place. A command that `passes_on` gets all its arguments unread, --help too, in
    click's context.
    """

    summary: str
    place: str = ""
    passes_on: bool = False


class OnDemand(click.Group):
    """A group of declared commands, those directly below its path; it reports their errors."""

    def __init__(self, declared: Mapping[str, Command], path: str = "", **settings: Any) -> None:
        super().__init__(no_args_is_help=True, **settings)
        self._declared = declared
        self._above = f"{path} ".lstrip()
        below = {
            name.removeprefix(self._above): command
            for name, command in declared.items()
            if name.startswith(self._above)
        }
        self._below = {name: command for name, command in below.items() if " " not in name}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        return list(self._below)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        command = self._below.get(cmd_name)
        if command is None or command.place:
            return command and load(cmd_name, command)
        return OnDemand(self._declared, self._above + cmd_name, name=cmd_name, help=command.summary)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the commands with their summaries, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.summary) for name, one in self._below.items()])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Import the command that the arguments name; refuse an unknown one with similar names."""
        if args[0] not in self._below and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], self._below)
            hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, and report its error in a sentence, with exit code 1."""
        try:
            return super().invoke(ctx)
        except MqDlqError as error:
            text = str(error)
        except ModuleNotFoundError as error:
            text = str(missing_extra(error))
        except OSError as error:
            if not error.filename:  # a closed pipe, which click handles
                raise
            text = directories.explain(error)
        click.echo(f"mqdlq: {text}", err=True)
        raise SystemExit(1)


def missing_extra(error: ModuleNotFoundError) -> PackageMissingError:
    """Return the error for a package that an extra brings; raise any other again."""
    name = error.name or "mqdlq"
    package = name.partition(".")[0]
    if package in {"mqdlq", *sys.stdlib_module_names}:
        raise error
    extra = next((extra for start, extra in _EXTRAS.items() if name.startswith(start)), "airflow")
    return PackageMissingError(
        "MQDLQ-919",
        f"this command needs the package {name}, which is not installed: run"
        f" `pip install 'mqdlq[{extra}]'`",
    )


def load(name: str, declared: Command) -> click.Command:
    """Import a command. Called without arguments, one that needs some shows its help."""
    module, _, attribute = declared.place.partition(":")
    function = getattr(import_module(f"{__package__}.{module}"), attribute)
    parameters = list(_parameters(function))
    passed_on = {"ignore_unknown_options": True, "allow_extra_args": True}
    return OwnCommand(
        name,
        params=parameters,
        callback=_with_shared(function),
        help="\n\n".join([declared.summary, *_help_paragraphs(function)]),
        no_args_is_help=any(one.required for one in parameters),
        add_help_option=not declared.passes_on,
        context_settings=passed_on if declared.passes_on else None,
    )


def _paragraphs(function: Callable[..., Any]) -> list[str]:
    """Return a docstring's paragraphs after its first line, which names the command for readers."""
    return (inspect.getdoc(function) or "").split("\n\n")[1:]


def _help_paragraphs(function: Callable[..., None]) -> Iterator[str]:
    for paragraph in _paragraphs(function):
        if not paragraph.startswith(_TAKES):
            # Click keeps the lines of examples, which are indented.
            is_kept = any(line.startswith(" ") for line in paragraph.splitlines())
            yield f"\b\n{paragraph}" if is_kept else paragraph


def _taken(function: Callable[..., Any]) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield name, type, declaration and default of a function's parameters.

    A declaration is a line, or the function that takes the options which commands share.
    """
    below = "".join(one for one in _paragraphs(function) if one.startswith(_TAKES))
    lines = [" ".join(line.split()) for line in re.split(r"\n  (?=\S)", below)[1:]]
    hints = typing.get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters
    shared = {name: _metadata(hints[name], is_type=False) for name in parameters}
    own = [name for name, declared in shared.items() if not declared]
    shared |= {name: [line] for name, line in zip(own, lines, strict=True)}
    for name, parameter in parameters.items():
        kind = get_args(hints[name])[0] if get_origin(hints[name]) is Annotated else hints[name]
        types = _metadata(hints[name], is_type=True) or [kind]
        yield name, types[0], shared[name][0], parameter.default


def _metadata(hint: Any, *, is_type: bool) -> list[Any]:
    """Return what `Annotated` adds to a type: click's types, or else declarations."""
    added = getattr(hint, "__metadata__", ())
    return [one for one in added if isinstance(one, click.ParamType) is is_type]


def _with_shared(function: Callable[..., Iterable[str] | None]) -> Callable[..., None]:
    """Return a function that gives the command what its functions make of shared options.

    It writes the lines that the command yields.
    """

    @wraps(function)
    def call(**values: Any) -> None:
        for name, _, make, _ in _taken(function):
            if callable(make):
                values[name] = make(**{one: values.pop(one) for one, *_ in _taken(make)})
        for line in function(**values) or ():
            click.echo(line)

    return call


def _parameters(function: Callable[..., Any]) -> Iterator[click.Parameter]:
    """Yield what click parses, in the order of the function's parameters."""
    for name, kind, declared, default in _taken(function):
        if callable(declared):
            yield from _parameters(declared)
        else:
            yield _parameter(name, kind, declared, default)


def _parameter(name: str, kind: Any, line: str, default: Any) -> click.Parameter:
    names, _, text = line.partition(": ")
    flag, _, metavar = names.partition(" ")
    if get_origin(kind) in {typing.Union, UnionType}:
        (kind,) = set(get_args(kind)) - {NoneType}
    is_list = get_origin(kind) is tuple
    if is_list:
        kind, _ = get_args(kind)
    is_required = default is inspect.Parameter.empty
    settings: dict[str, Any] = {"required": is_required}
    if not is_required:
        settings["default"] = default.value if isinstance(default, StrEnum) else default
    is_shown = settings.get("default") not in {"", None, ()}
    if not flag.startswith("--"):
        shown = f"{flag if is_required else f'[{flag}]'}{'...' if is_list else ''}"
        text = f"{text}  [default: {default}]" if is_shown else text
        nargs = -1 if is_list else 1
        return _Argument(
            [name], text=text, type=_type(kind), nargs=nargs, metavar=shown, **settings
        )
    if kind is bool:
        return click.Option([name, flag], is_flag=True, help=text, default=default)
    return click.Option(
        [name, flag],
        help=text,
        metavar=metavar or None,
        multiple=is_list,
        show_default=is_shown,
        type=_type(kind),
        **settings,
    )


def _type(kind: Any) -> Any:
    if isinstance(kind, click.ParamType):
        return kind
    if kind is BinaryIO:
        return _InputFile("rb")
    if get_origin(kind) is Literal:
        return click.Choice(get_args(kind))
    if issubclass(kind, StrEnum):
        return _Choice(kind)
    return click.Path(path_type=Path) if kind is Path else kind


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


class OwnCommand(click.Command):
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
