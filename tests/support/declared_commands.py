"""The commands of `mqdlq` as they are declared: their paths, and the loaded commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from mqdlq.cli import COMMANDS, qm
from mqdlq.cli.on_demand import Command, Declared, Group, Mounted, OnDemand

Path = tuple[str, ...]


def declared(
    commands: Mapping[str, Declared] = COMMANDS, above: Path = ()
) -> Iterator[tuple[Path, Command]]:
    """Yield every command of our own with its path, such as ("rules", "check")."""
    for name, found in commands.items():
        if isinstance(found, Group):
            yield from declared(found.commands, (*above, name))
        elif isinstance(found, Command):
            yield (*above, name), found


@cache
def mounted() -> dict[Path, Any]:
    """Return the commands of other distributions by their paths."""
    assert [name for name, found in COMMANDS.items() if isinstance(found, Mounted)] == ["qm"]
    return {("qm", name): command for name, command in qm.commands().items()}


@cache
def everything() -> dict[Path, Any]:
    """Import every command; return them by their paths."""
    ours = {path: OnDemand(path[-1], command).load() for path, command in declared()}
    return ours | mounted()


def loaded() -> dict[Path, Any]:
    """Return every command that has its own help, by its path."""
    without = {path for path, command in declared() if command.passes_on}
    return {path: command for path, command in everything().items() if path not in without}


def examples(command: Any) -> list[str]:
    """Return the lines below "For example:" in a command's help."""
    _, _, below = command.help.partition("\nFor example:\n")
    return [line.strip() for line in below.splitlines()]


THROUGH_AIRFLOW: set[Path] = {("airflow",), ("check",), ("restore", "run"), ("run",)}
"""The commands that start an Airflow; tests/e2e runs their examples."""


def script(path: Path) -> str:
    """Return the examples of a command, as its help shows them, as a program for a shell."""
    return "\n".join(examples(everything()[path]))
