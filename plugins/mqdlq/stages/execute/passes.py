"""Make passes over a dead-letter queue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from typing import Final

from mqdlq.constants import reason_text
from mqdlq.errors import ExecutionError
from mqdlq.handlers.controls import read_controls
from mqdlq.ledger import Run
from mqdlq.model import PutAuthority
from mqdlq.mqi.browse import BrowseCursor
from mqdlq.mqi.connect import connect
from mqdlq.mqi.hints import printable_name
from mqdlq.mqi.state_queue import Markers
from mqdlq.stages.execute.acceptance import find_reason_not_to_act
from mqdlq.stages.execute.archiving import archive_messages, needs_copy
from mqdlq.stages.execute.attempt_recorder import (
    AttemptRecorder,
    GroupAttempt,
    MovedMessages,
    Planned,
    PlannedAttempt,
)
from mqdlq.stages.execute.controls.chain import open_controls
from mqdlq.stages.execute.controls.returns import browsed_length
from mqdlq.stages.execute.dead_letters import NOT_ARCHIVED, DeadLetterSource
from mqdlq.stages.execute.execution import Execution, PassResult
from mqdlq.stages.execute.interrupted_attempts import settle_interrupted_attempts
from mqdlq.stages.execute.leases import lease_until, skip_leased_messages
from mqdlq.stages.execute.pending_steps import BrowsedItem, WorkItem, load_work_list
from mqdlq.stages.execute.redecision import ALTERED, Redecision
from mqdlq.stages.older_ledger.recognising import begin_work
from mqdlq.stages.repairing.repair import read_repair
from mqdlq.stages.units.destinations import Destinations
from mqdlq.stages.units.engine import UnitEngine
from mqdlq.stages.units.exclusive_access import hold_state_queue
from mqdlq.structures import MQMD

_USER: Final = MQMD.slice_of("user_identifier")


def make_pass(execution: Execution) -> PassResult:
    """Settle interrupted attempts of earlier executions, then try each due message once.

    The first pass and every retry pass use this function. Attempts and outcomes are in the ledger,
    so it may be called again at any time, also after a crash, and repeats nothing. A call before
    `next_pass_at` resumes the last pass. A dry run and a run without a required approval open no
    queue.

    Raises AnotherExecutorError if another executor keeps holding the state queue, and
    QueueManagerError if the queue manager fails; neither loses a message. Raises ExecutionError,
    before it touches anything, if there is no accepted plan, and OlderLedgerError if the ledger is
    older than the lake or the state queue.
    """
    run, ledger, plan_id = execution.run, execution.ledger, _find_accepted_plan_id(execution)
    if why := find_reason_not_to_act(run, ledger):
        execution.log.info("%s: nothing is executed", why)
        return PassResult(0, None, 0)
    with _open_queues(execution) as (state, cursor, browsing):
        begun = begin_work(execution, run.run_id, run.state_queue, state)
        moved = MovedMessages.of_markers(state.markers(), run.run_id, plan_id)
        markers = settle_interrupted_attempts(execution, state, cursor)
        started = _begin_or_resume_pass(execution)
        work = load_work_list(run, ledger, execution.lake_root)
        skip_leased_messages(work, execution)
        controls = open_controls(execution)
        controls.observe_queue(work, cursor)
        copies = archive_messages(execution, work, cursor, controls)
        limit = run.max_messages_per_unit if state.prove_commits else 1
        destinations = Destinations(cursor.queue_manager, limit)
        booking = AttemptRecorder(
            execution,
            plan_id,
            destinations.explain_failure,
            controls,
            number=begun.number,
            moved=moved,
        )
        rules = Redecision(run, cursor.queue_manager, ledger)
        source = DeadLetterSource(cursor, copies, is_browsed_apart=browsing is not cursor)
        with UnitEngine(source, booking, markers=state, destinations=destinations) as units:
            units.clear_markers_later(markers)
            for met in work.browse(browsing):
                planned = _plan_move(controls.gather(met), started, copies, run)
                if not planned or not _may_move(planned, rules, destinations, booking):
                    continue
                if controls.hold_or_admit(planned, units):
                    units.offer(planned)
        controls.finish()
        controls.hold_all(work)  # the moves of this pass may have changed the holds
        pending = work.find_pending_items()
        next_pass_at = _find_next_pass(run, started, pending)
        lease_until(next_pass_at, pending, execution)
    for (queue, reason), count in booking.failures.items():
        execution.log.info(
            "%d puts to %s failed: %s", count, printable_name(queue), reason_text(reason)
        )
    execution.log.info(
        "pass finished: %d attempts; %d messages wait for a retry", booking.attempts, len(pending)
    )
    return PassResult(len(pending), next_pass_at, booking.attempts)


def _begin_or_resume_pass(execution: Execution) -> datetime:
    """Begin a pass if the last one began more than RETRYINT ago, otherwise resume the last one.

    A resumed pass tries only messages that were not tried since it began. So a task that is run
    again, after a crash or by hand, does not use up attempts sooner than the rules allow.
    """
    run, now = execution.run, execution.clock()
    last = execution.ledger.runs.last_pass(run)
    if last is not None and now <= last + timedelta(seconds=run.retry_interval_s):
        execution.log.info("resuming the pass that began at %s", f"{last:%H:%M:%S}")
        return last
    execution.ledger.runs.record_pass(run.run_id, now)
    return now


def _plan_move(
    together: Sequence[BrowsedItem], started: datetime, copies: Mapping[int, str], run: Run
) -> Planned | None:
    """Return the move of these messages, all of them or none; None if they must stay."""
    planned = [_plan_attempt(met, started, copies, run) for met in together]
    tries = tuple(one for one in planned if one is not None)
    if not tries or len(tries) < len(planned):
        return None
    return tries[0] if len(tries) == 1 else GroupAttempt(tries)


def _may_move(
    planned: Planned, rules: Redecision, destinations: Destinations, booking: AttemptRecorder
) -> bool:
    """Return whether all messages may move; otherwise record why they stay."""
    for one in planned.tries:
        why = ALTERED if not rules.agrees(one) else _find_own_target(one, rules.run, destinations)
        if why:
            booking.withhold(planned, why, one)
            return False
    return True


def _find_own_target(planned: PlannedAttempt, run: Run, destinations: Destinations) -> str:
    """Return why a message must not be put to its target, which is a queue of the run, or ""."""
    if planned.destination is None:
        return ""
    is_ctx = planned.authority is PutAuthority.CTX
    user = planned.browsed.descriptor[_USER] if is_ctx else b""
    own = destinations.find_own(planned.destination, (run.queue, run.state_queue), user)
    target = planned.step.target_q
    return own and f"its target, {target}, leads to {own}, a queue of this very handler"


def _plan_attempt(
    met: BrowsedItem, started: datetime, copies: Mapping[int, str], run: Run
) -> PlannedAttempt | None:
    """Return the attempt to make on a message in this pass, or None.

    A message is discarded, or delivered repaired, only if the archive has a copy of it.
    """
    item = met.item
    step = item.due_step if item else None
    if item is None or step is None or item.was_tried_since(started):
        return None
    if needs_copy(step, run) and item.message.message_id not in copies:
        item.withheld_reason = NOT_ARCHIVED
        return None
    return PlannedAttempt(item, step, met.browsed, read_repair(run.repair) if step.rule else None)


def _find_next_pass(run: Run, started: datetime, pending: Sequence[WorkItem]) -> datetime | None:
    """Return when the next pass is due: RETRYINT after this one, or when the first hold ends."""
    retry_at = started + timedelta(seconds=run.retry_interval_s + 1)
    moments = {item.hold.until if item.hold else retry_at for item in pending}
    return min(filter(None, moments), default=None)


@contextmanager
def _open_queues(execution: Execution) -> Iterator[tuple[Markers, BrowseCursor, BrowseCursor]]:
    """Hold the state queue, and open the dead-letter queue to browse, get and save all context.

    The second cursor browses the queue while the first one moves messages. It is another one only
    if messages move together, because they are not next to each other.
    """
    run = execution.run
    with (
        connect(execution.settings) as queue_manager,
        hold_state_queue(queue_manager, execution.run.state_queue, execution) as state,
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
                "the state queue %s is not defined on %s: each message moves alone, two executors"
                " may act at once, and a crash may leave messages unknown; define it with"
                " DEFINE QLOCAL(%s) DEFPSIST(YES) [MQDLQ-611]",
                run.state_queue,
                run.queue_manager,
                run.state_queue,
            )
        length = browsed_length(run)
        with ExitStack() as opened:

            def open_cursor(options: int) -> BrowseCursor:
                queue = queue_manager.open(run.queue, options)
                opened.callback(queue_manager.close, queue)
                return BrowseCursor(queue_manager, queue, run.queue, length)

            cursor = open_cursor(options)
            sequences = read_controls(run.controls).sequences
            is_apart = sequences is not None and sequences.groups is not None
            browse = constants.MQOO_BROWSE | constants.MQOO_FAIL_IF_QUIESCING
            yield state, cursor, open_cursor(browse) if is_apart else cursor


def _find_accepted_plan_id(execution: Execution) -> str:
    plan = execution.ledger.plans.of_run(execution.run.run_id)
    if plan is None:
        raise ExecutionError(
            "MQDLQ-601",
            f"run {execution.run.run_id} has no accepted plan to execute: the task approve was"
            " marked as done by hand, or has failed; clear approve and the tasks after it",
        )
    return str(plan.plan_id)
