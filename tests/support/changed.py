"""Run the tests that a change touches: `make test-changed`.

A test file is touched if it, or a module that it needs, differs from the commit. Modules are needed
by imports and by names in strings, as commands name theirs. A file that is not Python counts as the
modules of its directory; one of `docs` as the tests of the documentation.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.paths import ROOT

_SOURCES = {
    "plugins": "plugins",
    "embedded_mq/src": "embedded_mq/src",
    "embedded_mq/tests": "embedded_mq/tests",
    "spark": "spark",
    "tests": ".",
    "benchmarks": ".",
}
"""The directories of Python files, and what the names of their modules are relative to."""

_NAMED = re.compile(r"\w+(?:\.\w+)+")
_COMMAND = re.compile(r"(\w+):\w+")
"""How a package declares that a function of a module in it is a command."""


def changed(since: str) -> list[Path]:
    """Return the files that differ from a commit, new ones too."""
    lists = (("diff", "--name-only", since), ("ls-files", "--others", "--exclude-standard"))
    names = [subprocess.check_output(["git", *one], cwd=ROOT, text=True) for one in lists]  # noqa: S607
    return [ROOT / name for text in names for name in text.splitlines()]


@cache
def modules() -> dict[str, Path]:
    """Return the project's Python files by the names of their modules."""
    found = {}
    for place, root in _SOURCES.items():
        for file in (ROOT / place).rglob("*.py"):
            name = ".".join(file.relative_to(ROOT / root).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = file
    return found


def needs(file: Path) -> Iterator[Path]:
    """Yield the files of the modules that a file imports or names, and its conftest.py files."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                found = [one.name for one in names]
            case ast.ImportFrom(module=str(module), names=names):
                found = [module, *(f"{module}.{one.name}" for one in names)]
            case ast.Constant(value=str(text)):
                command = _COMMAND.fullmatch(text)
                beside = file.parent / f"{command[1]}.py" if command else file
                yield from (beside,) if command and beside.exists() else ()
                found = _NAMED.findall(text)
            case _:
                continue
        yield from (modules()[name] for name in found if name in modules())
    if file.name.startswith("test_"):
        folders = [one for one in file.parents if one.is_relative_to(ROOT)]
        yield from (one / "conftest.py" for one in folders if (one / "conftest.py").exists())


@cache
def users() -> dict[Path, set[Path]]:
    """Return for each file the files that need it."""
    found: dict[Path, set[Path]] = {}
    for file in modules().values():
        for needed in needs(file):
            found.setdefault(needed, set()).add(file)
    return found


def touched(files: list[Path]) -> list[Path]:
    """Return the test files that changed files touch."""
    waiting = [one for file in files for one in _python_files(file)]
    seen: set[Path] = set()
    while waiting:
        if (file := waiting.pop()) not in seen:
            seen.add(file)
            waiting += users().get(file, ())
    return sorted(file for file in seen if file.name.startswith("test_") and file.exists())


def _python_files(file: Path) -> list[Path]:
    if file.suffix == ".py":
        return [file]
    if file.suffix == ".md":
        return list((ROOT / "tests" / "unit" / "docs").glob("test_*.py"))
    folders = [one for one in file.parents if one != ROOT and one.is_relative_to(ROOT)]
    return next((found for one in folders if (found := list(one.glob("*.py")))), [])


def main() -> int:
    """Run the tests; prints how many files they are."""
    since, *options = sys.argv[1:] or ["HEAD"]
    files = touched(changed(since))
    sys.stdout.write(f"{len(files)} test files are touched\n")
    return int(pytest.main([*options, *map(str, files)])) if files else 0


if __name__ == "__main__":
    sys.exit(main())
