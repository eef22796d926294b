"""Make passes over a dead-letter queue, and decide whether a run waits for its next pass."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from operator import itemgetter
from typing import Any, Final

from mqdlq.constants import reason_text
from mqdlq.controls.registry import ControlChain, browsed_length
from mqdlq.controls.repair import Repair
from mqdlq.controls.settings import read_controls
from mqdlq.controls.work import BrowsedItem, Planned, PlannedAttempt, WorkItem
from mqdlq.errors import ExecutionError, QueueManagerError
from mqdlq.handlers import Handler
from mqdlq.headers import DLH_LENGTH, header_row
from mqdlq.lake import snapshot_rows
from mqdlq.ledger import Ledger
from mqdlq.ledger.tables import Run
from mqdlq.model import QUARANTINE, Destination, PutAuthority, Step
from mqdlq.mqi.browse import BrowseCursor, BrowsedMessage
from mqdlq.mqi.client import printable_name
from mqdlq.mqi.connect import QueueManager, connect
from mqdlq.mqi.state_queue import Markers
from mqdlq.plan import TARGET_COLUMNS, decide
from mqdlq.reasons import Reason, Why
from mqdlq.resources import Execution
from mqdlq.rules import parse
from mqdlq.stages.execute import attempts, dead_letters, pending_steps
from mqdlq.stages.older_ledger import begin_work
from mqdlq.stages.stopping import StopWatch, find_stop
from mqdlq.stages.units.destinations import Destinations
from mqdlq.stages.units.engine import UnitEngine
from mqdlq.stages.units.interruptions import hold_state_queue
from mqdlq.stages.units.lanes import Lanes
from mqdlq.structures import MQDLH, MQMD


def find_reason_not_to_wait(
    run: Run, handler: Handler, ledger: Ledger, pending: int, next_pass_at: datetime
) -> str:
    if why := find_stop(run, ledger):
        return why.words
    if handler.is_continuous:
        return f"{pending} messages are left to the pass of the next run"
    snapshot = ledger.snapshots.of_run(run.run_id)
    # The limit counts from the snapshot: a run may have waited long for its first message.
    began = snapshot.taken_at if snapshot else run.started_at
    is_late = next_pass_at > began + timedelta(seconds=run.max_run_time_s)
    return "max_run_time ends before the next pass" if is_late else ""


# Decide about a message again before it is moved, from the message itself.
#
# The plan was made from files, and its digest proves only that it is the accepted plan. Here the
# run's own rules, from the ledger, decide about the message under the cursor. If they give it other
# steps than its plan, a file of the snapshot or of the plan was altered, and the message stays.

_READ: Final = ("encoding", "coded_char_set_id", "format", "msg_flags")
"""The fields of the MQMD by which an MQDLH is read."""
_CHANGING: Final = {"expiry", "backout_count"}
_OF_MESSAGE: Final = {
    *({field.name for field in MQMD.fields} - _CHANGING),
    *(f"dlh_{field.name}" for field in MQDLH.fields),
    "dead_lettered_at",
    "total_length",
}
"""The columns whose values a message keeps while it is on its queue."""
_REMEMBERED: Final = 65_536
_TIMES: Final = MQDLH.slice_of("put_date", "put_time")


class Redecision:
    """The decisions of a run's rules about messages under the browse cursor.

    Columns that belong to the browse of the snapshot, such as the age of a message, come from the
    snapshot. All others come from the message. Equal messages are decided once.
    """

    def __init__(self, run: Run, queue_manager: QueueManager, ledger: Ledger) -> None:
        self.run = run
        self._table = parse(run.rules_text, queue_kind=run.queue_kind, frozen=True)
        selector = queue_manager.client.CMQC.MQIA_CODED_CHAR_SET_ID
        self._ccsid = int(queue_manager.inquire(selector))
        compared = {*self._table.columns, *TARGET_COLUMNS}
        fields = [field.name for field in MQMD.fields if field.name in compared.union(_READ)]
        self._fields = itemgetter(*(MQMD.slice_of(name) for name in fields))
        self._known: dict[Any, tuple[Step, ...]] | None = {}
        self._rows: dict[int, dict[str, Any]] = {}
        snapshot = ledger.snapshots.of_run(run.run_id)
        only_there = sorted(set(self._table.columns) - _OF_MESSAGE)
        if self._table.extensions:
            self._known = None  # their values differ from message to message
        if only_there and snapshot is not None:
            rows = snapshot_rows(snapshot.location, ["browse_seq", *only_there])
            self._rows = {row.pop("browse_seq"): row for row in rows}

    def agrees(self, planned: PlannedAttempt) -> bool:
        item = planned.item
        return item.planned == self._decide(planned.browsed, item.message.browse_seq)

    def _decide(self, browsed: BrowsedMessage, browse_seq: int) -> tuple[Step, ...]:
        if self._known is None:
            return self._decide_row(browsed, browse_seq)
        prefix = browsed.prefix
        parts = prefix[: _TIMES.start], prefix[_TIMES.stop : DLH_LENGTH]
        key = (self._fields(browsed.descriptor), *parts, browsed.total_length < DLH_LENGTH)
        if key not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = self._decide_row(browsed, browse_seq)
        return self._known[key]

    def _decide_row(self, browsed: BrowsedMessage, browse_seq: int) -> tuple[Step, ...]:
        row = header_row(
            browse_seq,
            browsed.descriptor,
            browsed.prefix,
            browsed.total_length,
            browsed_at=self.run.started_at,
            ccsid=self._ccsid,
        )
        return decide(
            self._table,
            row | self._rows.get(browse_seq, {}),
            nul_as_blank=self.run.nul_as_blank,
            has_given_action=self.run.has_given_action,
        )


# Make passes over a dead-letter queue.

_USER: Final = MQMD.slice_of("user_identifier")


@dataclass(frozen=True, slots=True)
class PassResult:
    """How many messages wait for a retry, when that is due, and the attempts of the pass.

    `awaited` are their destinations if all of them wait until these are fixed.
    """

    pending: int
    next_pass_at: datetime | None
    attempts: int
    awaited: tuple[Destination, ...] = ()


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
    run, ledger = execution.run, execution.ledger
    plan = ledger.plans.of_run(run.run_id)
    if plan is None:
        raise ExecutionError(
            "MQDLQ-601",
            f"run {run.run_id} has no accepted plan to execute: the task approve was marked as done"
            " by hand, or has failed; clear approve and the tasks after it",
        )
    if why := pending_steps.find_reason_not_to_act(run, ledger):
        execution.log.info("%s: nothing is executed", why.words)
        return PassResult(0, None, 0)
    repair = dead_letters.read_whole_repair(run, execution.lake_root)
    with _open_queues(execution) as (state, cursor, browsing):
        begun = begin_work(execution, run.run_id, run.state_queue, state)
        moved = attempts.read_moved(state.markers(), run.run_id, plan.plan_id)
        markers = attempts.settle_interrupted_attempts(execution, state, cursor)
        started = _begin_or_resume_pass(execution)
        work = pending_steps.load_work_list(run, ledger, execution.lake_root)
        pending_steps.skip_leased_messages(work, execution)
        controls = ControlChain(execution)
        controls.observe_queue(work, cursor)
        stop = StopWatch(execution)
        given = work, cursor, controls, repair
        archive = partial(dead_letters.archive_messages, execution, *given)
        copies = {} if stop.is_asked() else archive()
        limit = run.max_messages_per_unit if state.prove_commits else 1
        destinations = Destinations(cursor.queue_manager, limit)
        booking = attempts.AttemptRecorder(
            execution, plan.plan_id, destinations, controls, number=begun.number, moved=moved
        )
        rules = Redecision(run, cursor.queue_manager, ledger)
        units: UnitEngine[Planned] | Lanes[Planned]
        if run.connections > 1 and state.prove_commits:
            units = Lanes(
                booking,
                markers=state,
                destinations=destinations,
                number=run.connections,
                open_lane=partial(_open_lane, execution, copies),
                find_places=partial(_find_places, controls, destinations),
                may_begin=lambda move: not stop.is_asked() and booking.may_begin(move),
            )
        else:
            is_apart = browsing is not cursor
            source = dead_letters.DeadLetterSource(cursor, copies, is_browsed_apart=is_apart)
            units = UnitEngine(source, booking, markers=state, destinations=destinations)
        with units:
            units.clear_markers_later(markers)
            for met in stop.before(work.browse(browsing)):
                planned = _plan_move(controls.gather(met), started, copies, run, repair)
                if not planned:
                    continue
                with units.turn:
                    may_move = _may_move(planned, rules, destinations, booking)
                    is_admitted = may_move and controls.hold_or_admit(planned, units)
                if is_admitted:
                    units.offer(planned)
        controls.finish()
        controls.hold_all(work)  # the moves of this pass may have changed the holds
        pending = [] if stop.is_asked() else work.find_pending_items()
        next_pass_at = _find_next_pass(run, started, pending)
        pending_steps.lease_until(next_pass_at, pending, execution)
    for (queue, reason), count in booking.failures.items():
        execution.log.info(
            "%d puts to %s failed: %s", count, printable_name(queue), reason_text(reason)
        )
    execution.log.info(
        "pass finished: %d attempts; %d messages wait for a retry", booking.attempts, len(pending)
    )
    return PassResult(len(pending), next_pass_at, booking.attempts, _find_awaited(pending))


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
    together: Sequence[BrowsedItem],
    started: datetime,
    copies: Mapping[int, str],
    run: Run,
    repair: Repair | None,
) -> Planned | None:
    """Return the move of these messages in this pass, all of them or none; None if they must stay.

    A message is discarded, or delivered repaired, only if the archive has a copy of it.
    """
    planned = []
    for met in together:
        item, step = met.item, met.item.due_step if met.item else None
        if item is None or step is None or item.was_tried_since(started):
            continue
        if dead_letters.needs_copy(step, run) and item.message.message_id not in copies:
            item.withheld_reason = Why.NOT_ARCHIVED()
            continue
        changed = None if step.rule == QUARANTINE else repair
        planned.append(PlannedAttempt(item, step, met.browsed, changed))
    return Planned(tuple(planned)) if planned and len(planned) == len(together) else None


def _may_move(
    planned: Planned,
    rules: Redecision,
    destinations: Destinations,
    booking: attempts.AttemptRecorder,
) -> bool:
    """Return whether all messages may move; otherwise record why they stay."""
    for one in planned.tries:
        is_agreed = rules.agrees(one)
        why = _find_own_target(one, rules.run, destinations) if is_agreed else Why.PLAN_ALTERED()
        if why:
            booking.withhold(planned, why, one)
            return False
    return True


def _find_own_target(
    planned: PlannedAttempt, run: Run, destinations: Destinations
) -> Reason | None:
    """Return why a message must not be put to its target, a queue of the run, or None."""
    step = planned.step
    if step.destination is None:
        return None
    is_ctx = step.put_authority is PutAuthority.CTX
    user = planned.browsed.descriptor[_USER] if is_ctx else b""
    own = destinations.find_own(step.destination, (run.queue, run.state_queue), user)
    return Why.LEADS_TO_OWN_QUEUE(target=step.target_q, queue=own) if own else None


def _find_next_pass(run: Run, started: datetime, pending: Sequence[WorkItem]) -> datetime | None:
    """Return when the next pass is due: RETRYINT after this one, or when the first hold ends."""
    retry_at = started + timedelta(seconds=run.retry_interval_s + 1)
    moments = {item.hold.until if item.hold else retry_at for item in pending}
    return min(filter(None, moments), default=None)


def _find_awaited(pending: Sequence[WorkItem]) -> tuple[Destination, ...]:
    """Return the destinations that messages wait for to be fixed; none if one waits otherwise."""
    holds = [item.hold.why.code if item.hold else None for item in pending]
    if any(one is not Why.DESTINATION_REFUSES for one in holds):
        return ()
    steps = [item.due_step for item in pending]
    return tuple(dict.fromkeys(one.destination for one in steps if one and one.destination))


@contextmanager
def _open_queues(execution: Execution) -> Iterator[tuple[Markers, BrowseCursor, BrowseCursor]]:
    """Hold the state queue, and open the dead-letter queue to browse, get and save all context.

    The second cursor browses the queue while the first one moves messages. It is another one only
    if messages move together, because they are not next to each other.
    """
    run = execution.run
    with (
        connect(execution.settings) as queue_manager,
        hold_state_queue(queue_manager, run.state_queue, execution) as state,
        ExitStack() as opened,
    ):
        if not state.prove_commits:
            execution.log.warning(
                "the state queue %s is not defined on %s: each message moves alone, two executors"
                " may act at once, and a crash may leave messages unknown; define it with"
                " DEFINE QLOCAL(%s) DEFPSIST(YES) [MQDLQ-611]",
                run.state_queue,
                run.queue_manager,
                run.state_queue,
            )
        cursor = opened.enter_context(_open_cursor(queue_manager, run))
        sequences = read_controls(run.controls).sequences
        browsing = cursor
        if sequences is not None and sequences.groups is not None:
            browsing = opened.enter_context(_open_cursor(queue_manager, run, gets=False))
        yield state, cursor, browsing


@contextmanager
def _open_cursor(
    queue_manager: QueueManager, run: Run, *, gets: bool = True
) -> Iterator[BrowseCursor]:
    constants = queue_manager.client.CMQC
    options = constants.MQOO_BROWSE
    if gets:
        options |= constants.MQOO_INPUT_AS_Q_DEF | constants.MQOO_SAVE_ALL_CONTEXT
    with queue_manager.opened(run.queue, options) as queue:
        yield BrowseCursor(queue_manager, queue, run.queue, browsed_length(run))


@contextmanager
def _open_lane(
    execution: Execution, copies: Mapping[int, str], number: int
) -> Iterator[tuple[dead_letters.DeadLetterSource, QueueManager]]:
    """Connect for the lane of this number, and open the dead-letter queue to get messages."""
    run = execution.run
    try:
        connected = connect(execution.settings)
    except QueueManagerError as error:
        what = f"queue manager {run.queue_manager} as connection {number} of {run.connections}"
        text = reason_text(error.reason)
        raise QueueManagerError(error.verb, what, error.completion, error.reason, text) from error
    with connected as queue_manager, _open_cursor(queue_manager, run) as cursor:
        source = dead_letters.DeadLetterSource(cursor, copies, is_browsed_apart=True)
        yield source, queue_manager


def _find_places(
    controls: ControlChain, destinations: Destinations, planned: Planned
) -> set[Destination | None]:
    """Return the destinations among which the order of a move counts, by all names known."""
    names = {planned.destination, *controls.find_destinations(planned)}
    return names | {destinations.resolved(one) for one in names if one is not None}
