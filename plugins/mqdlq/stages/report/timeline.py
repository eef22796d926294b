"""Attempts over time: every attempt of a run in, points to draw out."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from mqdlq.ledger import Attempt
from mqdlq.stages.report.records import TimelinePoint

BINS: Final = 60
"""Into how many stretches of equal length the time of a run is cut."""


class Timeline:
    """Attempts of one rule and target that came to the same state in the same stretch, counted."""

    def __init__(self, span: tuple[datetime, datetime] | None) -> None:
        """Take in nothing yet; `span` is when the attempts were made, None without any."""
        self._points: dict[tuple[object, ...], TimelinePoint] = {}
        self._span = span

    def add(self, attempt: Attempt) -> None:
        """Take in an attempt."""
        start, end = self._span or (attempt.at, attempt.at)
        whole = (end - start).total_seconds() or 1.0
        stretch = int((attempt.at - start).total_seconds() / whole * (BINS - 1))
        lane = (attempt.rule, attempt.action, attempt.target_q, attempt.target_q_mgr)
        key = (*lane, attempt.state, attempt.mqrc, stretch)
        point = self._points.get(key)
        if point is None:
            point = TimelinePoint(attempt.at, *lane, attempt.state, attempt.mqrc, 0)
        at, attempts = min(point.at, attempt.at), point.attempts + 1
        self._points[key] = replace(point, at=at, attempts=attempts)

    def points(self) -> tuple[TimelinePoint, ...]:
        """Return the points, lane by lane, each from its beginning."""
        points = self._points.values()
        return tuple(sorted(points, key=lambda p: (p.rule, p.target_q, p.target_q_mgr, p.at)))
