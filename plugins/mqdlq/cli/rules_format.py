"""The commands `mqdlq rules format` and `convert`: rewrite a rules table."""

from __future__ import annotations

import os
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import Annotated, BinaryIO

import click

from mqdlq.cli.commands import Argument, Option
from mqdlq.cli.files import STANDARD_INPUT, name_of
from mqdlq.cli.output import refusing
from mqdlq.handlers import to_table, to_yaml
from mqdlq.rules import RulesError, format_table


class Form(StrEnum):
    """The forms a rules table has."""

    YAML = "yaml"
    TABLE = "table"


def format_tables(
    tables: Annotated[
        list[BinaryIO],
        Argument(metavar="PATH", help="- formats standard input to standard output."),
    ],
    only_check: Annotated[
        bool, Option("--check", help="Write nothing; say which files would change.")
    ] = False,
) -> None:
    """Implement `mqdlq rules format`.

    The files are changed in place, and comments keep their places. Keywords come in one order, no
    line exceeds 72 columns, and parameters that repeat a default are removed. Neither the meaning
    of the table nor its digest changes.

    Exit code 0; 1 if a table is rejected, or if --check finds one that would change; 2 if an
    argument is wrong.

    For example:
      mqdlq rules format include/rules/demo.rules
      mqdlq rules format --check include/rules/*.rules
    """
    ends = [_format(table, only_check=only_check) for table in tables]
    raise SystemExit(max(ends))


def _format(file: BinaryIO, *, only_check: bool) -> int:
    data, name = file.read(), name_of(file)
    try:
        canonical = _encoded(format_table(data, name))
    except RulesError as error:
        click.echo(f"{error}\n{name}: refused, nothing is written", err=True)
        return 1
    changes = canonical != data
    if only_check:
        click.echo(f"{name}: {'would be changed' if changes else 'is canonical'}")
        return int(changes)
    if name == STANDARD_INPUT:
        click.echo(canonical, nl=False)
        return 0
    if changes:
        _replace_content(name, canonical)
    click.echo(f"{name}: {'formatted' if changes else 'is canonical already'}")
    return 0


def convert(
    file: Annotated[
        BinaryIO,
        Argument(
            metavar="PATH",
            help="A rules table or, to convert to one, a YAML file; - is standard input.",
        ),
    ],
    to: Annotated[Form, Option(help="The form to write.")],
) -> None:
    """Implement `mqdlq rules convert`.

    The other form goes to standard output with the same meaning and the same comments. The YAML
    form is the key `table` of a handler's file; the file's other keys are left out.

    Exit code 0; 1 if the table is rejected; 2 if an argument is wrong.

    For example:
      mqdlq rules convert --to yaml include/rules/demo.rules
    """
    data, name = file.read(), name_of(file)
    with refusing(RulesError, code=1, prefix=""):
        converted = to_yaml(data, name) if to is Form.YAML else to_table(data, name)
    click.echo(_encoded(converted), nl=False)


def _encoded(text: str) -> bytes:
    """Return a table's text as bytes; bytes that were not UTF-8 stay the same."""
    return text.encode("utf-8", "surrogateescape")


def _replace_content(name: str, data: bytes) -> None:
    """Replace a file's content atomically; its mode stays the same."""
    final = Path(name).resolve()
    handle, temporary = tempfile.mkstemp(dir=final.parent, prefix=f".{final.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(final.stat().st_mode)
        Path(temporary).replace(final)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
