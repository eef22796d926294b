"""Judge the state of a handler on its queue: what needs attention, and how sure the state is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Self

from mqdlq.ledger import SettledSince
from mqdlq.ledger.reading.later_outcomes import summed
from mqdlq.ledger.reading.overview import OpenApproval, SeenQueue, SeenRefusal, SeenRun
from mqdlq.model import DEPARTED
from mqdlq.stages.fleet.handler_files import HandlerFile
from mqdlq.stages.report import Verdict
from mqdlq.stages.report.wording import count, moment, settled_in_words, span

STALE_AFTER: Final = timedelta(days=1)
"""After this time, a queue that needed nothing when it was last checked is no longer green."""

REPORT_WITHIN: Final = timedelta(minutes=10)
"""The time from a run's last browse to its report; later, the report is missing."""


class QueueState(StrEnum):
    """State of a handler on its queue, in order of need: its words, and its tone.

    The tone is "bad", "warn", "unknown" or "good"; only "good" is shown in green.
    """

    BROKEN_FILE = "broken_file", "Handler file has errors", "bad"
    REFUSED = "refused", "Run could not start", "bad"
    UNACCOUNTED = "unaccounted", "Account does not add up", "bad"
    FAILED = "failed", "Run failed", "bad"
    INTERRUPTED = "interrupted", "Run ended without an account", "bad"
    APPROVAL = "approval", "Waits for approval", "warn"
    ATTENTION = "attention", "Needs attention", "warn"
    OVERDUE = "overdue", "Run is overdue", "warn"
    NO_FILE = "no_file", "Handler file is gone", "unknown"
    NO_REPORT = "no_report", "No verdict recorded", "unknown"
    NEVER_RAN = "never_ran", "Never ran", "unknown"
    STALE = "stale", "Not checked lately", "unknown"
    RUNNING = "running", "Running", "unknown"
    UNCHECKED = "unchecked", "Rules not checked yet", "unknown"
    HANDLED = "handled", "All handled", "good"
    SETTLED = "settled", "Settled messages only", "good"
    EMPTY = "empty", "Empty", "good"

    words: str
    tone: str

    def __new__(cls, value: str, words: str = "", tone: str = "") -> Self:
        """Make a member of its declaration; a lookup has the value only."""
        member = str.__new__(cls, value)
        member._value_, member.words, member.tone = value, words, tone
        return member


ORDER: Final = {state: rank for rank, state in enumerate(QueueState)}


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact about a handler's state, and a sentence about it."""

    state: QueueState
    text: str


@dataclass(frozen=True, slots=True)
class Known:
    """Everything that is known of a handler on one of its queues.

    `seen` is None if it never had a run. `file` is None if the rules directory has no such file;
    `has_files` says whether this process sees any handler files at all.
    """

    seen: SeenQueue | None
    refusal: SeenRefusal | None
    approvals: tuple[OpenApproval, ...]
    file: HandlerFile | None
    has_files: bool


def find_states(known: Known, now: datetime) -> list[Finding]:
    """Return what is to say of a handler on its queue, the most urgent state first."""
    found = [*_about_file(known), *_about_runs(known, now)]
    if known.seen is None and known.refusal is None:
        found.append(Finding(QueueState.NEVER_RAN, "The ledger has no run of it."))
    elif known.seen is not None:
        found.extend(_about_queue(known.seen, found, now))
    return sorted(found, key=lambda one: ORDER[one.state])


def _about_file(known: Known) -> Iterator[Finding]:
    if known.file is None:
        if known.has_files:
            text = "The rules directory has no such file, and the ledger has its runs."
            yield Finding(QueueState.NO_FILE, text)
    elif known.file.errors:
        yield Finding(QueueState.BROKEN_FILE, known.file.errors[0])
    elif known.file.rules is None:
        text = "There are many rules to check; load the page again to continue."
        yield Finding(QueueState.UNCHECKED, text)


def _about_runs(known: Known, now: datetime) -> Iterator[Finding]:
    last = known.seen.last if known.seen is not None else None
    refusal = known.refusal
    if refusal is not None and (last is None or refusal.at > last.started_at):
        yield Finding(QueueState.REFUSED, f"{moment(refusal.at)}: {refusal.why}")
    for approval in known.approvals:
        text = (
            f"A plan for {count(approval.messages, 'message')} waits since {moment(approval.at)}."
        )
        yield Finding(QueueState.APPROVAL, text)
    if last is None:
        return
    if last.verdict == Verdict.FAILED:
        state = QueueState.UNACCOUNTED if last.adds_up is False else QueueState.FAILED
        yield Finding(state, last.why or last.headline)
    elif not last.verdict:
        yield from _without_verdict(last, now)
    elif last.verdict == Verdict.UNFINISHED:
        yield Finding(QueueState.INTERRUPTED, last.headline)
    handler = known.file.handler if known.file is not None else None
    due = handler.overdue_at(last.started_at) if handler is not None else None
    if handler is not None and due is not None and now >= due:
        text = f"The last run started at {moment(last.started_at)}, by schedule {handler.schedule}."
        yield Finding(QueueState.OVERDUE, f"{text} Its DAG may be paused in Airflow.")


