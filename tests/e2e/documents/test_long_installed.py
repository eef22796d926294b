"""The tutorial for installed users: its commands print what it shows, in an empty directory.

They run the package of this environment. tests/unit/deploy/test_distributions.py installs the
wheel.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.support.docs.console import commands, differences
from tests.support.paths import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.long]

TYPED = [
    command
    for command in commands(ROOT / "docs" / "tutorial" / "install-from-the-wheel.md")
    if command.program not in {"python", "v/bin/pip", "."}
]
END = "\x1e"


def test_the_commands_of_the_tutorial_print_what_it_shows(tmp_path: Path) -> None:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MQDLQ_", "AIRFLOW_"))
    }
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    program = "".join(f"{command.text}\nprintf '{END}'\n" for command in TYPED)

    done = subprocess.run(
        [shutil.which("bash") or "bash", "-ec", program],
        cwd=tmp_path,
        env=kept | {"PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )

    printed = done.stdout.split(END)
    assert done.returncode == 0, done.stdout
    found = zip(TYPED, printed, strict=False)
    missing = {c.text: (lines, out) for c, out in found if (lines := differences(c.output, out))}
    assert not missing


def test_the_next_commands_of_init_are_those_of_the_tutorial() -> None:
    (init,) = (command for command in TYPED if command.text.startswith("mqdlq init"))
    (run,) = (command for command in TYPED if command.text.startswith("mqdlq run"))

    assert run.text in [line.strip() for line in init.output.splitlines()]
