"""Archive messages before they are discarded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from mqdlq.errors import QueueManagerError
from mqdlq.lake.archive import Copy, read_copies, write_copies
from mqdlq.model import Action
from mqdlq.mqi.archived_messages import browse_with_properties
from mqdlq.mqi.browse import GONE, BrowseCursor
from mqdlq.stages.execute.execution import Execution
from mqdlq.stages.execute.pending_steps import WorkList


def archive_discards(
    execution: Execution, work: WorkList, cursor: BrowseCursor, room: int | None
) -> dict[int, str]:
    """Archive the messages whose next step is DISCARD; return the steady digests of the copies.

    `room` is how many messages the pass moves at most, None if that is not known: only the first
    discards can be among them.

    Copies are made by browse, before any message is got. They are read back before any message is
    discarded, also the copies of an earlier pass. A copy holds the whole message with its
    properties.
    """
    run, ledger = execution.run, execution.ledger
    discards = (
        item.message.message_id
        for item in work.items
        if (step := item.due_step) and step.action is Action.DISCARD and item.hold is None
    )
    due = set(islice(discards, room))
    if not due:
        return {}
    recorded = ledger.archive.digests(run.run_id)
    copied = read_recorded_copies(execution, recorded) if due & set(recorded) else {}
    wanted = due - set(recorded)
    if not wanted:
        return copied
    at = execution.clock()
    name = f"{at:%Y%m%dT%H%M%S%fZ}"
    steady: dict[int, str] = {}
    copies = _collect_steady_digests(_browse_copies(work, cursor, wanted), steady)
    location, digests = write_copies(execution.lake_root, run.run_id, name, copies)
    ledger.archive.record(run.run_id, location, digests, at)
    execution.log.info("%d messages to be discarded are archived and read back", len(digests))
    return copied | steady


def _collect_steady_digests(copies: Iterator[Copy], steady: dict[int, str]) -> Iterator[Copy]:
    """Yield the copies unchanged, and store their steady digests in `steady`."""
    for copy in copies:
        steady[copy.message_id] = copy.steady_digest
        yield copy


def read_recorded_copies(execution: Execution, recorded: Mapping[int, str]) -> dict[int, str]:
    """Return the steady digests of the run's recorded copies that the archive holds unaltered.

    `recorded` has the digests in the ledger by message id.
    """
    steady: dict[int, str] = {}
    for location in execution.ledger.archive.locations(execution.run.run_id):
        try:
            steady |= {
                copy.message_id: copy.steady_digest
                for copy in read_copies(location)
                if recorded.get(copy.message_id) == copy.digest
            }
        except (OSError, ValueError) as error:  # ValueError: not Parquet
            execution.log.warning(
                "the archive copies in %s cannot be read, so their messages are not discarded: %s"
                " [MQDLQ-614]",
                location,
                error,
            )
    return steady


def _browse_copies(work: WorkList, cursor: BrowseCursor, wanted: set[int]) -> Iterator[Copy]:
    for met in work.browse(cursor):
        item = met.item
        if item is None or item.message.message_id not in wanted:
            continue
        try:
            descriptor, body = browse_with_properties(cursor, met.browsed.total_length)
        except QueueManagerError as error:
            if error.reason in GONE:
                continue
            raise
        yield Copy(item.message.message_id, descriptor, body)
