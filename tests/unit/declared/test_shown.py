"""What is declared has an effect: a test shows it, and fails while the name is hidden."""

from __future__ import annotations

import ast
from collections.abc import Mapping

import pytest

from tests.support.effects.declared import KINDS
from tests.support.effects.shown import read_shown
from tests.support.paths import ROOT

SHOWN: Mapping[str, Mapping[str, str]] = read_shown()
WHAT_TO_DO = (
    "no test shows what it changes; write one, and name it in tests/effects.toml"
    " (`python -m tests.support.effects.shown find` finds one that fails while the name is hidden)"
)


@pytest.mark.parametrize("kind", KINDS)
def test_every_declared_name_has_a_test_that_shows_its_effect(kind: str) -> None:
    without = sorted(set(KINDS[kind]()) - set(SHOWN.get(kind, {})))

    assert not without, f"{kind} {', '.join(without)}: {WHAT_TO_DO}"


@pytest.mark.parametrize("kind", KINDS)
def test_every_test_that_shows_an_effect_is_there(kind: str) -> None:
    shown = SHOWN.get(kind, {})
    gone = [test for test in shown.values() if not is_there(*test.split("::"))]

    assert not gone
    assert not sorted(set(shown) - set(KINDS[kind]()))


def is_there(file: str, *names: str) -> bool:
    path = ROOT / file
    if not path.exists():
        return False
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return names[-1] in {one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)}
