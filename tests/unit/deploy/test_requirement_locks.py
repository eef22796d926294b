"""Test that the locks for production and development pin the same versions."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from mqdlq import directories

pytestmark = pytest.mark.slow

PROJECT = directories.PROJECT
PRODUCT = ("plugins", "spark", "dags")
OURS = {
    "embedded_mq",
    "mqdlq",
    "mqdlq_plugin",
    *(path.stem for path in (PROJECT / "spark").glob("*.py")),
}


@cache
def pins(lock: str) -> dict[str, str]:
    """Return the version of each distribution in a lock."""
    text = (PROJECT / lock).read_text(encoding="utf-8")
    return dict(re.findall(r"(?m)^([a-z0-9-]+)==(\S+)", text))


def imported(path: Path) -> Iterator[str]:
    """Yield the top-level modules that a file imports, at any place in it."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module).partition(".")[0]


def test_both_locks_pin_the_same_versions() -> None:
    develops = pins("requirements-dev.lock")

    assert pins("requirements.lock").items() <= develops.items()
    assert "pytest" in develops
    assert "pytest" not in pins("requirements.lock")


@pytest.mark.parametrize("directory", PRODUCT)
def test_the_product_imports_only_packages_of_requirements_lock(directory: str) -> None:
    distributions, locked = packages_distributions(), pins("requirements.lock")

    missing = {
        f"{path.relative_to(PROJECT)} imports {module}"
        for path in (PROJECT / directory).rglob("*.py")
        for module in imported(path)
        if module not in sys.stdlib_module_names | OURS
        and not {
            re.sub(r"[-_.]+", "-", name).lower() for name in distributions.get(module, ())
        }.intersection(locked)
    }

    assert missing == set()
