"""Build the command tree from declarations; import a command's module only when it is called.

One command may need Arrow, SQLAlchemy or an MQ client: importing them takes a second or two.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from mqdlq import directories
from mqdlq.errors import MqDlqError

try:
    from mqdlq.cli.quick_parameters import quick
except ImportError:  # before 0.29 typer does not ask pydantic

    def quick(parameters: list[Any]) -> list[Any]:
        """Return the parameters as they are."""
        return parameters


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
    commands: Mapping[str, Declared]


class Mounted(NamedTuple):
    """A group whose commands another distribution provides; `place` is a function that builds them.

    It is called when one of the commands is called, or their help.
    """

    place: str
    summary: str


Declared = Command | Group | Mounted


def on_demand(commands: Mapping[str, Declared]) -> type[TyperGroup]:
    """Return the class of a group with these commands, for `typer.Typer(cls=...)`."""

    class Root(_Group):
        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            self.commands.update(_built(commands))

    return Root


def _built(commands: Mapping[str, Declared]) -> dict[str, Any]:
    return {name: _build(name, declared) for name, declared in commands.items()}


def _build(name: str, declared: Declared) -> Any:
    if isinstance(declared, Command):
        return OnDemand(name, declared)
    if isinstance(declared, Mounted):
        return _MountedGroup(name, declared)
    return _Group(
        name=name,
        help=declared.summary,
        commands=_built(declared.commands),
        no_args_is_help=True,
        rich_markup_mode=None,
    )


def _imported(place: str) -> Callable[..., Any]:
    module, _, name = place.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function


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
        function = _imported(place)
        text = "\n\n".join([summary, *_paragraphs(function)])
        return built_command(
            str(self.name), function, text, needs_arguments=needs_arguments, passes_on=passes_on
        )


def built_command(
    name: str,
    function: Callable[..., None],
    text: str,
    *,
    needs_arguments: bool = True,
    passes_on: bool = False,
) -> Any:
    """Return the command that a function implements, with `text` for its help."""
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(
        name,
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


@contextmanager
def _reported() -> Iterator[None]:
    """Report an error in a sentence, with exit code 1.

    An error without a file is a pipe that was closed, which typer handles.
    """
    try:
        yield
    except MqDlqError as error:
        _fail(str(error))
    except OSError as error:
        if not error.filename:
            raise
        _fail(directories.explain(error))


def _fail(text: str) -> None:
    typer.echo(f"mqdlq: {text}", err=True)
    raise typer.Exit(1)


class _Command(TyperCommand):
    """A command that parses its arguments without pydantic, and fails with a sentence."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command, and report its error."""
        with _reported():
            return super().invoke(ctx)

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters, --help among them."""
        return quick(super().get_params(ctx))


class _Group(TyperGroup):
    """A group that parses its arguments without pydantic."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters, --help among them."""
        return quick(super().get_params(ctx))


class _MountedGroup(_Group):
    """A group that builds its commands when it is asked for one of them, or for their list."""

    def __init__(self, name: str, declared: Mounted) -> None:
        super().__init__(
            name=name, help=declared.summary, no_args_is_help=True, rich_markup_mode=None
        )
        self._place = declared.place

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        self._load()
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name."""
        self._load()
        return super().get_command(ctx, cmd_name)

    def _load(self) -> None:
        if not self.commands:
            with _reported():
                self.commands.update(_imported(self._place)())
