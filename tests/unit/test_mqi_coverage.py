"""docs/reference/mqi-coverage.md says what the code does."""

from __future__ import annotations

import pytest

from tests.support.coverage import mqi_coverage

pytestmark = pytest.mark.slow


def test_the_document_is_as_the_code_and_the_contract_tests_have_it() -> None:
    written = mqi_coverage.DOCUMENT.read_text()

    assert written == mqi_coverage.generated(), "run python -m tests.support.coverage.mqi_coverage"
