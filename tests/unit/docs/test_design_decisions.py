"""docs/adr/index.md lists every design decision by number, file and title."""

from __future__ import annotations

import re

from tests.support.paths import ROOT

DIRECTORY = ROOT / "docs" / "adr"


def test_the_index_of_design_decisions_lists_every_record() -> None:
    titles = {
        path.name: re.match(r"# 0*(\d+)\.? (.+)", path.read_text(encoding="utf-8"))
        for path in DIRECTORY.glob("0*.md")
    }
    rows = re.findall(
        r"^\| \[(\d+)\]\((.+?)\) \| (.+?) \|", (DIRECTORY / "index.md").read_text(), re.MULTILINE
    )

    assert {(title[1], name, title[2]) for name, title in titles.items() if title} == set(rows)
    assert len(rows) == len(titles)
