"""A run's facts in, Airflow's own metrics out: StatsD or OpenTelemetry, as Airflow is set up."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Final

from airflow.sdk.observability import stats

from mqdlq.alerts import outcomes_of
from mqdlq.constants import reason_text
from mqdlq.ledger import Ledger, Run, causes_of, last_look

REASONS: Final = 20
"""How many reasons of a queue have a label of their own; the rarer ones are `other` together."""


def emit(run: Run, ledger: Ledger, now: datetime) -> None:
    """Tell depth, outcomes, ages and duration of a run, by queue manager, queue and reason."""
    tags = {"handler": run.handler, "queue_manager": run.queue_manager, "queue": run.queue}
    seen, look = ledger.sighting(run.run_id), last_look(ledger, run.run_id)
    if seen is not None or look is not None:
        stats.gauge("mqdlq.depth", seen.depth if seen else look.depth if look else 0, tags=tags)
    for outcome, number in outcomes_of(run, ledger).items():
        stats.incr("mqdlq.outcomes", number, tags={**tags, "outcome": str(outcome)})
    causes = sorted(causes_of(ledger, run.run_id), key=lambda cause: -cause.messages)
    by_reason: Counter[str] = Counter()
    for rank, cause in enumerate(causes):
        name = reason_text(cause.reason).split(" ")[0] if cause.reason else "none"
        by_reason[name if rank < REASONS else "other"] += cause.messages
    for reason, number in by_reason.items():
        stats.gauge("mqdlq.messages", number, tags={**tags, "reason": reason})
    oldest = [cause.oldest for cause in causes if cause.oldest]
    if oldest:
        age = max(0.0, (now - min(oldest)).total_seconds())
        stats.gauge("mqdlq.oldest_age_seconds", age, tags=tags)
    stats.timing("mqdlq.run_duration", now - run.started_at, tags=tags)
