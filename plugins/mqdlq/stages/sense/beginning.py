"""The first stage: a handler's configuration in, a recorded run with frozen rules out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from mqdlq import home
from mqdlq.constants import MQRC
from mqdlq.errors import ConnectionSettingsError, HandlerError, MqDlqError, QueueManagerError
from mqdlq.handlers import Handler
from mqdlq.ledger import LastAccount, Ledger, Run, TakenSnapshot, last_account, snapshots_between
from mqdlq.mqi.connect import ConnectionSettings, QueueManager, connect
from mqdlq.rules import RulesTable, parse
from mqdlq.stages.run_options import RunOptions, rules_of

RESCAN_AFTER: Final = 10
"""After how many RETRYINTs settled messages are looked at again."""

SCHEDULED: Final = RunOptions(run_type="scheduled")
"""The options of a run that nobody asks for."""

ASKED_FOR: Final = frozenset({"manual", "operator_triggered", "asset_materialization"})
"""Airflow's types of runs that somebody starts: by hand, from another DAG, at an asset."""


def prepare_run(
    run_id: str,
    handler: Handler,
    settings: ConnectionSettings,
    *,
    ledger: Ledger,
    clock: Callable[[], datetime],
    options: RunOptions,
) -> Run:
    """Read the rules and find the queue of a run; only MQINQ touches the queue manager.

    A run already recorded is returned as it was: rules read at its start hold to its end. Why a
    run cannot begin is recorded. Raises RulesError or HandlerError before anything is connected,
    and ConnectionSettingsError or QueueManagerError where the queue cannot be found.
    """
    recorded = ledger.run(run_id)
    if recorded is not None:
        if (recorded.handler, recorded.dag_run_id) != (handler.name, options.dag_run_id):
            raise HandlerError(
                f"run {run_id} is in the ledger as DAG run {recorded.dag_run_id} of handler"
                f" {recorded.handler}: start {options.dag_run_id} of {handler.name} under another"
                " DAG run id"
            )
        return recorded
    try:
        return _begin(run_id, handler, settings, clock, options)
    except MqDlqError as error:
        ledger.record_refusal(run_id, handler.name, str(error), clock())
        raise


def next_run(handler: Handler, settings: ConnectionSettings, queue: str, now: datetime) -> Run:
    """Return the run that would begin now by the handler's schedule; nothing is recorded.

    `queue` is what `find_queue` has found. No queue manager is asked. Raises what the start of a
    run raises.
    """
    return _begin("", handler, settings, lambda: now, SCHEDULED, queue=queue)


def begin_run(run: Run, ledger: Ledger) -> None:
    """Record a run; from here on its rules hold to its end. Recorded before, it stays as it was."""
    if ledger.run(run.run_id) is None:
        ledger.record_run(run)


def _begin(
    run_id: str,
    handler: Handler,
    settings: ConnectionSettings,
    clock: Callable[[], datetime],
    options: RunOptions,
    *,
    queue: str = "",
) -> Run:
    source, text, table = rules_of(handler, options)
    wait_s = _wait_s(handler, table, options)
    place, named = _place_of(table, settings, options)
    if not queue:
        with connect(place, may_reconnect=True) as queue_manager:
            queue = find_queue(queue_manager, named)
    if queue == handler.state_queue:
        raise HandlerError(
            f"{handler.name}: state_queue {queue} is the very queue to be handled; name another"
        )
    return Run(
        run_id=run_id,
        handler=handler.name,
        dag_run_id=options.dag_run_id,
        run_type=options.run_type,
        queue_manager=place.queue_manager,
        queue=queue,
        state_queue=handler.state_queue,
        rules_source=home.shown(source),
        rules_digest=table.digest,
        rules_text=text,
        retry_interval_s=table.control.retry_interval_s,
        wait_s=wait_s,
        # With WAIT(YES) the runs form one continuous instance of the handler, and counts carry on;
        # what a single run is asked to do differently does not change that. A given action is no
        # part of it: given again, it is tried again.
        carry_attempts=not options.action
        and (handler.attempts == "ledger" or table.control.wait_s is None or handler.is_continuous),
        dry_run=options.dry_run,
        max_run_time_s=int(handler.max_run_time.total_seconds()),
        started_at=clock(),
        nul_as_blank=handler.nul_as_blank,
        hold_while_blocked=handler.hold_while_blocked,
        deliver_truncated=handler.deliver_truncated,
        messages_in_a_unit=handler.messages_in_a_unit,
        max_plan_age_s=int(handler.max_plan_age.total_seconds()),
        message_keys=options.message_keys,
        started_by=options.started_by,
    )


