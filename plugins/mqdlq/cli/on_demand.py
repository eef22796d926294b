"""Build the command tree from declarations; import a command's module only when it is called.

One command may need Arrow, SQLAlchemy or an MQ client: importing them takes a second or two.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

import click

from mqdlq import directories
from mqdlq.cli.parameters import build_command
from mqdlq.errors import MqDlqError


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


Declared = Command | Group


class OnDemand(click.Group):
    """A group of declared commands, which reports their errors."""

    def __init__(self, declared: Mapping[str, Declared], **settings: Any) -> None:
        """Keep the declarations."""
        super().__init__(no_args_is_help=True, **settings)
        self._declared = declared

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        """Return the names of the commands in their order."""
        return list(self._declared)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command."""
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
        with _reported():
            return super().invoke(ctx)


def load(name: str, declared: Declared) -> click.Command:
    """Import a command; a group imports none of its commands yet."""
    if isinstance(declared, Group):
        return OnDemand(declared.commands, name=name, help=declared.summary)
    module, _, attribute = declared.place.partition(":")
    function = getattr(import_module(module), attribute)
    return build_command(
        name,
        function,
        "\n\n".join([declared.summary, *_paragraphs(function)]),
        needs_arguments=declared.needs_arguments,
        passes_on=declared.passes_on,
    )


def _paragraphs(function: Callable[..., None]) -> Iterator[str]:
    """Yield a docstring's paragraphs after its first line, which names the command for readers.

    A paragraph with indented lines, such as examples, keeps its lines.
    """
    for paragraph in (inspect.getdoc(function) or "").split("\n\n")[1:]:
        is_kept = any(line.startswith(" ") for line in paragraph.splitlines())
        yield f"\b\n{paragraph}" if is_kept else paragraph


@contextmanager
def _reported() -> Iterator[None]:
    """Report an error in a sentence; one without a file is a closed pipe, which click handles."""
    try:
        yield
    except MqDlqError as error:
        _fail(str(error))
    except OSError as error:
        if not error.filename:
            raise
        _fail(directories.explain(error))


def _fail(text: str) -> None:
    click.echo(f"mqdlq: {text}", err=True)
    raise SystemExit(1)
