"""The hooks for pre-commit call commands that check and format the tables they are given."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from mqdlq.cli import app
from tests.support.paths import ROOT

HOOKS = {
    one["id"]: one
    for one in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
}


def run(hook: str, file: Path) -> tuple[int, str]:
    assert re.search(HOOKS[hook]["files"], str(file))
    program, *words = HOOKS[hook]["entry"].split()
    assert program == "mqdlq"
    done = CliRunner().invoke(app, [*words, str(file)])
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("table", "code"),
    [("REASON(MQRC_Q_FULL) ACTION(RETRY) RETRY(3)\n", 0), ("ACTION(RETRY) RETRY(X)\n", 1)],
)
def test_the_hook_fails_for_a_table_with_an_error(tmp_path: Path, table: str, code: int) -> None:
    file = tmp_path / "a.rules"
    file.write_text(table)

    assert run("mqdlq-rules-check", file)[0] == code


def test_the_hook_writes_a_table_in_canonical_form(tmp_path: Path) -> None:
    file = tmp_path / "a.rules"
    file.write_text("ACTION(RETRY)   REASON(MQRC_Q_FULL)\n")

    assert run("mqdlq-rules-format", file)[0] == 0
    assert file.read_text() == "REASON(MQRC_Q_FULL) ACTION(RETRY)\n"


def test_a_page_tells_how_to_use_each_hook() -> None:
    page = (ROOT / "docs" / "how-to" / "write-rules.md").read_text(encoding="utf-8")

    assert set(re.findall(r"- id: (\S+)", page)) == set(HOOKS)
