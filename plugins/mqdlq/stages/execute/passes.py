"""Passes over a dead-letter queue: a run with an accepted plan in, attempts and outcomes out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta

from mqdlq.constants import reason_text
from mqdlq.errors import ExecutionError
from mqdlq.model import Action
from mqdlq.mqi.browse import BrowseCursor
from mqdlq.mqi.connect import connect
from mqdlq.mqi.hints import printable_name
from mqdlq.mqi.state_queue import Markers
from mqdlq.stages.execute.acceptance import why_not_to_act
from mqdlq.stages.execute.booking import Booking, Try
from mqdlq.stages.execute.dead_letters import NOT_ARCHIVED, DeadLetters
from mqdlq.stages.execute.discards import copy_discards
from mqdlq.stages.execute.execution import Execution, PassResult
from mqdlq.stages.execute.interrupted_attempts import recover
from mqdlq.stages.execute.leases import own_until, pass_by_what_others_own
from mqdlq.stages.execute.pending_steps import Met, load_work
from mqdlq.stages.units.destinations import Destinations
from mqdlq.stages.units.engine import Units
from mqdlq.stages.units.exclusive_access import take_turn


def make_pass(execution: Execution) -> PassResult:
    """Settle what earlier executions left open, then try each due message once.

    The first pass and every retry pass are this one function: attempts and outcomes are in the
    ledger, so it may be called again at any time, also after a crash, and repeats nothing. Called
    sooner than `next_pass_at` it goes on with the last pass. A dry run opens
    nothing, nor does a run whose plan a person was to approve and has not. Raises
    AnotherExecutorError where another executor does not let go of the queue, and QueueManagerError
    where the queue manager fails; no message is lost by either. Without an accepted plan it raises
    ExecutionError, and has touched nothing.
    """
    run, ledger, plan_id = execution.run, execution.ledger, _plan_id(execution)
    if why := why_not_to_act(run, ledger):
        execution.log.info("%s: nothing is executed", why)
        return PassResult(0, None, 0)
    with _holding(execution) as (state, cursor):
        markers = recover(execution, state, cursor)
        started = _begin_or_go_on(execution)
        work = load_work(run, ledger, execution.lake_root)
        pass_by_what_others_own(work, execution)
        copies = copy_discards(execution, work, cursor)
        limit = run.messages_in_a_unit if state.prove_commits else 1
        destinations = Destinations(cursor.queue_manager, limit)
        booking = Booking(execution, plan_id, destinations.advice)
        source = DeadLetters(cursor, copies)
        with Units(source, booking, markers=state, destinations=destinations) as units:
            units.clear_later(markers)
            for met in work.browse(cursor):
                if tried := _to_be_tried(met, started, copies):
                    units.offer(tried)
        pending = work.pending()
        next_pass_at = started + timedelta(seconds=run.retry_interval_s + 1) if pending else None
        own_until(next_pass_at, pending, execution)
    for (queue, reason), count in booking.failures.items():
        execution.log.info(
            "%d puts to %s failed: %s", count, printable_name(queue), reason_text(reason)
        )
    execution.log.info(
        "pass over: %d attempts; %d messages to be tried again", booking.attempts, len(pending)
    )
    return PassResult(len(pending), next_pass_at, booking.attempts)


def _begin_or_go_on(execution: Execution) -> datetime:
    """Begin a pass if the last one began more than RETRYINT ago, else go on with that.

    Going on, only what was not tried since then is tried: a task that is run again after a crash,
    or by a person, does not spend attempts sooner than the rules allow.
    """
    run, now = execution.run, execution.clock()
    last = execution.ledger.runs.last_pass(run)
    if last is not None and now <= last + timedelta(seconds=run.retry_interval_s):
        execution.log.info("going on with the pass that began at %s", f"{last:%H:%M:%S}")
        return last
    execution.ledger.runs.record_pass(run.run_id, now)
    return now


def _to_be_tried(met: Met, started: datetime, copies: Mapping[int, str]) -> Try | None:
    """Return the step to be tried on a message, None where there is none in this pass.

    A message is only discarded if the archive has a copy of it.
    """
    item = met.item
    step = item.due_step if item else None
    if item is None or step is None or item.was_tried_since(started):
        return None
    if step.action is Action.DISCARD and item.message.message_id not in copies:
        item.withheld = NOT_ARCHIVED
        return None
    return Try(item, step, met.browsed)


@contextmanager
def _holding(execution: Execution) -> Iterator[tuple[Markers, BrowseCursor]]:
    """Hold the state queue, and open the dead-letter queue to browse, get and save all context."""
    run = execution.run
    with (
        connect(execution.settings) as queue_manager,
        take_turn(queue_manager, execution.run.state_queue, execution) as state,
    ):
        constants = queue_manager.client.CMQC
        options = (
            constants.MQOO_BROWSE
            | constants.MQOO_INPUT_AS_Q_DEF
            | constants.MQOO_SAVE_ALL_CONTEXT
            | constants.MQOO_FAIL_IF_QUIESCING
        )
        if not state.prove_commits:
            execution.log.warning(
                "the state queue %s is not defined on %s: each message moves alone, nothing keeps"
                " two executors apart, and what a crash interrupts may stay unknown; define it"
                " with DEFINE QLOCAL(%s) DEFPSIST(YES)",
                run.state_queue,
                run.queue_manager,
                run.state_queue,
            )
        queue = queue_manager.open(run.queue, options)
        try:
            yield state, BrowseCursor(queue_manager, queue, run.queue)
        finally:
            queue_manager.close(queue)


def _plan_id(execution: Execution) -> str:
    plan = execution.ledger.plans.of_run(execution.run.run_id)
    if plan is None:
        raise ExecutionError(
            f"run {execution.run.run_id} has no accepted plan to execute: the task approve was"
            " marked as done by hand, or has failed; clear approve and what follows"
        )
    return str(plan.plan_id)
