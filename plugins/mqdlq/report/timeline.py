"""Attempts over time: every attempt of a run in, points to draw out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from mqdlq.ledger import Attempt
from mqdlq.report.records import TimelinePoint

BINS: Final = 60
"""Into how many stretches of equal length the time of a run is cut."""


def timeline(attempts: Sequence[Attempt]) -> tuple[TimelinePoint, ...]:
    """Gather attempts of one rule and target that came to the same state in the same stretch."""
    if not attempts:
        return ()
    times = [attempt.at for attempt in attempts]
    start, whole = min(times), (max(times) - min(times)).total_seconds() or 1.0
    groups: dict[tuple[object, ...], list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        stretch = int((attempt.at - start).total_seconds() / whole * (BINS - 1))
        lane = (attempt.rule, attempt.action, attempt.target_q, attempt.target_q_mgr)
        groups[*lane, attempt.state, attempt.mqrc, stretch].append(attempt)
    points = [_point(group) for group in groups.values()]
    return tuple(sorted(points, key=lambda p: (p.rule, p.target_q, p.target_q_mgr, p.at)))


def _point(group: list[Attempt]) -> TimelinePoint:
    first = group[0]
    at: datetime = min(attempt.at for attempt in group)
    return TimelinePoint(
        at=at,
        rule=first.rule,
        action=first.action,
        target_q=first.target_q,
        target_q_mgr=first.target_q_mgr,
        state=first.state,
        reason=first.mqrc,
        attempts=len(group),
    )
