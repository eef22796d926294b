"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest

from mqdlq.directories import PROJECT

PLUGINS = PROJECT / "plugins"
WITH_EXAMPLES = sorted(
    ".".join(file.relative_to(PLUGINS).with_suffix("").parts)
    for file in PLUGINS.rglob("*.py")
    if ">>> " in file.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_the_examples_in_the_docstrings_of_a_module_run(module: str) -> None:
    done = doctest.testmod(import_module(module))

    assert done.attempted > 0
    assert done.failed == 0
