"""The first stage: inquire whether a queue has work, then begin the run or wait."""

import logging
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path, PurePath
from typing import Any, Final

from mqdlq import directories
from mqdlq.constants import MQRC, TRANSIENT
from mqdlq.errors import (
    ConnectionSettingsError,
    HandlerError,
    LedgerError,
    MqDlqError,
    QueueManagerError,
)
from mqdlq.failures import describe
from mqdlq.handlers import Handler, load_handler
from mqdlq.ledger import Ledger
from mqdlq.ledger.runs import LastAccount
from mqdlq.ledger.tables import Look, Run, TakenSnapshot
from mqdlq.model import QueueKind
from mqdlq.mqi.connect import ConnectionSettings, QueueManager, connect
from mqdlq.resources import Resources
from mqdlq.rules import RulesTable, parse, treatment_changes
from mqdlq.stages.run_options import (
    RunOptions,
    find_missing_reason,
    read_condition,
    read_controls_text,
    read_repair_text,
    read_rules,
)

log = logging.getLogger(__name__)

# Begin a run: freeze its rules, and find its queue by MQINQ.


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
    before: without arrivals the runs end. A dry run, a backfill, a run for some messages and one
    that a person has stopped are not followed. With @continuous the next run begins anyway, and
    with `event` a trigger waits.
    """
    if run.dry_run or run.is_for_some or run.run_type == "backfill" or handler.is_continuous:
        return False
    if ledger.audit.stop_of(run.run_id):
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


def prepare_run(run_id: str, handler: Handler, options: RunOptions, resources: Resources) -> Run:
    """Read the rules and find the queue of a run; the queue manager is only inquired.

    A recorded run is returned unchanged: the rules read at its start apply until its end. Raises
    RulesError, HandlerError or MessageKeyError before it connects, and ConnectionSettingsError or
    QueueManagerError if the queue cannot be found.
    """
    ledger = resources.ledger
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
    return _build_run(run_id, handler, options, resources.settings, resources.clock)


def build_scheduled_run(
    handler: Handler, settings: ConnectionSettings, queue: str, now: datetime
) -> Run:
    """Return the run that the schedule would begin now on this queue; raises as `prepare_run`.

    Nothing is recorded or inquired.
    """
    return _build_run("", handler, SCHEDULED_RUN, settings, lambda: now, queue=queue)


def _build_run(
    run_id: str,
    handler: Handler,
    options: RunOptions,
    settings: ConnectionSettings,
    clock: Callable[[], datetime],
    *,
    queue: str = "",
) -> Run:
    if missing := find_missing_reason(handler, options):
        raise HandlerError("MQDLQ-979", missing)
    condition = read_condition(options)
    source, text, table = read_rules(handler, options)
    repair = read_repair_text(handler, table, options)
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
        connections=handler.connections,
        max_plan_age_s=int(handler.max_plan_age.total_seconds()),
        message_keys=options.message_keys,
        started_by=options.started_by,
        started_by_user=options.started_by_user,
        why=options.why,
        controls=read_controls_text(handler, options),
        queue_kind=table.queue_kind,
        repair=repair,
        condition=condition,
        as_of=options.as_of,
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


# Watch the rules of a handler in its files.

FileStamps = tuple[tuple[int, int] | None, ...]


class RulesWatch:
    """Watches a handler's own table, or the table that was named for the run.

    Files are read only if the time or the size of one has changed since the last check. Rules count
    as changed if their digest differs; a comment makes no difference. Unreadable or invalid rules
    are reported once and count as unchanged, since no run could begin with them. `directory` has
    the handler's file, None for MQDLQ_RULES_DIR.
    """

    def __init__(
        self, handler: str, rules: str | None, digest: str, directory: str | None = None
    ) -> None:
        self._handler, self._rules, self._digest = handler, rules, digest
        self._directory = Path(directory) if directory else None
        self._files: tuple[Path, ...] = ()
        self._stamp: FileStamps = ()
        self._last_warning = ""

    def have_changed(self) -> bool:
        if not self._digest:
            return False  # the run's rules were given to it, and are in no file
        if self._files and stamp_files(self._files) == self._stamp:
            return False
        try:
            handler = load_handler(self._handler, self._directory)
            files = find_rule_files(handler, self._rules)
            # Stamped before the files are read, so that the next check sees a change in between.
            self._files, self._stamp = files, stamp_files(files)
            source, text = handler.rules_text(self._rules)
            table = parse(text, source, handler.queue_kind, frozen=True)
            has_changed = table.digest != self._digest
        except MqDlqError as error:
            self._stamp = stamp_files(self._files)
            if str(error) != self._last_warning:
                self._last_warning = str(error)
                log.warning(
                    "the rules of %s cannot be read now; the run waits with the rules that it has"
                    " read: %s [MQDLQ-128]",
                    self._handler,
                    error.text,
                )
            return False
        self._last_warning = ""
        return has_changed


def find_rule_files(handler: Handler, rules: str | None = None) -> tuple[Path, ...]:
    """Return the files that define a handler: its YAML file, and its table or the named one."""
    own = handler.directory / f"{handler.name}.yaml"
    named = rules or handler.rules
    return (own, handler.directory / named) if named else (own,)


def stamp_files(files: tuple[Path, ...]) -> FileStamps:
    """Return the time of change and the size of each file, None for one that cannot be read."""
    stamps: list[tuple[int, int] | None] = []
    for file in files:
        try:
            found = file.stat()
        except OSError:
            stamps.append(None)
        else:
            stamps.append((found.st_mtime_ns, found.st_size))
    return tuple(stamps)


# Decide by a queue's depth and its last account whether there is work, and why.

RESCAN_AFTER: Final = 10
"""After how many RETRYINTs settled messages are scanned again."""
REQUESTED_RUN_TYPES: Final = frozenset({"manual", "operator_triggered", "asset_materialization"})
"""Airflow's types of runs that are not scheduled: by hand, from another DAG, or by an asset."""
REPEAT_EVENT_AFTER: Final = timedelta(minutes=10)
"""When an event without a following account is reported again: its run may have failed."""


