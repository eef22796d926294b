"""A report as one page of HTML: a `Report` in, a file that needs nothing but itself out.

The page has no script, loads nothing, and its Content-Security-Policy forbids both; what came from
a message is escaped twice over, made visible (`words.visible`) and then escaped by the template.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from mqdlq.model import Outcome
from mqdlq.stages.report import drawing, words
from mqdlq.stages.report.people import destination_in_words, tried_in_words
from mqdlq.stages.report.records import Report, Verdict

MOST_GROUPS: Final = 60
MOST_MESSAGES: Final = 100
MOST_LANES: Final = 16
"""How much of a kind the page lists; it says how much more there is, and the JSON has it all."""

VERDICTS: Final = {
    Verdict.OK: "Everything is handled",
    Verdict.EMPTY: "Nothing to do",
    Verdict.SETTLED: "Nothing new",
    Verdict.ATTENTION: "Needs a person",
    Verdict.UNFINISHED: "Not finished",
    Verdict.FAILED: "Failed",
}


def render_html(report: Report) -> str:
    """Return the page."""
    css = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    rules = report.rules[:MOST_GROUPS]
    lanes = drawing.lanes(report.timeline)
    return _template().render(
        report=report,
        css=Markup(css),  # noqa: S704 (a file of ours)
        csp=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
        verdict=VERDICTS[report.verdict],
        bar=drawing.account_bar(report.account) if report.account else (),
        rules=[list(rows) for _, rows in groupby(rules, key=lambda row: row.rule)],
        longest_rule=max((row.messages for row in rules), default=0),
        longest_cause=max((group.messages for group in report.causes), default=0),
        lanes=lanes,
        most_groups=MOST_GROUPS,
        most_messages=MOST_MESSAGES,
        most_lanes=MOST_LANES,
    )


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "visible": words.visible,
        "moment": words.moment,
        "span": words.span,
        "number": "{:,}".format,
        "outcome": words.outcome_in_words,
        "said": _said,
    }
    environment.globals |= {
        "classes": words.CLASSES,
        "period": words.period,
        "place": words.place,
        "target": words.target,
        "count": words.count,
        "not_selected": words.not_selected,
        "learned_in_words": words.learned_in_words,
        "states": words.STATES,
        "tried_in_words": tried_in_words,
        "destination_in_words": destination_in_words,
        "segments": drawing.segments,
        "rule_bar": drawing.rule_bar,
        "half": drawing.HALF,
    }
    return environment.get_template("report.html")


def _said(what: str) -> str:
    """Return what a segment of a bar counts, in words."""
    return words.outcome_in_words(None if what == drawing.MISSING else Outcome(what))
