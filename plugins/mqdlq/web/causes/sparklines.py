"""Draw a series of numbers as bars, with the same numbers as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from mqdlq.stages.report.wording import moment

WIDTH: Final = 100.0
HEIGHT: Final = 20.0
_LEAST: Final = 1.5
"""The height of the smallest bar, so that one message can be seen beside a million."""
_SPOKEN: Final = 8


@dataclass(frozen=True, slots=True)
class Point:
    """A number at a time; None if it is not known."""

    at: datetime
    number: int | None


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle in a drawing of `WIDTH` by `HEIGHT`, and its meaning in words."""

    x: float
    y: float
    width: float
    height: float
    title: str


@dataclass(frozen=True, slots=True)
class Sparkline:
    """Bars, one for each known number, and the last numbers in words."""

    bars: tuple[Bar, ...]
    text: str


def sparkline(points: Sequence[Point]) -> Sparkline:
    """Draw numbers from the oldest to the newest; the tallest bar is the largest number."""
    known = [point.number for point in points if point.number is not None]
    largest = max(known, default=0)
    step = WIDTH / max(len(points), 1)
    bars = []
    for place, point in enumerate(points):
        if point.number is None:
            continue
        height = max(HEIGHT * point.number / largest, _LEAST) if point.number else 0.5
        bars.append(
            Bar(
                round(place * step, 2),
                round(HEIGHT - height, 2),
                round(step * 0.8, 2),
                round(height, 2),
                f"{point.number:,} at {moment(point.at)}",
            )
        )
    return Sparkline(tuple(bars), _say(points))


def _say(points: Sequence[Point]) -> str:
    if not points:
        return "no runs"
    last = points[-_SPOKEN:]
    numbers = ", ".join("?" if one.number is None else f"{one.number:,}" for one in last)
    runs = "the last run" if len(last) == 1 else f"the last {len(last)} runs, oldest first"
    return f"{runs}: {numbers}"
