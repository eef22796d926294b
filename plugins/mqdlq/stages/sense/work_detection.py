"""Detect that a handler's rules have changed, or that its queue has work, and why."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from mqdlq.errors import MqDlqError
from mqdlq.handlers import Handler, load_handler
from mqdlq.ledger import Ledger
from mqdlq.ledger.runs import LastAccount
from mqdlq.ledger.tables import Run
from mqdlq.rules import parse, treatment_changes

log = logging.getLogger(__name__)

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
    why = _find_watch_after_account(run, last, handler.rescan_interval).find_work(there, now)
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


def find_watch(
    run: Run, ledger: Ledger, rescan_interval: timedelta | None = None, *, follows: bool = False
) -> Watch:
    """Return what counts as work for a run, by the account that the last run left of its queue.

    For a requested run every message is work. Settled messages are scanned again after
    `rescan_interval`, by default 10 x RETRYINT. IBM's handler rescans, too; only a browse detects
    that as many messages came as left. For a run that `follows` another one only arrivals are work:
    nothing that is due for messages that stayed can start one run after another without end.
    """
    last = ledger.accounts.last(run.queue_manager, run.queue)
    if follows:
        return Watch(last.left if last else 0)
    return _find_watch_after_account(run, last, rescan_interval)


def _find_watch_after_account(
    run: Run, account: LastAccount | None, rescan_interval: timedelta | None
) -> Watch:
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
