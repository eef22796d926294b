"""Look at a run's queue by MQINQ: a run's id and parameters in, the run's next step out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import PurePath

from mqdlq.errors import QueueManagerError
from mqdlq.handlers import Handler
from mqdlq.ledger import Look, Run
from mqdlq.stages.run_options import RunOptions
from mqdlq.stages.sense.backfill_window import Window, snapshots_of
from mqdlq.stages.sense.start_run import begin_run, depth, patience, prepare_run
from mqdlq.stages.sense.waiting import (
    Facts,
    Fail,
    Pause,
    Proceed,
    Skip,
    Step,
    Waited,
    WaitForMessages,
    WaitForQueueManager,
    after_look,
    after_no_answer,
)
from mqdlq.stages.sense.work_detection import ASKED_FOR, Watch, is_unfinished, watch_for
from mqdlq.stages.units.resources import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensing(Resources):
    """What a look works with.

    Waits shorter than `defer_from_s` are slept here. `window` is a backfill's. With `is_watched` a
    person waits for the run: nobody can be asked for an approval, and it begins at once.
    `awaits_approval` takes a DAG run's id, and says whether it waits for a person's approval now;
    `warnings` returns what is to be said of a run before its first look.
    """

    run_id: str
    handler: Handler
    options: RunOptions
    defer_from_s: float
    awaits_approval: Callable[[str], bool]
    warnings: Callable[[Run], Iterable[str]]
    window: Window | None = None
    full_snapshot: bool = False
    is_watched: bool = False

    def seconds_to(self, moment: datetime | None) -> float:
        """Return the time to a moment; None is never."""
        return (moment - self.clock()).total_seconds() if moment else math.inf


def look(sensing: Sensing, waited: Waited | None = None) -> Step:
    """Look at the run's queue; record the run and what it saw when it waits no more.

    A backfill looks for the snapshots of its window instead. Run twice, it finds the run as
    recorded, with the rules read the first time. Raises what `prepare_run` raises.
    """
    waited = waited or Waited()
    while True:
        try:
            step = _look(sensing, waited)
        except QueueManagerError as error:
            place = patience(sensing.handler, sensing.options)
            step = after_no_answer(error, sensing.handler, place, waited, sensing.clock())
            if isinstance(step, WaitForQueueManager):
                sensing.log.warning(
                    "%s; the run waits for the queue manager until %s UTC [MQDLQ-127]",
                    error.text,
                    f"{step.until:%Y-%m-%d %H:%M:%S}",
                )
        if isinstance(step, Proceed | Skip | Fail):
            return step
        left = sensing.seconds_to(step.until)
        if left >= sensing.defer_from_s:
            return step
        sensing.sleep(max(0.0, left))
        if isinstance(step, WaitForMessages) and step.until is not None:
            waited = Waited(event={"until": step.until.isoformat()})
        else:
            waited = replace(waited, is_last=isinstance(step, WaitForQueueManager))


def _look(sensing: Sensing, waited: Waited) -> Step:
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
    step: Step
    if sensing.window is not None:
        taken = len(snapshots_of(run, sensing.window, ledger))
        why = f"No snapshot of {place} was taken from {sensing.window}: nothing to evaluate."
        step = Proceed(taken, "a backfill") if taken else Skip(0, why)
        says = f"{taken} snapshots of {place} from {sensing.window}"
    else:
        for warning in sensing.warnings(run) if waited.event is None else ():
            log.warning("%s", warning)
        facts = _facts(run, sensing)
        step = after_look(facts, sensing.handler, options, waited, sensing.clock())
        says = f"{facts.why} on {place}; rules: {PurePath(run.rules_source).name}"
        number = f"{facts.depth} settled messages" if facts.depth else "no messages"
        why = f"{number} on {place}: nothing to do, the rest is skipped"
        if isinstance(step, WaitForMessages):
            log.info("%s on %s; %s", number, place, _wait_in_words(step, sensing))
    if isinstance(step, Proceed | Skip):
        is_work = isinstance(step, Proceed)
        begin_run(run, ledger)
        ledger.runs.record_look(run.run_id, Look(step.depth, is_work, step.why, sensing.clock()))
        log.info("%s", says if is_work else why)
    elif isinstance(step, Pause):
        left = sensing.seconds_to(step.until)
        log.warning(
            "the previous run has left no account of the queue; this run continues in %.0f s"
            " [MQDLQ-134]",
            left,
        )
    return step


def _facts(run: Run, sensing: Sensing) -> Facts:
    ledger, handler = sensing.ledger, sensing.handler
    watch = _watch(run, sensing)
    there = depth(run, sensing.settings)
    why = watch.news(there, sensing.clock())
    if not why and is_unfinished(run, ledger):
        why = "an earlier execution was interrupted: its account is to be settled"
    if not why and sensing.full_snapshot:
        why = "a full snapshot is asked for"
    failed = None
    if handler.is_continuous and not sensing.is_watched:
        failed = ledger.runs.broken_off(handler.name, run.run_id)
    return Facts(run, there, why, watch, ledger.runs.get(run.run_id) is not None, failed)


def _watch(run: Run, sensing: Sensing) -> Watch:
    """Return what is news: nothing that a run before has asked a person about, who may answer.

    Another run would ask the same again, and the next one, until no more may be under way.
    """
    is_asked_for = sensing.is_watched or run.run_type in ASKED_FOR
    asked = None if is_asked_for else sensing.ledger.plans.open_question(run)
    if asked is None or not sensing.awaits_approval(asked.dag_run_id):
        return watch_for(run, sensing.ledger, sensing.handler.rescan_interval)
    sensing.log.info(
        "%s waits for an approval of what it would do with %d messages",
        asked.dag_run_id,
        asked.messages,
    )
    return Watch(asked.messages)


def _wait_in_words(step: WaitForMessages, sensing: Sensing) -> str:
    left = sensing.seconds_to(step.until)
    if left < sensing.defer_from_s:
        return f"looking again in {left:.0f} s"
    return f"waiting until {step.until:%Y-%m-%d %H:%M:%S} UTC" if step.until else "waiting on"
