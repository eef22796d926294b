"""Check by queue statistics whether other programs got messages from the queue."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from mqdlq.controls.evidence.checking import Checking
from mqdlq.headers.representation import parse_gmt
from mqdlq.ledger import EvidenceCheck
from mqdlq.mqi.connect import connect
from mqdlq.mqi.evidence.statistics import MAX_GETS, QueueStatistics, browse_statistics
from mqdlq.resources import Execution
from mqdlq.structures import MQMD

STATISTICS: Final = "statistics"
MAX_BROWSED: Final = 20_000
"""How many statistics messages are browsed at most."""

MARGIN: Final = timedelta(minutes=10)
"""How far outside of the intervals own attempts still count.

The clocks of the queue manager and of the workers may differ by that much without a wrong hint.
"""

_PUT_DATE: Final = MQMD.slice_of("put_date")
_PUT_TIME: Final = MQMD.slice_of("put_time")


def check_statistics(execution: Execution, source: str) -> None:
    """Compare the gets that statistics count with the attempts of runs, and record the result.

    The statistics messages on the queue `source` since the last check count, by the end of their
    interval. Each attempt of a run on the queue is a get; other gets are those of other programs.
    Errors become the `trouble` of the check.
    """
    run, ledger, now = execution.run, execution.ledger, execution.clock()
    since = ledger.evidence.last_at(run.queue_manager, run.queue, STATISTICS)
    checking = Checking(EvidenceCheck(STATISTICS, source, since, now))
    with checking.noting_trouble(execution, "statistics"):
        checking.check = _compare(execution, checking.check)
    ledger.evidence.record(run.run_id, checking.check)


def _compare(execution: Execution, check: EvidenceCheck) -> EvidenceCheck:
    run, gets = execution.run, 0
    starts, ends = list[datetime](), list[datetime]()
    with connect(execution.settings) as queue_manager:
        browsed = browse_statistics(queue_manager, check.source, run.queue)
        for number, (descriptor, found) in enumerate(browsed, start=1):
            if number > MAX_BROWSED:
                return replace(
                    check,
                    trouble=f"it has more than {MAX_BROWSED:,} messages; remove old ones from it",
                )
            end = _end_of_interval(descriptor, found, check)
            if found is not None and end is not None:
                gets += found.gets
                ends.append(end)
                starts.append(end - found.length)
    if gets > MAX_GETS:
        return replace(check, trouble="its messages have an impossible number of gets")
    if not ends:
        return check
    place = run.queue_manager, run.queue
    own = execution.ledger.attempts.made_between(*place, min(starts) - MARGIN, max(ends) + MARGIN)
    return replace(check, examined=gets, unseen=max(0, gets - own))


def _end_of_interval(
    descriptor: bytes, found: QueueStatistics | None, check: EvidenceCheck
) -> datetime | None:
    """Return when the interval of statistics ended, None if that is not in the time of a check."""
    if found is None or check.since is None:
        return None
    date, time = (descriptor[at].decode("latin-1") for at in (_PUT_DATE, _PUT_TIME))
    end = parse_gmt(date, time)
    return end if end is not None and check.since <= end < check.at else None
