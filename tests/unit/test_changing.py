"""The page on where changes belong names files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHANGING = (ROOT / "docs" / "contributing" / "changing.md").read_text(encoding="utf-8")
FILES = sorted(set(re.findall(r"`([\w./-]+/[\w.-]+\.\w+|README\.md)`", CHANGING)))


def test_the_page_leads_through_eleven_changes() -> None:
    walks = CHANGING.split("\n## ")[1:]

    assert len(walks) == 11
    assert all("\n| `" in walk for walk in walks)


@pytest.mark.parametrize("file", FILES)
def test_every_file_that_the_page_names_is_there(file: str) -> None:
    assert (ROOT / file).is_file()
