"""Begin a run: freeze its rules, find its queue by MQINQ, and decide whether another follows."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from mqdlq import directories
from mqdlq.constants import MQRC
from mqdlq.errors import ConnectionSettingsError, HandlerError, LedgerError, QueueManagerError
from mqdlq.handlers import Handler
from mqdlq.ledger import Ledger
from mqdlq.ledger.tables import Run, TakenSnapshot
from mqdlq.model import QueueKind
from mqdlq.mqi.connect import ConnectionSettings, QueueManager, connect
from mqdlq.rules import RulesTable, parse
from mqdlq.stages.run_options import RunOptions, find_missing_reason, read_repair_text, read_rules


@dataclass(frozen=True, slots=True)
class BackfillWindow:
    """The interval of a backfill's run: from `start` up to but not including `end`, both aware."""

    start: datetime
    end: datetime

    def __str__(self) -> str:
        return f"{self.start:%Y-%m-%d %H:%M:%S} to {self.end:%Y-%m-%d %H:%M:%S} UTC"


def find_snapshots_in_window(
    run: Run, window: BackfillWindow, ledger: Ledger
) -> list[TakenSnapshot]:
    """Return the snapshots that runs took of a run's queue within a window, oldest first."""
    return ledger.snapshots.taken_between(run.queue_manager, run.queue, window.start, window.end)


# Decide whether another run follows a run, because its WAIT continues after the run has acted.
#
# IBM's handler looks at the queue again after each message, and ends when it could do nothing for
# the time that WAIT gives (IBM MQ docs, "DLQ handler control data"). A run has one snapshot; the
# next run takes the messages that arrive later.

_FOLLOWER = re.compile(r"wait_(\d+)__(.+)")


def must_be_followed(
    run: Run, handler: Handler, *, follows: bool, ledger: Ledger, now: datetime
) -> bool:
    """Return whether another run must wait for messages after a run whose account is closed.

    WAIT in seconds holds for every run, WAIT(YES) for the runs of a schedule, until its next start.
    A run that `follows` another one is followed only if it listed a message that no run had listed
    before: without arrivals the runs end. A dry run, a backfill and a run for named messages are
    not followed. With @continuous the next run begins anyway, and with `event` a trigger waits.
    """
    if run.dry_run or run.message_keys or run.run_type == "backfill" or handler.is_continuous:
        return False
    if run.wait_s is None and (run.run_type != "scheduled" or handler.next_start(now) is None):
        return False
    look = ledger.runs.last_look(run.run_id)
    has_acted = look is not None and look.is_work and ledger.accounts.of_run(run.run_id) is not None
    return run.wait_s != 0 and has_acted and (not follows or ledger.messages.has_new(run))


def follower_of(dag_run_id: str) -> str:
    """Return the DAG run's id of the run that follows another.

    >>> follower_of("manual__2026-11-21T02:49:22+00:00")
    'wait_1__manual__2026-11-21T02:49:22+00:00'
    >>> follower_of("wait_1__manual__2026-11-21T02:49:22+00:00")
    'wait_2__manual__2026-11-21T02:49:22+00:00'
    """
    earlier = _FOLLOWER.fullmatch(dag_run_id)
    number, first = (int(earlier[1]), earlier[2]) if earlier else (0, dag_run_id)
    return f"wait_{number + 1}__{first}"


# Prepare and record a run: read and freeze its rules, and find its queue by MQINQ.

SCHEDULED_RUN: Final = RunOptions(run_type="scheduled")
"""The options of a scheduled run."""


def prepare_run(
    run_id: str,
    handler: Handler,
    settings: ConnectionSettings,
    *,
    ledger: Ledger,
    clock: Callable[[], datetime],
    options: RunOptions,
) -> Run:
    """Read the rules and find the queue of a run; the queue manager is only inquired.

    A recorded run is returned unchanged: the rules read at its start apply until its end. Raises
    RulesError, HandlerError or MessageKeyError before it connects, and ConnectionSettingsError or
    QueueManagerError if the queue cannot be found.
    """
    if (pruned := ledger.prunes.pruned_run(run_id)) is not None:
        raise LedgerError(
            "MQDLQ-255",
            f"run {run_id} was pruned at {pruned.at:%Y-%m-%d %H:%M:%S} UTC by {pruned.policy} of"
            f" handler {pruned.handler} and cannot continue; start a new run",
        )
    recorded = ledger.runs.get(run_id)
    if recorded is not None:
        if (recorded.handler, recorded.dag_run_id) != (handler.name, options.dag_run_id):
            raise HandlerError(
                "MQDLQ-126",
                f"run {run_id} is in the ledger as DAG run {recorded.dag_run_id} of handler"
                f" {recorded.handler}; start {options.dag_run_id} of {handler.name} under another"
                " DAG run id",
            )
        return recorded
    keys = ledger.message_facts.complete(options.message_keys, [handler.name])
    options = replace(options, message_keys=keys)
    return _build_run(run_id, handler, settings, clock, options)


def build_scheduled_run(
    handler: Handler, settings: ConnectionSettings, queue: str, now: datetime
) -> Run:
    """Return the run that the schedule would begin now on this queue; raises as `prepare_run`.

    Nothing is recorded or inquired.
    """
    return _build_run("", handler, settings, lambda: now, SCHEDULED_RUN, queue=queue)


def record_run(run: Run, ledger: Ledger) -> None:
    """Record a run, whose rules apply until its end; a recorded run stays unchanged."""
    if ledger.runs.get(run.run_id) is None:
        ledger.runs.record(run)


