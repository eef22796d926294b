"""`make test-changed` runs the tests that a change touches."""

from __future__ import annotations

import pytest

from tests.support.changed import touched
from tests.support.paths import ROOT


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "test"),
    [
        ("plugins/mqdlq/cli/ledger.py", "tests/unit/cli/test_commands.py"),
        ("plugins/mqdlq/rules/lint.py", "tests/unit/rules/test_lint.py"),
        ("docs/index.md", "tests/unit/docs/test_site.py"),
        ("tests/unit/test_plan.py", "tests/unit/test_plan.py"),
    ],
)
def test_a_change_touches_the_tests_that_need_it(changed: str, test: str) -> None:
    assert ROOT / test in touched([ROOT / changed])


@pytest.mark.slow
def test_a_change_touches_no_test_that_does_not_need_it() -> None:
    assert len(touched([ROOT / "tests" / "unit" / "test_plan.py"])) == 1
