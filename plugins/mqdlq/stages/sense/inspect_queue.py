"""Inspect a run's queue by MQINQ and decide the run's next step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import PurePath

from mqdlq.errors import QueueManagerError
from mqdlq.failures import describe
from mqdlq.handlers import Handler
from mqdlq.ledger.tables.runs import Look, Run
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
from mqdlq.stages.sense.waiting import (
    Decision,
    EarlierWait,
    Fail,
    Pause,
    Proceed,
    QueueFacts,
    Skip,
    WaitForMessages,
    WaitForQueueManager,
    decide_after_inspection,
    decide_without_answer,
)
from mqdlq.stages.sense.work_detection import (
    REQUESTED_RUN_TYPES,
    Watch,
    find_watch,
    has_unfinished_work,
)


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
        """Return the seconds until a moment; None means never."""
        return (moment - self.clock()).total_seconds() if moment else math.inf


def inspect_queue(sensing: SenseResources, waited: EarlierWait | None = None) -> Decision:
    """Inspect the run's queue; record the run and the inspection when the wait is over.

    A backfill looks for the snapshots of its window instead. A second call finds the run as
    recorded, with the rules of the first call. Raises what `prepare_run` raises, and
    OlderLedgerError if the ledger is older than the lake, except in a dry run.
    """
    _check_ledger(sensing)
    waited = waited or EarlierWait()
    while True:
        try:
            step = _inspect_once(sensing, waited)
        except QueueManagerError as error:
            place = find_queue_manager_wait(sensing.handler, sensing.options)
            step = decide_without_answer(error, sensing.handler, place, waited, sensing.clock())
            if isinstance(step, WaitForQueueManager):
                sensing.ledger.runs.record_failure(
                    sensing.run_id, sensing.handler.name, describe("sense", error), sensing.clock()
                )
                sensing.log.warning(
                    "%s; the run waits for the queue manager until %s UTC [MQDLQ-127]",
                    error.text,
                    f"{step.until:%Y-%m-%d %H:%M:%S}",
                )
        if isinstance(step, Proceed | Skip | Fail):
            return step
        left = sensing.seconds_until(step.until)
        if left >= sensing.min_deferred_wait_s:
            return step
        sensing.sleep(max(0.0, left))
        if isinstance(step, WaitForMessages) and step.until is not None:
            waited = EarlierWait(event={"until": step.until.isoformat()})
        else:
            waited = replace(waited, is_last=isinstance(step, WaitForQueueManager))


def _check_ledger(sensing: SenseResources) -> None:
    """Raise OlderLedgerError, or warn before a dry run, which moves nothing."""
    # It imports Arrow, which DAG parsing must not.
    from mqdlq.stages import older_ledger  # noqa: PLC0415

    if not sensing.options.dry_run:
        older_ledger.require_newest_ledger(sensing.ledger, sensing.lake_root)
    elif why := older_ledger.describe_older_ledger(sensing.ledger, sensing.lake_root):
        sensing.log.warning("%s", why)


def _inspect_once(sensing: SenseResources, waited: EarlierWait) -> Decision:
    ledger, log, options = sensing.ledger, sensing.log, sensing.options
    run = prepare_run(
        sensing.run_id,
        sensing.handler,
        sensing.settings,
        ledger=ledger,
        clock=sensing.clock,
        options=options,
    )
    place = f"{run.queue} of {run.queue_manager}"
    step: Decision
    max_depth = None
    if sensing.window is not None:
        taken = len(find_snapshots_in_window(run, sensing.window, ledger))
        why = f"No snapshot of {place} was taken from {sensing.window}: nothing to evaluate."
        step = Proceed(taken, "a backfill") if taken else Skip(0, why)
        says = f"{taken} snapshots of {place} from {sensing.window}"
    else:
        for warning in sensing.warnings(run) if waited.event is None else ():
            log.warning("%s", warning)
        facts = _gather_facts(run, sensing)
        max_depth = facts.max_depth
        step = decide_after_inspection(facts, sensing.handler, options, waited, sensing.clock())
        says = f"{facts.why} on {place}; rules: {PurePath(run.rules_source).name}"
        number = f"{facts.depth} settled messages" if facts.depth else "no messages"
        why = f"{number} on {place}: nothing to do, the other tasks are skipped"
        if isinstance(step, WaitForMessages):
            log.info("%s on %s; %s", number, place, _describe_wait(step, sensing))
    if isinstance(step, Proceed | Skip):
        is_work = isinstance(step, Proceed)
        record_run(run, ledger)
        look = Look(step.depth, is_work, step.why, sensing.clock(), max_depth)
        ledger.runs.record_look(run.run_id, look)
        log.info("%s", says if is_work else why)
    elif isinstance(step, Pause):
        left = sensing.seconds_until(step.until)
        log.warning(
            "the previous run has left no account of the queue; this run continues in %.0f s"
            " [MQDLQ-134]",
            left,
        )
    return step


def _gather_facts(run: Run, sensing: SenseResources) -> QueueFacts:
    ledger, handler = sensing.ledger, sensing.handler
    watch = _find_watch(run, sensing)
    there, limit = inquire_depth(run, sensing.settings)
    sensing.report_depth(run, there, limit)
    why = watch.find_work(there, sensing.clock())
    if not why and has_unfinished_work(run, ledger):
        why = "an earlier execution was interrupted: its account must be settled"
    if not why and sensing.full_snapshot:
        why = "a full snapshot is requested"
    failed = None
    if handler.is_continuous and not sensing.is_watched:
        failed = ledger.runs.broken_off(handler.name, run.run_id)
    is_recorded = ledger.runs.get(run.run_id) is not None
    return QueueFacts(run, there, why, watch, is_recorded, failed, limit)


def _find_watch(run: Run, sensing: SenseResources) -> Watch:
    """Return what counts as work; messages about which a run awaits an approval do not.

    Otherwise further runs would request the same approval until the limit of active runs.
    """
    follows = bool(sensing.options.follows)
    is_asked_for = sensing.is_watched or (run.run_type in REQUESTED_RUN_TYPES and not follows)
    asked = None if is_asked_for else sensing.ledger.plans.open_question(run)
    if asked is None or not sensing.awaits_approval(asked.dag_run_id):
        return find_watch(run, sensing.ledger, sensing.handler.rescan_interval, follows=follows)
    sensing.log.info(
        "%s waits for an approval of its plan for %d messages",
        asked.dag_run_id,
        asked.messages,
    )
    return Watch(asked.messages)


def _describe_wait(step: WaitForMessages, sensing: SenseResources) -> str:
    left = sensing.seconds_until(step.until)
    if left < sensing.min_deferred_wait_s:
        return f"looking again in {left:.0f} s"
    return (
        f"waiting until {step.until:%Y-%m-%d %H:%M:%S} UTC" if step.until else "waiting without end"
    )