def _build_run(
    run_id: str,
    handler: Handler,
    settings: ConnectionSettings,
    clock: Callable[[], datetime],
    options: RunOptions,
    *,
    queue: str = "",
) -> Run:
    if missing := find_missing_reason(handler, options):
        raise HandlerError("MQDLQ-979", missing)
    source, text, table = read_rules(handler, options)
    repair = read_repair_text(table, options)
    wait_s = _find_wait_s(handler, table, options)
    place, named = _find_named_queue(table, settings, options)
    if not queue:
        with connect(place, may_reconnect=True) as queue_manager:
            queue = find_queue(queue_manager, named)
            dead_letter_q = queue_manager.client.CMQC.MQCA_DEAD_LETTER_Q_NAME
            if handler.queue_kind is QueueKind.BACKOUT and queue == queue_manager.inquire(
                dead_letter_q
            ):
                raise HandlerError(
                    "MQDLQ-155",
                    f"{handler.name}: queue_kind is backout, but {queue} is the dead-letter queue"
                    f" (DEADQ) of {queue_manager.name}; name a backout queue, or remove queue_kind",
                )
    if queue == handler.state_queue:
        raise HandlerError(
            "MQDLQ-114",
            f"{handler.name}: state_queue {queue} is also the queue to be handled; name another"
            " queue",
        )
    return Run(
        run_id=run_id,
        handler=handler.name,
        dag_run_id=options.dag_run_id,
        run_type=options.run_type,
        queue_manager=place.queue_manager,
        queue=queue,
        state_queue=handler.state_queue,
        rules_source=directories.shown(source),
        rules_digest=table.digest,
        rules_text=text,
        retry_interval_s=table.control.retry_interval_s,
        wait_s=wait_s,
        # With WAIT(YES) the runs form one continuous instance of the handler, whose counts carry
        # on. The options of a single run do not change that. A given action is an exception:
        # given again, it is tried again.
        carry_attempts=not options.action
        and (
            handler.count_attempts == "across_runs"
            or table.control.wait_s is None
            or handler.is_continuous
        ),
        dry_run=options.dry_run,
        max_run_time_s=int(handler.max_run_time.total_seconds()),
        started_at=clock(),
        nul_as_blank=handler.nul_as_blank,
        hold_while_blocked=handler.hold_while_blocked,
        deliver_truncated=handler.deliver_truncated,
        max_messages_per_unit=handler.max_messages_per_unit,
        max_plan_age_s=int(handler.max_plan_age.total_seconds()),
        message_keys=options.message_keys,
        started_by=options.started_by,
        started_by_user=options.started_by_user,
        why=options.why,
        controls=handler.controls_text(),
        queue_kind=table.queue_kind,
        repair=repair,
    )


def _find_wait_s(handler: Handler, table: RulesTable, options: RunOptions) -> int | None:
    if options.given_wait is not None:
        return options.given_wait[0]
    # The messages of an action are on the queue already; a trigger has waited for those of its run.
    if options.action or handler.is_by_event:
        return 0
    # Runs with schedule @continuous wait for work; otherwise they would spin.
    return None if handler.is_continuous else table.control.wait_s


def find_queue_manager_wait(handler: Handler, options: RunOptions) -> tuple[str, timedelta]:
    """Return the queue manager that a run waits for if it is unavailable, and the longest wait.

    The name is "" for the connection's own. Raises RulesError or HandlerError.
    """
    source, text = handler.rules_text(options.rules)
    table = parse(text, source, frozen=True)
    wait_s = _find_wait_s(handler, table, options)
    longest = handler.max_run_time if wait_s is None else timedelta(seconds=wait_s)
    return options.input_q_mgr or table.control.input_q_mgr, longest


def inquire_depth(run: Run, settings: ConnectionSettings) -> tuple[int, int]:
    """Return CURDEPTH and MAXDEPTH of the run's queue, which is opened for inquiry only."""
    place = select_queue_manager(settings, run.queue_manager)
    with connect(place, may_reconnect=True) as queue_manager:
        return queue_manager.depth_and_limit(run.queue)


def select_queue_manager(settings: ConnectionSettings, queue_manager: str) -> ConnectionSettings:
    """Return the settings for the named queue manager; a blank name changes nothing."""
    return replace(settings, queue_manager=queue_manager) if queue_manager else settings


def find_scheduled_queue(
    handler: Handler, settings: ConnectionSettings, options: RunOptions = SCHEDULED_RUN
) -> tuple[ConnectionSettings, str]:
    """Return the connection settings and the queue name of the next run with these options.

    The name is blank if the rules name no queue. Raises RulesError or HandlerError.
    """
    return _find_named_queue(read_rules(handler, options)[2], settings, options)


def _find_named_queue(
    table: RulesTable, settings: ConnectionSettings, options: RunOptions
) -> tuple[ConnectionSettings, str]:
    """Apply the order of precedence: the run's own names, then INPUTQM and INPUTQ.

    A name given for the run counts even if it is blank (IBM MQ docs, "runmqdlq").
    """
    place = select_queue_manager(settings, options.input_q_mgr or table.control.input_q_mgr)
    return place, table.control.input_q if options.input_q is None else options.input_q


def find_queue(queue_manager: QueueManager, named: str) -> str:
    """Return the local queue with this name, or the dead-letter queue for a blank name, by MQINQ.

    Raises ConnectionSettingsError for a queue that is not local, and QueueManagerError.
    """
    queue = named.strip() or queue_manager.dead_letter_q_name()
    try:
        queue_manager.depth(queue)
    except QueueManagerError as error:
        if error.reason == MQRC["MQRC_SELECTOR_NOT_FOR_TYPE"]:
            raise ConnectionSettingsError(
                "MQDLQ-113",
                f"INPUTQ {queue} on queue manager {queue_manager.name} is not a local queue; name"
                " the queue that holds the messages",
            ) from error
        raise
    return queue