def _wait_s(handler: Handler, table: RulesTable, options: RunOptions) -> int | None:
    if options.wait_s is not None:
        return options.wait_s[0]
    if options.action:
        return 0  # the messages it is for are there, or it is not for others
    if handler.is_by_event:
        return 0  # a trigger has waited for it
    # Runs that follow one another without end wait for work, or would spin.
    return None if handler.is_continuous else table.control.wait_s


def patience(handler: Handler, options: RunOptions) -> timedelta:
    """Return how long a run waits for a queue manager that it cannot reach, none for WAIT(NO).

    Raises RulesError or HandlerError, as the start of a run does.
    """
    source, text = handler.rules_text(options.rules)
    wait_s = _wait_s(handler, parse(text, source), options)
    return handler.max_run_time if wait_s is None else timedelta(seconds=wait_s)


def queue_manager_of(handler: Handler, options: RunOptions) -> str:
    """Return the queue manager that a run or its rules name, "" for the connection's own."""
    source, text = handler.rules_text(options.rules)
    return options.input_q_mgr or parse(text, source).control.input_q_mgr


def depth(run: Run, settings: ConnectionSettings) -> int:
    """Return the CURDEPTH of the run's queue; the queue is opened for inquiry only."""
    place = connection_for(settings, run.queue_manager)
    with connect(place, may_reconnect=True) as queue_manager:
        return queue_manager.depth(run.queue)


def is_unfinished(run: Run, ledger: Ledger) -> bool:
    """Whether there is work on an empty queue, too: an account that an interruption left open."""
    is_unsettled = ledger.snapshot(run.run_id) is not None and ledger.sighting(run.run_id) is None
    return has_open_units(run, ledger) or is_unsettled


def has_open_units(run: Run, ledger: Ledger) -> bool:
    """Whether a unit of work on the run's queue was interrupted: an execution must settle it."""
    return bool(ledger.intended(run.queue_manager, run.queue))


@dataclass(frozen=True, slots=True)
class Watch:
    """What a run waits for: any other depth than `known`, or a moment at which to look anyway.

    `known` messages are settled and no news. `due_at` is when a retry of an earlier run or the
    rescan is due, None for an unknown or settled queue; `due_why` says in words what is due.
    """

    known: int = 0
    due_at: datetime | None = None
    due_why: str = ""

    def news(self, depth: int, now: datetime) -> str:
        """Say why a queue of this depth is to be handled now, or return ""."""
        if depth == 0:
            return ""
        if self.known == 0:
            return f"{depth} messages"
        if depth != self.known:
            return f"{depth} messages, {self.known} of them were there when the last run ended"
        if self.due_at is not None and now >= self.due_at:
            return f"{depth} messages, and {self.due_why}"
        return ""


@dataclass(frozen=True, slots=True)
class Seen:
    """What there is for a handler's next run: the depth of its queue, and why it is work, or "".

    `account_at` is when the last run left its account of the queue, None where no run has, or where
    the queue is empty.
    """

    depth: int
    why: str
    account_at: datetime | None


def account_of(run: Run, ledger: Ledger) -> LastAccount | None:
    """Return the last account of the run's queue, by whatever run, or None."""
    return last_account(ledger, run.queue_manager, run.queue)


