"""Sections of docs/reference/command-line.md, from the declared commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import typer

from tests.support.declared_commands import Path, all_commands
from tests.support.docs.tables import table

_EXAMPLES = "For example:"


def sections() -> str:
    """Return a table of all commands, and a section for each."""
    commands = all_commands()
    rows = (
        (f"[`mqdlq {' '.join(path)}`](#mqdlq-{'-'.join(path)})", _summary(command))
        for path, command in commands.items()
    )
    described = (_section(path, command) for path, command in commands.items())
    return "".join((table(("command", "what it does"), rows), *described))


def _summary(command: Any) -> str:
    return str(command.help).partition("\n")[0]


def _section(path: Path, command: Any) -> str:
    name = " ".join(("mqdlq", *path))
    context = _context(command, name)
    paragraphs = [part.removeprefix("\b\n") for part in str(command.help).split("\n\n")]
    prose = [" ".join(part.split()) for part in paragraphs if not part.startswith(_EXAMPLES)]
    examples = [part for part in paragraphs if part.startswith(_EXAMPLES)]
    return "\n".join(
        (
            f"\n## {name}",
            "",
            "\n\n".join(prose),
            "",
            "```text",
            command.get_usage(context).removeprefix("Usage: "),
            "```",
            *(line for text in examples for line in _console(text)),
            *_parameters(command, context),
        )
    )


def _context(command: Any, name: str) -> Any:
    """Return the context of a command of ours, or of one of `mqdlq qm`."""
    kind = click.Context if isinstance(command, click.Command) else typer.Context
    return kind(command, info_name=name)


def _console(examples: str) -> Iterator[str]:
    yield from ("", "```console")
    yield from (f"$ {line.strip()}" for line in examples.splitlines()[1:])
    yield "```"


def _parameters(command: Any, context: Any) -> Iterator[str]:
    records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    shown = [record for record in records if record and record[0] != "--help"]
    if not shown:
        return
    yield ""
    yield table(("argument or option", "meaning"), ((f"`{name}`", text) for name, text in shown))
