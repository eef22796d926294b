"""Run the commands that a page shows in its consoles, and compare their output with the page."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.docs.code_blocks import code_blocks, inputs
from tests.support.paths import ROOT

LIMIT_S = 900
_AFTER_EACH = "\x1e"


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a page, with its continuation lines, and the output shown below it."""

    text: str
    output: str

    @property
    def program(self) -> str:
        """Return the command's first word."""
        return self.text.split()[0]


def commands(page: Path) -> list[Command]:
    """Return the commands of the page's consoles, in order."""
    found = []
    for block in code_blocks(page):
        if block.language == "console":
            entries = re.split(r"(?m)^\$ ", block.text)[1:]
            for text, entry in zip(inputs(block), entries, strict=True):
                found.append(Command(text, entry.removeprefix(text).strip("\n")))
    return found


def checkout(directory: Path) -> Path:
    """Make a directory that looks like the project to its commands, with its own rules."""
    (directory / "include" / "rules").mkdir(parents=True)
    (directory / ".venv").symlink_to(sys.prefix)
    (directory / "docs").symlink_to(ROOT / "docs")
    return directory


def run_in_one_shell(texts: list[str], place: Path, **environment: str) -> list[str]:
    """Run commands one after the other in one shell; return the output of each.

    The state directory is `var` in `place`. A command that fails fails the test, with its output.
    """
    ours = ("MQDLQ_", "AIRFLOW_")
    shell = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    settings = {"MQDLQ_HOME": str(place / "var"), "MQDLQ_RULES_DIR": str(place / "include/rules")}
    program = "".join(f"{text}\nprintf '{_AFTER_EACH}'\n" for text in texts)
    done = subprocess.run(
        [shutil.which("bash") or "bash", "-ec", program],
        stdin=subprocess.DEVNULL,
        cwd=place,
        env={**shell, **settings, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout.split(_AFTER_EACH)[:-1]


def differences(shown: str, printed: str) -> list[str]:
    """Return the shown lines that a command did not print, in their order.

    A line `…` stands for any lines, and `…` in a line for any text. Numbers, times and hexadecimal
    digits may differ; paths may.
    """
    rest, missing = _comparable(printed), []
    for line in shown.splitlines():
        pattern = re.escape(_comparable(line).strip()).replace("…", ".*?")
        if line.strip() == "…" or not line.strip():
            continue
        found = re.search(rf"(?m){pattern}\s*$", rest)
        if found is None:
            missing.append(line)
        else:
            rest = rest[found.end() :]
    return missing


def _comparable(text: str) -> str:
    """Return a text without the parts that differ from run to run."""
    text = re.sub(r"/\S*/(?=var/|include/)", "", text)
    text = re.sub(r"\b[0-9a-f]{6,}\b", "0", text)
    return re.sub(r"[ \t]+", " ", re.sub(r"\d+", "0", text))
