"""The declared commands of `mqdlq`: their paths, and the loaded commands."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import click

from mqdlq.cli import COMMANDS, queue_managers
from mqdlq.cli.commands import Command, load

Path = tuple[str, ...]


def declared_commands() -> Iterator[tuple[Path, Command]]:
    """Yield every command of this distribution with its path, such as ("rules", "check")."""
    for path, found in COMMANDS.items():
        if found.place:
            yield tuple(path.split()), found


@cache
def mounted_commands() -> dict[Path, Any]:
    """Return the commands of other distributions by their paths."""
    return {("qm", name): command for name, command in queue_managers.program().commands.items()}


@cache
def own_commands() -> dict[str, click.Command]:
    """Import every command of this distribution; return them by their paths, such as "hold add"."""
    return {" ".join(path): load(path[-1], one) for path, one in declared_commands()}


@cache
def all_commands() -> dict[Path, Any]:
    """Import every command; return them by their paths."""
    ours = {tuple(path.split()): one for path, one in own_commands().items() if path != "qm"}
    return ours | mounted_commands()


def commands_with_help() -> dict[Path, Any]:
    """Return every command with its own help, by its path."""
    without = {path for path, command in declared_commands() if command.passes_on}
    return {path: command for path, command in all_commands().items() if path not in without}


def help_examples(command: Any) -> list[str]:
    """Return the lines after "For example:" in a command's help."""
    _, _, below = command.help.partition("\nFor example:\n")
    return [line.strip() for line in below.splitlines()]


THROUGH_AIRFLOW: set[Path] = {
    ("airflow",),
    ("backfill",),
    ("check",),
    ("connection", "add"),
    ("connection", "test"),
    ("diagnose",),
    ("init",),
    ("restore", "run"),
    ("run",),
}
"""The commands that start an Airflow; tests/e2e runs their examples."""


def example_script(path: Path) -> str:
    """Return the examples in a command's help as a shell program."""
    return "\n".join(help_examples(all_commands()[path]))
