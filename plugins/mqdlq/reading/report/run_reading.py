"""Read what report and page say of a run alike, by counts of the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from mqdlq.causes import generalize
from mqdlq.controls.loops.round_trips import return_rows
from mqdlq.controls.ramp.report import ramp_rows
from mqdlq.controls.repair.changes import repair_rows
from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.run_messages import RunCounts, TriedCount
from mqdlq.model import AttemptState
from mqdlq.reading.report.report_records import Account, RunReading, TimelinePoint
from mqdlq.reading.report.report_sources import Sources
from mqdlq.reading.report.rule_counts import failed_rules, rule_rows
from mqdlq.reading.report.verdict import Judgement

BINS: Final = 60
"""The number of equal periods into which the time of a run is divided."""


class Timeline:
    """Counts attempts by rule, target, state and period."""

    def __init__(self, span: tuple[datetime, datetime] | None) -> None:
        """Take in nothing yet; `span` is when the attempts were made, None without any."""
        self._points: dict[tuple[object, ...], TimelinePoint] = {}
        self._span = span

    def add(self, attempt: TriedCount) -> None:
        """Take in a number of equal attempts."""
        start, end = self._span or (attempt.at, attempt.at)
        whole = (end - start).total_seconds() or 1.0
        stretch = int((attempt.at - start).total_seconds() / whole * (BINS - 1))
        target_q = generalize(attempt.target_q)
        lane = (attempt.rule, attempt.action, target_q, attempt.target_q_mgr)
        key = (*lane, attempt.state, attempt.mqrc, stretch)
        point = self._points.get(key)
        if point is None:
            point = TimelinePoint(attempt.at, *lane, attempt.state, attempt.mqrc, 0)
        at, attempts = min(point.at, attempt.at), point.attempts + attempt.attempts
        self._points[key] = replace(point, at=at, attempts=attempts)

    def points(self) -> tuple[TimelinePoint, ...]:
        """Return the points, lane by lane, each from its beginning."""
        points = self._points.values()
        return tuple(sorted(points, key=lambda p: (p.rule, p.target_q, p.target_q_mgr, p.at)))


def read_run(
    run_id: str,
    sources: Sources,
    counts: RunCounts,
    judgement: Judgement,
    account: Account | None,
    *,
    ledger: Ledger,
) -> RunReading:
    """Read a run; no message is read one by one."""
    verdict, headline, why = judgement
    tried = ledger.run_messages.tried(run_id)
    rules = rule_rows(counts.booked, sources)
    return RunReading(
        verdict=verdict,
        headline=headline,
        why=why,
        account=account,
        rules=rules,
        failed_rules=failed_rules(tried, rules, sources, ledger),
        learned=tuple(ledger.outcomes.learned_counts(run_id)),
        timeline=_points(tried, ledger.attempts.between(run_id)),
        attempts=_by_state(tried),
        ramps=ramp_rows(sources.run, ledger, sources.settled_at),
        returns=return_rows(sources.run, ledger),
        repairs=repair_rows(sources.run, ledger),
        evidence=tuple(ledger.evidence.of_run(run_id)),
    )


def _points(
    tried: Sequence[TriedCount], span: tuple[datetime, datetime] | None
) -> tuple[TimelinePoint, ...]:
    timeline = Timeline(span)
    for one in tried:
        timeline.add(one)
    return timeline.points()


def _by_state(tried: Sequence[TriedCount]) -> dict[AttemptState, int]:
    states: Counter[AttemptState] = Counter()
    for one in tried:
        states[one.state] += one.attempts
    return {state: states[state] for state in AttemptState if states[state]}
