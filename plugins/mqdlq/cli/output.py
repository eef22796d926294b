"""How commands write results and report errors."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

USAGE: Final = 2
"""The exit code for a wrong argument."""
_UNLIMITED: Final = 10_000


Output = Annotated[Literal["text", "json"], "--format: How to write it."]


@contextmanager
def refusing(*kinds: type[Exception], code: int = USAGE, prefix: str = "mqdlq: ") -> Iterator[None]:
    """Report errors of these kinds in a sentence, and exit; the command reports all others."""
    try:
        yield
    except kinds as error:
        raise refusal(f"{prefix}{error}", code) from None


def refusal(text: str, code: int = USAGE) -> SystemExit:
    """Write an error; return the exit to raise."""
    click.echo(text, err=True)
    return SystemExit(code)


def now() -> datetime:
    """Return the time in UTC: a command is where it enters the program."""
    return datetime.now(UTC)  # noqa: TID251 (an entry point)


def payload_keys_of(conn_id: str | None) -> dict[str, bytes]:
    """Return the keys of captured payload that an Airflow connection has; none without one."""
    if conn_id is None:
        return {}
    # Airflow takes seconds to import, and only encrypted payload needs it.
    from mqdlq.airflow.hooks.connections import payload_keys  # noqa: PLC0415

    return payload_keys(conn_id)


def write_json(document: Any, *, indent: int | None = 2) -> None:
    """Write a document for programs; times are in ISO 8601, bytes in hexadecimal digits."""
    click.echo(json.dumps(document, indent=indent, default=_encoded))


def _encoded(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value.isoformat())


def attributes(record: Any, *paths: str) -> dict[str, Any]:
    """Return attributes of a record for JSON; `class=cause.cls` gives one another name."""
    found = {}
    for given in paths:
        name, _, path = given.rpartition("=")
        found[name or path.rpartition(".")[2]] = attrgetter(path)(record)
    return found


def console() -> Console:
    """Return a console as wide as the terminal; lines for a pipe or a file are not wrapped.

    COLUMNS overrides both.
    """
    from rich.console import Console  # noqa: PLC0415 (a short command does without)

    is_limited = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console() if is_limited else Console(width=_UNLIMITED)


def titled_table(title: str, first: str, *others: str) -> Table:
    """Return a table whose first column has numbers of messages."""
    from rich.table import Table  # noqa: PLC0415 (a short command does without)

    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        header_style="dim",
    )
    table.add_column(first, justify="right", overflow="fold")
    for name in others:
        table.add_column(name, overflow="fold")
    return table
