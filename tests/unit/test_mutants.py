"""docs/contributing/mutants.md explains changes of code that is there."""

from __future__ import annotations

import importlib
import inspect

import pytest

from tests.support.coverage.mutants import ANY, Mutant, explained


def _code(mutant: Mutant) -> str:
    """Return the source of the mutant's module, its blanks and line ends as single blanks."""
    name = mutant.function
    while True:
        name = name.rpartition(".")[0]
        try:
            return " ".join(inspect.getsource(importlib.import_module(name)).split())
        except ModuleNotFoundError:
            continue


@pytest.mark.parametrize("mutant", explained(), ids=lambda mutant: mutant.function)
def test_an_explained_mutant_changes_code_that_is_there(mutant: Mutant) -> None:
    if mutant.before == mutant.after == ANY:
        assert f"def {mutant.function.rpartition('.')[2]}(" in _code(mutant)
    else:
        assert " ".join(mutant.before.split()) in _code(mutant)
        assert mutant.after != mutant.before
