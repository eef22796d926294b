"""The commands of `embedded-mq` as a typer application, which other programs can mount."""

import inspect
import sqlite3
from collections.abc import Callable
from functools import wraps
from typing import Any

import typer
from typer.core import TyperGroup

from embedded_mq.cli import administration, messages
from embedded_mq.errors import EmbeddedQueueManagerError


class _Program(TyperGroup):
    """The program, which reports an error as one line on standard error with exit code 1."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; typer handles an OSError without a file, which is a closed pipe."""
        try:
            return super().invoke(ctx)
        except EmbeddedQueueManagerError as error:
            text = str(error)
        except OSError as error:
            if not error.filename:
                raise
            text = f"{error.filename}: {error.strerror}"
        typer.echo(f"embedded-mq: {text}", err=True)
        raise typer.Exit(1)


app = typer.Typer(
    cls=_Program,
    help="Create, start, end and use embedded queue managers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"max_content_width": 100},
)


def _report_database_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with errors of the database turned into EmbeddedQueueManagerError."""

    @wraps(command)
    def call(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except sqlite3.Error as error:
            raise EmbeddedQueueManagerError(
                f"the queue manager's database cannot be used: {error}"
            ) from None

    return call


def _help(command: Callable[..., None]) -> str:
    """Return a docstring as help text, in which a paragraph with indented lines keeps its lines."""
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    return "\n\n".join(f"\b\n{part}" if "\n  " in part else part for part in paragraphs)


for _command in (
    administration.create,
    administration.mqsc,
    administration.start,
    administration.end,
    administration.quiesce,
    administration.status,
    messages.put,
    messages.browse,
    messages.dead_letter,
    administration.depth,
    messages.dump,
    messages.load,
    administration.faults,
):
    app.command(_command.__name__.replace("_", "-"), help=_help(_command), no_args_is_help=True)(
        _report_database_errors(_command)
    )
