"""The commands of the page about `mqdlq certify` print what it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.docs.console import checkout, commands, differences, run_in_one_shell
from tests.support.paths import ROOT


@pytest.mark.slow
def test_the_commands_of_the_page_print_what_it_shows(tmp_path: Path) -> None:
    page = ROOT / "docs" / "how-to" / "certify.md"
    typed = [command for command in commands(page) if command.program in {"mqdlq", "export"}]
    place = checkout(tmp_path / "mqdlq")

    _, *printed = run_in_one_shell([". .venv/bin/activate", *(c.text for c in typed)], place)

    found = zip(typed, printed, strict=True)
    missing = {c.text: (lines, out) for c, out in found if (lines := differences(c.output, out))}
    assert not missing
    assert len(typed) == 7
