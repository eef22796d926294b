"""Decide what a run does after an inspection of its queue: begin, wait, skip or fail.

This module reads no clock, queue or ledger; `inspect_queue` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from mqdlq.constants import TRANSIENT
from mqdlq.errors import MqDlqError, QueueManagerError
from mqdlq.handlers import Handler
from mqdlq.ledger.tables.runs import Run
from mqdlq.stages.run_options import RunOptions
from mqdlq.stages.sense.work_detection import Watch

FAILURE_DELAY: Final = timedelta(minutes=1)
"""How long a run with schedule @continuous delays its failure: Airflow starts the next at once."""


@dataclass(frozen=True, slots=True)
class Proceed:
    """The run has work because of `why`; `depth` counts messages, or a backfill's snapshots."""

    depth: int
    why: str


@dataclass(frozen=True, slots=True)
class Skip:
    """The run has nothing to do; an empty `why` means that its queue has no new work."""

    depth: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class Fail:
    """The run has waited for its queue manager up to the limit."""

    error: QueueManagerError


@dataclass(frozen=True, slots=True)
class WaitForMessages:
    """Wait until the depth changes, the rules change, or a moment comes.

    `known` messages are settled and no work. `rules` is the table that the run names, None for the
    handler's own; `rules_digest` is the digest of the rules read, "" if they are fixed for the run.
    `due_at` is when something is due for the settled messages, `due_why` says what is due; `until`
    is the end of the wait, None for never. Both times are aware. `event_queue` is browsed for depth
    events of the queue, unless it is "".
    """

    conn_id: str
    queue_manager: str
    queue: str
    known: int
    handler: str
    rules: str | None
    rules_digest: str
    due_at: datetime | None
    due_why: str
    until: datetime | None
    event_queue: str = ""


@dataclass(frozen=True, slots=True)
class WaitForQueueManager:
    """Wait until a queue manager answers, or until `until` (aware); "" is the connection's own.

    `waited` is the event of the interrupted wait for messages, or None.
    """

    conn_id: str
    queue_manager: str
    until: datetime
    waited: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Pause:
    """Do nothing until a moment (aware), then inspect the queue again."""

    until: datetime


Decision = Proceed | Skip | Fail | WaitForMessages | WaitForQueueManager | Pause


@dataclass(frozen=True, slots=True)
class EarlierWait:
    """The waits of a run before an inspection; empty before the first one.

    `event` is the event of its wait for messages, `patience` the end of its wait for the queue
    manager. If `is_last`, the run does not wait after an error.
    """

    event: Mapping[str, Any] | None = None
    patience: datetime | None = None
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """The result of an inspection: the depth of the run's queue, and why there is work, or "".

    `is_recorded` says that the run has begun before. `interrupted_at` is when the last run of a
    handler with schedule @continuous found work without settling its account afterwards.
    `max_depth` is the queue's MAXDEPTH.
    """

    run: Run
    depth: int
    why: str
    watch: Watch
    is_recorded: bool = False
    interrupted_at: datetime | None = None
    max_depth: int | None = None


def decide_after_inspection(
    facts: QueueFacts, handler: Handler, options: RunOptions, waited: EarlierWait, now: datetime
) -> Decision:
    """Return the decision for a run that could inspect its queue."""
    run, watch = facts.run, facts.watch
    until = find_wait_end(run, handler, waited, now)
    if facts.why:
        # A task that failed in the last run would fail again at once.
        breath = facts.interrupted_at + FAILURE_DELAY if facts.interrupted_at else now
        return Pause(breath) if breath > now else Proceed(facts.depth, facts.why)
    if until is not None and until <= now:
        return Skip(facts.depth)
    # The rules of a recorded run are fixed; rules given as an action are in no file.
    is_fixed = bool(options.action) or facts.is_recorded
    return WaitForMessages(
        conn_id=handler.connection,
        queue_manager=run.queue_manager,
        queue=run.queue,
        known=watch.known,
        handler=handler.name,
        rules=options.rules,
        rules_digest="" if is_fixed else run.rules_digest,
        due_at=watch.due_at,
        due_why=watch.due_why,
        until=until,
        event_queue=handler.evidence.depth_events or "",
    )


def decide_without_answer(
    error: QueueManagerError,
    handler: Handler,
    place: tuple[str, timedelta],
    waited: EarlierWait,
    now: datetime,
) -> Decision:
    """Return the decision for a run whose inspection failed; raises the error if no wait helps.

    `place` is the queue manager's name and the longest wait, as from `find_queue_manager_wait`.
    """
    queue_manager, longest = place
    until = waited.patience or now + longest
    if until > now and not waited.is_last and error.reason in TRANSIENT:
        return WaitForQueueManager(handler.connection, queue_manager, until, waited.event)
    if waited.patience is not None and error.reason in TRANSIENT:
        # The wait has reached its limit; a further attempt of the task would wait as long again.
        return Fail(error)
    raise error


def delay_failure(error: MqDlqError, handler: Handler, now: datetime) -> Pause:
    """Return how long a run that cannot begin delays its failure; raises the error if it does not.

    With schedule @continuous Airflow starts the next run at once, and that would fail, too.
    """
    if not handler.is_continuous:
        raise error
    return Pause(now + FAILURE_DELAY)


def find_wait_end(
    run: Run, handler: Handler, waited: EarlierWait, now: datetime
) -> datetime | None:
    """Return when a run stops waiting, None for never; a resumed wait keeps its end."""
    if run.wait_s == 0:
        return now
    if waited.event is not None:
        until = waited.event["until"]
        return datetime.fromisoformat(until) if until else None
    if run.wait_s is None:
        return handler.next_start(now)
    return now + timedelta(seconds=run.wait_s)
