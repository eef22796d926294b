"""A plugin of pytest: hide one declared name, or note which tests give which names a value.

`-p tests.support.effects.plugin --hide "handler keys: limits.burst"`, or `--note FILE`.
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.effects.declared import KINDS
from tests.support.paths import ROOT

READERS: Final = {"mqdlq", "dataclasses", "click", "airflow"}
"""Packages that read a record for the product; a test reads its own."""

_noted: dict[str, set[str]] = defaultdict(set)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--hide", metavar="KIND: NAME")
    parser.addoption("--note", metavar="FILE")


def pytest_configure(config: pytest.Config) -> None:
    hidden = config.getoption("--hide")
    if hidden and hidden.startswith("options: "):
        # Commands in processes that a test starts hide it by `site/sitecustomize.py`.
        os.environ["MQDLQ_TESTS_HIDE"] = hidden
        paths = [str(Path(__file__).parent / "site"), str(ROOT), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    for kind, declared in KINDS.items():
        for name, intercept in declared().items():
            if hidden == f"{kind}: {name}":
                intercept(lambda _, default: default)
            elif config.getoption("--note"):
                intercept(partial(_note, f"{kind}: {name}"))


def _note(name: str, value: Any, default: Any) -> Any:
    """Note the test whose code reads another value than the default, if the product reads it."""
    reader = sys._getframe(2).f_globals["__name__"].split(".")[0]
    if value != default and reader in READERS:
        _noted[name].add(os.environ.get("PYTEST_CURRENT_TEST", "").split(" ")[0])
    return value


def pytest_sessionfinish(session: pytest.Session) -> None:
    if place := session.config.getoption("--note"):
        noted = {name: sorted(tests - {""}) for name, tests in _noted.items()}
        Path(f"{place}.{os.getpid()}").write_text(json.dumps(noted), encoding="utf-8")
