"""The example, the fixture and the commands of the README work."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from embedded_mq.storage.lies import LIES

pytestmark = pytest.mark.slow

README = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
EXAMPLE, *FILES = re.findall(r"(?ms)^```python\n(.*?)^```$", README)
COMMANDS = re.findall(r"(?m)^\$ (.*embedded-mq .*)$", README)


def run(*command: str | Path, directory: Path) -> str:
    """Run a program in its own directory and return its output."""
    environment = os.environ | {
        "PATH": os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]]),
        "EMBEDDED_MQ_HOME": str(directory / "home"),
    }
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_readme_example_runs(tmp_path: Path) -> None:
    assert len([line for line in EXAMPLE.splitlines() if line]) == 9

    assert run(sys.executable, "-W", "error", "-c", EXAMPLE, directory=tmp_path) == "one hundred\n"


def pytest_run(directory: Path, *options: str) -> str:
    return run(
        sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, directory=directory
    )


def test_the_fixture_gives_each_test_its_own_queue_manager(tmp_path: Path) -> None:
    for text in FILES:
        name = text.partition("\n")[0].removeprefix("# ")
        (tmp_path / name).write_text(text, encoding="utf-8")
    again = FILES[-1].replace("test_a_full", "test_the_next_full")
    (tmp_path / "test_again.py").write_text(again, encoding="utf-8")

    assert "2 passed" in pytest_run(tmp_path, "--strict-markers", "-W", "error")


def test_the_fixture_runs_the_mqsc_of_all_marks_and_ends_the_queue_manager(tmp_path: Path) -> None:
    (tmp_path / "test_marks.py").write_text(
        """
import subprocess, sys
import pytest
import embedded_mq

pytestmark = pytest.mark.mqsc("DEFINE QLOCAL(A)")
used = []

@pytest.mark.mqsc("ALTER QLOCAL(A) MAXDEPTH(7)")
def test_marks(embedded_queue_manager):
    used.append(embedded_queue_manager)
    assert embedded_queue_manager.run_mqsc("DISPLAY QLOCAL(A) MAXDEPTH") == [
        "QUEUE(A) TYPE(QLOCAL) MAXDEPTH(7)"
    ]
    child = "import embedded_mq; print(embedded_mq.names())"
    assert subprocess.check_output([sys.executable, "-c", child], text=True) == "['QM1']\\\\n"

def test_it_has_ended():
    (queue_manager,) = used
    assert embedded_mq.status(queue_manager.name, queue_manager.directory) == "ENDED"
    assert not embedded_mq.exists("QM1")
""".replace("\\\\n", "\\n"),
        encoding="utf-8",
    )

    assert "2 passed" in pytest_run(tmp_path, "-W", "error")


def test_pytest_imports_the_package_only_for_tests_that_use_the_fixture(tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text(
        "import sys\n\n\ndef test_other():\n    assert 'embedded_mq' not in sys.modules\n",
        encoding="utf-8",
    )

    assert "1 passed" in pytest_run(tmp_path)


def test_the_readme_commands_run(tmp_path: Path) -> None:
    pytest.importorskip("typer", reason="the extra `cli` is not installed")
    bash = shutil.which("bash") or "bash"

    said = run(bash, "-eu", "-o", "pipefail", "-c", "\n".join(COMMANDS), directory=tmp_path)

    assert "│ ORDERS │        1 │" in said
    assert said.endswith("queue manager QM1 is ended\nqueue manager QM1 is running\n")


def test_the_command_names_a_missing_package(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text(
        "raise ModuleNotFoundError('no typer', name='typer')", encoding="utf-8"
    )
    code = "from embedded_mq.cli import main; main()"

    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr == (
        "embedded-mq: the Python package typer is not installed; `pip install 'embedded-mq[cli]'`"
        " installs it\n"
    )


def test_the_readme_lists_each_lie() -> None:
    assert re.findall(r"(?m)^\| `([a-z-]+)` \|", README) == list(LIES)
