"""Render a report as one self-contained HTML page.

The page has no script and loads nothing; its Content-Security-Policy forbids both. Text from a
message is escaped twice: `wording.visible` makes it visible, then the template escapes it.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Final

from jinja2 import Template
from markupsafe import Markup

from mqdlq.reading.page_paths import Paths
from mqdlq.reading.report.components import (
    COMPONENTS,
    account_bar,
    component_environment,
    lanes,
)
from mqdlq.reading.report.records import Report
from mqdlq.reading.run import control_lines
from mqdlq.words import VERDICTS

MOST_GROUPS: Final = 60
MOST_MESSAGES: Final = 100
MOST_LANES: Final = 16
"""How many entries of a kind the page lists; it counts the others, and the JSON lists all."""


def security_policy() -> str:
    """Return the Content-Security-Policy of the page: its own styles, and nothing else."""
    digest = base64.b64encode(hashlib.sha256(_styles().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def render_html(report: Report, paths: Paths | None = None) -> str:
    """Return the page, with links to the operator's page if its paths are known."""
    css = _styles()
    rules = report.rules[:MOST_GROUPS]
    return _template().render(
        report=report,
        css=Markup(css),  # noqa: S704 (files of ours)
        csp=security_policy(),
        paths=paths,
        verdict=VERDICTS[report.verdict],
        bar=account_bar(report.account) if report.account else (),
        rules=[list(rows) for _, rows in groupby(rules, key=lambda row: row.rule)],
        failed_rules=report.failed_rules[:MOST_GROUPS],
        longest_rule=max((row.messages for row in rules), default=0),
        longest_cause=max((group.messages for group in report.causes), default=0),
        lanes=lanes(report.timeline),
        control_lines=control_lines(report),
        most_groups=MOST_GROUPS,
        most_messages=MOST_MESSAGES,
        most_lanes=MOST_LANES,
    )


@cache
def _styles() -> str:
    """Return the styles of the components, then those of the page."""
    files = (COMPONENTS / "components.css", Path(__file__).with_name("report.css"))
    return "".join(file.read_text(encoding="utf-8") for file in files)


@cache
def _template() -> Template:
    return component_environment(Path(__file__).parent).get_template("report.html")
