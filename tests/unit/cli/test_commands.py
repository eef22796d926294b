"""Test the whole command `mqdlq`: its commands, their help and their imports."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version

import pytest
from click.testing import CliRunner

from mqdlq.cli import COMMANDS, app
from tests.support.declared_commands import (
    commands_with_help,
    declared_commands,
    help_examples,
    mounted_commands,
)

pytestmark = pytest.mark.slow

TABLE = "include/rules/demo.rules"
GROUPS: dict[tuple[str, ...], dict[str, str]] = {
    group: {
        path.split()[-1]: command.summary
        for path, command in COMMANDS.items()
        if tuple(path.split()[:-1]) == group
    }
    for group in [(), *(tuple(path.split()) for path, one in COMMANDS.items() if not one.place)]
}
HEAVY = {"airflow", "ibmmq", "pyarrow", "pydantic", "pyspark", "rich", "sqlalchemy", "yaml"}


def said(*arguments: str, width: int = 78) -> str:
    return CliRunner().invoke(app, list(arguments), terminal_width=width).output


def test_every_command_has_an_example_that_calls_it() -> None:
    commands = commands_with_help()
    assert len(commands) >= 30

    without = [
        path
        for path, command in commands.items()
        if not any(f"mqdlq {' '.join(path)}" in line for line in help_examples(command))
    ]

    assert without == []


@pytest.mark.parametrize("width", [78, 98])
def test_help_keeps_examples_and_fills_the_lines_of_paragraphs(width: int) -> None:
    for path, command in commands_with_help().items():
        shown = said(*path, "--help", width=width)
        text = shown[: shown.index("\nOptions:")]
        for example in help_examples(command):
            assert f"\n    {example}\n" in text
        for paragraph in text.partition("\n  For example:")[0].split("\n\n"):
            if any(line.startswith("    ") for line in paragraph.splitlines()):
                continue
            for line, following in zip(*[iter(paragraph.splitlines())] * 2, strict=False):
                word = following.split()[0]
                assert len(line) + 1 + len(word) > width, (path, line)


@pytest.mark.parametrize("group", GROUPS, ids=" ".join)
def test_the_help_of_a_group_has_a_line_for_each_command(group: tuple[str, ...]) -> None:
    listed = said(*group, "--help").partition("\nCommands:\n")[2].splitlines()

    width = max(map(len, GROUPS[group]))
    assert listed == [f"  {name:{width}}  {text}" for name, text in GROUPS[group].items()]


def test_the_help_of_mounted_commands_names_them_as_ours() -> None:
    assert {"create", "mqsc", "put", "browse", "depth", "faults"} <= {
        name for _, name in mounted_commands()
    }
    for (group, name), command in mounted_commands().items():
        shown = said(group, name, "--help")
        assert f"mqdlq {group} {name}" in shown
        assert "embedded-mq" not in shown
        assert f"  {name} " in said(group, "--help")
        assert command.help.partition("\n")[0] in said(group, "--help")


def test_a_docstring_names_the_command_that_it_describes() -> None:
    others = mounted_commands()
    for path, command in commands_with_help().items():
        if path not in others:
            assert command.callback.__doc__.startswith(f"Implement `mqdlq {' '.join(path)}`.\n")


@pytest.mark.parametrize(("columns", "widest"), [(80, 78), (120, 98)])
def test_help_takes_the_width_of_the_terminal_up_to_100_columns(columns: int, widest: int) -> None:
    shown = subprocess.run(
        [sys.executable, "-c", "from mqdlq.cli import app; app()", "rules", "format", "--help"],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": str(columns)},
    ).stdout

    assert widest - 10 < max(map(len, shown.splitlines())) <= widest


def test_an_unknown_command_is_refused_with_similar_names() -> None:
    assert "No such command 'shado'. Did you mean 'shadow'?" in said("shado")
    assert "No such command 'dif'. Did you mean 'diff'?" in said("rules", "dif")


def test_the_version_is_printed_alone() -> None:
    assert said("--version") == f"mqdlq {version('mqdlq')}\n"


def test_a_wrong_choice_is_refused_with_the_valid_ones() -> None:
    refusal = said("report", "--format", "xml").splitlines()[-1]

    assert refusal.replace("Value error, ", "") == (  # some versions of typer say so
        "Error: Invalid value for '--format': 'xml' is not one of 'text', 'json'."
    )


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["rules", "--help"], ["qm", "--help"], ["rules", "check", TABLE]],
    ids=" ".join,
)
def test_a_short_command_imports_no_slow_module(arguments: list[str]) -> None:
    program = (
        "import sys; from mqdlq.cli import app\n"
        f"try: app({arguments!r})\n"
        "except SystemExit as ended: assert ended.code == 0, ended.code\n"
        f"assert not {HEAVY!r} & set(sys.modules), {HEAVY!r} & set(sys.modules)"
    )

    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)


def test_no_two_commands_share_a_declaration() -> None:
    places = [command.place for _, command in declared_commands()]

    assert len(set(places)) == len(places)
