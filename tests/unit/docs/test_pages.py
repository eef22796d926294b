"""The generated pages of the documentation are what the code declares."""

from __future__ import annotations

import pytest

from tests.support.docs.pages import DIRECTORY, PAGES


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_what_its_source_declares(name: str) -> None:
    assert (DIRECTORY / name).read_text(encoding="utf-8") == PAGES[name](), "run `make docs-pages`"