async def look_for_the_next(
    run: Run,
    handler: Handler,
    depth: Callable[[], Awaitable[int]],
    account: Callable[[], Awaitable[LastAccount | None]],
    now: datetime,
) -> Seen:
    """Look whether there is work for `run`, a run that has not begun, by MQINQ and the ledger.

    `depth` returns the CURDEPTH of its queue, `account` the last account of it (`account_of`),
    which is not asked for where the queue is empty.
    """
    if not await depth():
        return Seen(0, "", None)
    # The account first: one that is left in between would make news of messages that are gone.
    last = await account()
    there = await depth()
    why = _watch(run, last, handler.rescan_interval).news(there, now)
    return Seen(there, why, last.at if last else None)


def watch_for(run: Run, ledger: Ledger, rescan_interval: timedelta | None = None) -> Watch:
    """Return what is news to a run, by the account that the last run left of its queue.

    Who starts a run wants it to work, so to a run that was asked for every message is news. Settled
    messages are looked at again after `rescan_interval`, by default 10 x RETRYINT: IBM's handler
    rescans, too, and only a browse shows that as many came as went.
    """
    return _watch(run, account_of(run, ledger), rescan_interval)


def _watch(run: Run, account: LastAccount | None, rescan_interval: timedelta | None) -> Watch:
    if account is None or run.run_type in ASKED_FOR:
        return Watch()
    if account.rules_digest != run.rules_digest:
        return Watch(account.left, account.at, "the rules have changed")
    interval = timedelta(seconds=max(1, run.retry_interval_s))
    moments = [(account.at + (rescan_interval or RESCAN_AFTER * interval), "it is time to rescan")]
    if account.pending:
        began = account.last_pass or account.at
        moments.append((began + interval, f"{account.pending} of them are due to be tried again"))
    if account.others_until:
        moments.append((account.others_until, "another run has given some of them up"))
    return Watch(account.left, *min(moments))


@dataclass(frozen=True, slots=True)
class Window:
    """The interval of a backfill's run: from `start` up to but not including `end`, aware."""

    start: datetime
    end: datetime

    def __str__(self) -> str:
        return f"{self.start:%Y-%m-%d %H:%M:%S} to {self.end:%Y-%m-%d %H:%M:%S} UTC"


def snapshots_of(run: Run, window: Window, ledger: Ledger) -> list[TakenSnapshot]:
    """Return the snapshots that runs took of a run's queue within a window, oldest first."""
    return snapshots_between(ledger, run.queue_manager, run.queue, window.start, window.end)


def connection_for(settings: ConnectionSettings, queue_manager: str) -> ConnectionSettings:
    """Return the settings for the named queue manager; a blank name keeps theirs."""
    return replace(settings, queue_manager=queue_manager) if queue_manager else settings


def place_of(handler: Handler, settings: ConnectionSettings) -> tuple[ConnectionSettings, str]:
    """Return where the next scheduled run looks: at which queue manager, and for which queue.

    The name is blank where the rules name none. Raises RulesError or HandlerError.
    """
    return _place_of(rules_of(handler, SCHEDULED)[2], settings, SCHEDULED)


def _place_of(
    table: RulesTable, settings: ConnectionSettings, options: RunOptions
) -> tuple[ConnectionSettings, str]:
    """Apply the order of precedence: the run's own names, then INPUTQM and INPUTQ.

    A name given for the run counts even when it is blank (IBM MQ docs, "runmqdlq").
    """
    place = connection_for(settings, options.input_q_mgr or table.control.input_q_mgr)
    return place, table.control.input_q if options.input_q is None else options.input_q


def find_queue(queue_manager: QueueManager, named: str) -> str:
    """Return the local queue of that name, or for a blank one the dead-letter queue, by MQINQ.

    Raises ConnectionSettingsError for a queue that is not local, and QueueManagerError.
    """
    queue = named.strip() or queue_manager.dead_letter_q_name()
    try:
        queue_manager.depth(queue)
    except QueueManagerError as error:
        if error.reason == MQRC["MQRC_SELECTOR_NOT_FOR_TYPE"]:
            raise ConnectionSettingsError(
                f"INPUTQ {queue} on queue manager {queue_manager.name} is not a local queue:"
                " name the queue that holds the messages"
            ) from error
        raise
    return queue
