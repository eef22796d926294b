"""Write text from messages into Markdown, so that it can be nothing but text.

Airflow renders a run's note and the page of an approval as Markdown, and makes links of addresses
in plain text, escaped or not. In a code span nothing is a link, an image or HTML.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from mqdlq.failures import Failure
from mqdlq.model import Verdict
from mqdlq.reading.page_paths import Paths
from mqdlq.reading.report.building import Report
from mqdlq.words import VERDICTS, count, visible

MOST: Final = 200
_ADDRESS: Final = re.compile(r"(?i)//|www\.|[^\s@]@[^\s@]|[^\x20-\x7e]")
_ACTIVE: Final = re.compile(r"([\\`*_{}\[\]()#<>&~|!])")


def code(text: str, most: int = MOST) -> str:
    r"""Return text from a message as a code span of at most so many characters.

    A vertical bar, which would end the cell of a table, is written as an escape.

    >>> print(code("A`|<b>"))
    ``A`\x7c<b>``
    """
    shown = visible(text).replace("|", "\\x7c")
    shown = shown if len(shown) <= most else f"{shown[:most]}…"
    longest = max(map(len, re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    # A backtick or a blank at an end needs a blank, which a reader of Markdown removes.
    pad = " " if shown[0] in "` " or shown[-1] in "` " else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def plain(text: str) -> str:
    r"""Return our own words, in which no character is markup.

    Words with a name that looks like an address become a code span, because no escape keeps Airflow
    from making a link of it.

    >>> print(plain("5 messages [new]"))
    5 messages \[new\]
    """
    if _ADDRESS.search(text):
        return code(text)
    return _ACTIVE.sub(r"\\\1", text)


def link(words: str, address: str) -> str:
    """Return a link; the address is one of our own, in which names are percent-encoded."""
    return f"[{plain(words)}]({address.replace('(', '%28').replace(')', '%29')})"


# The words that a run's note in Airflow shows, in Markdown.

_MOST_WHY: Final = 300


def failure_note(failure: Failure) -> str:
    """Return why a task failed and what to do, for the note of a run without a report."""
    following = f" Next: {_code(failure.next_step)}" if failure.next_step else ""
    return f"Why: {_code(failure.summary)}{following}"


def _code(text: str) -> str:
    return code(" ".join(text.split()), _MOST_WHY)


def run_note(report: Report, paths: Paths | None = None) -> Mapping[str, str]:
    """Return the words of the `note` of the run, and of the mark on its task report.

    With `paths` the note ends with links to the report and to the run on the operator's page.

    `attention` is "" for a run that needs no attention: Airflow marks notes in its grid, so only
    other runs have a mark there. Text that may come from messages or from MQ is in a code span.
    """
    words = f"{VERDICTS[report.verdict]}. {plain(report.headline)}"
    if report.why:
        words += f" Why: {_code(report.why)}"
    if report.next_steps:
        words += f" Next: {_code(report.next_steps)}"
    if paths is not None and report.run is not None:
        of = (report.run.handler, report.run_id)
        report_link = link("Report", paths.run_report(*of))
        words += f" {report_link}, {link('run in Dead letters', paths.run(*of))}."
    has_mark = report.verdict is Verdict.ATTENTION
    attention = f"{count(report.needs_attention, 'message')} to act on." if has_mark else ""
    return {"note": words, "attention": attention}
