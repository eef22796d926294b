"""`make set-up` says what it does while it does it, with another program in the place of uv."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.paths import ROOT

UV = """#!/bin/sh
case "$*" in *requirements-dev.lock) ;; *) exit 0 ;; esac
echo "Downloading pyspark (302.1MiB)" >&2
cat {pipe} >/dev/null
echo "Installed 2 packages in 4s" >&2
echo " + pyspark==4.0.0" >&2
exit {code}
"""


@pytest.fixture(name="place")
def _place(tmp_path: Path) -> Path:
    """Copy what the Makefile needs; its virtual environment has programs that do nothing."""
    (tmp_path / "embedded_mq").mkdir()
    for name in ("Makefile", "requirements-dev.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "embedded_mq" / "pyproject.toml", tmp_path / "embedded_mq")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    write(tmp_path / ".venv" / "bin" / "python", "#!/bin/sh\n")
    return tmp_path


def write(program: Path, text: str) -> None:
    program.write_text(text)
    program.chmod(0o755)


def set_up(place: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["make", "--no-print-directory", "set-up"],  # noqa: S607 (found as a user's shell does)
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_a_set_up_shows_each_step_and_what_uv_downloads_while_it_does(place: Path) -> None:
    pipe = place / "downloaded"
    subprocess.run(["mkfifo", pipe], check=True)  # noqa: S607 (the same)
    write(place / ".venv" / "bin" / "uv", UV.format(pipe=pipe, code=0))

    with set_up(place) as running:
        assert running.stdout is not None
        step, download = running.stdout.readline(), running.stdout.readline()
        pipe.write_text("")  # uv goes on only now
        rest = running.stdout.read()

    assert running.returncode == 0, rest
    assert step.startswith("2 of 4: ")
    assert step.endswith(" packages, which uv downloads, installs and compiles\n")
    assert download == "  Downloading pyspark (302.1MiB)\n"
    assert rest.splitlines() == [
        "  Installed 2 packages in 4s",
        "3 of 4: this project",
        "4 of 4: storing Spark's classes for a faster start, once: half a minute or more",
    ]
    assert (place / ".venv" / ".set-up").exists()


def test_a_set_up_whose_packages_cannot_be_installed_fails(place: Path) -> None:
    write(place / ".venv" / "bin" / "uv", UV.format(pipe="/dev/null", code=2))

    with set_up(place) as running:
        assert running.wait(60) != 0
    assert not (place / ".venv" / ".set-up").exists()
