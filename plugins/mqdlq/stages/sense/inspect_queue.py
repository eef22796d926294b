"""Inspect a run's queue by MQINQ, and decide what the run does: begin, wait, skip or fail."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import PurePath
from typing import Any, Final

from mqdlq.constants import TRANSIENT
from mqdlq.errors import MqDlqError, QueueManagerError
from mqdlq.failures import describe
from mqdlq.handlers import Handler
from mqdlq.ledger.tables import Look, Run
from mqdlq.resources import Resources
from mqdlq.stages.run_options import RunOptions
from mqdlq.stages.sense.start_run import (
    BackfillWindow,
    find_queue_manager_wait,
    find_snapshots_in_window,
    inquire_depth,
    prepare_run,
    record_run,
)
from mqdlq.stages.sense.work_detection import (
    REQUESTED_RUN_TYPES,
    Watch,
    find_watch,
    has_unfinished_work,
)

FAILURE_DELAY: Final = timedelta(minutes=1)
"""How long a run with schedule @continuous delays its failure: Airflow starts the next at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitForMessages(Watch):
    """Wait until the watched depth changes, the rules change, something is due, or until `until`.

    `rules` is the table that the run names, None for the handler's own; `rules_digest` is the
    digest of the rules read, "" if they are fixed for the run. `until` is aware, None for never.
    `event_queue` is browsed for depth events of the queue, unless it is "".
    """

    conn_id: str
    queue_manager: str
    queue: str
    handler: str
    rules: str | None
    rules_digest: str
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


