"""`mqdlq init --embedded` in an empty directory: its next command handles a dead-letter queue."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.long]


def shell(place: Path, program: str) -> str:
    """Run a shell's program in an environment without settings of ours; return its output."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MQDLQ_", "AIRFLOW_"))
    }
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    return subprocess.run(
        [shutil.which("bash") or "bash", "-euc", program],
        cwd=place,
        env=kept | {"PATH": path},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout


def test_the_next_commands_of_init_handle_a_queue(tmp_path: Path) -> None:
    printed = shell(tmp_path, "mqdlq init dlq --embedded QM5")

    commands = [line.strip() for line in printed.partition("Next:\n")[2].splitlines()]
    assert [command.split()[0] for command in commands] == ["export", "mqdlq", "mqdlq"]
    found = shell(tmp_path, "\n".join([*commands, "mqdlq rules check dlq/handlers"]))
    assert "its dead-letter queue has 71 messages" in printed
    assert "25 delivered" in found
    assert "The account adds up." in found
    assert "warning" not in found.partition("dlq/handlers/qm5.yaml")[2]
