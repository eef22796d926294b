"""The distribution embedded-mq stands alone, its tests and its wheel included."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.support.paths import ROOT

DISTRIBUTION = ROOT / "embedded_mq"


def test_its_tests_know_nothing_of_the_product() -> None:
    for path in (DISTRIBUTION / "tests").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        imported = {
            name.partition(".")[0]
            for node in ast.walk(ast.parse(text))
            for name in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [str(node.module)]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        }
        assert not imported & {"mqdlq", "tests"}, path
        assert "MQDLQ_HOME" not in text, path


@pytest.mark.slow
def test_its_wheel_has_all_of_it_and_needs_nothing(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", tmp_path],
        cwd=DISTRIBUTION,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.iterdir()
    with zipfile.ZipFile(wheel) as file:
        files = {name for name in file.namelist() if ".dist-info/" not in name}
        (entry_points,) = (name for name in file.namelist() if name.endswith("entry_points.txt"))
        declared = file.read(entry_points).decode()
        (licence,) = (name for name in file.namelist() if name.endswith("licenses/LICENSE"))
        text = file.read(licence).decode()

    source = DISTRIBUTION / "src"
    wanted = {
        str(path.relative_to(source))
        for suffix in ("*.py", "*.txt")
        for part in (source, *source.glob("embedded_mq/*/"))  # links are followed once
        for path in part.rglob(suffix)
        if "__pycache__" not in path.parts
    }
    assert {name for name in files if name.endswith((".py", ".txt"))} == wanted
    assert {"pytest_embedded_mq.py", "embedded_mq/structures/__init__.py"} <= files
    assert text == (ROOT / "LICENSE").read_text(encoding="utf-8")
    project = tomllib.loads((DISTRIBUTION / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dependencies"] == []
    for group in ("console_scripts", "mqdlq.transports", "mqdlq.commands", "pytest11"):
        assert f"[{group}]" in declared
