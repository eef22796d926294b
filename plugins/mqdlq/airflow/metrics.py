"""Send a run's numbers as Airflow's metrics, by StatsD or OpenTelemetry as Airflow is set up."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from airflow.sdk.configuration import conf
from airflow.sdk.observability.stats import Stats

from mqdlq.causes import CountedCause
from mqdlq.constants import reason_text
from mqdlq.handlers import Handler
from mqdlq.ledger import Ledger
from mqdlq.ledger.tables import Run
from mqdlq.model import Declared, Outcome, Trait

if TYPE_CHECKING:
    from mqdlq.reading.report.files import ReportFiles

REASONS: Final = 20
CAUSES: Final = 20
"""How many reasons or causes of a queue have their own label; the rarer ones share `other`."""
OTHER: Final = "other"
SEND_WITHIN_MS: Final = 5000
QUEUE: Final = ("handler", "qmgr", "queue")
"""Labels of metrics about a queue; `qmgr` and `queue` as in IBM's exporter for Prometheus."""

log = logging.getLogger(__name__)


class Metric(Declared):
    """A metric: its name, its unit, and its labels.

    docs/reference/metrics.md is written from these declarations and the docstrings below them, and
    the tests of deploy/observability check its files against them.
    """

    DEPTH = "mqdlq.depth", "messages", QUEUE
    """CURDEPTH when a run last looked."""
    MAX_DEPTH = "mqdlq.max_depth", "messages", QUEUE
    """MAXDEPTH when a run last looked."""
    OUTCOMES = "mqdlq.outcomes", "messages", (*QUEUE, "outcome")
    """Messages whose run ended with this outcome."""
    NEEDS_ATTENTION = "mqdlq.needs_attention", "messages", (*QUEUE, "outcome")
    """Messages that need attention after the last run that closed its account, by outcome."""
    MESSAGES = "mqdlq.messages", "messages", (*QUEUE, "reason")
    """Messages of the last snapshot, by the reason in their MQDLH: the names of 20 reason codes at
    most, `other` for the rarer ones, `none` without a valid MQDLH."""
    CAUSE_MESSAGES = "mqdlq.cause_messages", "messages", (*QUEUE, "reason", "cause_id")
    """Messages of the last snapshot, by cause: the `cause_id` of 20 causes at most, `other` for the
    rarer ones. A report names the cause of a `cause_id`."""
    NOT_ARCHIVED = "mqdlq.not_archived", "messages", QUEUE
    """Messages that the last run did not discard, because no archive copy could be made and read
    back."""
    OPEN_BREAKERS = "mqdlq.open_breakers", "breakers", QUEUE
    """Breakers that have not closed at the end of the last run and hold messages of its causes."""
    OLDEST_AGE = "mqdlq.oldest_age_seconds", "seconds", QUEUE
    """Age of the oldest message that the last run left on the queue; 0 if it left none."""
    RUN_DURATION = "mqdlq.run_duration_seconds", "seconds", QUEUE
    """Time from the last run's start to its report."""
    RUN_FAILED = "mqdlq.run_failed", "0 or 1", ("handler",)
    """1 if the last run failed or could not start."""
    RUN_UNACCOUNTED = "mqdlq.run_unaccounted", "0 or 1", QUEUE
    """1 if the account of the last run does not add up."""
    LAST_SUCCESS = "mqdlq.last_success_timestamp_seconds", "Unix time", QUEUE
    """End of the last successful run for the whole queue."""
    OVERDUE = "mqdlq.overdue_timestamp_seconds", "Unix time", QUEUE
    """Scheduled start number 3 after the last successful run; 0 if no clock starts the handler's
    runs."""
    APPROVALS_WAITING = "mqdlq.approvals_waiting", "runs", QUEUE
    """Runs of the handler that wait for an approval."""

    unit: str
    labels: tuple[str, ...]

    @property
    def kind(self) -> str:
        return "counter" if self is Metric.OUTCOMES else "gauge"

    @property
    def in_prometheus(self) -> str:
        return self.replace(".", "_") + ("_total" if self.kind == "counter" else "")


def emit_depth(run: Run, depth: int, max_depth: int) -> None:
    _gauge(Metric.DEPTH, depth, run)
    _gauge(Metric.MAX_DEPTH, max_depth, run)
    _flush()


def emit_approvals(
    run: Run, timeout: timedelta, ledger: Ledger, now: datetime, questions: Sequence[object]
) -> None:
    """Send how many runs of the handler wait for an approval; this one waits if it has questions.

    A question older than `timeout` counts as answered.
    """
    waiting = ledger.plans.count_open_questions(run, now - timeout) + bool(questions)
    _gauge(Metric.APPROVALS_WAITING, waiting, run)
    _flush()


def emit_start_failure(handler: str) -> None:
    """Send that a run failed before it knew its queue."""
    _emit_verdict(handler, failed=True)
    _flush()


