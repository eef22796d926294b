"""Check by queue statistics whether other programs got messages from the queue."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from mqdlq.errors import MqDlqError
from mqdlq.headers.times import parse_gmt
from mqdlq.ledger import EvidenceCheck
from mqdlq.mqi.connect import connect
from mqdlq.mqi.evidence.statistics import browse_statistics
from mqdlq.stages.evidence.stream_check import warn_of_unreadable_evidence
from mqdlq.stages.execute import Execution
from mqdlq.structures import MQMD

STATISTICS: Final = "statistics"
MARGIN: Final = timedelta(minutes=1)
"""How far outside of the intervals own attempts still count, so that no edge makes a hint."""

_PUT_DATE: Final = MQMD.slice_of("put_date")
_PUT_TIME: Final = MQMD.slice_of("put_time")


def check_statistics(execution: Execution, source: str) -> None:
    """Compare the gets that statistics count with the attempts of runs, and record the result.

    The statistics messages on the queue `source` since the last check count, by the end of their
    interval. Each attempt of a run on the queue is a get; other gets are those of other programs.
    Errors of the queue manager become the `trouble` of the check.
    """
    run, ledger, now = execution.run, execution.ledger, execution.clock()
    place = run.queue_manager, run.queue
    since = ledger.evidence.last_at(*place, STATISTICS)
    check = EvidenceCheck(STATISTICS, source, since, now)
    gets, ends, starts = 0, [now], [now]
    try:
        with connect(execution.settings) as queue_manager:
            for descriptor, found in browse_statistics(queue_manager, source, run.queue):
                date, time = (descriptor[at].decode("latin-1") for at in (_PUT_DATE, _PUT_TIME))
                end = parse_gmt(date, time)
                if end is not None and since is not None and since <= end < now:
                    gets += found.gets
                    ends.append(end)
                    starts.append(end - found.length)
    except MqDlqError as error:
        warn_of_unreadable_evidence(execution.log, "statistics", run.queue, error)
        ledger.evidence.record(run.run_id, replace(check, trouble=error.text))
        return
    own = ledger.attempts.made_between(*place, min(starts) - MARGIN, max(ends) + MARGIN)
    check = replace(check, examined=gets, unseen=max(0, gets - own))
    ledger.evidence.record(run.run_id, check)
