"""The parts of documents that code declares are what it declares."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.docs import pages
from tests.support.docs.pages import PARTS, filled

PAGES = {path: path.read_text(encoding="utf-8") for path in pages.PAGES}


@pytest.mark.slow
@pytest.mark.parametrize("page", [path for path, text in PAGES.items() if "<!-- part: " in text])
def test_the_parts_of_a_page_are_what_their_sources_declare(page: Path) -> None:
    assert PAGES[page] == filled(PAGES[page]), "run `make docs-pages`"


def test_every_part_stands_on_one_page() -> None:
    marks = re.findall(r"<!-- (?:part|built): (.+) -->", "".join(PAGES.values()))

    assert sorted(marks) == sorted(PARTS)
