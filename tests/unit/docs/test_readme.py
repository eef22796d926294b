"""The README is short, and the pages it was split into are linked from it."""

from __future__ import annotations

import re

from tests.support.paths import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_has_at_most_900_words() -> None:
    assert len(README.split()) <= 900


def test_every_link_of_the_readme_leads_to_a_file() -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", README)

    assert len(targets) > 20
    assert [target for target in targets if not (ROOT / target).exists()] == []
