"""Decide whether another run follows a run, because its WAIT continues after the run has acted.

IBM's handler looks at the queue again after each message, and ends when it could do nothing for
the time that WAIT gives (IBM MQ docs, "DLQ handler control data"). A run has one snapshot, so that
the next run takes the messages that arrive later.
"""

from __future__ import annotations

import re
from datetime import datetime

from mqdlq.handlers import Handler
from mqdlq.ledger import Ledger, Run

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
