"""The command `mqdlq` as a whole: which commands there are, and what each of them costs."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

from typer.testing import CliRunner

from mqdlq.cli import COMMANDS, app, rules

TABLE = "include/rules/demo.rules"


def said(*arguments: str) -> str:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"}).output


def all_commands() -> Iterator[tuple[str, ...]]:
    for name in COMMANDS.keys() - {"airflow"}:  # whose help is Airflow's
        _, _, listed = said(name, "--help").partition("Commands")
        found = re.findall(r"^│ ([a-z]+) {2,}", listed, re.MULTILINE)
        yield from [(name, each) for each in found] or [(name,)]


def test_every_command_has_help_with_an_example() -> None:
    commands = list(all_commands())
    assert len(commands) > 20

    without = [each for each in commands if "Example: " not in said(*each, "--help")]

    assert without == []


def test_the_help_lists_the_commands_that_are_imported_on_demand() -> None:
    listed = said("rules", "--help")

    assert all(f"│ {name} " in listed for name in ("check", *rules.COMMANDS))


def test_a_name_that_is_no_command_is_refused_with_what_comes_near() -> None:
    assert "No such command 'shado'. Did you mean 'shadow'?" in said("shado")
    assert "No such command 'dif'. Did you mean 'diff'?" in said("rules", "dif")


def test_checking_a_table_pays_for_nothing_that_other_commands_need() -> None:
    program = (
        "import sys; from mqdlq.cli import app\n"
        f"try: app(['rules', 'check', {TABLE!r}])\n"
        "except SystemExit as ended: assert ended.code == 0, ended.code\n"
        "assert not {'pyarrow', 'sqlalchemy', 'airflow', 'pyspark', 'ibmmq'} & set(sys.modules)"
    )

    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)
