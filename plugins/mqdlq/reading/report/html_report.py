"""Render a report as one self-contained HTML page.

The page has no script and loads nothing; its Content-Security-Policy forbids both. Text from a
message is escaped twice: `words.visible` makes it visible, then the template escapes it. Drawings
are stretched to the width of the page, so they consist of rectangles.
"""

import base64
import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from mqdlq import words
from mqdlq.constants import reason_text
from mqdlq.controls.evidence.report import evidence_in_words
from mqdlq.controls.loops.round_trips import return_in_words
from mqdlq.controls.ramp.report import ramp_in_words
from mqdlq.controls.repair.changes import repair_in_words
from mqdlq.ledger.reading.run_messages import AttemptCount
from mqdlq.model import AttemptState, Outcome
from mqdlq.reading import run
from mqdlq.reading.page_paths import Paths
from mqdlq.reading.report import building, groups
from mqdlq.reading.report.building import Report, control_lines
from mqdlq.reading.run import BINS, Account

WIDTH: Final = 1000.0
HALF: Final = 20.0
"""The height of a lane above its base line, and below."""

MISSING: Final = "missing"


Drawn = dict[str, Any]
"""A part of a drawing for a template: what it stands for, and where it is."""


def segments(counts: Mapping[Outcome, int], total: int, missing: int = 0) -> list[Drawn]:
    """Return the parts of a bar, each an outcome or "missing" with its beginning and length."""
    drawn, x = [], 0.0
    for what, messages in (*counts.items(), (MISSING, missing)):
        if messages > 0:
            width = WIDTH * messages / total
            place = {"x": round(x, 2), "width": round(width, 2)}
            drawn.append({"what": str(what), "messages": messages, **place})
            x += width
    return drawn


def account_bar(account: Account) -> list[Drawn]:
    """Lay out the account: every outcome of the selected messages, and messages without one."""
    total = max(account.messages, account.booked) - account.not_selected
    return segments(account.outcomes, total, account.messages - account.booked)


def lanes(points: Sequence[AttemptCount]) -> list[Drawn]:
    """Draw attempts over the time from the first to the last of them, a lane to a rule's target.

    The columns of successful ones are above the base line, those of others below it.
    """
    if not points:
        return []
    start = min(point.at for point in points)
    whole = (max(point.at for point in points) - start).total_seconds() or 1.0
    placed: dict[tuple[object, ...], list[tuple[AttemptCount, tuple[int, bool]]]]
    placed = defaultdict(list)
    heights: Counter[tuple[object, ...]] = Counter()
    for point in points:
        period = int((point.at - start).total_seconds() / whole * (BINS - 1))
        column = (period, point.state is AttemptState.CONFIRMED)
        lane = (point.rule, point.action, point.target_q, point.target_q_mgr)
        placed[lane].append((point, column))
        heights[lane, column] += point.attempts
    tallest = max(heights.values())
    return [_lane(members, HALF / tallest) for members in placed.values()]


def _lane(placed: Sequence[tuple[AttemptCount, tuple[int, bool]]], scale: float) -> Drawn:
    filled: dict[tuple[int, bool], float] = defaultdict(float)
    tally, columns, step = [0, 0], [], WIDTH / BINS
    for point, column in placed:
        period, succeeded = column
        height = point.attempts * scale
        y = HALF - filled[column] - height if succeeded else HALF + filled[column]
        filled[column] += height
        tally[succeeded] += point.attempts
        columns.append(
            {
                "state": point.state,
                "attempts": point.attempts,
                "at": point.at,
                "x": round(period * step, 2),
                "width": round(step * 0.8, 2),
                "y": round(y, 2),
                "height": round(height, 2),
            }
        )
    counted = {"succeeded": tally[True], "other": tally[False]}
    return {"first": placed[0][0], **counted, "columns": columns}


# The Jinja environment of the HTML components, for the report and for other pages.
#
# The directory `components` has macros for outcomes, messages, rules, causes and attempts, and
# `components.css` with the styles that they need.

COMPONENTS: Final = Path(__file__).with_name("components")


def component_environment(*directories: Path) -> Environment:
    """Return an environment that finds templates in these directories and among the components.

    All text is escaped, and a name that is not defined is an error.
    """
    environment = Environment(
        loader=FileSystemLoader([*directories, COMPONENTS]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": "{:,}".format,
        "outcome": _outcome,
        "reason": reason_text,
        **_by_name(words.visible, words.moment, words.span, words.stop_in_words),
        **_by_name(evidence_in_words, ramp_in_words, repair_in_words, return_in_words),
    }
    environment.globals |= {
        "classes": words.CLASSES,
        "half": HALF,
        **_by_name(words.cause_in_words, words.count, words.destination_of, words.period),
        **_by_name(words.place, words.target, words.not_selected, words.untouched_in_words),
        **_by_name(words.learned_in_words, run.failed_in_words, segments, groups.act_address),
        **_by_name(building.expiry_in_words, building.expired_in_words, groups.origin_in_words),
        **_by_name(groups.tried_in_words, groups.destination_in_words),
    }
    return environment


def _by_name(*functions: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    return {one.__name__: one for one in functions}


def _outcome(value: Outcome | str | None) -> str:
    """Return an outcome in words, also one by its value in the ledger, and "missing"."""
    return words.outcome_in_words(None if value in {None, MISSING} else Outcome(value))


# The page.

MOST_GROUPS: Final = 60
MOST_MESSAGES: Final = 100
MOST_LANES: Final = 16
"""How many entries of a kind the page lists; it counts the others, and the JSON lists all."""


def security_policy() -> str:
    """Return the Content-Security-Policy of the page: its own styles, and nothing else."""
    digest = base64.b64encode(hashlib.sha256(_styles().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def render_html(report: Report, paths: Paths | None = None) -> str:
    css = _styles()
    rules = report.rules[:MOST_GROUPS]
    return _template().render(
        report=report,
        css=Markup(css),  # noqa: S704 (files of ours)
        csp=security_policy(),
        paths=paths,
        verdict=report.verdict.words,
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
    files = (COMPONENTS / "components.css", Path(__file__).with_name("report.css"))
    return "".join(file.read_text(encoding="utf-8") for file in files)


@cache
def _template() -> Template:
    return component_environment(Path(__file__).parent).get_template("report.html")
