"""Build the command tree from declarations; import a command's module only when it is called.

One command may need Arrow, SQLAlchemy or an MQ client: importing them takes a second or two.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from importlib import import_module
from typing import Any, Final, NamedTuple

import typer
from typer._coercion import FileRuntimeParam, RuntimeParam, build_runtime_param
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from mqdlq import home
from mqdlq.errors import MqDlqError

_PASSED_ON: Final = {"ignore_unknown_options": True, "allow_extra_args": True}


class Command(NamedTuple):
    """A command: its one-line summary, and the module and function that implement it.

    Called without arguments it shows its help, unless `needs_arguments` is false. A command that
    `passes_on` gets all its arguments unread, --help too.
    """

    place: str
    summary: str
    needs_arguments: bool = True
    passes_on: bool = False


class Group(NamedTuple):
    """A command that consists of further commands."""

    summary: str
    commands: Mapping[str, Command | Group]


def on_demand(commands: Mapping[str, Command | Group]) -> type[TyperGroup]:
    """Return the class of a group with these commands, for `typer.Typer(cls=...)`."""

    class Root(_Group):
        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            self.commands.update(_built(commands))

    return Root


def _built(commands: Mapping[str, Command | Group]) -> dict[str, Any]:
    return {
        name: OnDemand(name, declared)
        if isinstance(declared, Command)
        else _Group(
            name=name,
            help=declared.summary,
            commands=_built(declared.commands),
            no_args_is_help=True,
            rich_markup_mode=None,
        )
        for name, declared in commands.items()
    }


class OnDemand(TyperCommand):
    """A command whose name and summary are known; the rest is imported for its first context."""

    def __init__(self, name: str, declared: Command) -> None:
        super().__init__(name, short_help=declared.summary, rich_markup_mode=None)
        self._declared = declared

    def make_context(self, *arguments: Any, **extra: Any) -> Any:
        """Import the command and let it parse its arguments."""
        return self.load().make_context(*arguments, **extra)

    def load(self) -> Any:
        """Import the command, and return it with its parameters and its whole help."""
        place, summary, needs_arguments, passes_on = self._declared
        module, _, name = place.partition(":")
        function: Callable[..., None] = getattr(import_module(module), name)
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        text = "\n\n".join([summary, *_paragraphs(function)])
        alone.command(
            self.name,
            cls=_Command,
            no_args_is_help=needs_arguments,
            help=text,
            add_help_option=not passes_on,
            context_settings=_PASSED_ON if passes_on else None,
        )(function)
        return typer.main.get_command(alone)


def _paragraphs(function: Callable[..., None]) -> Iterator[str]:
    """Yield a docstring's paragraphs after its first line, which names the command for readers.

    A paragraph with indented lines, such as examples, keeps its lines.
    """
    for paragraph in (inspect.getdoc(function) or "").split("\n\n")[1:]:
        is_kept = any(line.startswith(" ") for line in paragraph.splitlines())
        yield f"\b\n{paragraph}" if is_kept else paragraph


class _Command(TyperCommand):
    """A command that parses its arguments without pydantic, and fails with a sentence."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an error that it does not report itself is reported, with exit code 1.

        An error without a file is a pipe that was closed, which typer handles.
        """
        try:
            return super().invoke(ctx)
        except MqDlqError as error:
            text = str(error)
        except OSError as error:
            if not error.filename:
                raise
            text = home.explain(error)
        typer.echo(f"mqdlq: {text}", err=True)
        raise typer.Exit(1)

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters, --help among them."""
        return _quick(super().get_params(ctx))


class _Group(TyperGroup):
    """A group that parses its arguments without pydantic."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters, --help among them."""
        return _quick(super().get_params(ctx))


class _Argument(TyperArgument):
    """An argument in upper case, without its Python type, such as list[FileBinaryRead]."""

    @property
    def display_name_raw(self) -> str:
        """Return the name that the help shows."""
        return self.metavar or self.name.upper()

    def display_type_rich(self, ctx: Any) -> str | None:  # noqa: ARG002 (typer's signature)
        """Return no type."""
        return None


def _quick(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        parameter._runtime_param = _conversion(parameter)  # noqa: SLF001 (typer has no public way)
        if isinstance(parameter, TyperArgument):
            parameter.__class__ = _Argument
    return parameters


def _conversion(parameter: TyperArgument | TyperOption) -> RuntimeParam:
    """Return what converts a parameter's text into its value."""
    kind = parameter.type_descriptor
    if kind.file_annotation is not None:
        return FileRuntimeParam(kind.parameter_info, kind.annotation, kind.file_annotation)
    return _Conversion(kind.parameter_info, kind.annotation)


class _Conversion(RuntimeParam):
    """Takes text, defaults and choices as they are; typer converts or refuses everything else.

    Typer asks pydantic even for text, and importing pydantic doubles the time a command takes.
    """

    def _coerce_value(self, value: Any, param: Any, ctx: Any) -> Any:
        kind = self.annotation
        if type(value) is kind or kind == list[str]:
            return value
        if isinstance(kind, type) and issubclass(kind, StrEnum) and value in set(kind):
            return kind(value)
        return build_runtime_param(param.type_descriptor)._coerce_value(value, param, ctx)  # noqa: SLF001
