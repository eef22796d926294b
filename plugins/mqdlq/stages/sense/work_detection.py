"""Decide by a queue's depth and the last account of it whether there is work, and why."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from mqdlq.handlers import Handler
from mqdlq.ledger import LastAccount, Ledger, Run

RESCAN_AFTER: Final = 10
"""After how many RETRYINTs settled messages are looked at again."""

ASKED_FOR: Final = frozenset({"manual", "operator_triggered", "asset_materialization"})
"""Airflow's types of runs that somebody starts: by hand, from another DAG, at an asset."""


TELL_AGAIN: Final = timedelta(minutes=10)
"""After how long an event is told again that no account has followed: its run may have failed."""


def is_unfinished(run: Run, ledger: Ledger) -> bool:
    """Whether there is work on an empty queue, too: an account that an interruption left open."""
    is_unsettled = (
        ledger.snapshots.of_run(run.run_id) is not None
        and ledger.accounts.of_run(run.run_id) is None
    )
    return has_open_units(run, ledger) or is_unsettled


def has_open_units(run: Run, ledger: Ledger) -> bool:
    """Whether a unit of work on the run's queue was interrupted: an execution must settle it."""
    return bool(ledger.attempts.intended(run.queue_manager, run.queue))


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


async def look_for_the_next(
    run: Run,
    handler: Handler,
    depth: Callable[[], Awaitable[int]],
    account: Callable[[], Awaitable[LastAccount | None]],
    now: datetime,
) -> Seen:
    """Look whether there is work for `run`, a run that has not begun, by MQINQ and the ledger.

    `depth` returns the CURDEPTH of its queue, `account` the last account of it, by any run,
    which is not asked for where the queue is empty.
    """
    if not await depth():
        return Seen(0, "", None)
    # The account first: one that is left in between would make news of messages that are gone.
    last = await account()
    there = await depth()
    why = _watch(run, last, handler.rescan_interval).news(there, now)
    return Seen(there, why, last.at if last else None)


@dataclass(frozen=True, slots=True)
class Told:
    """The last event: what was seen then, but for a depth that has sunk since, and when."""

    seen: Seen
    at: datetime


def is_news(seen: Seen, told: Told | None, now: datetime) -> bool:
    """Whether what is seen is to be told, after what was told last."""
    if not seen.why:
        return False
    if told is None or seen.account_at != told.seen.account_at:
        return True
    return seen.depth > told.seen.depth or now - told.at >= TELL_AGAIN


def watch_for(run: Run, ledger: Ledger, rescan_interval: timedelta | None = None) -> Watch:
    """Return what is news to a run, by the account that the last run left of its queue.

    Who starts a run wants it to work, so to a run that was asked for every message is news. Settled
    messages are looked at again after `rescan_interval`, by default 10 x RETRYINT: IBM's handler
    rescans, too, and only a browse shows that as many came as went.
    """
    last = ledger.accounts.last(run.queue_manager, run.queue)
    return _watch(run, last, rescan_interval)


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