Decision = Look | QueueManagerError | WaitForMessages | WaitForQueueManager | datetime
"""What a run does after an inspection.

A `Look` ends the wait: the run begins if it `is_work`, and otherwise has nothing to do; its depth
counts messages, or a backfill's snapshots. With an error the run has waited for its queue manager
up to the limit, and fails. Until a moment (aware) it does nothing, and then inspects again.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SenseResources(Resources):
    """The resources of an inspection.

    The stage itself sleeps for waits shorter than `min_deferred_wait_s`. `window` is a backfill's
    interval. `is_watched` means that the run is in the foreground: no approval can be requested,
    and the run begins at once. `awaits_approval` takes a DAG run's id and returns whether that run
    waits for an approval now. `warnings` returns the warnings to log before a run's first
    inspection. `report_depth` takes the run and its queue's CURDEPTH and MAXDEPTH.
    """

    run_id: str
    handler: Handler
    options: RunOptions
    min_deferred_wait_s: float
    awaits_approval: Callable[[str], bool]
    warnings: Callable[[Run], Iterable[str]]
    report_depth: Callable[[Run, int, int], None]
    window: BackfillWindow | None = None
    full_snapshot: bool = False
    is_watched: bool = False

    def seconds_until(self, moment: datetime | None) -> float:
        return (moment - self.clock()).total_seconds() if moment else math.inf


def inspect_queue(
    sensing: SenseResources,
    event: Mapping[str, Any] | None = None,
    patience: datetime | None = None,
) -> Decision:
    """Inspect the run's queue; record the run and the inspection when the wait is over.

    `event` is that of an earlier wait for messages, `patience` the end of an earlier wait for the
    queue manager. A backfill looks for the snapshots of its window instead. A second call finds the
    run as recorded, with the rules of the first call. Raises what `prepare_run` raises, and
    OlderLedgerError if the ledger is older than the lake, except in a dry run.
    """
    _check_ledger(sensing)
    is_last = False
    while True:
        try:
            step = _inspect_once(sensing, event)
        except QueueManagerError as error:
            step = decide_without_answer(
                error,
                sensing.handler,
                find_queue_manager_wait(sensing.handler, sensing.options),
                sensing.clock(),
                event=event,
                patience=patience,
                is_last=is_last,
            )
            if isinstance(step, WaitForQueueManager):
                sensing.ledger.runs.record_failure(
                    sensing.run_id, sensing.handler.name, describe("sense", error), sensing.clock()
                )
                sensing.log.warning(
                    "%s; the run waits for the queue manager until %s UTC [MQDLQ-127]",
                    error.text,
                    f"{step.until:%Y-%m-%d %H:%M:%S}",
                )
        if isinstance(step, Look | QueueManagerError):
            return step
        left = sensing.seconds_until(step if isinstance(step, datetime) else step.until)
        if left >= sensing.min_deferred_wait_s:
            return step
        sensing.sleep(max(0.0, left))
        is_last = isinstance(step, WaitForQueueManager)
        if isinstance(step, WaitForMessages) and step.until is not None:
            event, patience = {"until": step.until.isoformat()}, None


def _check_ledger(sensing: SenseResources) -> None:
    """Raise OlderLedgerError, or warn before a dry run, which moves nothing."""
    # It imports Arrow, which DAG parsing must not.
    from mqdlq.stages import older_ledger  # noqa: PLC0415

    if not sensing.options.dry_run:
        older_ledger.require_newest_ledger(sensing.ledger, sensing.lake_root)
    elif why := older_ledger.describe_older_ledger(sensing.ledger, sensing.lake_root):
        sensing.log.warning("%s", why)


def _inspect_once(sensing: SenseResources, event: Mapping[str, Any] | None) -> Decision:
    ledger, log, window = sensing.ledger, sensing.log, sensing.window
    run = prepare_run(
        sensing.run_id,
        sensing.handler,
        sensing.settings,
        ledger=ledger,
        clock=sensing.clock,
        options=sensing.options,
    )
    place = f"{run.queue} of {run.queue_manager}"
    step: Decision
    if window is not None:
        taken = len(find_snapshots_in_window(run, window, ledger))
        nothing = f"No snapshot of {place} was taken from {window}: nothing to evaluate."
        step = Look(taken, bool(taken), "a backfill" if taken else nothing, sensing.clock())
        says = f"{taken} snapshots of {place} from {window}"
    else:
        for warning in sensing.warnings(run) if event is None else ():
            log.warning("%s", warning)
        look, watch = _look(run, sensing)
        step = decide_after_inspection(
            run,
            look,
            watch,
            handler=sensing.handler,
            options=sensing.options,
            event=event,
            now=sensing.clock(),
            is_recorded=ledger.runs.get(run.run_id) is not None,
            interrupted_at=_find_interrupted_run(run, sensing),
        )
        says = f"{look.why} on {place}; rules: {PurePath(run.rules_source).name}"
        number = f"{look.depth} settled messages" if look.depth else "no messages"
        nothing = f"{number} on {place}: nothing to do, the other tasks are skipped"
        if isinstance(step, WaitForMessages):
            log.info("%s on %s; %s", number, place, _describe_wait(step, sensing))
    if isinstance(step, Look):
        record_run(run, ledger)
        ledger.runs.record_look(run.run_id, step)
        log.info("%s", says if step.is_work else nothing)
    elif isinstance(step, datetime):
        log.warning(
            "the previous run has left no account of the queue; this run continues in %.0f s"
            " [MQDLQ-134]",
            sensing.seconds_until(step),
        )
    return step


def _look(run: Run, sensing: SenseResources) -> tuple[Look, Watch]:
    watch = _find_watch(run, sensing)
    depth, max_depth = inquire_depth(run, sensing.settings)
    sensing.report_depth(run, depth, max_depth)
    why = watch.find_work(depth, sensing.clock())
    if not why and has_unfinished_work(run, sensing.ledger):
        why = "an earlier execution was interrupted: its account must be settled"
    if not why and sensing.full_snapshot:
        why = "a full snapshot is requested"
    return Look(depth, bool(why), why, sensing.clock(), max_depth), watch


def _find_interrupted_run(run: Run, sensing: SenseResources) -> datetime | None:
    """Return when the last run with schedule @continuous found work, but left no account of it."""
    if not sensing.handler.is_continuous or sensing.is_watched:
        return None
    return sensing.ledger.runs.broken_off(sensing.handler.name, run.run_id)


def _find_watch(run: Run, sensing: SenseResources) -> Watch:
    """Return what counts as work; messages about which a run awaits an approval do not.

    Otherwise further runs would request the same approval until the limit of active runs.
    """
    follows = bool(sensing.options.follows)
    is_asked_for = sensing.is_watched or (run.run_type in REQUESTED_RUN_TYPES and not follows)
    asked = None if is_asked_for else sensing.ledger.plans.open_question(run)
    if asked is None or not sensing.awaits_approval(asked[0]):
        return find_watch(run, sensing.ledger, sensing.handler.rescan_interval, follows=follows)
    dag_run_id, messages = asked
    sensing.log.info("%s waits for an approval of its plan for %d messages", dag_run_id, messages)
    return Watch(messages)


def _describe_wait(step: WaitForMessages, sensing: SenseResources) -> str:
    left = sensing.seconds_until(step.until)
    if left < sensing.min_deferred_wait_s:
        return f"looking again in {left:.0f} s"
    return (
        f"waiting until {step.until:%Y-%m-%d %H:%M:%S} UTC" if step.until else "waiting without end"
    )


# Decide what the run does next; these functions read no clock, queue or ledger.


def decide_after_inspection(
    run: Run,
    look: Look,
    watch: Watch,
    *,
    handler: Handler,
    options: RunOptions,
    event: Mapping[str, Any] | None,
    now: datetime,
    is_recorded: bool = False,
    interrupted_at: datetime | None = None,
) -> Decision:
    """Decide by a look at the queue; `is_recorded` says that the run has begun before."""
    until = find_wait_end(run, handler, event, now)
    if look.is_work:
        # A task that failed in the last run would fail again at once.
        breath = interrupted_at + FAILURE_DELAY if interrupted_at else now
        return breath if breath > now else look
    if until is not None and until <= now:
        return look
    # The rules of a recorded run are fixed; rules given as an action are in no file.
    is_fixed = bool(options.action) or is_recorded
    return WaitForMessages(
        known=watch.known,
        due_at=watch.due_at,
        due_why=watch.due_why,
        conn_id=handler.connection,
        queue_manager=run.queue_manager,
        queue=run.queue,
        handler=handler.name,
        rules=options.rules,
        rules_digest="" if is_fixed else run.rules_digest,
        until=until,
        event_queue=handler.evidence.depth_events or "",
    )


def decide_without_answer(
    error: QueueManagerError,
    handler: Handler,
    place: tuple[str, timedelta],
    now: datetime,
    *,
    event: Mapping[str, Any] | None = None,
    patience: datetime | None = None,
    is_last: bool = False,
) -> WaitForQueueManager | QueueManagerError:
    """Return the decision for a run whose inspection failed; raises the error if no wait helps.

    `place` is the queue manager's name and the longest wait, as from `find_queue_manager_wait`. If
    it `is_last`, the run has waited in its worker, and does not wait again.
    """
    until = patience or now + place[1]
    if until > now and not is_last and error.reason in TRANSIENT:
        return WaitForQueueManager(handler.connection, place[0], until, event)
    if patience is not None and error.reason in TRANSIENT:
        # The wait has reached its limit; a further attempt of the task would wait as long again.
        return error
    raise error


def delay_failure(error: MqDlqError, handler: Handler, now: datetime) -> datetime:
    """Return until when a run that cannot begin delays its failure; else raises the error.

    With schedule @continuous Airflow starts the next run at once, and that would fail, too.
    """
    if not handler.is_continuous:
        raise error
    return now + FAILURE_DELAY


def find_wait_end(
    run: Run, handler: Handler, event: Mapping[str, Any] | None, now: datetime
) -> datetime | None:
    """Return when a run stops waiting, None for never; a resumed wait keeps its end."""
    if run.wait_s == 0:
        return now
    if event is not None:
        return datetime.fromisoformat(event["until"]) if event["until"] else None
    return handler.next_start(now) if run.wait_s is None else now + timedelta(seconds=run.wait_s)
