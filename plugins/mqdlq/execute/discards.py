"""Messages about to be discarded are archived first: a work list in, digests of copies out."""

from __future__ import annotations

from collections.abc import Iterator

from mqdlq.archive import Copy, write_copies
from mqdlq.errors import QueueManagerError
from mqdlq.execute.execution import Execution
from mqdlq.execute.work import WorkList
from mqdlq.model import Action
from mqdlq.mqi.browse import GONE, BrowseCursor
from mqdlq.mqi.whole import browse_whole


def copy_discards(execution: Execution, work: WorkList, cursor: BrowseCursor) -> dict[int, str]:
    """Archive every message whose next step is DISCARD; return the digests of all the run's copies.

    Copies are made by browse, before anything is got, and read back before anything is discarded.
    They hold the whole message, its properties included.
    """
    run, ledger = execution.run, execution.ledger
    copied = ledger.copies(run.run_id)
    wanted = {
        item.message.message_id
        for item in work.items
        if item.due and item.step and item.step.action is Action.DISCARD
    } - set(copied)
    if not wanted:
        return copied
    at = execution.clock()
    name = f"{at:%Y%m%dT%H%M%S%fZ}"
    location, digests = write_copies(
        execution.lake_root, run.run_id, name, _copies(work, cursor, wanted)
    )
    ledger.record_copies(run.run_id, location, digests, at)
    execution.log.info("%d messages to be discarded are archived and read back", len(digests))
    return copied | digests


def _copies(work: WorkList, cursor: BrowseCursor, wanted: set[int]) -> Iterator[Copy]:
    for met in work.browse(cursor):
        item = met.item
        if item is None or item.message.message_id not in wanted:
            continue
        try:
            descriptor, body = browse_whole(cursor, met.browsed.total_length)
        except QueueManagerError as error:
            if error.reason in GONE:
                continue
            raise
        yield Copy(item.message.message_id, descriptor, body)