def _without_verdict(run: SeenRun, now: datetime) -> Iterator[Finding]:
    """Judge a run whose report is not recorded; a run that found no work has none."""
    if run.look_is_work is False or run.asked_at is not None:
        return
    if run.end_at is not None:
        if now - run.end_at <= REPORT_WITHIN:
            yield Finding(QueueState.RUNNING, "The report is being written.")
        else:
            text = "The run closed its account, and its report is not in the ledger."
            yield Finding(QueueState.NO_REPORT, text)
        return
    since = run.look_at or run.started_at
    if now - since <= timedelta(seconds=run.max_run_time_s) + REPORT_WITHIN:
        yield Finding(QueueState.RUNNING, f"A run is in progress since {moment(run.started_at)}.")
    else:
        text = f"The run of {moment(run.started_at)} has neither closed its account nor a report."
        yield Finding(QueueState.INTERRUPTED, text)


def _about_queue(seen: SeenQueue, found: list[Finding], now: datetime) -> Iterator[Finding]:
    attention, since = attention_of(seen), settled_since(seen)
    if attention:
        verb = "needs" if attention == 1 else "need"
        text = f"{count(attention, 'message')} {verb} attention{_as_of(seen, now)}."
        more = f" {settled_in_words(since)}." if since else ""
        yield Finding(QueueState.ATTENTION, text + more)
    if any(one.state.tone != "good" for one in found):
        return
    whole, saw = seen.whole, last_sight_of(seen)
    checked = checked_at(saw) if saw is not None else None
    if whole is None or checked is None:
        yield Finding(QueueState.NO_REPORT, "No run has looked at the whole queue.")
        return
    depth = depth_now(seen)
    if now - checked > STALE_AFTER:
        ago = span((now - checked).total_seconds())
        yield Finding(QueueState.STALE, f"Last checked {moment(checked)}, {ago} ago.")
    if depth == 0:
        yield Finding(QueueState.EMPTY, f"Empty, last checked {moment(checked)}.")
    elif whole.look_is_work is False:
        text = f"{count(depth or 0, 'settled message')}, last checked {moment(checked)}."
        yield Finding(QueueState.SETTLED, text)
    else:
        yield Finding(
            QueueState.HANDLED, f"{settled_in_words(since)}." if since else whole.headline
        )


def _as_of(seen: SeenQueue, now: datetime) -> str:
    """Return the age of a number that a newer run has not confirmed yet, "" if none has to."""
    counted, whole = seen.counted, seen.whole
    if counted is None or counted.end_at is None or counted == whole:
        return ""
    if whole is not None and whole.look_is_work is False:
        return ""
    ago = span((now - counted.end_at).total_seconds())
    return f" by the account of {moment(counted.end_at)}, {ago} ago"


def attention_of(seen: SeenQueue) -> int | None:
    """Return how many messages of a queue need attention, None if no account says so.

    They are those of the last account, less what later runs settled, and with what they opened.
    """
    if depth_now(seen) == 0:
        return 0
    counted = seen.counted
    if counted is None or counted.attention is None:
        return None
    known = [one for one in seen.later if one.before is not None]
    opened = sum(one.since.messages for one in known if one.is_open and not one.was_open)
    settled = sum(one.since.messages for one in known if one.is_settled)
    return max(counted.attention + opened - settled, 0)


def settled_since(seen: SeenQueue) -> tuple[SettledSince, ...]:
    """Return the runs that settled messages which needed attention by the last account."""
    return summed(one.since for one in seen.later if one.is_settled)


def oldest_of(seen: SeenQueue) -> datetime | None:
    """Return since when the oldest remaining message is on a queue; None: none, or unknown."""
    if depth_now(seen) == 0 or seen.counted is None:
        return None
    return seen.counted.oldest_left


def last_sight_of(seen: SeenQueue) -> SeenRun | None:
    """Return the newest run that saw the depth of a queue, None if none did."""
    runs = (seen.last, seen.whole, seen.before, seen.closed)
    return next((run for run in runs if run is not None and depth_of(run) is not None), None)


def depth_now(seen: SeenQueue) -> int | None:
    """Return the last known depth of a queue, less what left since the run that saw it looked."""
    saw = last_sight_of(seen)
    depth = depth_of(saw) if saw is not None else None
    if saw is None or depth is None or saw.end_depth is not None:
        return depth
    left = (
        one.since.messages
        for one in seen.later
        if one.since.run_id == saw.run_id and one.outcome in DEPARTED
    )
    return max(depth - sum(left), 0)


def depth_of(run: SeenRun) -> int | None:
    """Return the depth of the queue when a run last saw it; a backfill sees no queue."""
    if run.run_type == "backfill":
        return None
    depths = (run.end_depth, run.look_depth, run.taken)
    return next((depth for depth in depths if depth is not None), None)


def checked_at(run: SeenRun) -> datetime | None:
    """Return when a run last saw the depth of its queue."""
    if run.run_type == "backfill":
        return None
    return run.end_at or run.look_at or run.taken_at
