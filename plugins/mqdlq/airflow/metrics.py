"""Send a run's numbers as Airflow's metrics, by StatsD or OpenTelemetry as Airflow is set up."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final, Self

from airflow.providers.common.compat.sdk import Stats, conf

from mqdlq.constants import reason_text
from mqdlq.ledger import Ledger, Run
from mqdlq.model import Outcome

REASONS: Final = 20
"""How many reasons of a queue have their own label; the rarer ones share `other`."""

SEND_WITHIN_MS: Final = 5000

log = logging.getLogger(__name__)


class Metric(StrEnum):
    """A metric: its name, its kind, and its meaning; docs/reference/metrics.md lists them."""

    DEPTH = "mqdlq.depth", "gauge", "Messages on the queue when the run last looked at it."
    OUTCOMES = (
        "mqdlq.outcomes",
        "counter",
        "Messages of the run that ended with the outcome in the tag `outcome`.",
    )
    MESSAGES = (
        "mqdlq.messages",
        "gauge",
        (
            "Messages of the run's snapshot, by the tag `reason`: the name of a reason code"
            f" ({REASONS} at most), `other` for the rarer ones, `none` without a valid MQDLH."
        ),
    )
    OLDEST_AGE = (
        "mqdlq.oldest_age_seconds",
        "gauge",
        "Age of the oldest message that remains on the queue, in seconds; 0 if none remains.",
    )
    RUN_DURATION = "mqdlq.run_duration", "timer", "Time from the run's start to its report."

    kind: str
    meaning: str

    def __new__(cls, value: str, kind: str, meaning: str) -> Self:
        """Make a member of its declaration."""
        member = str.__new__(cls, value)
        member._value_, member.kind, member.meaning = value, kind, meaning
        return member


def emit(
    run: Run,
    ledger: Ledger,
    now: datetime,
    reasons: Mapping[int, int],
    oldest_left: datetime | None,
) -> None:
    """Send depth, outcomes, ages and duration of a run, by queue manager, queue and reason.

    `reasons` counts the messages of the run's snapshot by the reason in their MQDLH (0 without
    one); `oldest_left` is since when the oldest that stays is there, None where none stays. Called
    again for a run it counts its outcomes again. A run for named messages sends nothing about the
    messages it was not started for.
    """
    tags = {"handler": run.handler, "queue_manager": run.queue_manager, "queue": run.queue}
    seen, look = ledger.accounts.of_run(run.run_id), ledger.runs.last_look(run.run_id)
    if seen is not None:
        Stats.gauge(Metric.DEPTH, seen.depth, tags=tags)
    elif look is not None and run.run_type != "backfill":  # which looks at no queue
        Stats.gauge(Metric.DEPTH, look.depth, tags=tags)
    outcomes = ledger.outcomes.counts(run.run_id)
    del outcomes[Outcome.NOT_SELECTED]
    for outcome, number in outcomes.items():
        Stats.incr(Metric.OUTCOMES, number, tags={**tags, "outcome": str(outcome)})
    Stats.timing(Metric.RUN_DURATION, now - run.started_at, tags=tags)
    if not run.message_keys:  # such a run knows too little of the queue
        _emit_about_the_queue(reasons, oldest_left, is_closed=seen is not None, now=now, tags=tags)
    _send()


def _emit_about_the_queue(
    reasons: Mapping[int, int],
    oldest_left: datetime | None,
    *,
    is_closed: bool,
    now: datetime,
    tags: dict[str, str],
) -> None:
    """Send how many messages have which reason, and the age of the oldest remaining one."""
    by_reason: Counter[str] = Counter()
    for rank, (reason, number) in enumerate(Counter(reasons).most_common()):
        name = reason_text(reason).split(" ")[0] if reason else "none"
        by_reason[name if rank < REASONS else "other"] += number
    for name, number in by_reason.items():
        Stats.gauge(Metric.MESSAGES, number, tags={**tags, "reason": name})
    if oldest_left is not None or is_closed:
        age = (now - oldest_left).total_seconds() if oldest_left else 0.0
        Stats.gauge(Metric.OLDEST_AGE, max(0.0, age), tags=tags)


def _send() -> None:
    """Flush OpenTelemetry, if it is on; StatsD has already sent its metrics.

    Airflow ends a task's process without waiting for the next export, a minute later: the task's
    metrics would be lost.
    """
    if not conf.getboolean("metrics", "otel_on", fallback=False):
        return
    from opentelemetry import metrics  # noqa: PLC0415 (only where it is on)

    provider = metrics.get_meter_provider()
    if hasattr(provider, "force_flush") and not provider.force_flush(timeout_millis=SEND_WITHIN_MS):
        log.warning("the metrics of this run could not be sent by OpenTelemetry [MQDLQ-806]")
