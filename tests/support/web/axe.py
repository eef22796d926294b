"""Run axe-core, which finds faults of accessibility, in a page of Chromium.

`axe.min.js` is axe-core 4.14.1 by Deque Systems, unchanged (Mozilla Public License 2.0,
https://github.com/dequelabs/axe-core).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.e2e.running.browser import Page

SCRIPT: Final = Path(__file__).with_name("axe.min.js")
SHA256: Final = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
LEVELS: Final = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")


def findings(page: Page) -> list[str]:
    """Return a line for each element of the page that breaks a rule."""
    page.run(SCRIPT.read_text(encoding="utf-8") + "; true")
    tags = ", ".join(f"'{level}'" for level in LEVELS)
    lines = page.run(
        f"axe.run(document, {{runOnly: [{tags}]}}).then(found => found.violations.flatMap("
        "rule => rule.nodes.map(node => `${rule.id}: ${node.target.join(' ')}:"
        " ${node.failureSummary.replace(/\\s+/g, ' ')}`)))"
    )
    assert isinstance(lines, list), "axe-core did not run"
    return [str(line) for line in lines]
