"""Render a report as one self-contained HTML page.

The page has no script and loads nothing; its Content-Security-Policy forbids both. Text from a
message is escaped twice: `wording.visible` makes it visible, then the template escapes it.
Drawings are stretched to the width of the page, so they consist of rectangles.
"""

from __future__ import annotations

import base64
import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from mqdlq.model import AttemptState, Outcome
from mqdlq.stages.report import wording
from mqdlq.stages.report.grouping import BINS
from mqdlq.stages.report.needs_attention import destination_in_words, tried_in_words
from mqdlq.stages.report.report_records import Account, Report, RuleRow, TimelinePoint, Verdict

WIDTH: Final = 1000.0
HALF: Final = 20.0
"""The height of a lane above its base line, and below."""

MISSING: Final = "missing"


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a bar: an outcome or "missing", its number, its beginning and its length."""

    what: str
    messages: int
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Column:
    """Attempts in one period: successful ones are above the base line, others below it."""

    state: AttemptState
    attempts: int
    at: datetime
    x: float
    width: float
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Lane:
    """The attempts of one rule on one target."""

    first: TimelinePoint
    succeeded: int
    other: int
    columns: tuple[Column, ...]


def segments(counts: Mapping[Outcome, int], total: int, missing: int = 0) -> tuple[Segment, ...]:
    """Lay counts end to end; `total` is as long as the drawing is wide."""
    return tuple(_segments([(o.value, n) for o, n in counts.items()] + [(MISSING, missing)], total))


def _segments(parts: Sequence[tuple[str, int]], total: int) -> Iterator[Segment]:
    x = 0.0
    for what, messages in parts:
        if messages > 0:
            width = WIDTH * messages / total
            yield Segment(what, messages, round(x, 2), round(width, 2))
            x += width


def account_bar(account: Account) -> tuple[Segment, ...]:
    """Lay out the account: every outcome of the selected messages, and messages without one."""
    total = max(account.messages, account.booked) - account.not_selected
    return segments(account.outcomes, total, account.messages - account.booked)


def rule_bar(row: RuleRow, longest: int) -> tuple[Segment, ...]:
    """Draw one count against the largest of its table."""
    return segments({row.outcome: row.messages}, longest)


def lanes(points: Sequence[TimelinePoint]) -> tuple[Lane, ...]:
    """Draw attempts over the time from the first to the last of them, a lane to a rule's target."""
    if not points:
        return ()
    start = min(point.at for point in points)
    whole = (max(point.at for point in points) - start).total_seconds() or 1.0
    grouped: dict[tuple[object, ...], list[TimelinePoint]] = defaultdict(list)
    for point in points:
        grouped[point.rule, point.action, point.target_q, point.target_q_mgr].append(point)
    tallest = max(_heights(members, start, whole) for members in grouped.values())
    return tuple(_lane(members, start, whole, tallest) for members in grouped.values())


def _place(point: TimelinePoint, start: datetime, whole: float) -> tuple[int, bool]:
    stretch = int((point.at - start).total_seconds() / whole * (BINS - 1))
    return stretch, point.state is AttemptState.CONFIRMED


def _heights(points: Sequence[TimelinePoint], start: datetime, whole: float) -> int:
    heights: dict[tuple[int, bool], int] = defaultdict(int)
    for point in points:
        heights[_place(point, start, whole)] += point.attempts
    return max(heights.values())


def _lane(points: Sequence[TimelinePoint], start: datetime, whole: float, tallest: int) -> Lane:
    filled: dict[tuple[int, bool], float] = defaultdict(float)
    columns = []
    for point in points:
        stretch, succeeded = place = _place(point, start, whole)
        height = HALF * point.attempts / tallest
        y = HALF - filled[place] - height if succeeded else HALF + filled[place]
        filled[place] += height
        step = WIDTH / BINS
        columns.append(
            Column(
                point.state,
                point.attempts,
                point.at,
                round(stretch * step, 2),
                round(step * 0.8, 2),
                round(y, 2),
                round(height, 2),
            )
        )
    good = sum(point.attempts for point in points if point.state is AttemptState.CONFIRMED)
    return Lane(points[0], good, sum(p.attempts for p in points) - good, tuple(columns))


MOST_GROUPS: Final = 60
MOST_MESSAGES: Final = 100
MOST_LANES: Final = 16
"""How many entries of a kind the page lists; it counts the others, and the JSON lists all."""

VERDICTS: Final = {
    Verdict.OK: "Everything is handled",
    Verdict.EMPTY: "Nothing to do",
    Verdict.SETTLED: "Nothing new",
    Verdict.ATTENTION: "Needs attention",
    Verdict.UNFINISHED: "Not finished",
    Verdict.FAILED: "Failed",
}


def render_html(report: Report) -> str:
    """Return the page."""
    css = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    rules = report.rules[:MOST_GROUPS]

    return _template().render(
        report=report,
        css=Markup(css),  # noqa: S704 (a file of ours)
        csp=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
        verdict=VERDICTS[report.verdict],
        bar=account_bar(report.account) if report.account else (),
        rules=[list(rows) for _, rows in groupby(rules, key=lambda row: row.rule)],
        longest_rule=max((row.messages for row in rules), default=0),
        longest_cause=max((group.messages for group in report.causes), default=0),
        lanes=lanes(report.timeline),
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
        "visible": wording.visible,
        "moment": wording.moment,
        "span": wording.span,
        "number": "{:,}".format,
        "outcome": wording.outcome_in_words,
        "said": _said,
    }
    environment.globals |= {
        "classes": wording.CLASSES,
        "period": wording.period,
        "place": wording.place,
        "target": wording.target,
        "count": wording.count,
        "not_selected": wording.not_selected,
        "learned_in_words": wording.learned_in_words,
        "states": wording.STATES,
        "tried_in_words": tried_in_words,
        "destination_in_words": destination_in_words,
        "segments": segments,
        "rule_bar": rule_bar,
        "half": HALF,
    }
    return environment.get_template("report.html")


def _said(what: str) -> str:
    """Return what a segment of a bar counts, in words."""
    return wording.outcome_in_words(None if what == MISSING else Outcome(what))