def has_unfinished_work(run: Run, ledger: Ledger) -> bool:
    """Return whether an interruption left work open, which is work on an empty queue, too."""
    has_snapshot = ledger.snapshots.of_run(run.run_id) is not None
    is_unsettled = has_snapshot and ledger.accounts.of_run(run.run_id) is None
    return has_open_units(run, ledger) or is_unsettled


def has_open_units(run: Run, ledger: Ledger) -> bool:
    """Return whether a unit of work on the run's queue was interrupted and must be settled."""
    return bool(ledger.attempts.intended(run.queue_manager, run.queue))


@dataclass(frozen=True, slots=True)
class Watch:
    """The condition a run waits for: a depth other than `known`, or the moment `due_at`.

    `known` messages are settled and no work. `due_at` is when something is due for them, such as
    the rescan, None if nothing is; `due_why` says what is due.
    """

    known: int = 0
    due_at: datetime | None = None
    due_why: str = ""

    def find_work(self, depth: int, now: datetime) -> str:
        """Return why a queue of this depth needs a run now, or ""."""
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
class QueueState:
    """The depth of a queue, and why it is work for the handler's next run, or "".

    `account_at` is when the last run settled its account of the queue, None if no run has, or if
    the queue is empty.
    """

    depth: int
    why: str
    account_at: datetime | None


async def find_work_for_next_run(
    run: Run,
    handler: Handler,
    depth: Callable[[], Awaitable[int]],
    account: Callable[[], Awaitable[LastAccount | None]],
    now: datetime,
) -> QueueState:
    """Return whether there is work for `run`, which has not begun.

    `depth` returns the CURDEPTH of its queue, `account` the last account of the queue by any run.
    """
    if not await depth():
        return QueueState(0, "", None)
    # The account is read first: an account settled in between would make departed
    # messages look like new ones.
    last = await account()
    there = await depth()
    why = find_watch(run, last, handler.rescan_interval).find_work(there, now)
    return QueueState(there, why, last.at if last else None)


def should_report(
    seen: QueueState, told: tuple[QueueState, datetime] | None, now: datetime
) -> bool:
    """Return whether a queue's state must be reported.

    `told` has the queue's state at the last event, with its depth lowered since, and its time.
    """
    if not seen.why:
        return False
    if told is None:
        return True
    before, at = told
    is_news = seen.account_at != before.account_at or seen.depth > before.depth
    return is_news or now - at >= REPEAT_EVENT_AFTER


def find_watch(run: Run, account: LastAccount | None, rescan_interval: timedelta | None) -> Watch:
    """Return what counts as work for a run, by the account that the last run left of its queue.

    For a requested run every message is work. Settled messages are scanned again after
    `rescan_interval`, by default 10 x RETRYINT. IBM's handler rescans, too; only a browse detects
    that as many messages came as left.
    """
    if account is None or run.run_type in REQUESTED_RUN_TYPES:
        return Watch()
    if account.rules_digest != run.rules_digest:
        return Watch(account.left, account.at, "the rules have changed")
    interval = timedelta(seconds=max(1, run.retry_interval_s))
    moments = [(account.at + (rescan_interval or RESCAN_AFTER * interval), "it is time to rescan")]
    if treatment_changes(run.rules_text):
        why = "the rules compare ages, remaining expiry or attempts"
        moments.append((account.at + interval, why))
    if account.pending:
        began = account.last_pass or account.at
        moments.append((began + interval, f"{account.pending} of them are due to be tried again"))
    if account.next_pass_at:
        moments.append((account.next_pass_at, "some of them may be tried now"))
    if account.others_until:
        moments.append((account.others_until, "another run has given some of them up"))
    return Watch(account.left, *min(moments))


# Inspect the queue, and decide what the run does: begin, wait, skip or fail.

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
    run = prepare_run(sensing.run_id, sensing.handler, sensing.options, sensing)
    is_recorded = ledger.runs.get(run.run_id) is not None
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
            is_recorded=is_recorded,
            interrupted_at=_find_interrupted_run(run, sensing),
        )
        says = f"{look.why} on {place}; rules: {PurePath(run.rules_source).name}"
        number = f"{look.depth} settled messages" if look.depth else "no messages"
        nothing = f"{number} on {place}: nothing to do, the other tasks are skipped"
        if isinstance(step, WaitForMessages):
            log.info("%s on %s; %s", number, place, _describe_wait(step, sensing))
    if isinstance(step, Look):
        if not is_recorded:
            ledger.runs.record(run)
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

    Otherwise further runs would request the same approval until the limit of active runs. For a run
    that follows another one only arrivals are work.
    """
    follows = bool(sensing.options.follows)
    is_asked_for = sensing.is_watched or (run.run_type in REQUESTED_RUN_TYPES and not follows)
    asked = None if is_asked_for else sensing.ledger.plans.open_question(run)
    if asked is None or not sensing.awaits_approval(asked[0]):
        last = sensing.ledger.accounts.last(run.queue_manager, run.queue)
        if not follows:
            return find_watch(run, last, sensing.handler.rescan_interval)
        # Nothing due for messages that stayed can start one run after another without end.
        return Watch(last.left if last else 0)
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
