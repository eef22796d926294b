"""What a run does after a look at its queue: begin its work, wait, skip it, or fail.

Nothing here reads a clock, a queue or the ledger; `looking` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from mqdlq.constants import TRANSIENT
from mqdlq.errors import MqDlqError, QueueManagerError
from mqdlq.handlers import Handler
from mqdlq.ledger import Run
from mqdlq.stages.run_options import RunOptions
from mqdlq.stages.sense.work_detection import Watch

BREATH: Final = timedelta(minutes=1)
"""How long a run with schedule @continuous takes to fail: Airflow starts the next one at once."""


@dataclass(frozen=True, slots=True)
class Proceed:
    """The run has work, and `why`; `depth` is the number of messages, or a backfill's snapshots."""

    depth: int
    why: str


@dataclass(frozen=True, slots=True)
class Skip:
    """The run has nothing to do; no words mean that its queue holds no news."""

    depth: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class Fail:
    """The run has waited for its queue manager for as long as it may."""

    error: QueueManagerError


@dataclass(frozen=True, slots=True)
class WaitForMessages:
    """Wait for a depth that is news, for other rules, or until a moment.

    `known` messages are settled and no news. `rules` is the table that the run names, None for the
    handler's own; `rules_digest` is that of the rules it has read, "" where these hold to its end.
    `due_at` is when something is due for the settled messages, `due_why` says what; `until` is when
    the run gives up, None for never. Both are aware.
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


@dataclass(frozen=True, slots=True)
class WaitForQueueManager:
    """Wait until a queue manager answers, "" for the connection's own, or until a moment, aware.

    `waited` is the event of the wait for messages that it interrupts, if any.
    """

    conn_id: str
    queue_manager: str
    until: datetime
    waited: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Pause:
    """Do nothing until a moment, aware, then look again."""

    until: datetime


Step = Proceed | Skip | Fail | WaitForMessages | WaitForQueueManager | Pause


@dataclass(frozen=True, slots=True)
class Waited:
    """What a run has waited for before a look; nothing before its first one.

    `event` is that of its wait for messages, `patience` the end of its wait for the queue manager.
    With `is_last` an error is not waited out.
    """

    event: Mapping[str, Any] | None = None
    patience: datetime | None = None
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """What a look has found: the depth of the run's queue, and why that is work, or "".

    `is_recorded` says that the run has begun before, `broken_off` when the last run of a handler
    with schedule @continuous saw its work, if it has left no account of the queue.
    """

    run: Run
    depth: int
    why: str
    watch: Watch
    is_recorded: bool = False
    broken_off: datetime | None = None


def after_look(
    facts: Facts, handler: Handler, options: RunOptions, waited: Waited, now: datetime
) -> Step:
    """Return the step of a run that could look at its queue."""
    run, watch = facts.run, facts.watch
    until = end_of_wait(run, handler, waited, now)
    if facts.why:
        # What failed after the first task would fail again at once, and again.
        breath = facts.broken_off + BREATH if facts.broken_off else now
        return Pause(breath) if breath > now else Proceed(facts.depth, facts.why)
    if until is not None and until <= now:
        return Skip(facts.depth)
    # The rules of a run that has begun hold to its end; given ones are in no file.
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
    )


def after_no_answer(
    error: QueueManagerError,
    handler: Handler,
    place: tuple[str, timedelta],
    waited: Waited,
    now: datetime,
) -> Step:
    """Return the step of a run whose look has failed; raise the error if waiting does not help.

    `place` is the queue manager's name and how long to wait for it at most (`patience`).
    """
    queue_manager, longest = place
    until = waited.patience or now + longest
    if until > now and not waited.is_last and error.reason in TRANSIENT:
        return WaitForQueueManager(handler.connection, queue_manager, until, waited.event)
    if waited.patience is not None and error.reason in TRANSIENT:
        # It has waited for as long as it may; further attempts would wait as long again.
        return Fail(error)
    raise error


def before_failing(error: MqDlqError, handler: Handler, now: datetime) -> Pause:
    """Return how long a run that cannot begin waits before it fails; raise the error if not at all.

    With schedule @continuous Airflow starts the next run at once, which would fail, too.
    """
    if not handler.is_continuous:
        raise error
    return Pause(now + BREATH)


def end_of_wait(run: Run, handler: Handler, waited: Waited, now: datetime) -> datetime | None:
    """Return when a run waits no more, None for never: a wait that is resumed keeps its end."""
    if run.wait_s == 0:
        return now
    if waited.event is not None:
        until = waited.event["until"]
        return datetime.fromisoformat(until) if until else None
    if run.wait_s is None:
        return handler.next_start(now)
    return now + timedelta(seconds=run.wait_s)