def emit(run: Run, files: ReportFiles, handler: Handler, *, ledger: Ledger, now: datetime) -> None:
    """Send all metrics of a run that has ended, except MAXDEPTH.

    Called again for a run it counts its outcomes again. A run for named messages sends nothing
    about the messages it was not started for.
    """
    seen, look = ledger.accounts.of_run(run.run_id), ledger.runs.last_look(run.run_id)
    if run.run_type == "backfill":
        look = None  # at snapshots, not at the queue
    if (last := seen or look) is not None:
        _gauge(Metric.DEPTH, last.depth, run)
    outcomes = ledger.outcomes.counts(run.run_id)
    del outcomes[Outcome.NOT_SELECTED]
    for outcome, number in outcomes.items():
        Stats.incr(Metric.OUTCOMES, number, tags=_tags_of(run, outcome=outcome))
    _gauge(Metric.NOT_ARCHIVED, ledger.outcomes.count_without_archive_copy(run.run_id), run)
    _gauge(Metric.RUN_DURATION, (now - run.started_at).total_seconds(), run)
    _gauge(Metric.RUN_UNACCOUNTED, int(not files.adds_up), run)
    _emit_verdict(run.handler, failed=files.failed)
    _gauge(Metric.OPEN_BREAKERS, len(files.breakers), run)
    if not run.is_for_some:  # such a run knows too little of the queue
        is_empty = look is not None and not look.is_work and not look.depth
        _emit_about_the_queue(run, files, ledger, now, is_known=seen is not None or is_empty)
        if not files.failed and run.run_type != "backfill":
            _gauge(Metric.LAST_SUCCESS, now.timestamp(), run)
            overdue_at = handler.overdue_at(now)
            _gauge(Metric.OVERDUE, overdue_at.timestamp() if overdue_at else 0.0, run)
    emit_approvals(run, handler.approval.timeout, ledger, now, ())


def _emit_about_the_queue(
    run: Run, files: ReportFiles, ledger: Ledger, now: datetime, *, is_known: bool
) -> None:
    """Send reasons, messages that need attention, and the age of the oldest remaining one.

    `is_known` says that the run has seen its whole queue. A gauge keeps its value until another
    value is sent, so such a run also sends 0 for the reasons that only the run before it has met.
    """
    oldest = files.oldest_left
    by_reason = _by_label(files.reasons)
    by_cause = _by_cause(ledger.snapshots.causes(run.run_id))
    if is_known:
        before = ledger.alerts.run_before(run, is_closed=True)
        causes = ledger.snapshots.causes(before) if before is not None else []
        counted: Counter[int] = Counter()
        for one in causes:
            counted[one.cause.reason] += one.messages
        earlier = _by_label(counted)
        by_reason = {**dict.fromkeys(earlier, 0), **by_reason}
        by_cause = {**dict.fromkeys(_by_cause(causes), 0), **by_cause}
        for outcome in Outcome:
            if Trait.NEEDS_ATTENTION in outcome.traits:
                number = files.attention.get(outcome, 0)
                _gauge(Metric.NEEDS_ATTENTION, number, run, outcome=outcome)
    for name, number in by_reason.items():
        _gauge(Metric.MESSAGES, number, run, reason=name)
    for (name, cause_id), number in by_cause.items():
        _gauge(Metric.CAUSE_MESSAGES, number, run, reason=name, cause_id=cause_id)
    if oldest is not None or is_known:
        age = (now - oldest).total_seconds() if oldest else 0.0
        _gauge(Metric.OLDEST_AGE, max(0.0, age), run)


def _by_label(reasons: Mapping[int, int]) -> dict[str, int]:
    by_label: Counter[str] = Counter()
    for rank, (reason, number) in enumerate(Counter(reasons).most_common()):
        by_label[_name_of(reason) if rank < REASONS else OTHER] += number
    return dict(by_label)


def _by_cause(causes: Iterable[CountedCause]) -> dict[tuple[str, str], int]:
    by_cause: Counter[tuple[str, str]] = Counter()
    for rank, one in enumerate(causes):
        has_label = rank < CAUSES and one.cause.cause_id
        label = (_name_of(one.cause.reason), one.cause.cause_id) if has_label else (OTHER, OTHER)
        by_cause[label] += one.messages
    return dict(by_cause)


def _name_of(reason: int) -> str:
    return reason_text(reason).split(" ")[0] if reason else "none"


def _emit_verdict(handler: str, *, failed: bool) -> None:
    # A run that could not start may know no queue: this metric has the label `handler` only.
    Stats.gauge(Metric.RUN_FAILED, int(failed), tags={"handler": handler})


def _gauge(metric: Metric, value: float, run: Run, **labels: str) -> None:
    Stats.gauge(metric, value, tags=_tags_of(run, **labels))


def _tags_of(run: Run, **labels: str) -> dict[str, str]:
    """Return the tags of a run's metric.

    Names of queues may have a percent sign. Airflow drops a metric with such a tag for StatsD.
    """
    tags = {"handler": run.handler, "qmgr": run.queue_manager, "queue": run.queue, **labels}
    return {name: str(text).replace("%", "_") for name, text in tags.items()}


def _flush() -> None:
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
